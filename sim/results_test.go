package sim

import (
	"testing"

	"github.com/rollcall-sched/rollcall/sim/report"
)

// TestAGroupIsWhatItLacksOrHas has one line for each way to end, of groups of four planned pods.
func TestAGroupIsWhatItLacksOrHas(t *testing.T) {
	const (
		gang  = true
		loose = false
	)
	for _, c := range []struct {
		name           string
		gang           bool
		placed, stands bool
		cause          report.Outcome
		pods           report.Outcomes
		want           report.Outcome
	}{
		{"nobody came", gang, false, false, 0, report.Outcomes{NotArrived: 4}, report.NotArrived},
		{"too few came", gang, false, false, 0, report.Outcomes{NotArrived: 2, Pending: 2}, report.Pending},
		{"its minimum runs", gang, true, true, 0, report.Outcomes{Running: 3, Pending: 1}, report.Running},
		{"its minimum completed", gang, true, true, 0, report.Outcomes{Completed: 3, Preempted: 1}, report.Completed},
		{"it completed and a member waits", gang, true, true, 0, report.Outcomes{Completed: 3, Pending: 1},
			report.Completed},
		{"the rest of a preempted gang runs on", gang, true, false, report.Preempted,
			report.Outcomes{Running: 2, Preempted: 2}, report.Preempted},
		{"the rest waits for those that come again", gang, true, false, report.Lost,
			report.Outcomes{Running: 2, PendingAgain: 2}, report.PendingAgain},
		{"it was withdrawn before it was placed", gang, false, false, report.Withdrawn,
			report.Outcomes{Withdrawn: 4}, report.Withdrawn},
		{"its minimum has grown", gang, true, false, 0, report.Outcomes{Running: 2, Pending: 2}, report.Running},
		{"without a minimum, one runs", loose, true, true, report.Lost, report.Outcomes{Running: 1, Lost: 3},
			report.Running},
		{"without a minimum, one was lost", loose, true, true, report.Lost, report.Outcomes{Completed: 3, Lost: 1},
			report.Lost},
		{"without a minimum, all completed", loose, true, true, 0, report.Outcomes{Completed: 4}, report.Completed},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &groupState{planned: c.gang, need: 3, stands: c.stands, cause: c.cause}
			g.Placed = c.placed
			pods := tally{Outcomes: c.pods}
			pods.Total = 4
			if got := g.outcome(&pods); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}
