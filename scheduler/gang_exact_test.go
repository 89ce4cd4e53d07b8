package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
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
		want := w.placeable()
		placed, planned := w.schedule(t)
		if want != (placed >= w.minimum) {
			t.Errorf("seed %d: placed %d of the %d members needed, an exact search finds a placement: %v\n%s",
				seed, placed, w.minimum, want, w)
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
	minimum int

	priority int32 // of the members; pods on nodes have 0
	victims  int   // how many pods schedule has evicted
}

type exactNode struct {
	cpu, used int
	zone      string
	ssd, bad  bool // it has the label disk=ssd; it has a taint
	repels    int  // the kind that a pod on it must not be beside, -1 for none
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
	w.minimum = len(w.members)
	if r.IntN(4) == 0 {
		w.minimum = 1 + r.IntN(len(w.members))
	}
	return w
}

func (w *exactWorld) String() string {
	var b strings.Builder
	for i, n := range w.nodes {
		fmt.Fprintf(&b, "n%d %+v\n", i, n)
	}
	for i, k := range w.kinds {
		fmt.Fprintf(&b, "kind %d %+v\n", i, k)
	}
	fmt.Fprintf(&b, "members %v, minimum %d", w.members, w.minimum)
	return b.String()
}

// placeable reports whether the minimum can be placed in some order, with every rule fulfilled in that order. It visits
// every state that some order leads to.
func (w *exactWorld) placeable() bool {
	left := make([]int, len(w.kinds))
	for _, k := range w.members {
		left[k]++
	}
	on := make([][]int, len(w.nodes)) // by node, the number of members of each kind
	for i := range on {
		on[i] = make([]int, len(w.kinds))
	}
	seen := map[string]bool{}
	var visit func(placed int) bool
	visit = func(placed int) bool {
		if placed >= w.minimum {
			return true
		}
		key := fmt.Sprint(on)
		if seen[key] {
			return false
		}
		seen[key] = true
		for k := range w.kinds {
			for n := range w.nodes {
				if left[k] == 0 || !w.takes(on, n, k) {
					continue
				}
				left[k], on[n][k] = left[k]-1, on[n][k]+1
				found := visit(placed + 1)
				if left[k], on[n][k] = left[k]+1, on[n][k]-1; found {
					return true
				}
			}
		}
		return false
	}
	return visit(0)
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

// schedule returns how many members get a node, and whether a plan was needed.
func (w *exactWorld) schedule(t *testing.T) (placed int, planned bool) {
	m := scheduler.New(plugins.NewRegistry())
	apply := func(p eventlog.Payload) {
		t.Helper()
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1,
			Time: eventlog.TimeOf(time.Unix(1_700_000_000, 0)), Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(r eventlog.Resource, obj eventlog.Object) {
		obj.SetUID(types.UID(obj.GetName()))
		apply(&eventlog.Upserted{Resource: r, Object: obj})
	}
	apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: defaultConfig(t),
		Behaviour: scheduler.Behaviour})
	cpus := func(n int) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}
	}
	for i, n := range w.nodes {
		name := fmt.Sprintf("n%d", i)
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Labels = map[string]string{byHost: name, byZone: n.zone}
		if n.ssd {
			node.Labels["disk"] = "ssd"
		}
		if n.bad {
			node.Spec.Taints = []v1.Taint{{Key: "bad", Effect: v1.TaintEffectNoSchedule}}
		}
		node.Status.Allocatable = cpus(n.cpu)
		node.Status.Allocatable[v1.ResourcePods] = resource.MustParse("99")
		put(eventlog.Nodes, node)
		if n.used > 0 || n.repels >= 0 {
			put(eventlog.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "on-" + name},
				Spec: v1.PodSpec{NodeName: name, SchedulerName: "other", Containers: []v1.Container{
					{Name: "c", Resources: v1.ResourceRequirements{Requests: cpus(n.used)}}},
					Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: kindTerms(n.repels, byHost)}}}})
		}
	}
	put(eventlog.XPodGroups, &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
		Spec: xscheduling.PodGroupSpec{MinMember: int32(w.minimum)}})
	for i, k := range w.members {
		put(eventlog.Pods, w.pod(i, k, cpus))
	}
	given := map[types.UID]bool{}
	for range 500 {
		d, ok := m.Decide(nil)
		if !ok {
			return len(given), planned
		}
		for _, uid := range slices.Concat(d.Allowed, []types.UID{d.UID}) {
			if uid != d.UID || d.Outcome == eventlog.Scheduled {
				given[uid] = true
			}
		}
		planned = planned || d.Plan.Result == eventlog.PlanFound
		w.victims += len(d.Victims)
		apply(&d)
	}
	t.Fatalf("it decides on and on:\n%s", w)
	return 0, false
}

func (w *exactWorld) pod(i, k int, cpus func(int) v1.ResourceList) *v1.Pod {
	kind := w.kinds[k]
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("m%d", i), Labels: map[string]string{
		"kind": fmt.Sprint(k), "scheduling.x-k8s.io/pod-group": "g"}}}
	p.Spec.SchedulerName, p.Spec.Priority = "default-scheduler", &w.priority
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: cpus(kind.cpu)}}}
	if kind.port {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
	}
	if kind.ssd {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if kind.tolerates {
		p.Spec.Tolerations = []v1.Toleration{{Key: "bad", Operator: v1.TolerationOpExists}}
	}
	p.Spec.Affinity = &v1.Affinity{}
	if apart := kindTerms(kind.apart, kind.apartBy); apart != nil {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}
	}
	if near := kindTerms(kind.together, kind.closeBy); near != nil {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}
	}
	return p
}

// kindTerms returns the term that selects the members of a kind, none for -1.
func kindTerms(kind int, by string) []v1.PodAffinityTerm {
	if kind < 0 {
		return nil
	}
	return []v1.PodAffinityTerm{{TopologyKey: by, LabelSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kind": fmt.Sprint(kind)}}}}
}

// TestAGangOfUnequalMembersEvictsNoMoreThanItNeeds has a gang of two come to many full nodes. Only one is large enough
// for the second member. In the usual order the first member would take that one.
func TestAGangOfUnequalMembersEvictsNoMoreThanItNeeds(t *testing.T) {
	w := &exactWorld{kinds: []exactKind{{cpu: 2, apart: -1, together: -1}, {cpu: 8, apart: -1, together: -1}},
		members: []int{0, 1}, minimum: 2, priority: 1}
	for i := range 1000 {
		n := exactNode{cpu: 4, used: 4, zone: "a", repels: -1}
		if i == 0 {
			n.cpu, n.used = 8, 8
		}
		w.nodes = append(w.nodes, n)
	}
	w.schedule(t)
	if w.victims != 2 {
		t.Errorf("%d pods are evicted, want 2", w.victims)
	}
}

// TestNodesThatOnlyLookEqualAreAllTried has a member that may go to two nodes with the same free amounts. One of them
// is the last node of another kind.
func TestNodesThatOnlyLookEqualAreAllTried(t *testing.T) {
	node := func(ssd, bad bool) exactNode { return exactNode{cpu: 4, zone: "a", ssd: ssd, bad: bad, repels: -1} }
	w := &exactWorld{
		nodes: []exactNode{node(true, false), node(false, false), node(true, true), node(true, true)},
		kinds: []exactKind{{cpu: 4, apart: -1, together: -1},
			{cpu: 4, ssd: true, tolerates: true, apart: -1, together: -1}},
		members: []int{0, 1, 1, 1},
		minimum: 4,
	}
	if placed, planned := w.schedule(t); placed != 4 || !planned || !w.placeable() {
		t.Errorf("placed %d, planned %t; an exact search finds a placement: %t", placed, planned, w.placeable())
	}
}
