package gang

// Unit is what is admitted in one step: a gang by itself, or gangs that are admitted together. Callers may change the
// counts of its gangs to ask what would be (see Counts.Fail and the others).
type Unit struct {
	// Gangs are those that are there, in a fixed order.
	Gangs []Gang
	// Own is the index in Gangs of the gang that is asked about.
	Own int
	// Together: the gangs are admitted together. Otherwise there is one gang, and the rest of the fields says nothing.
	Together bool
	// Declared: it is known how many gangs are enough.
	Declared bool
	// Refused: the gangs contradict each other about being admitted together.
	Refused bool
	// Min is how many gangs must have their minimum for any of them to be admitted, at least 1. With Composites it
	// counts gangs and composites that are directly below that of the unit.
	Min int
	// Composites are those below that of the unit, each behind the one that it is below; nil for none.
	Composites []Composite
	// Under says, by gang, which of the Composites it is directly below, -1 for that of the unit. It is nil without
	// Composites.
	Under []int
}

// Composite is several gangs and composites, of which so many must have what they need for any of them to be admitted.
type Composite struct {
	// Under is the index in Unit.Composites of the one that it is directly below, -1 for that of the unit.
	Under int
	// Min is how many of those directly below it must have what they need, at least 1.
	Min int
}

// Alone returns the unit of a gang that is admitted by itself.
func Alone(g Gang) Unit { return Unit{Gangs: []Gang{g}, Min: 1} }

// OwnGang returns the gang that is asked about. What is changed there is changed in u.
func (u *Unit) OwnGang() *Gang { return &u.Gangs[u.Own] }

// Known reports whether it is known what the gang that is asked about, and those that it is admitted together with,
// ask for.
func (u *Unit) Known() bool { return u.OwnGang().Known() && (!u.Together || u.Declared && !u.Refused) }

// Suffices reports whether the i-th gang can be admitted with the members that count: it has its minimum, and so have
// enough of those that it is admitted together with. A gang that had its minimum was admitted with the others once, and
// needs them no more: they may be done by now.
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

// Lacking returns how many gangs more need their minimum, or composites directly below that of the unit what they need;
// 0 if as many have it as are needed.
func (u *Unit) Lacking(by Count) int {
	return u.lacking(func(g *Gang) bool { return g.HasMinimum(by) })
}

// lacking is Lacking of gangs for which has is true.
func (u *Unit) lacking(has func(*Gang) bool) int {
	lacking, _ := u.count(has)
	return lacking
}

// count counts the gangs for which has is true: how many more the unit needs, and how many there are directly below
// each of the Composites, those of them that have as many as they need included.
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

// under returns which of the Composites the i-th gang is directly below, -1 for that of the unit.
func (u *Unit) under(i int) int {
	if len(u.Composites) == 0 {
		return -1
	}
	return u.Under[i]
}

// OwnSuffices is Suffices for the gang that is asked about.
func (u *Unit) OwnSuffices(by Count) bool { return u.Suffices(u.Own, by) }

// CanComplete reports whether the attempt under way can still end with a gang admitted: one has members to try, and
// would suffice if all that are untried found a node.
func (u *Unit) CanComplete() bool {
	for i := range u.Gangs {
		if u.Gangs[i].Untried > 0 && u.Suffices(i, Possible) {
			return true
		}
	}
	return false
}

// GoesOn reports whether the attempt under way has members to try, and reason to: it can be completed, or a gang of
// it is NonStrict, which tries all of them. The caller has checked that members are left to try: for a NonStrict gang
// GoesOn does not check it again.
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

// Broken reports whether the i-th gang gives back what waits when the gang that is asked about does: it is that gang,
// or does not suffice with the members that count and is not NonStrict.
func (u *Unit) Broken(i int, by Count) bool {
	return i == u.Own || !u.Gangs[i].NonStrict && !u.Suffices(i, by)
}

// Satisfied reports whether as many gangs as are needed were admitted once and have their minimum for good: what is
// left waits only for members beyond it. Whether gangs are refused by now does not matter: what was admitted stays.
func (u *Unit) Satisfied() bool {
	return u.lacking(func(g *Gang) bool { return g.Met && g.Beyond() }) == 0
}
