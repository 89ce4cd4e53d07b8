package room

import (
	"cmp"
	"math"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Outlook is the cluster as far as it matters for some pods: amounts of the resources that they request, node by node.
type Outlook struct {
	table     *Table
	now       eventlog.Time
	demand    Demand
	grows     bool           // see Demand.trimmed
	pods      []*cluster.Pod // of the demand
	resources []v1.ResourceName
	needs     [][]int64 // by pod
	differs   []bool    // by pod: there is a node for it, or for the one before, that is none for the other
	nodes     []node
	ends      []ending // in the order in which they come
	// moving means that some of the times move on with the clock: they are of pods that have not started yet.
	moving bool
}

type node struct {
	name string
	fits []bool  // by pod: nothing but what its pods hold is in the way
	free []int64 // now
	all  []int64 // when nothing runs there
}

// ending is the time at which pods on a node give back their resources, as they declare.
type ending struct {
	at      eventlog.Time
	node    int
	amounts []int64
}

// Outlook returns the nodes named in within, or all nodes if within is nil, as they matter for the pods of a demand
// now.
func (t *Table) Outlook(now eventlog.Time, demand Demand, within []string) *Outlook {
	t.outlooks++
	demand, grows := demand.trimmed()
	pods := demand.Pods()
	o := &Outlook{table: t, now: now, demand: demand, grows: grows, pods: pods, resources: ResourcesOf(pods)}
	o.differs = make([]bool, len(pods))
	for _, pod := range pods {
		o.needs = append(o.needs, o.amounts(pod))
	}
	nodes, width := t.nodes(within), len(o.resources)
	o.nodes = make([]node, 0, len(nodes))
	amounts := make([]int64, 2*len(nodes)*width)
	for _, info := range nodes {
		n := node{name: info.Node().Name, free: amounts[:width:width], all: amounts[width : 2*width : 2*width]}
		amounts = amounts[2*width:]
		n.fits = eligible(pods, info.Node(), t.comparisons)
		for i := 1; i < len(pods); i++ {
			o.differs[i] = o.differs[i] || n.fits[i] != n.fits[i-1]
		}
		for k, name := range o.resources {
			allocatable, requested := t.cluster.AmountOn(info, name)
			n.free[k] = allocatable - requested
			n.all[k] = allocatable
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

// addEndings adds the endings on a node. Neighbours in the node's list of pods that end at one time, such as the
// members of a gang, become one ending.
func (o *Outlook) addEndings(node int, info fwk.NodeInfo) {
	first := len(o.ends)
	for _, running := range info.GetPods() {
		p := o.table.cluster.Pods().Get(running.GetPod().UID)
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

// EndOf returns the time at which a pod that is bound, or is being bound, gives its node back, as it declares. ok is
// false if it declares nothing. It is also false for a waiting pod, which may be released at any time.
func EndOf(p *cluster.Pod) (at eventlog.Time, ok bool) {
	if p == nil || p.Stage != cluster.Binding && p.Stage != cluster.Bound {
		return 0, false
	}
	return p.Ends()
}

// NumNodes returns on how many nodes the Outlook looks.
func (o *Outlook) NumNodes() int { return len(o.nodes) }

// Earliest returns the earliest time, from now on, at which there is room for the demand, and the places. ok is false
// if the running pods declare no such time. A pod that has run longer than it declared is taken to end now.
//
// The answer depends on the current time only through the set of running pods that are past their declared end. So it
// is the same until the time until, when the next pod will be, as long as no pod comes, goes or changes. With a pod
// that is yet to start (Keep) and declares its duration, it is good for the current time only.
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
	fits := func(i int) bool {
		found, complete := o.placesAt(times[i])
		if !complete {
			return false
		}
		places = found // the last places found are of the earliest time
		return true
	}
	i := 0
	if o.grows {
		i = sort.Search(len(times), fits)
	} else {
		// Later there may be room for a pod that leaves none to others: each time is tried.
		for i < len(times) && !fits(i) {
			i++
		}
	}
	if i == len(times) {
		return 0, nil, until, false
	}
	return times[i], places, until, true
}

// PlacesNow returns places for as many pods of the demand as find room now, one after the other. Example: of pods of 2,
// 9 and 2 cpu, two find room on a node with 4 if the demand skips the second, and one if it does not.
func (o *Outlook) PlacesNow() []eventlog.Place {
	places, _ := o.places(nil)
	return places
}

// FitsNow reports whether there is room for the demand now.
func (o *Outlook) FitsNow() bool {
	_, complete := o.places(nil)
	return complete
}

// FitsEver reports whether there is room for the demand on a cluster on which nothing runs.
func (o *Outlook) FitsEver() bool {
	empty := *o
	empty.nodes = slices.Clone(o.nodes)
	for i := range empty.nodes {
		empty.nodes[i].free = empty.nodes[i].all
	}
	return empty.FitsNow()
}

// placesAt is places at a time.
func (o *Outlook) placesAt(at eventlog.Time) (places []eventlog.Place, complete bool) {
	n, _ := slices.BinarySearchFunc(o.ends, at, func(e ending, at eventlog.Time) int {
		if e.at > at {
			return 1
		}
		return -1
	})
	return o.places(o.ends[:n])
}

// places returns places for the demand when the given pods have ended. complete reports whether all of it has one. It
// prefers room that comes free to room that is free now, so that others keep as much free room as possible. Example:
// with one node free now and one free at 11:00, a pod gets the second one at 11:00.
func (o *Outlook) places(ended []ending) (places []eventlog.Place, complete bool) {
	o.table.trials++
	room := o.roomAfter(ended)
	var most []eventlog.Place
	from, satisfied := 0, 0
	for _, part := range o.demand.Parts {
		before, taken := len(places), room
		if len(o.demand.Parts) > 1 {
			taken = room.clone()
		}
		places = o.placePart(room, from, part, places)
		from += len(part.Pods)
		if len(places) > len(most) {
			most = slices.Clone(places)
		}
		if len(places)-before == part.Wanted {
			satisfied++
		} else if !o.demand.Passing {
			return places, false
		} else {
			places, room = places[:before], taken
		}
		if satisfied == o.demand.Enough {
			return places, true
		}
	}
	return most, false
}

// placePart adds places for as many pods of a part as it wants, the first of which is the from-th of all. Without
// Passing it ends at the first pod for which there is no room.
func (o *Outlook) placePart(room room, from int, part Part, places []eventlog.Place) []eventlog.Place {
	first, firstAny := 0, 0 // where pods like the last one found the first node
	placed := 0
	for i := from; i < from+len(part.Pods) && placed < part.Wanted; i++ {
		if i > from && !o.alike(i) {
			first, firstAny = 0, 0
		}
		node := o.nodeFor(i, &first, func(n, k int) int64 { return room.coming[n][k] + min(0, room.now[n][k]) })
		if node < 0 {
			node = o.nodeFor(i, &firstAny, func(n, k int) int64 { return room.now[n][k] + room.coming[n][k] })
		}
		if node < 0 && o.demand.Passing {
			continue
		}
		if node < 0 {
			break
		}
		for k, need := range o.needs[i] {
			part := min(need, max(0, room.coming[node][k]))
			room.coming[node][k] -= part
			room.now[node][k] -= need - part
		}
		places = append(places, eventlog.Place{UID: o.pods[i].Object.UID, Node: o.nodes[node].name})
		placed++
	}
	return places
}

// room has the nodes' amounts of the resources: free now, and coming free.
type room struct{ now, coming [][]int64 }

// roomAfter returns the room when the given pods have ended.
func (o *Outlook) roomAfter(ended []ending) (r room) {
	n, k := len(o.nodes), len(o.resources)
	r.now, r.coming = make([][]int64, n), make([][]int64, n)
	amounts := make([]int64, 2*n*k) // of all nodes, so that they cost one allocation
	for i := range o.nodes {
		r.now[i], r.coming[i] = amounts[:k:k], amounts[k:2*k:2*k]
		copy(r.now[i], o.nodes[i].free)
		amounts = amounts[2*k:]
	}
	for _, e := range ended {
		for k, amount := range e.amounts {
			r.coming[e.node][k] += amount
		}
	}
	return r
}

func (r room) clone() (c room) {
	for i := range r.now {
		c.now, c.coming = append(c.now, slices.Clone(r.now[i])), append(c.coming, slices.Clone(r.coming[i]))
	}
	return c
}

// alike reports whether a pod needs the same as the one before it, and with Passing also of which nodes.
func (o *Outlook) alike(i int) bool {
	return slices.Equal(o.needs[i-1], o.needs[i]) && !(o.demand.Passing && o.differs[i])
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
