package gang

import "testing"

// of returns a declared gang with the minimum.
func of(least int, c Counts) Gang {
	return Gang{Terms: Terms{Declared: true, Min: least}, Counts: c}
}

// policy returns g with another match policy.
func policy(p MatchPolicy, g Gang) Gang {
	g.Policy = p
	return g
}

func TestCounts(t *testing.T) {
	// One is bound, one waits for the gang alone, one waits for another plugin too, one is to be tried, and one has a
	// gate.
	some := Counts{Pending: 2, Ready: 1, Untried: 1, Waiting: 2, Cleared: 1, Bound: 1}
	for _, test := range []struct {
		name                                             string
		gang                                             Gang
		assigned, free, onNodes, possible, present, kept int
	}{
		{"nobody", of(3, Counts{}), 0, 0, 0, 0, 0, 0},
		{"one everywhere", of(3, some), 1, 2, 3, 4, 4, 1},
		{"leaving members do not count", of(3, Counts{Leaving: 2, Bound: 1}), 1, 1, 1, 1, 1, 1},
		{"members that ended well count", of(3, Counts{Met: true, Succeeded: 2, Bound: 1}), 3, 3, 3, 3, 3, 3},
		{"only waiting: bound members do not count", policy(OnlyWaiting, of(3, some)), 0, 1, 2, 3, 3, 1},
		{"only waiting: those being bound do",
			policy(OnlyWaiting, of(3, Counts{Binding: 2, Bound: 1})), 2, 2, 2, 2, 2, 3},
		{"only waiting: after a bind that failed, bound members count again",
			policy(OnlyWaiting, of(3, Counts{Met: true, Bound: 2, Pending: 1, Ready: 1})), 2, 2, 2, 2, 3, 2},
		{"only waiting: after a loss they do not",
			policy(OnlyWaiting, of(3, Counts{Met: true, Bound: 2, Pending: 1, Ready: 1, Lost: 1})), 0, 0, 0, 0, 1, 2},
		{"once satisfied: one with a node is as good as the minimum",
			policy(OnceSatisfied, of(3, some)), 3, 4, 5, 6, 6, 3},
		{"once satisfied: none with a node is not",
			policy(OnceSatisfied, of(3, Counts{Waiting: 2, Cleared: 2})), 0, 2, 2, 2, 2, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for by, want := range map[Count]int{ // any order: each is compared
				Assigned: test.assigned, Free: test.free, OnNodes: test.onNodes,
				Possible: test.possible, Present: test.present, Kept: test.kept,
			} {
				if got := test.gang.Count(by); got != want {
					t.Errorf("count %d: %d, want %d", by, got, want)
				}
			}
		})
	}
}

func TestAGangHasItsMinimumOnlyIfItIsKnown(t *testing.T) {
	for _, test := range []struct {
		name string
		gang Gang
		want bool
	}{
		{"as many as needed", of(2, Counts{Bound: 2}), true},
		{"one too few", of(3, Counts{Bound: 2}), false},
		{"not declared", Gang{Terms: Terms{Min: 1}, Counts: Counts{Bound: 2}}, false},
		{"contradicts itself",
			Gang{Terms: Terms{Declared: true, Refused: true, Min: 1}, Counts: Counts{Bound: 2}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.gang.HasMinimum(Assigned); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// together returns the unit of gangs of which some are needed.
func together(least int, gangs ...Gang) Unit {
	return Unit{Gangs: gangs, Together: true, Declared: true, Min: least}
}

func TestAUnitIsAdmittedByEnoughGangs(t *testing.T) {
	whole, half := of(2, Counts{Bound: 2}), of(2, Counts{Bound: 1})
	was := of(2, Counts{Bound: 2, Met: true})
	refused := together(1, was, whole)
	refused.Refused = true
	undeclared := together(1, whole, whole)
	undeclared.Declared = false
	for _, test := range []struct {
		name string
		unit Unit
		want bool // of the first gang
	}{
		{"a gang by itself", Alone(whole), true},
		{"a gang by itself that lacks one", Alone(half), false},
		{"two of three", together(2, whole, half, whole), true},
		{"one of three", together(2, whole, half, half), false},
		{"the others are enough, but it lacks one", together(2, half, whole, whole), false},
		{"it was admitted with others that are gone", together(3, was), true},
		{"the gangs contradict each other", refused, false},
		{"nobody knows how many gangs are enough", undeclared, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.unit.OwnSuffices(Assigned); got != test.want {
				t.Errorf("suffices: %v, want %v", got, test.want)
			}
		})
	}
}

func TestWhenAnAttemptEnds(t *testing.T) {
	failing := of(3, Counts{Waiting: 1, Untried: 2}) // with the one whose cycle is running
	possible := of(2, Counts{Untried: 2})
	waits := failing
	waits.NonStrict = true
	for _, test := range []struct {
		name           string
		unit           Unit
		completes, on  bool // after a member of the first gang has found no node
		endsByARefusal bool // of the first gang as a whole
	}{
		{"all others are enough", Alone(of(2, Counts{Waiting: 1, Untried: 2})), true, true, true},
		{"the others are not enough", Alone(failing), false, false, true},
		{"the others are not enough, and it waits for its deadline", Alone(waits), false, true, true},
		{"another gang is enough", together(1, failing, possible), true, true, false},
		{"both are needed", together(2, failing, possible), false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.unit.EndsAttempt(); got != test.endsByARefusal {
				t.Errorf("a refusal ends the attempt: %v, want %v", got, test.endsByARefusal)
			}
			test.unit.OwnGang().Fail()
			if got := test.unit.CanComplete(); got != test.completes {
				t.Errorf("can be completed: %v, want %v", got, test.completes)
			}
			if got := test.unit.GoesOn(); got != test.on {
				t.Errorf("goes on: %v, want %v", got, test.on)
			}
		})
	}
}

func TestWhatFallsBelowTheMinimum(t *testing.T) {
	for _, test := range []struct {
		name                   string
		counts                 Counts // of a gang with the minimum 3
		complete, fallen, over bool
	}{
		{"all are there", Counts{Met: true, Bound: 3}, true, false, false},
		{"one of four fails", Counts{Met: true, Bound: 3, Lost: 1}, true, false, false},
		{"one ends well", Counts{Met: true, Bound: 2, Succeeded: 1}, false, false, false},
		{"one fails", Counts{Met: true, Bound: 2, Lost: 1}, false, true, false},
		{"one is on a node that is gone", Counts{Met: true, Bound: 2, Leaving: 1, Missing: 1}, false, true, false},
		{"a bind fails", Counts{Met: true, Bound: 2, Pending: 1, Ready: 1}, false, false, false},
		{"it never had its minimum", Counts{Bound: 2, Lost: 1}, false, false, false},
		{"all ended well", Counts{Met: true, Succeeded: 3}, false, false, true},
		{"all failed", Counts{Met: true, Lost: 3}, false, true, true},
		{"two ended well, the bind of the last one failed", Counts{Met: true, Succeeded: 2, Pending: 1}, false, false,
			false},
		{"all are on their way out", Counts{Met: true, Leaving: 3, Missing: 3}, false, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := of(3, test.counts)
			got, want := [...]bool{g.Complete(), g.Fallen(), g.Over()}, [...]bool{test.complete, test.fallen, test.over}
			if got != want {
				t.Errorf("complete, fallen, over: %v, want %v", got, want)
			}
		})
	}
}

func TestWhatAnAttemptThatStartsOverHasToPlace(t *testing.T) {
	strict := of(4, Counts{Bound: 1, Waiting: 2})
	waits := strict
	waits.NonStrict = true
	if a, b := strict.LackingAnew(), waits.LackingAnew(); a != 3 || b != 1 {
		t.Errorf("%d, and %d of one that is NonStrict, want 3 and 1", a, b)
	}
}

func TestMembersBeyondTheMinimum(t *testing.T) {
	needed, beyond := of(2, Counts{Bound: 1, Waiting: 3}), of(2, Counts{Bound: 2, Waiting: 1})
	if needed.Beyond() || !beyond.Beyond() {
		t.Error("a member is beyond the minimum when the minimum has its nodes for good, and not before")
	}
	unit := together(1, beyond, needed)
	if unit.Satisfied() {
		t.Error("satisfied though none of its gangs was admitted")
	}
	if unit.Gangs[0].Met = true; !unit.Satisfied() {
		t.Error("not satisfied though one of its gangs is, which is enough")
	}
}
