package framework

// NormalizedByHighest is for tests of what is said of these plugins.
var NormalizedByHighest = normalizedByHighest

// BoundMemos sets the bound of memory for rankings and for classes.
func (p *Profile) BoundMemos(bytes int) { p.classes.bounds = bytes }

// RankedBytes is how much memory the rankings take, and Ranked how often a node was filtered and scored for one.
func (p *Profile) RankedBytes() (n int) {
	for _, r := range p.classes.rankings {
		n += r.bytes()
	}
	return n
}

// Ranked is how often a node was filtered and scored for a ranking.
func (p *Profile) Ranked() int { return p.ranked }

// ReservedAsked is how often it was asked of a node that a ranking finds feasible whether it is reserved for others.
func (p *Profile) ReservedAsked() int { return p.reservedAsked }

// Grouped is how many searches were made by groups of nodes.
func (p *Profile) Grouped() int { return p.grouped }

// Rankings returns how many rankings there are.
func (p *Profile) Rankings() int { return len(p.classes.rankings) }
