package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

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
	victims int // how many pods schedule has evicted
	plans   int // how many plans schedule has seen
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
		if !ok {
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

func cpus(n int) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// addNodes puts the nodes and the pods on them.
func (w *exactWorld) addNodes(put func(eventlog.Resource, eventlog.Object)) {
	for i, n := range w.nodes {
		name := fmt.Sprintf("n%d", i)
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Labels = map[string]string{byHost: name, byZone: n.zone}
		if n.rack != "" {
			node.Labels[byRack] = n.rack
		}
		if n.ssd {
			node.Labels["disk"] = "ssd"
		}
		if n.bad {
			node.Spec.Taints = []v1.Taint{{Key: "bad", Effect: v1.TaintEffectNoSchedule}}
		}
		node.Status.Allocatable = cpus(n.cpu)
		node.Status.Allocatable[v1.ResourcePods] = resource.MustParse("99")
		put(eventlog.Nodes, node)
		on := func(name string, cpu, repels int) {
			put(eventlog.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
				Spec: v1.PodSpec{NodeName: node.Name, SchedulerName: "other", Containers: []v1.Container{
					{Name: "c", Resources: v1.ResourceRequirements{Requests: cpus(cpu)}}},
					Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: kindTerms(repels, byHost)}}}})
		}
		rest := n.used
		for j, cpu := range n.pods {
			on(podName(i, j), cpu, -1)
			rest -= cpu
		}
		if rest > 0 || n.repels >= 0 {
			on("on-"+name, rest, n.repels)
		}
	}
}

// declare puts the gangs, and the composite above several.
func (w *exactWorld) declare(put func(eventlog.Resource, eventlog.Object)) {
	w.declareAbove(put)
	if len(w.minima) > 1 && w.above == nil {
		c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all"}}
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(w.needed)}
		put(eventlog.CompositePodGroups, c)
	}
	for i, minimum := range w.minima {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: gangName(i)}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(max(1, minimum))}
		label := ""
		if w.above != nil {
			g.Spec.ParentCompositePodGroupName, label = ptr.To(compositeName(w.under[i])), w.by[i]
		} else if len(w.minima) > 1 {
			g.Spec.ParentCompositePodGroupName = ptr.To("all")
		}
		if w.oneZone {
			label = byZone
		}
		if label != "" {
			g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
				Topology: []schedulingv1beta1.TopologyConstraint{{Key: label}}}
		}
		if w.prefers && !w.oneZone {
			g.Annotations = map[string]string{"rollcall.dev/topology-preferred": byZone}
		}
		put(eventlog.PodGroups, g)
	}
}

func gangName(i int) string { return fmt.Sprintf("g%d", i) }

func (w *exactWorld) pod(i, k int) *v1.Pod {
	kind := w.kinds[k]
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("m%d", i), Labels: map[string]string{
		"kind": fmt.Sprint(k)}}}
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To(gangName(w.gangs[i]))}
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
		members: []int{0, 1}, gangs: []int{0, 0}, minima: []int{2}, needed: 1, priority: 1}
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

// TestAnElasticGangIsPlannedOnce has a gang that needs two of its three members. In the order of the names the third
// one finds no node.
func TestAnElasticGangIsPlannedOnce(t *testing.T) {
	w := &exactWorld{kinds: []exactKind{{cpu: 2, apart: -1, together: -1}, {cpu: 8, apart: -1, together: -1}},
		members: []int{0, 0, 1}, gangs: make([]int, 3), minima: []int{2}, needed: 1}
	for _, cpu := range []int{4, 8} {
		w.nodes = append(w.nodes, exactNode{cpu: cpu, zone: "a", repels: -1})
	}
	if placed, _ := w.schedule(t); !slices.Equal(placed, []int{3}) || w.plans != 1 {
		t.Errorf("placed %v with %d plans, want all three with one", placed, w.plans)
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
		members: []int{0, 1, 1, 1}, gangs: make([]int, 4),
		minima: []int{4}, needed: 1,
	}
	if placed, planned := w.schedule(t); !w.all(placed) || !planned || !w.placeable(w.all) {
		t.Errorf("placed %v, planned %t; an exact search finds a placement: %t", placed, planned, w.placeable(w.all))
	}
}
