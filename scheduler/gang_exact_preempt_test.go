package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// TestAGangPreemptsIfAndOnlyIfAPlacementExistsWithoutTheVictims schedules random gangs of unequal members on nodes that
// are full of pods of lower priority. An exact search says whether there is a placement with these pods, or without
// them. No victim could stay while the members keep the nodes that they are nominated to.
func TestAGangPreemptsIfAndOnlyIfAPlacementExistsWithoutTheVictims(t *testing.T) {
	preempt := 0
	for seed := range uint64(fixedseed.Of(3_000, 150)) {
		w := newFullWorld(seed)
		beside := w.placeable(w.enough)
		empty := w.without(func(n, j int) bool { return true })
		want := empty.placeable(empty.enough)
		w.evicts = func(d *eventlog.Decision) {
			if stays := w.mayStay(d); stays != "" {
				t.Errorf("seed %d: the victim %s could stay with the plan %+v, %s, victims %v\n%s",
					seed, stays, d.Nominations, d.Nominated, d.Victims, w)
			}
		}
		switch placed, _ := w.schedule(t); {
		case want != w.enough(placed):
			t.Errorf("seed %d: placed %v members, an exact search finds a placement without lower pods: %v\n%s",
				seed, placed, want, w)
		case w.victims > 0 && (beside || !want):
			t.Errorf("seed %d: %d victims; there is a placement beside the lower pods: %v, without them: %v\n%s",
				seed, w.victims, beside, want, w)
		}
		if want && !beside {
			preempt++
		}
	}
	t.Logf("%d gangs have to preempt", preempt)
	if preempt == 0 {
		t.Error("the worlds test nothing")
	}
}

// newFullWorld is newExactWorld with nodes that are full of pods of lower priority, and gangs that need all members.
func newFullWorld(seed uint64) *exactWorld {
	w := newExactWorld(seed)
	r := rand.New(rand.NewPCG(seed, 2))
	w.priority, w.minima, w.needed, w.oneZone = 1, w.sizes(), len(w.minima), false
	for i := range w.nodes {
		n := &w.nodes[i]
		n.used, n.repels = 0, -1
		for n.used < n.cpu && r.IntN(6) > 0 {
			cpu := 1 + r.IntN(n.cpu-n.used)
			n.used, n.pods = n.used+cpu, append(n.pods, cpu)
		}
	}
	return w
}

func podName(node, pod int) string { return fmt.Sprintf("low-%d-%d", node, pod) }

// without returns the world without some of the pods of lower priority.
func (w *exactWorld) without(gone func(node, pod int) bool) *exactWorld {
	less := *w
	less.nodes = slices.Clone(w.nodes)
	for i := range less.nodes {
		for j, cpu := range w.nodes[i].pods {
			if gone(i, j) {
				less.nodes[i].used -= cpu
			}
		}
	}
	return &less
}

// mayStay returns a victim that could stay beside the others' going, with all members on the nodes that they are
// nominated to, "" for none.
func (w *exactWorld) mayStay(d *eventlog.Decision) string {
	on := map[types.UID]string{d.UID: d.Nominated}
	for _, n := range d.Nominations {
		on[n.UID] = n.Node
	}
	for _, stays := range d.Victims {
		world := w.without(func(n, j int) bool {
			name := types.UID(podName(n, j))
			return name != stays && slices.Contains(d.Victims, name)
		})
		if world.fits(on) {
			return string(stays)
		}
	}
	return ""
}

// fits reports whether all members can go to the given nodes, in some order.
func (w *exactWorld) fits(nodes map[types.UID]string) bool {
	on := make([][]int, len(w.nodes))
	for i := range on {
		on[i] = make([]int, len(w.kinds))
	}
	placed := make([]bool, len(w.members))
	seen := map[string]bool{}
	var visit func() bool
	visit = func() bool {
		if !slices.Contains(placed, false) {
			return true
		}
		if key := fmt.Sprint(placed); seen[key] {
			return false
		} else {
			seen[key] = true
		}
		for i, k := range w.members {
			n := 0
			for n = range w.nodes {
				if fmt.Sprintf("n%d", n) == nodes[types.UID(fmt.Sprintf("m%d", i))] {
					break
				}
			}
			if placed[i] || !w.takes(on, n, k) {
				continue
			}
			placed[i], on[n][k] = true, on[n][k]+1
			if visit() {
				return true
			}
			placed[i], on[n][k] = false, on[n][k]-1
		}
		return false
	}
	return visit()
}
