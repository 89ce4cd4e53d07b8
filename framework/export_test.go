package framework

// NormalizedByHighest exports normalizedByHighest to tests.
var NormalizedByHighest = normalizedByHighest

// BoundMemos sets the memory bound of rankings and classes.
func (p *Profile) BoundMemos(bytes int) { p.classes.bounds = bytes }

// RankedBytes returns the memory of the rankings.
func (p *Profile) RankedBytes() (n int) {
	for _, r := range p.classes.rankings {
		n += r.bytes()
	}
	return n
}

// Ranked returns the number of nodes that were filtered and scored for a ranking.
func (p *Profile) Ranked() int { return p.ranked }

// ReservedAsked returns the number of calls of Reserved.Why for nodes that a ranking finds feasible.
func (p *Profile) ReservedAsked() int { return p.reservedAsked }

// Grouped returns the number of searches that used groups of nodes.
func (p *Profile) Grouped() int { return p.grouped }

// Rankings returns the number of rankings.
func (p *Profile) Rankings() int { return len(p.classes.rankings) }
