package outlook

import (
	"cmp"
	"math"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Cluster is the state that an Outlook is made of; *cluster.State implements it.
type Cluster interface {
	// List returns all nodes by name.
	List() ([]fwk.NodeInfo, error)
	// Get returns one node; the error says that it is not there.
	Get(node string) (fwk.NodeInfo, error)
	// Pod returns the pod of that UID, nil if there is none.
	Pod(uid types.UID) *cluster.Pod
}

// Projector makes Outlooks of a cluster.
type Projector struct {
	cluster          Cluster
	outlooks, trials int
	comparisons      bool // see CompareTolerations
}

// NewProjector returns a Projector that looks at the cluster.
func NewProjector(c Cluster) *Projector { return &Projector{cluster: c} }

// CompareTolerations sets whether tolerations with the operators Lt and Gt count, as the feature gate
// TaintTolerationComparisonOperators says. Without the call they do not.
func (p *Projector) CompareTolerations(yes bool) { p.comparisons = yes }

// Work returns how many Outlooks were made, and how often it was tried whether their pods find a node each. Tests bound
// both.
func (p *Projector) Work() (outlooks, trials int) { return p.outlooks, p.trials }

// Outlook is the cluster as far as it matters for some pods: amounts of the resources that they request, node by node.
type Outlook struct {
	projector *Projector
	now       eventlog.Time
	pods      []*cluster.Pod
	resources []v1.ResourceName
	needs     [][]int64 // by pod
	nodes     []node
	ends      []ending // in the order in which they come
	// moving says that some of the times move on with the clock: those of pods that have not started yet.
	moving bool
	// passing says that pods for which there is no room are passed over.
	passing bool
}

type node struct {
	name string
	fits []bool  // by pod: nothing but what its pods hold is in the way
	free []int64 // now
	all  []int64 // when nothing runs there
}

// ending is when pods that run on a node give back what they hold, by what they declare.
type ending struct {
	at      eventlog.Time
	node    int
	amounts []int64
}

// Outlook returns the nodes named in within, or all nodes if within is nil, as they matter for the pods now.
func (p *Projector) Outlook(now eventlog.Time, pods []*cluster.Pod, within []string) *Outlook {
	p.outlooks++
	o := &Outlook{projector: p, now: now, pods: pods, resources: ResourcesOf(pods)}
	for _, pod := range pods {
		o.needs = append(o.needs, o.amounts(pod))
	}
	for _, info := range p.nodes(within) {
		n := node{name: info.Node().Name, free: make([]int64, len(o.resources))}
		n.fits = eligible(pods, info.Node(), p.comparisons)
		for k, name := range o.resources {
			allocatable, requested := cluster.AmountOn(info, name)
			n.free[k] = allocatable - requested
			n.all = append(n.all, allocatable)
		}
		o.nodes = append(o.nodes, n)
		o.addEndings(len(o.nodes)-1, info)
	}
	o.sortEndings()
	return o
}

func (o *Outlook) sortEndings() {
	slices.SortStableFunc(o.ends, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
}

// Free counts a pod, which stands on one of the nodes, as taken off it.
func (o *Outlook) Free(p *cluster.Pod) {
	for i := range o.nodes {
		if o.nodes[i].name != p.Node {
			continue
		}
		for k, amount := range o.amounts(p) {
			o.nodes[i].free[k] += amount
		}
	}
}

// Keep counts a pod that has no node yet as if it started now on a node where room is kept for it: it ends when it
// declares to, or never.
func (o *Outlook) Keep(p *cluster.Pod, on string) {
	i := slices.IndexFunc(o.nodes, func(n node) bool { return n.name == on })
	if i < 0 {
		return
	}
	amounts := o.amounts(p)
	for k, amount := range amounts {
		o.nodes[i].free[k] -= amount
	}
	if p.Life() > 0 {
		o.moving = true
		o.ends = append(o.ends, ending{o.now.Add(p.Life()), i, amounts})
		o.sortEndings()
	}
}

func (p *Projector) nodes(within []string) []fwk.NodeInfo {
	if within == nil {
		nodes, _ := p.cluster.List()
		return nodes
	}
	nodes := make([]fwk.NodeInfo, 0, len(within))
	for _, name := range within {
		if info, err := p.cluster.Get(name); err == nil {
			nodes = append(nodes, info)
		}
	}
	return nodes
}

// addEndings adds the endings on a node. Neighbours in the node's list of pods that end at one time, such as the
// members of a gang, become one ending.
func (o *Outlook) addEndings(node int, info fwk.NodeInfo) {
	first := len(o.ends)
	for _, running := range info.GetPods() {
		p := o.projector.cluster.Pod(running.GetPod().UID)
		at, ok := EndOf(p)
		if !ok {
			continue
		}
		at = max(at, o.now)
		if last := len(o.ends) - 1; last >= first && o.ends[last].at == at {
			for k, name := range o.resources {
				o.ends[last].amounts[k] += p.Amount(name)
			}
			continue
		}
		o.ends = append(o.ends, ending{at, node, o.amounts(p)})
	}
}

func (o *Outlook) amounts(p *cluster.Pod) []int64 {
	out := make([]int64, len(o.resources))
	for k, name := range o.resources {
		out[k] = p.Amount(name)
	}
	return out
}

// EndOf returns when a pod that is bound, or is being bound, gives its node back by what it declares; ok is false if it
// declares nothing, or has no node for good. A waiting pod has none: it may be released at any time.
func EndOf(p *cluster.Pod) (at eventlog.Time, ok bool) {
	if p == nil || p.Stage != cluster.Binding && p.Stage != cluster.Bound {
		return 0, false
	}
	return p.Ends()
}

// ResourcesOf returns the resources that the pods request any of, sorted. The number of pods that a node takes is one
// of them.
func ResourcesOf(pods []*cluster.Pod) []v1.ResourceName {
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

// NumNodes returns on how many nodes the Outlook looks.
func (o *Outlook) NumNodes() int { return len(o.nodes) }

// Earliest returns the earliest time, from now on, at which there is room for all of the pods, and where; ok is false
// if there is no such time by what the running pods declare. A pod that has run longer than it declared is taken to end
// now.
//
// The answer depends on the current time only by which of the running pods are past their declared end. So it is the
// same until the time until, when the next one will be, as long as no pod comes, goes or changes. With a pod that is
// yet to start (Keep) and declares how long it runs, it is good for the current time only.
func (o *Outlook) Earliest() (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	times := []eventlog.Time{o.now}
	for _, e := range o.ends {
		if e.at > times[len(times)-1] {
			times = append(times, e.at)
		}
	}
	until = math.MaxInt64
	if len(times) > 1 {
		until = times[1]
	}
	if o.moving {
		until = o.now + 1
	}
	i := sort.Search(len(times), func(i int) bool {
		found := o.placesAt(times[i])
		if len(found) < len(o.pods) {
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

// PlacesNow returns a place for each pod, one after the other, up to the first one for which there is no room now.
func (o *Outlook) PlacesNow() []eventlog.Place { return o.places(nil) }

// PlacesNowFor counts places for so many of the pods now, one after the other. Pods for which there is no room are
// passed over. Example: of pods of 2, 9 and 2 cpu, two find room on a node with 4.
func (o *Outlook) PlacesNowFor(wanted int) int {
	tried := *o
	tried.passing = true
	return len(tried.placesFor(wanted, nil))
}

// FitsNow reports whether there is room for all of the pods now.
func (o *Outlook) FitsNow() bool { return len(o.places(nil)) == len(o.pods) }

// FitsEver reports whether there is room for all of the pods on a cluster on which nothing runs.
func (o *Outlook) FitsEver() bool {
	empty := *o
	empty.nodes = slices.Clone(o.nodes)
	for i := range empty.nodes {
		empty.nodes[i].free = empty.nodes[i].all
	}
	return len(empty.places(nil)) == len(o.pods)
}

// RoomForFirst returns how many pods like the first one find room now.
func (o *Outlook) RoomForFirst() int {
	total := 0
	for i := range o.nodes {
		if !o.nodes[i].fits[0] {
			continue
		}
		room := -1
		for k, need := range o.needs[0] {
			if n := int(max(0, o.nodes[i].free[k]) / max(1, need)); need > 0 && (room < 0 || n < room) {
				room = n
			}
		}
		total += max(0, room)
	}
	return total
}

// placesAt returns a place for each pod at a time, up to the first one for which there is no room then.
func (o *Outlook) placesAt(at eventlog.Time) []eventlog.Place {
	n, _ := slices.BinarySearchFunc(o.ends, at, func(e ending, at eventlog.Time) int {
		if e.at > at {
			return 1
		}
		return -1
	})
	return o.places(o.ends[:n])
}

// places returns a place for each pod when the given pods have ended, up to the first one for which there is no room
// then. It takes room that comes free before room that is free now, so that as much as possible of what is free now is
// left to others. Example: with one node free now and one free at 11:00, a pod gets the second one at 11:00.
func (o *Outlook) places(ended []ending) []eventlog.Place { return o.placesFor(len(o.pods), ended) }

// placesFor is places for so many of the pods.
func (o *Outlook) placesFor(wanted int, ended []ending) []eventlog.Place {
	o.projector.trials++
	coming := make([][]int64, len(o.nodes))
	for i := range o.nodes {
		coming[i] = make([]int64, len(o.resources))
	}
	for _, e := range ended {
		for k, amount := range e.amounts {
			coming[e.node][k] += amount
		}
	}
	now := make([][]int64, len(o.nodes))
	for i := range o.nodes {
		now[i] = slices.Clone(o.nodes[i].free)
	}
	places := make([]eventlog.Place, 0, wanted)
	first, firstAny := 0, 0 // where pods like the last one found the first node
	for i, p := range o.pods {
		if len(places) == wanted {
			break
		}
		if i > 0 && !o.alike(i-1, i) {
			first, firstAny = 0, 0
		}
		node := o.nodeFor(i, &first, func(n, k int) int64 { return coming[n][k] + min(0, now[n][k]) })
		if node < 0 {
			node = o.nodeFor(i, &firstAny, func(n, k int) int64 { return now[n][k] + coming[n][k] })
		}
		if node < 0 && o.passing {
			continue
		}
		if node < 0 {
			return places
		}
		for k, need := range o.needs[i] {
			part := min(need, max(0, coming[node][k]))
			coming[node][k] -= part
			now[node][k] -= need - part
		}
		places = append(places, eventlog.Place{UID: p.Object.UID, Node: o.nodes[node].name})
	}
	return places
}

// alike reports whether two pods need the same, and with passing also of which nodes.
func (o *Outlook) alike(i, j int) bool {
	if !slices.Equal(o.needs[i], o.needs[j]) {
		return false
	}
	return !o.passing || asksNothing(o.pods[i].Object) && asksNothing(o.pods[j].Object)
}

// nodeFor returns the first node, from *from on, that has enough of everything, -1 for none, and moves *from there. A
// later pod that needs the same begins there: the nodes before it have too little for that pod, too.
func (o *Outlook) nodeFor(pod int, from *int, has func(node, resource int) int64) int {
	for n := *from; n < len(o.nodes); n++ {
		enough := o.nodes[n].fits[pod]
		for k, need := range o.needs[pod] {
			enough = enough && (need == 0 || has(n, k) >= need)
		}
		if enough {
			*from = n
			return n
		}
	}
	*from = len(o.nodes)
	return -1
}
