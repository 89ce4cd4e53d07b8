package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// TestACompositeIsPlacedIfAndOnlyIfAPlacementExists is TestAGangIsPlacedIfAndOnlyIfAPlacementExists for gangs below
// composites of one or two levels. Most of these, or their gangs, must stay within a zone or a rack.
func TestACompositeIsPlacedIfAndOnlyIfAPlacementExists(t *testing.T) {
	feasible, usual := 0, 0
	for seed := range uint64(fixedseed.Of(10_000, 500)) {
		w := newCompositeWorld(seed)
		want, all := w.placeable(w.enough), w.placeable(w.all)
		placed, planned := w.schedule(t)
		if want != w.enough(placed) {
			t.Errorf("seed %d: placed %v members, an exact search finds a placement: %v\n%s", seed, placed, want, w)
		}
		if all != w.all(placed) {
			t.Errorf("seed %d: placed %v members, an exact search places all: %v\n%s", seed, placed, all, w)
		}
		if want {
			feasible++
			if !planned {
				usual++
			}
		}
	}
	t.Logf("%d composites have a placement; the usual order found it for %d", feasible, usual)
	if feasible == 0 || usual == feasible {
		t.Error("the worlds test nothing")
	}
}

// exactComposite is a composite above gangs or other composites.
type exactComposite struct {
	under, needed int    // the composite that it is directly below, and how many groups directly below it are needed
	by            string // the label of the domain that all below it must stay within, "" for none
}

// newCompositeWorld is newExactWorld with racks, and with one to three composites above one to three gangs.
func newCompositeWorld(seed uint64) *exactWorld {
	w, r := newExactWorld(seed), rand.New(rand.NewPCG(seed, 4))
	for i := range w.nodes {
		n := &w.nodes[i]
		n.rack = fmt.Sprintf("%s%d", n.zone, r.IntN(2))
		switch r.IntN(10) {
		case 0:
			n.rack = ""
		case 1:
			n.rack = "a0" // perhaps in another zone
		}
	}
	gangs := min(len(w.members), 1+r.IntN(3))
	w.oneZone, w.prefers, w.needed = false, false, 1
	w.minima, w.by = make([]int, gangs), make([]string, gangs)
	for i := range w.members {
		w.gangs[i] = i % gangs
	}
	for i, size := range w.sizes() {
		if w.minima[i] = size; r.IntN(4) == 0 {
			w.minima[i] = 1 + r.IntN(size)
		}
	}
	label := func(labels ...string) string { return labels[r.IntN(len(labels))] }
	for range 1 + r.IntN(gangs) {
		w.above = append(w.above, exactComposite{by: label("", byZone, byZone, byRack)})
	}
	below := make([]int, len(w.above)) // how many gangs and composites are directly below each
	for i := range w.above[1:] {
		under := r.IntN(1 + i)
		w.above[1+i].under, w.above[1+i].by = under, label("", "", byZone, byRack)
		below[under]++
	}
	for g := range gangs {
		under := len(w.above) - 1 - g%len(w.above)
		w.under, w.by[g] = append(w.under, under), label("", "", byZone, byRack, byRack)
		below[under]++
	}
	if r.IntN(4) == 0 { // no topology
		clear(w.by)
		for i := range w.above {
			w.above[i].by = ""
		}
	}
	for i, n := range below {
		w.above[i].needed = 1 + r.IntN(n)
	}
	w.prefers = r.IntN(4) == 0
	return w
}

// enoughAbove reports whether every composite above a gang with placed members has enough, and also the topmost one.
func (w *exactWorld) enoughAbove(placed []int) bool {
	if w.above == nil {
		return true
	}
	has, touched := make([]int, len(w.above)), make([]bool, len(w.above))
	touched[0] = true
	for g, n := range placed {
		if n > 0 {
			touched[w.under[g]] = true
		}
		if n > 0 && n >= w.minima[g] {
			has[w.under[g]]++
		}
	}
	for i, c := range slices.Backward(w.above) {
		enough := has[i] >= c.needed
		if touched[i] && !enough {
			return false
		}
		if i > 0 && enough {
			has[c.under]++
		}
		touched[c.under] = touched[c.under] || touched[i]
	}
	return true
}

// exactDomain is gangs whose members must be on nodes with one value of a label.
type exactDomain struct {
	gangs []bool
	by    string
}

// domains returns the domains that gangs must stay within.
func (w *exactWorld) domains() (domains []exactDomain) {
	add := func(by string, of func(g int) bool) {
		d := exactDomain{make([]bool, len(w.minima)), by}
		for g := range w.minima {
			d.gangs[g] = of(g)
		}
		if by != "" {
			domains = append(domains, d)
		}
	}
	if w.oneZone {
		add(byZone, func(int) bool { return true })
	}
	for i, c := range w.above {
		add(c.by, func(g int) bool { return w.isBelow(w.under[g], i) })
	}
	for i, by := range w.by {
		add(by, func(g int) bool { return g == i })
	}
	return domains
}

// isBelow reports whether a composite is another one, or below it.
func (w *exactWorld) isBelow(c, other int) bool {
	for c != other && c != 0 {
		c = w.above[c].under
	}
	return c == other
}

// choose returns the domains, by their values, that are chosen once a member of a gang is on a node. ok is false if it
// may not go there.
func (w *exactWorld) choose(domains []exactDomain, chosen []string, g, n int) (next []string, ok bool) {
	next = slices.Clone(chosen)
	for i, d := range domains {
		if !d.gangs[g] {
			continue
		}
		value := w.nodes[n].zone
		if d.by == byRack {
			value = w.nodes[n].rack
		}
		if value == "" || chosen[i] != "" && chosen[i] != value {
			return nil, false
		}
		next[i] = value
	}
	return next, true
}

// declareAbove puts the composites.
func (w *exactWorld) declareAbove(put func(eventlog.Resource, eventlog.Object)) {
	for i, above := range w.above {
		c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
			Name: compositeName(i)}}
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{
			MinGroupCount: int32(above.needed)}
		if i > 0 {
			c.Spec.ParentCompositePodGroupName = ptr.To(compositeName(above.under))
		}
		if above.by != "" {
			c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
				Topology: []schedulingv1alpha3.TopologyConstraint{{Key: above.by}}}
		}
		put(eventlog.CompositePodGroups, c)
	}
}

func compositeName(i int) string { return fmt.Sprintf("c%d", i) }
