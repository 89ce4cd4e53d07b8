package scheduler

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// When there will be room for an entity that does not fit now, by what is declared of the pods that run.

// shadow is the cluster as far as it matters for some pods: amounts of the resources that they request, node by node.
type shadow struct {
	pods      []*cluster.Pod
	resources []v1.ResourceName
	needs     [][]int64 // by pod
	nodes     []shadowNode
	ends      []ending // in the order in which they come
}

type shadowNode struct {
	name string
	fits []bool  // by pod: nothing but what its pods hold is in the way
	free []int64 // now
	all  []int64 // when nothing runs there
}

// ending is that of a pod that runs, by what it declares.
type ending struct {
	at      eventlog.Time
	node    int
	pod     *cluster.Pod
	amounts []int64
}

// shadowTime returns the earliest time at which there is room for the pods, and where; ok is false if there is none by
// what is declared. A pod that has run longer than it declared is taken to end now. Until until, when the next one will
// have, the answer is the same as long as nobody comes or goes.
func (m *Machine) shadowTime(pods []*cluster.Pod) (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	s := m.shadowOf(pods, nil)
	times := []eventlog.Time{m.now}
	for _, e := range s.ends {
		if e.at > times[len(times)-1] {
			times = append(times, e.at)
		}
	}
	until = math.MaxInt64
	if len(times) > 1 {
		until = times[1]
	}
	i := sort.Search(len(times), func(i int) bool { return s.count(times[i]) == len(pods) })
	if i == len(times) {
		return 0, nil, until, false
	}
	return times[i], s.place(times[i]), until, true
}

// shadowOf is the cluster, or one domain of it, as it matters for the pods.
func (m *Machine) shadowOf(pods []*cluster.Pod, within *domain) *shadow {
	s := &shadow{pods: pods, resources: resourcesOf(pods)}
	for _, p := range pods {
		s.needs = append(s.needs, s.amounts(p))
	}
	nodes, _ := m.cluster.List()
	for _, info := range nodes {
		if within != nil && !within.nodes[info.Node().Name] {
			continue
		}
		i := len(s.nodes)
		n := shadowNode{name: info.Node().Name, free: make([]int64, len(s.resources)), fits: eligible(pods, info.Node())}
		for k, name := range s.resources {
			allocatable, requested := cluster.AmountOn(info, name)
			n.free[k] = allocatable - requested
			n.all = append(n.all, allocatable)
		}
		s.nodes = append(s.nodes, n)
		for _, running := range info.GetPods() {
			p := m.cluster.Pod(running.GetPod().UID)
			if at, ok := endOf(p); ok {
				s.ends = append(s.ends, ending{max(at, m.now), i, p, s.amounts(p)})
			}
		}
	}
	slices.SortFunc(s.ends, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node), cmp.Compare(a.pod.Object.UID, b.pod.Object.UID))
	})
	return s
}

// endOf returns when a pod that has its node for good will give it back, by what it declares.
func endOf(p *cluster.Pod) (at eventlog.Time, ok bool) {
	if p == nil || p.Stage != cluster.Binding && p.Stage != cluster.Bound {
		return 0, false
	}
	return p.Ends()
}

// resourcesOf returns what the pods request any of, sorted; each takes a place among a node's pods.
func resourcesOf(pods []*cluster.Pod) []v1.ResourceName {
	names := []v1.ResourceName{v1.ResourcePods}
	for _, p := range pods {
		r := p.Requests()
		for _, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
			if p.Amount(name) > 0 {
				names = append(names, name)
			}
		}
		// any order: sorted below
		for name, amount := range r.GetScalarResources() {
			if amount > 0 {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *shadow) amounts(p *cluster.Pod) []int64 {
	out := make([]int64, len(s.resources))
	for k, name := range s.resources {
		out[k] = p.Amount(name)
	}
	return out
}

// eligible says of each pod whether the node would do for it if it were empty.
func eligible(pods []*cluster.Pod, node *v1.Node) []bool {
	out := make([]bool, len(pods))
	for i, p := range pods {
		if i > 0 && sameDemands(p.Object, pods[i-1].Object) {
			out[i] = out[i-1]
			continue
		}
		out[i] = wouldDo(p.Object, node)
	}
	return out
}

// sameDemands says, if quickly seen, that two pods ask the same of a node but for resources.
func sameDemands(a, b *v1.Pod) bool {
	plain := func(p *v1.Pod) bool {
		return len(p.Spec.NodeSelector) == 0 && p.Spec.Affinity == nil && len(p.Spec.Tolerations) == 0
	}
	return plain(a) && plain(b)
}

func wouldDo(pod *v1.Pod, node *v1.Node) bool {
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, &cordon, false) {
		return false
	}
	hinders := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}
	if _, untolerated := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, hinders, false); untolerated {
		return false
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && match
}

// count returns how many of the pods, one after the other, find a node at a time.
func (s *shadow) count(at eventlog.Time) int { return len(s.place(at)) }

// place finds a node for each pod at a time, until it finds none for one. Room that comes free until then is taken
// before room that is free now, so that who passes finds as much of that as can be.
func (s *shadow) place(at eventlog.Time) []eventlog.Place {
	n, _ := slices.BinarySearchFunc(s.ends, at, func(e ending, at eventlog.Time) int {
		if e.at > at {
			return 1
		}
		return -1
	})
	return s.placeIn(s.ends[:n])
}

// countEmpty is count of a cluster on which nothing runs.
func (s *shadow) countEmpty() int {
	empty := *s
	empty.nodes = slices.Clone(s.nodes)
	for i := range empty.nodes {
		empty.nodes[i].free = empty.nodes[i].all
	}
	return len(empty.placeIn(nil))
}

// placeIn is place when those that are given have ended.
func (s *shadow) placeIn(ended []ending) []eventlog.Place {
	coming := make([][]int64, len(s.nodes))
	for i := range s.nodes {
		coming[i] = make([]int64, len(s.resources))
	}
	for _, e := range ended {
		for k, amount := range e.amounts {
			coming[e.node][k] += amount
		}
	}
	now := make([][]int64, len(s.nodes))
	for i := range s.nodes {
		now[i] = slices.Clone(s.nodes[i].free)
	}
	places := make([]eventlog.Place, 0, len(s.pods))
	first, firstAny := 0, 0 // where pods like the last one found the first node
	for i, p := range s.pods {
		if i > 0 && !slices.Equal(s.needs[i], s.needs[i-1]) {
			first, firstAny = 0, 0
		}
		node := s.nodeFor(i, &first, func(n, k int) int64 { return coming[n][k] + min(0, now[n][k]) })
		if node < 0 {
			node = s.nodeFor(i, &firstAny, func(n, k int) int64 { return now[n][k] + coming[n][k] })
		}
		if node < 0 {
			return places
		}
		for k, need := range s.needs[i] {
			part := min(need, max(0, coming[node][k]))
			coming[node][k] -= part
			now[node][k] -= need - part
		}
		places = append(places, eventlog.Place{UID: p.Object.UID, Node: s.nodes[node].name})
	}
	return places
}

// nodeFor returns the first node, from *from on, that has enough of everything, -1 for none, and moves *from there: for a
// pod that needs the same those before it have not either.
func (s *shadow) nodeFor(pod int, from *int, has func(node, resource int) int64) int {
	for n := *from; n < len(s.nodes); n++ {
		enough := s.nodes[n].fits[pod]
		for k, need := range s.needs[pod] {
			enough = enough && (need == 0 || has(n, k) >= need)
		}
		if enough {
			*from = n
			return n
		}
	}
	*from = len(s.nodes)
	return -1
}

// needed returns the pods that the entity must place at once: of a gang as many as it lacks, of a composite those of the
// first gangs that are enough. nil if it has not as many.
func (m *Machine) needed(e *queue.Entity) []*cluster.Pod {
	if e.Type() == fwk.PodKeyType {
		if next := e.Next(); next != nil {
			return []*cluster.Pod{m.cluster.Pod(next.UID)}
		}
		return nil
	}
	gangs := m.gangsOf(e.Key())
	want := len(gangs)
	if c := m.compositeOf(e); c != nil {
		want = c.Min()
	}
	var pods []*cluster.Pod
	for _, g := range gangs {
		if want == 0 {
			break
		}
		k := g.Min() - g.Assigned()
		var members []*cluster.Pod
		for _, pod := range e.Ready() {
			if p := m.cluster.Pod(pod.UID); p.Group == g && len(members) < k {
				members = append(members, p)
			}
		}
		if len(members) < k {
			continue
		}
		pods = append(pods, members...)
		want--
	}
	if want > 0 {
		return nil
	}
	return pods
}
