package framework

// NormalizedByHighest is for tests of what is said of these plugins.
var NormalizedByHighest = normalizedByHighest

// Rankings returns how many rankings there are.
func (p *Profile) Rankings() int { return len(p.classes.rankings) }
