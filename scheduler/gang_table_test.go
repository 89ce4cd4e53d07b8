package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestLargeGangsOfUnequalMembers places gangs of 64 to 512 members of 2 to 6 kinds that fill 90 to 97 % of the nodes,
// and prints how often each way succeeds. Each gang is made from a placement, so that None would be wrong.
func TestLargeGangsOfUnequalMembers(t *testing.T) {
	seeds, sizes := uint64(fixedseed.Of(10, 1)), []int{64, 128, 256, 512}
	if seeds == 1 {
		sizes = sizes[:1]
	}
	table := []string{"members kinds use%  gangs usual hardest-first search later unknown steps"}
	for _, size := range sizes {
		for _, kinds := range []int{2, 4, 6} {
			for _, use := range []int{90, 93, 97} {
				var row largeGangs
				for seed := range seeds {
					row.add(t, newLargeGang(seed, size, kinds, use))
				}
				table = append(table, fmt.Sprintf("%7d %5d %4d %6d %5d %13d %6d %5d %7d %5d", size, kinds, use, seeds,
					row.usual, row.hardest, row.search, row.later, row.unknown, row.steps))
			}
		}
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

// largeGangs counts the gangs that each way places. The ways are the order of the names, the hardest members first
// without going back, and the search. The search counts gangs that the usual order places. later counts the gangs among
// them that a later search placed, after one reached its limit. steps is the largest number of steps of a search.
type largeGangs struct {
	usual, hardest, search, later, unknown int
	steps                                  int64
}

func (l *largeGangs) add(t *testing.T, w *exactWorld) {
	var result eventlog.PlanResult // of the last search
	hardest, searches := false, 0
	w.begins = func(m *scheduler.Machine) { hardest = m.HardestFirst("ns", "g0") }
	w.decided = func(d *eventlog.Decision) {
		l.steps = max(l.steps, d.Plan.Steps)
		if d.Plan.Result != 0 {
			if result = d.Plan.Result; d.Plan.Next != 0 && d.Plan.Next != searches+1 {
				t.Errorf("search %d follows %d searches", d.Plan.Next, searches+1)
			}
			searches++
		}
	}
	w.waits = func() bool { return result == eventlog.PlanUnknown && searches < scheduler.MaxSearches }
	placed, _ := w.schedule(t)
	all := w.all(placed)
	switch {
	case result == eventlog.PlanNone || all != (result == 0 || result == eventlog.PlanFound):
		t.Errorf("placed %v of %d members, plan %v", placed, len(w.members), result)
	case result == 0:
		l.usual++
	case result == eventlog.PlanUnknown:
		l.unknown++
		if searches != scheduler.MaxSearches {
			t.Errorf("%d searches, want %d", searches, scheduler.MaxSearches)
		}
	case searches > 1:
		l.later++
	}
	if all {
		l.search++
	}
	if hardest {
		l.hardest++
	}
}

// newLargeGang fills nodes with members of a few sizes, as far as 16 to 64 CPUs go, and then gives each node as many
// CPUs that the given percentage is used. The members' names are in a random order.
func newLargeGang(seed uint64, size, kinds, use int) *exactWorld {
	r := rand.New(rand.NewPCG(seed, uint64(size*10_000+kinds*100+use)))
	w := &exactWorld{}
	for range kinds {
		w.kinds = append(w.kinds, exactKind{cpu: 1 + r.IntN(24), apart: -1, together: -1})
	}
	for len(w.members) < size {
		capacity, used := 16+16*r.IntN(4), 0
		for range 100 {
			k := r.IntN(kinds)
			if used+w.kinds[k].cpu <= capacity && len(w.members) < size {
				used += w.kinds[k].cpu
				w.members = append(w.members, k)
			}
		}
		if used > 0 {
			w.nodes = append(w.nodes, exactNode{cpu: (used*100 + use - 1) / use, zone: "a", repels: -1})
		}
	}
	r.Shuffle(len(w.members), func(i, j int) { w.members[i], w.members[j] = w.members[j], w.members[i] })
	w.gangs, w.minima, w.needed = make([]int, len(w.members)), []int{len(w.members)}, 1
	return w
}

// TestALaterSearchPlacesAGang takes a gang that the first search does not place within its limit. The next attempts
// search elsewhere, after the backoff and without an event, and place all members.
func TestALaterSearchPlacesAGang(t *testing.T) {
	w, results := newLargeGang(0, 64, 4, 93), []eventlog.PlanResult{}
	w.decided = func(d *eventlog.Decision) {
		if d.Plan.Result != 0 {
			results = append(results, d.Plan.Result)
		}
	}
	w.waits = func() bool { return slices.Equal(results, []eventlog.PlanResult{eventlog.PlanUnknown}) }
	placed, _ := w.schedule(t)
	if !w.all(placed) || !slices.Equal(results, []eventlog.PlanResult{eventlog.PlanUnknown, eventlog.PlanFound}) {
		t.Errorf("placed %v of %d members by searches that ended as %v", placed, len(w.members), results)
	}
}
