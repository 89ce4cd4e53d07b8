package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestAGangIsPlacedIfAndOnlyIfAPlacementExists schedules random gangs of unequal members on a few nodes. It compares
// the outcome with an exact search that shares no code with the product.
func TestAGangIsPlacedIfAndOnlyIfAPlacementExists(t *testing.T) {
	feasible, usual := 0, 0
	for seed := range uint64(fixedseed.Of(10_000, 500)) {
		w := newExactWorld(seed)
		want := w.placeable(w.enough)
		placed, planned := w.schedule(t)
		if want != w.enough(placed) {
			t.Errorf("seed %d: placed %v members, an exact search finds a placement: %v\n%s", seed, placed, want, w)
		}
		if all := w.placeable(w.all); all != w.all(placed) {
			t.Errorf("seed %d: placed %v members, an exact search places all: %v\n%s", seed, placed, all, w)
		}
		if want {
			feasible++
			if !planned {
				usual++
			}
		}
	}
	t.Logf("%d gangs have a placement; the usual order found it for %d", feasible, usual)
	if feasible == 0 || usual == feasible {
		t.Error("the worlds test nothing")
	}
}

// exactWorld is a few nodes and one gang.
type exactWorld struct {
	nodes   []exactNode
	kinds   []exactKind
	members []int // the kind of each member

	gangs   []int // the gang of each member
	minima  []int // by gang
	needed  int   // how many gangs are admitted together
	oneZone bool  // all members must be in one zone
	prefers bool  // the members of each gang should be in one zone
	// above are the composites above the gangs, the topmost first; nil for one above several gangs, with no topology.
	above []exactComposite
	under []int    // by gang: the composite that it is directly below
	by    []string // by gang: the label of the domain that its members must stay within, "" for none

	priority int32 // of the members; pods on nodes have 0
	// begins is called before the first decision, decided after each, and evicts after each with victims, before they
	// go; nil to do nothing.
	begins  func(m *scheduler.Machine)
	decided func(d *eventlog.Decision)
	evicts  func(d *eventlog.Decision)
	waits   func() bool // reports whether to let a backoff pass when nothing is to decide
	victims int         // how many pods schedule has evicted
	plans   int         // how many plans schedule has seen
}

type exactNode struct {
	cpu, used int
	zone      string
	rack      string // "" for no such label
	ssd, bad  bool   // it has the label disk=ssd; it has a taint
	repels    int    // the kind that a pod on it must not be beside, -1 for none

	pods []int // further pods on it, by the CPUs that they request; used counts them
}

type exactKind struct {
	cpu              int
	ssd, tolerates   bool
	port             bool
	apart, together  int    // the kind that its anti-affinity, or its affinity, is about; -1 for none
	apartBy, closeBy string // the label of the domain
}

const (
	byHost = "kubernetes.io/hostname"
	byZone = "zone"
	byRack = "rack"
)

func newExactWorld(seed uint64) *exactWorld {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &exactWorld{}
	for range 1 + r.IntN(8) {
		n := exactNode{cpu: 1 + r.IntN(8), zone: string(rune('a' + r.IntN(3)))}
		n.ssd, n.bad, n.repels = r.IntN(3) == 0, r.IntN(6) == 0, -1
		if r.IntN(5) == 0 {
			n.repels = r.IntN(4)
		}
		if r.IntN(3) == 0 {
			n.used = r.IntN(n.cpu + 1)
		}
		w.nodes = append(w.nodes, n)
	}
	plain := r.IntN(2) == 0
	kinds := 1 + r.IntN(4)
	for range kinds {
		k := exactKind{cpu: 1 + r.IntN(6), ssd: r.IntN(6) == 0, tolerates: r.IntN(3) == 0, port: r.IntN(8) == 0,
			apart: -1, together: -1, apartBy: byHost, closeBy: byHost}
		if !plain && r.IntN(3) == 0 {
			k.apart = r.IntN(kinds)
			if r.IntN(2) == 0 {
				k.apartBy = byZone
			}
		}
		if !plain && r.IntN(4) == 0 {
			k.together = r.IntN(kinds)
			if r.IntN(2) == 0 {
				k.closeBy = byZone
			}
		}
		w.kinds = append(w.kinds, k)
	}
	for range 2 + r.IntN(7) {
		w.members = append(w.members, r.IntN(kinds))
	}
	w.gangs, w.minima, w.needed = make([]int, len(w.members)), []int{0}, 1
	switch r.IntN(4) {
	case 0:
		w.oneZone = true
	case 1:
		w.minima = make([]int, min(len(w.members), 2+r.IntN(2)))
		w.needed = 1 + r.IntN(len(w.minima))
		for i := range w.members {
			w.gangs[i] = i % len(w.minima)
		}
	}
	for i, size := range w.sizes() {
		w.minima[i] = size
		if size > 0 && r.IntN(4) == 0 {
			w.minima[i] = 1 + r.IntN(size)
		}
	}
	w.prefers = len(w.minima) == 1 && r.IntN(3) == 0
	return w
}

// sizes returns the number of members of each gang.
func (w *exactWorld) sizes() []int {
	sizes := make([]int, len(w.minima))
	for _, g := range w.gangs {
		sizes[g]++
	}
	return sizes
}

// enough reports whether gangs may be admitted with so many members on nodes. None of them may have fewer than its
// minimum.
func (w *exactWorld) enough(placed []int) bool {
	complete := 0
	if !w.enoughAbove(placed) {
		return false
	}
	for g, n := range placed {
		if n > 0 && n < w.minima[g] {
			return false
		}
		if n > 0 {
			complete++
		}
	}
	return complete >= w.needed
}

// all reports whether all members are on nodes.
func (w *exactWorld) all(placed []int) bool { return slices.Equal(placed, w.sizes()) }

func (w *exactWorld) String() string {
	var b strings.Builder
	for i, n := range w.nodes {
		fmt.Fprintf(&b, "n%d %+v\n", i, n)
	}
	for i, k := range w.kinds {
		fmt.Fprintf(&b, "kind %d %+v\n", i, k)
	}
	fmt.Fprintf(&b, "members %v of gangs %v, minima %v, %d gangs needed, in one zone: %t, preferred: %t", w.members,
		w.gangs, w.minima, w.needed, w.oneZone, w.prefers)
	if w.above != nil {
		fmt.Fprintf(&b, "\ncomposites %+v, gangs below %v, domains %q", w.above, w.under, w.by)
	}
	return b.String()
}

// placeable reports whether enough members can be placed in some order, with every rule fulfilled in that order. It
// visits every state that some order leads to.
func (w *exactWorld) placeable(enough func(placed []int) bool) bool {
	left := make([][]int, len(w.minima)) // by gang and kind
	for g := range left {
		left[g] = make([]int, len(w.kinds))
	}
	for i, k := range w.members {
		left[w.gangs[i]][k]++
	}
	on := make([][]int, len(w.nodes)) // by node, the number of members of each kind
	for i := range on {
		on[i] = make([]int, len(w.kinds))
	}
	placed := make([]int, len(w.minima))
	domains := w.domains()
	seen := map[string]bool{}
	var visit func(chosen []string) bool
	visit = func(chosen []string) bool {
		if enough(placed) {
			return true
		}
		key := fmt.Sprint(on, left, chosen)
		if seen[key] {
			return false
		}
		seen[key] = true
		for n := range w.nodes {
			for g := range left {
				next, ok := w.choose(domains, chosen, g, n)
				for k := range w.kinds {
					if !ok || left[g][k] == 0 || !w.takes(on, n, k) {
						continue
					}
					left[g][k], on[n][k], placed[g] = left[g][k]-1, on[n][k]+1, placed[g]+1
					found := visit(next)
					left[g][k], on[n][k], placed[g] = left[g][k]+1, on[n][k]-1, placed[g]-1
					if found {
						return true
					}
				}
			}
		}
		return false
	}
	return visit(make([]string, len(domains)))
}

// takes reports whether a node takes one more member of a kind.
func (w *exactWorld) takes(on [][]int, n, k int) bool {
	node, kind := w.nodes[n], w.kinds[k]
	free := node.cpu - node.used
	for other, count := range on[n] {
		free -= count * w.kinds[other].cpu
		if count > 0 && kind.port && w.kinds[other].port {
			return false
		}
	}
	if free < kind.cpu || kind.ssd && !node.ssd || node.bad && !kind.tolerates || node.repels == k {
		return false
	}
	near := func(by string, m int) bool { return m == n || by == byZone && w.nodes[m].zone == node.zone }
	some, close := false, false
	for m := range w.nodes {
		for other, count := range on[m] {
			if count == 0 {
				continue
			}
			if kind.apart == other && near(kind.apartBy, m) {
				return false
			}
			if w.kinds[other].apart == k && near(w.kinds[other].apartBy, m) {
				return false
			}
			if kind.together == other {
				some = true
				close = close || near(kind.closeBy, m)
			}
		}
	}
	return kind.together < 0 || close || !some && kind.together == k
}

// schedule returns how many members of each gang get a node, and whether a plan was needed.
func (w *exactWorld) schedule(t *testing.T) (placed []int, planned bool) {
	m, now := scheduler.New(plugins.NewRegistry()), time.Unix(1_700_000_000, 0)
	apply := func(p eventlog.Payload) {
		t.Helper()
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1,
			Time: eventlog.TimeOf(now), Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(r eventlog.Resource, obj eventlog.Object) {
		obj.SetUID(types.UID(obj.GetName()))
		apply(&eventlog.Upserted{Resource: r, Object: obj})
	}
	apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: defaultConfig(t),
		Behaviour: scheduler.Behaviour})
	w.addNodes(put)
	w.declare(put)
	for i, k := range w.members {
		put(eventlog.Pods, w.pod(i, k))
	}
	placed = make([]int, len(w.minima))
	if w.begins != nil {
		w.begins(m)
	}
	for range 500 + 5*len(w.members) {
		d, ok := m.Decide(nil)
		switch {
		case !ok && w.waits != nil && w.waits(): // for the gang's backoff
			now = now.Add(time.Minute)
			apply(&eventlog.Tick{})
			continue
		case !ok:
			return placed, planned
		}
		for _, uid := range slices.Concat(d.Allowed, []types.UID{d.UID}) {
			if uid != d.UID || d.Outcome == eventlog.Scheduled {
				i, _ := strconv.Atoi(strings.TrimPrefix(string(uid), "m"))
				placed[w.gangs[i]]++
			}
		}
		if d.Plan.Result == eventlog.PlanFound {
			planned, w.plans = true, w.plans+1
		}
		apply(&d)
		if w.decided != nil {
			w.decided(&d)
		}
		if w.victims += len(d.Victims); w.evicts == nil || len(d.Victims) == 0 {
			continue
		}
		w.evicts(&d)
		for _, uid := range d.Victims {
			apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: string(uid), UID: uid})
		}
		now = now.Add(time.Minute) // longer than the gang's backoff
		apply(&eventlog.Tick{})
	}
	t.Fatalf("it decides on and on:\n%s", w)
	return nil, false
}
