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
	work      *work
}

// work counts, for tests, what is done to find room: the shadows that were made, the trials whether their pods find a node
// each, and how often what stands on a node was gone through to count what is left there beside a reservation.
type work struct{ shadows, trials, counts int }

type shadowNode struct {
	name string
	fits []bool  // by pod: nothing but what its pods hold is in the way
	free []int64 // now
	all  []int64 // when nothing runs there
}

// ending is that of pods that run on a node, by what they declare.
type ending struct {
	at      eventlog.Time
	node    int
	amounts []int64
}

// earliest returns the earliest time from now on at which there is room for the pods, and where; ok is false if there is
// none by what is declared. A pod that has run longer than it declared is taken to end now. Until until, when the next
// one will have, the answer is the same as long as nobody comes or goes.
func (s *shadow) earliest(now eventlog.Time) (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	times := []eventlog.Time{now}
	for _, e := range s.ends {
		if e.at > times[len(times)-1] {
			times = append(times, e.at)
		}
	}
	until = math.MaxInt64
	if len(times) > 1 {
		until = times[1]
	}
	i := sort.Search(len(times), func(i int) bool {
		found := s.place(times[i])
		if len(found) < len(s.pods) {
			return false
		}
		places = found // the last that is found is that of the earliest time
		return true
	})
	if i == len(times) {
		return 0, nil, until, false
	}
	return times[i], places, until, true
}

// shadowOf is the cluster, or one domain of it, as it matters for the pods.
func (m *Machine) shadowOf(pods []*cluster.Pod, within *domain) *shadow {
	m.work.shadows++
	s := &shadow{pods: pods, resources: resourcesOf(pods), work: &m.work}
	for _, p := range pods {
		s.needs = append(s.needs, s.amounts(p))
	}
	for _, info := range m.nodesOf(within) {
		n := shadowNode{name: info.Node().Name, free: make([]int64, len(s.resources)), fits: eligible(pods, info.Node())}
		for k, name := range s.resources {
			allocatable, requested := cluster.AmountOn(info, name)
			n.free[k] = allocatable - requested
			n.all = append(n.all, allocatable)
		}
		s.nodes = append(s.nodes, n)
		m.addEndings(s, len(s.nodes)-1, info)
	}
	slices.SortFunc(s.ends, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
	return s
}

// nodesOf returns the nodes of a domain, or all, by name.
func (m *Machine) nodesOf(within *domain) []fwk.NodeInfo {
	if within == nil {
		nodes, _ := m.cluster.List()
		return nodes
	}
	nodes := make([]fwk.NodeInfo, 0, len(within.names))
	for _, name := range within.names {
		if info, err := m.cluster.Get(name); err == nil {
			nodes = append(nodes, info)
		}
	}
	return nodes
}

// addEndings adds the endings on a node. Pods that stand there one behind the other and end at one time, as those of a gang
// do, are one ending.
func (m *Machine) addEndings(s *shadow, node int, info fwk.NodeInfo) {
	first := len(s.ends)
	for _, running := range info.GetPods() {
		p := m.cluster.Pod(running.GetPod().UID)
		at, ok := endOf(p)
		if !ok {
			continue
		}
		at = max(at, m.now)
		if last := len(s.ends) - 1; last >= first && s.ends[last].at == at {
			for k, name := range s.resources {
				s.ends[last].amounts[k] += p.Amount(name)
			}
			continue
		}
		s.ends = append(s.ends, ending{at, node, s.amounts(p)})
	}
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
	add := func(name v1.ResourceName, amount int64) {
		if amount > 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, p := range pods {
		r := p.Requests()
		add(v1.ResourceCPU, r.GetMilliCPU())
		add(v1.ResourceMemory, r.GetMemory())
		add(v1.ResourceEphemeralStorage, r.GetEphemeralStorage())
		// any order: sorted below
		for name, amount := range r.GetScalarResources() {
			add(name, amount)
		}
	}
	slices.Sort(names)
	return names
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
	wasPlain := false
	for i, p := range pods {
		plain := asksNothing(p.Object)
		if plain && wasPlain {
			out[i] = out[i-1]
			continue
		}
		out[i] = wouldDo(p.Object, node)
		wasPlain = plain
	}
	return out
}

// asksNothing says that a pod asks nothing of a node but for resources: what one such pod may do, all may.
func asksNothing(p *v1.Pod) bool {
	return len(p.Spec.NodeSelector) == 0 && p.Spec.Affinity == nil && len(p.Spec.Tolerations) == 0
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

// countEmpty is how many of the pods find a node on a cluster on which nothing runs.
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
	s.work.trials++
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
		k := g.Min() - g.Assigned() - g.Waiting()
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
