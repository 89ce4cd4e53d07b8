package gang

import (
	"testing"

	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// The reference counts pods one by one, and finds out what can be completed by trying all outcomes.

// where is the state of a pod.
type where int

const (
	gated where = iota // without a node, and kept from one
	tried              // without a node: the attempt under way has not found one
	untried
	waitsForGang
	waitsForOthers // for another plugin, and perhaps for the gang too
	binding
	bound
	leaving // as a pod that the gang needs
	wheres
)

// crowd is a gang as a list of pods.
type crowd struct {
	terms       Terms
	pods        []where
	met         bool
	ended, lost int
}

func drawWhere(t *rapid.T) where { return where(rapid.IntRange(0, int(wheres)-1).Draw(t, "where")) }

func drawCrowd(t *rapid.T) crowd {
	return crowd{
		terms: Terms{
			Declared:  rapid.IntRange(0, 9).Draw(t, "declared") > 0,
			Refused:   rapid.IntRange(0, 9).Draw(t, "refused") == 0,
			Min:       rapid.IntRange(1, 4).Draw(t, "min"),
			Policy:    MatchPolicy(rapid.IntRange(0, 2).Draw(t, "policy")),
			NonStrict: rapid.IntRange(0, 3).Draw(t, "non-strict") == 0,
		},
		pods:  rapid.SliceOfN(rapid.Custom(drawWhere), 0, 6).Draw(t, "pods"),
		met:   rapid.Bool().Draw(t, "met"),
		ended: rapid.IntRange(0, 3).Draw(t, "ended"),
		lost:  rapid.IntRange(0, 2).Draw(t, "lost"),
	}
}

// count counts the pods that are in one of the places.
func (c *crowd) count(in ...where) (n int) {
	for _, p := range c.pods {
		for _, w := range in {
			if p == w {
				n++
			}
		}
	}
	return n
}

func (c *crowd) gang() Gang {
	return Gang{Terms: c.terms, Counts: Counts{
		Pending: c.count(gated, tried, untried), Ready: c.count(tried, untried), Untried: c.count(untried),
		Waiting: c.count(waitsForGang, waitsForOthers), Cleared: c.count(waitsForGang),
		Binding: c.count(binding), Bound: c.count(bound), Leaving: c.count(leaving),
		Met: c.met, Succeeded: c.ended, Lost: c.lost, Missing: c.count(leaving),
	}}
}

// counts reports whether a pod counts.
func (c *crowd) counts(p where, by Count) bool {
	switch p {
	case binding:
		return true
	case bound:
		return c.terms.Policy != OnlyWaiting || c.bindFailed() || by == Kept
	case waitsForGang:
		return by == Free || by == OnNodes || by == Possible || by == Present
	case waitsForOthers:
		return by == OnNodes || by == Possible || by == Present
	case untried:
		return by == Possible || by == Present
	case tried:
		return by == Present
	}
	return false
}

// bindFailed reports whether the gang had its minimum, lost no member, and no longer has the minimum.
func (c *crowd) bindFailed() bool {
	return c.met && c.lost == 0 && c.count(leaving) == 0 && c.count(binding, bound)+c.ended < c.terms.Min
}

// enough reports whether the pods that count are the minimum.
func (c *crowd) enough(by Count) bool {
	return c.terms.Declared && !c.terms.Refused && c.sum(by) >= c.terms.Min
}

func (c *crowd) sum(by Count) (n int) {
	for _, p := range c.pods {
		if c.counts(p, by) {
			n++
		}
	}
	placed := c.count(binding, bound)
	switch {
	case c.terms.Policy == OnceSatisfied && placed > 0:
		others := n - placed
		return others + max(placed, c.terms.Min, c.kept(by)) // missing members count as present
	case c.terms.Policy == OnlyWaiting && by != Kept && !c.bindFailed():
		return n
	}
	return n + c.ended
}

// kept counts, for Kept, the members that have ended well too.
func (c *crowd) kept(by Count) int {
	if by != Kept {
		return 0
	}
	return c.count(binding, bound) + c.ended
}

// crowds are the gangs of a unit.
type crowds struct {
	gangs                       []crowd
	together, declared, refused bool
	least                       int
	inner                       []inner
	under                       []int // by gang
}

// inner is a composite below the unit's composite.
type inner struct{ under, least int }

func drawCrowds(t *rapid.T) crowds {
	n := 1
	c := crowds{together: rapid.Bool().Draw(t, "together"), declared: true}
	if c.least = 1; c.together {
		n = rapid.IntRange(1, 3).Draw(t, "gangs")
		c.least = rapid.IntRange(1, 3).Draw(t, "gangs needed")
		c.declared = rapid.IntRange(0, 9).Draw(t, "declared") > 0
		c.refused = rapid.IntRange(0, 9).Draw(t, "refused") == 0
	}
	if c.together {
		for i := range rapid.IntRange(0, 3).Draw(t, "composites") {
			under := rapid.IntRange(-1, i-1).Draw(t, "composite is below")
			c.inner = append(c.inner, inner{under, rapid.IntRange(1, 2).Draw(t, "composite needs")})
		}
	}
	for range n {
		c.gangs = append(c.gangs, drawCrowd(t))
		c.under = append(c.under, rapid.IntRange(-1, len(c.inner)-1).Draw(t, "gang is below"))
	}
	return c
}

func (c *crowds) unit() Unit {
	u := Unit{Together: c.together, Declared: c.declared, Refused: c.refused, Min: c.least}
	for i := range c.gangs {
		u.Gangs = append(u.Gangs, c.gangs[i].gang())
	}
	for _, each := range c.inner {
		u.Composites, u.Under = append(u.Composites, Composite{Under: each.under, Min: each.least}), c.under
	}
	return u
}

// suffices reports whether the i-th gang may be admitted.
func (c *crowds) suffices(i int, by Count) bool {
	if !c.gangs[i].enough(by) {
		return false
	}
	if !c.together {
		return true
	}
	if c.refused || c.gangs[i].met {
		return !c.refused
	}
	for at := c.under[i]; at >= 0; at = c.inner[at].under {
		if c.whole(at, by) < c.inner[at].least {
			return false
		}
	}
	return c.declared && c.whole(-1, by) >= c.least
}

// lacking returns the least number of gangs without their minimum that would have to get it, by trying 0, 1, 2 …
func (c *crowds) lacking(by Count) (n int) {
	for whole := c.whole(-1, by); whole+n < c.least; n++ {
	}
	return n
}

// whole counts the gangs with their minimum, and the composites with enough below them, that are directly below a
// composite (-1: the unit's).
func (c *crowds) whole(of int, by Count) (n int) {
	for i := range c.gangs {
		if c.under[i] == of && c.gangs[i].enough(by) {
			n++
		}
	}
	for i, each := range c.inner {
		if each.under == of && c.whole(i, by) >= each.least {
			n++
		}
	}
	return n
}

// outcomes calls f with all that the tries which are left may come to.
func (c *crowds) outcomes(f func()) {
	for i := range c.gangs {
		for j, p := range c.gangs[i].pods {
			if p != untried {
				continue
			}
			for _, w := range []where{tried, waitsForGang} {
				c.gangs[i].pods[j] = w
				c.outcomes(f)
			}
			c.gangs[i].pods[j] = untried
			return
		}
	}
	f()
}

// completes reports whether one of the outcomes admits a gang that has still members to try, by trying all.
func (c *crowds) completes(but int) (found bool) {
	open := make([]bool, len(c.gangs))
	for i := range c.gangs {
		open[i] = i != but && c.gangs[i].count(untried) > 0
	}
	c.outcomes(func() {
		for i := range c.gangs {
			found = found || open[i] && c.suffices(i, OnNodes)
		}
	})
	return found
}

func TestCountsAreThoseOfCountingPodsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowds(t)
		u := c.unit()
		for by := Assigned; by <= Kept; by++ {
			if got, want := u.Lacking(by), c.lacking(by); got != want {
				t.Fatalf("count %d: %d gangs lacking, counted one by one %d", by, got, want)
			}
		}
		for i := range c.gangs {
			for by := Assigned; by <= Kept; by++ {
				if got, want := u.Gangs[i].Count(by), c.gangs[i].sum(by); got != want {
					t.Fatalf("gang %d: count %d is %d, counted one by one %d", i, by, got, want)
				}
				if got, want := u.Suffices(i, by), c.suffices(i, by); got != want {
					t.Fatalf("gang %d: count %d suffices: %v, counted one by one: %v", i, by, got, want)
				}
			}
		}
	})
}

func TestALargerCountSufficesWhereASmallerOneDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowds(t)
		u := c.unit()
		for i := range c.gangs {
			for by := Assigned; by < Possible; by++ {
				if u.Gangs[i].Count(by) > u.Gangs[i].Count(by+1) || u.Suffices(i, by) && !u.Suffices(i, by+1) {
					t.Fatalf("gang %d: count %d is more than count %d", i, by, by+1)
				}
			}
		}
	})
}

func TestWhatCanBeCompletedIsWhatSomeOutcomeCompletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowds(t)
		u := c.unit()
		if got, want := u.CanComplete(), c.completes(-1); got != want {
			t.Fatalf("can be completed: %v; by trying all outcomes: %v", got, want)
		}
	})
}

// Two callers ask for the end of an attempt. Preemption asks before a decision, when a member has found no node. The
// scheduler asks when it applies the decision that refuses the gang as a whole. Where both are asked they agree: the
// gang cannot be admitted, so it does not matter whether its waiting members have released their nodes yet.
func TestBothEndsOfAnAttemptAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowds(t)
		u := c.unit()
		u.Own = rapid.IntRange(0, len(u.Gangs)-1).Draw(t, "own")
		own := u.OwnGang()
		if own.Untried == 0 {
			return // no cycle of it is running
		}
		asWhole, before := u.EndsAttempt(), *own
		if *u.OwnGang() != before {
			t.Fatal("asking whether the attempt ends has changed the counts")
		}
		own.Fail()
		if u.OwnSuffices(Possible) {
			return // it is not refused as a whole
		}
		if completes := u.CanComplete(); completes == asWhole {
			t.Fatalf(
				"the refusal of the gang ends the attempt: %v; its member's failure leaves it possible: %v",
				asWhole,
				completes,
			)
		}
	})
}

// A gang that is still to be admitted, and could be if all went well, needs a gang with members to try: itself, or one
// that it is admitted together with.
func TestWhatIsStillPossibleIsStillTried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowds(t)
		u := c.unit()
		for i := range u.Gangs {
			if !u.Suffices(i, OnNodes) && u.Suffices(i, Possible) && !u.CanComplete() {
				t.Fatalf("gang %d could be admitted, and the attempt is at its end", i)
			}
		}
	})
}

// A gang that is complete has not fallen, and one that is over has nothing left that could be evicted but what leaves.
func TestAGangIsNotCompleteAndFallen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCrowd(t)
		g := c.gang()
		if g.Complete() && (g.Fallen() || g.Over()) {
			t.Fatalf("%+v is complete, and fallen or over", g)
		}
		if g.Over() && c.count(binding, bound) > 0 {
			t.Fatalf("%+v is over, and has members on nodes", g)
		}
	})
}
