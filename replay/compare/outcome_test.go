package compare

import (
	"math"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

func point(seq uint64, at time.Duration) *answer.Point {
	return &answer.Point{Seq: seq, Time: answer.Instant(at)}
}

// TestTotalsAreOfTheOnesThatGotNodes has waits whose sum is beyond the largest duration.
func TestTotalsAreOfTheOnesThatGotNodes(t *testing.T) {
	long := time.Duration(math.MaxInt64 / 3 * 2)
	os := &outcomes{byName: map[string]*Outcome{}}
	for _, name := range []string{"a", "b"} {
		o := os.of("gang", name)
		o.Complete, o.Placed, o.Evicted = point(1, 0), point(2, long), 3
	}
	os.of("gang", "waits").Complete = point(1, 0)
	os.of("pod", "p").Complete = point(1, 0)
	want := Totals{All: 3, Placed: 2, MeanWait: Wait(long), LongestWait: Wait(long), Evicted: 6}
	if got := os.totals("gang"); got != want {
		t.Errorf("the totals are %+v, want %+v", got, want)
	}
}

// TestGangsThatWaitAtBothEndsDoNotDiffer has two logs of different lengths.
func TestGangsThatWaitAtBothEndsDoNotDiffer(t *testing.T) {
	c := &comparison{a: newSide(Log{}), b: newSide(Log{})}
	c.a.last, c.b.last = *point(9, time.Hour), *point(9, 3*time.Hour)
	x := Change{A: &Outcome{Complete: point(1, 0)}, B: &Outcome{Complete: point(1, 0)}}
	if c.fill(&x) || x.MoreWait != 0 {
		t.Errorf("the change is %+v", x)
	}
	x.B.Placed = point(2, time.Minute)
	if !c.fill(&x) {
		t.Error("a gang that is placed in one log alone does not differ")
	}
}

// TestAnInputBehindTheFirstDifferentDecisionMayBeItsResult has the difference before and behind the decision.
func TestAnInputBehindTheFirstDifferentDecisionMayBeItsResult(t *testing.T) {
	for _, test := range []struct {
		input, decision uint64
		want            bool
	}{{7, 5, true}, {5, 7, false}} {
		c := &comparison{a: newSide(Log{}), b: newSide(Log{})}
		c.input = &InputDifference{A: &Input{Point: *point(test.input, 0)}, B: &Input{Point: *point(test.input, 0)}}
		c.decision = &DecisionDifference{A: &Decided{Point: *point(test.decision, 0)},
			B: &Decided{Point: *point(test.decision, 0)}}
		r, err := c.report()
		if err != nil || r.InputLater != test.want {
			t.Errorf("input %d, decision %d: %v, %v", test.input, test.decision, r.InputLater, err)
		}
	}
}
