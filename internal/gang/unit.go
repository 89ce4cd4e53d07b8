package gang

// Unit is admitted in one step: a gang by itself, or gangs that are admitted together. Callers may change the counts of
// its gangs to ask hypothetical questions (see Counts.Fail and the others).
type Unit struct {
	// Gangs are the existing gangs, in a fixed order.
	Gangs []Gang
	// Own is the index in Gangs of the gang in question.
	Own int
	// Together: the gangs are admitted together. Otherwise there is one gang, and the other fields have no meaning.
	Together bool
	// Declared: the number of gangs that are enough is known.
	Declared bool
	// Refused: the gangs contradict each other about being admitted together.
	Refused bool
	// Min is the number of gangs that must have their minimum for any of them to be admitted, at least 1. With
	// Composites it counts gangs and composites directly below the unit's composite.
	Min int
	// Composites are the composites below the unit's, each behind its parent; nil for none.
	Composites []Composite
	// Under has, by gang, the index of its parent in Composites, -1 for the unit's composite. It is nil without
	// Composites.
	Under []int
}

// Composite is several gangs and composites. So many of them must have enough for any of them to be admitted.
type Composite struct {
	// Under is the index of its parent in Unit.Composites, -1 for the unit's composite.
	Under int
	// Min is the number of its children that must have enough, at least 1.
	Min int
}

// Alone returns the unit of a gang that is admitted by itself.
func Alone(g Gang) Unit { return Unit{Gangs: []Gang{g}, Min: 1} }

// OwnGang returns the gang in question. A change there changes u.
func (u *Unit) OwnGang() *Gang { return &u.Gangs[u.Own] }

// Known reports whether the conditions of the gang in question are known and, in a composite, how many gangs are
// enough.
func (u *Unit) Known() bool { return u.OwnGang().Known() && (!u.Together || u.Declared && !u.Refused) }

// Suffices reports whether the i-th gang can be admitted with the members that count: it has its minimum, and so have
// enough of the gangs that it is admitted together with. A gang that had its minimum was admitted with the others once,
// and no longer needs them: they may be done by now.
func (u *Unit) Suffices(i int, by Count) bool {
	g := &u.Gangs[i]
	if !g.HasMinimum(by) {
		return false
	}
	return !u.Together || u.enough(i, by) || g.Met && !u.Refused
}

// enough reports whether the unit, and each composite that the i-th gang is below, have as many as they need.
func (u *Unit) enough(i int, by Count) bool {
	if !u.Declared || u.Refused {
		return false
	}
	has := func(g *Gang) bool { return g.HasMinimum(by) }
	if len(u.Composites) == 0 {
		return u.lacking(has) == 0
	}
	lacking, have := u.count(has)
	for at := u.Under[i]; at >= 0; at = u.Composites[at].Under {
		if have[at] < u.Composites[at].Min {
			return false
		}
	}
	return lacking == 0
}

// Lacking returns the number of further gangs, or composites directly below the unit's, that need their minimum; 0 if
// enough have it.
func (u *Unit) Lacking(by Count) int {
	return u.lacking(func(g *Gang) bool { return g.HasMinimum(by) })
}

// lacking is Lacking of gangs for which has is true.
func (u *Unit) lacking(has func(*Gang) bool) int {
	lacking, _ := u.count(has)
	return lacking
}

// count counts the gangs for which has is true. It returns the number of further ones that the unit needs, and the
// number directly below each of the Composites, including composites that have enough.
func (u *Unit) count(has func(*Gang) bool) (lacking int, have []int) {
	lacking, have = u.Min, make([]int, len(u.Composites))
	up := func(under int) {
		if under >= 0 {
			have[under]++
		} else {
			lacking--
		}
	}
	for i := range u.Gangs {
		if len(have) == 0 && lacking <= 0 {
			break
		}
		if has(&u.Gangs[i]) {
			up(u.under(i))
		}
	}
	for i := len(have) - 1; i >= 0; i-- {
		if have[i] >= u.Composites[i].Min {
			up(u.Composites[i].Under)
		}
	}
	return max(0, lacking), have
}

// under returns the index of the i-th gang's parent in Composites, -1 for the unit's composite.
func (u *Unit) under(i int) int {
	if len(u.Composites) == 0 {
		return -1
	}
	return u.Under[i]
}

// OwnSuffices is Suffices for the gang that is asked about.
func (u *Unit) OwnSuffices(by Count) bool { return u.Suffices(u.Own, by) }

// CanComplete reports whether the attempt under way can still end with a gang admitted: one has members to try, and
// would suffice if all of them found a node.
func (u *Unit) CanComplete() bool {
	for i := range u.Gangs {
		if u.Gangs[i].Untried > 0 && u.Suffices(i, Possible) {
			return true
		}
	}
	return false
}

// GoesOn reports whether the attempt should try its remaining members: it can still admit a gang, or one of its gangs
// is NonStrict. Call it only while members are left to try: with a NonStrict gang it returns true without a check.
func (u *Unit) GoesOn() bool {
	for i := range u.Gangs {
		if u.Gangs[i].NonStrict {
			return true
		}
	}
	return u.CanComplete()
}

// EndsAttempt reports whether the attempt under way ends with the refusal of the gang that is asked about as a whole:
// none of the others can be completed without it.
func (u *Unit) EndsAttempt() bool {
	own := *u.OwnGang()
	u.OwnGang().GiveUp()
	ends := !u.CanComplete()
	*u.OwnGang() = own
	return ends
}

// Broken reports whether the i-th gang releases its waiting members when the gang in question does. It does if it is
// that gang, or if it does not suffice with the members that count and is not NonStrict.
func (u *Unit) Broken(i int, by Count) bool {
	return i == u.Own || !u.Gangs[i].NonStrict && !u.Suffices(i, by)
}

// Satisfied reports whether as many gangs as are needed were admitted once and keep their minimum on nodes. Then
// waiting entities wait only for members beyond it. Whether gangs are refused by now does not matter: an admitted gang
// stays.
func (u *Unit) Satisfied() bool {
	return u.lacking(func(g *Gang) bool { return g.Met && g.Beyond() }) == 0
}
