package room

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Horizon gives the answers of an Outlook of all nodes, for a demand of pods that are alike, without a walk over the
// nodes. It keeps how many of the pods each node takes, and when it takes more, and examines only nodes that have
// changed. It is a memo: an Outlook of the same demand gives the same answers.
//
// Sums are enough, because one pod takes the place of another if all pods need the same. So there is room for the
// demand as soon as the nodes take as many pods together as it wants, each node by itself.
//
// Example: of pods with 2 cpu, node a takes one now and another one from 10:00 on, node b takes one from 11:00 on. The
// base is [1 0], and the steps are [10:00 a +1, 11:00 b +1]. A demand for 3 has room at 11:00.
type Horizon struct {
	table     *Table
	like      *v1.Pod // one of the pods
	resources []v1.ResourceName
	needs     []int64
	devices   []bool // by resource: whether it was a name for devices

	nodes       []horizonNode
	total       int64  // of all nodes' base
	steps       []step // by time, then node
	changes     uint64 // the change up to which nodes were examined
	inputs      uint64
	allowed     uint64
	wanted      int64
	pods        []*cluster.Pod // of the demand that was asked about last
	now         eventlog.Time
	initialised bool
	came        []cameOn // the memory of cameFree
}

// horizonNode is the part of a Horizon about one node.
type horizonNode struct {
	info       fwk.NodeInfo
	generation int64
	base       int32 // how many of the pods it takes now, when none has ended
	fits       bool  // nothing but what its pods hold is in the way
}

// step is the end of pods that run on a node, with the number of pods of the demand that the node takes in addition
// from then on. A step by none is kept, because room that has come free is taken before other room.
type step struct {
	at   eventlog.Time // as declared, also if it is past
	node int32
	more int32
}

// maxHorizons bounds for how many kinds of pods Horizons are kept. The one that was not asked for longest goes first.
const maxHorizons = 16

// Horizon returns the Horizon of a demand, of all nodes now. ok is false if its pods are not alike, or it has several
// parts. The next call changes it.
func (t *Table) Horizon(now eventlog.Time, demand Demand) (h *Horizon, ok bool) {
	if len(demand.Parts) != 1 || demand.Enough != 1 {
		return nil, false
	}
	pods, wanted := demand.Parts[0].Pods, demand.Parts[0].Wanted
	if wanted < 1 || wanted > len(pods) || wanted >= mostOnNode || !demand.Passing && wanted != len(pods) ||
		!interchangeable(pods) {
		return nil, false
	}
	h = t.horizonOf(pods[0])
	h.now, h.pods, h.wanted = now, pods, int64(wanted)
	h.refresh()
	return h, true
}

// Walked returns how often the pods of a node were gone through for a Horizon. Tests bound it.
func (t *Table) Walked() int { return t.walked }

// horizonOf returns the Horizon for pods like this one, which becomes the first of all.
func (t *Table) horizonOf(pod *cluster.Pod) *Horizon {
	resources := ResourcesOf([]*cluster.Pod{pod})
	needs := make([]int64, len(resources))
	for k, name := range resources {
		needs[k] = pod.Amount(name)
	}
	at := slices.IndexFunc(t.horizons, func(h *Horizon) bool {
		return slices.Equal(h.resources, resources) && slices.Equal(h.needs, needs) && sameNodes(h.like, pod.Object)
	})
	var h *Horizon
	switch {
	case at >= 0:
		h = t.horizons[at]
		t.horizons = slices.Delete(t.horizons, at, at+1)
	default:
		h = &Horizon{table: t, like: pod.Object, resources: resources, needs: needs,
			devices: make([]bool, len(resources))}
		t.horizons = t.horizons[:min(len(t.horizons), maxHorizons-1)]
	}
	t.horizons = slices.Insert(t.horizons, 0, h)
	return h
}

// refresh looks again at the nodes that have changed, or at all of them if it is not known which have.
func (h *Horizon) refresh() {
	c := h.table.cluster
	list, _ := c.Nodes().List()
	places, now, known := c.Nodes().ChangedSince(h.changes)
	inputs, allowed := c.Changed(cluster.PluginInputs), c.Changed(cluster.PodAllowed)
	// After PluginInputs the places may be of another list. After PodAllowed the ends of a node's pods may differ,
	// although the node's generation is the same.
	known = known && h.inputs == inputs
	devices := h.sameDevices() // which notes how they stand, also where all is counted anyway
	switch {
	case !h.initialised || !devices || !h.sameList(list) || !known && h.allowed != allowed:
		h.countAll(list)
	case known:
		h.recount(places)
	default:
		h.recount(h.otherGenerations())
	}
	h.initialised, h.changes, h.inputs, h.allowed = true, now, inputs, allowed
}

// sameDevices notes which resources are names for devices, and reports whether they are the same as before.
func (h *Horizon) sameDevices() bool {
	same := true
	for k, name := range h.resources {
		stands := h.table.cluster.Devices().Stands(name)
		same = same && h.devices[k] == stands
		h.devices[k] = stands
	}
	return same
}

func (h *Horizon) sameList(list []fwk.NodeInfo) bool {
	if len(list) != len(h.nodes) {
		return false
	}
	if h.inputs == h.table.cluster.Changed(cluster.PluginInputs) {
		return true // no node has come or gone
	}
	for i := range list {
		if h.nodes[i].info != list[i] {
			return false
		}
	}
	return true
}

func (h *Horizon) otherGenerations() (places []int32) {
	for i := range h.nodes {
		if h.nodes[i].generation != h.nodes[i].info.GetGeneration() {
			places = append(places, int32(i))
		}
	}
	return places
}

func (h *Horizon) countAll(list []fwk.NodeInfo) {
	h.nodes, h.steps, h.total = make([]horizonNode, len(list)), h.steps[:0], 0
	for i, info := range list {
		h.nodes[i].info = info
		h.steps = h.count(int32(i), h.steps)
	}
	slices.SortFunc(h.steps, compareSteps)
}

func compareSteps(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node)) }

// recount looks at some nodes again.
func (h *Horizon) recount(places []int32) {
	if len(places) == 0 {
		return
	}
	places = slices.Clone(places)
	slices.Sort(places)
	places = slices.Compact(places)
	var again []step
	for _, n := range places {
		again = h.count(n, again)
	}
	slices.SortFunc(again, compareSteps)
	old := slices.DeleteFunc(h.steps, func(s step) bool {
		_, changed := slices.BinarySearch(places, s.node)
		return changed
	})
	// From the end, so that each element moves at most once.
	i, j := len(old)-1, len(again)-1
	h.steps = append(old, again...)
	for at := len(h.steps) - 1; j >= 0; at-- {
		if i >= 0 && compareSteps(h.steps[i], again[j]) > 0 {
			h.steps[at] = h.steps[i]
			i--
		} else {
			h.steps[at] = again[j]
			j--
		}
	}
}

// count looks at a node and its pods, and appends its steps by time.
func (h *Horizon) count(n int32, steps []step) []step {
	h.table.walked++
	node := &h.nodes[n]
	h.total -= int64(node.base)
	node.generation, node.base = node.info.GetGeneration(), 0
	node.fits = mayRunOn(h.like, node.info.Node(), h.table.comparisons)
	if !node.fits {
		return steps
	}
	free, ends := h.free(node.info), h.endsOn(node.info)
	node.base = h.takes(free)
	h.total += int64(node.base)
	before := node.base
	for _, e := range ends {
		for k, name := range h.resources {
			free[k] += e.pod.Amount(name)
		}
		takes := h.takes(free)
		steps = append(steps, step{e.at, n, takes - before})
		before = takes
	}
	return steps
}

// free returns the free amounts of a node, by resource.
func (h *Horizon) free(info fwk.NodeInfo) []int64 {
	free := make([]int64, len(h.resources))
	for k, name := range h.resources {
		allocatable, requested := h.table.cluster.AmountOn(info, name)
		free[k] = allocatable - requested
	}
	return free
}

// endOn is the time at which a pod ends, as it declares.
type endOn struct {
	at  eventlog.Time
	pod *cluster.Pod
}

// endsOn returns the pods on a node of which it is known when they end, by that time.
func (h *Horizon) endsOn(info fwk.NodeInfo) (ends []endOn) {
	for _, running := range info.GetPods() {
		p := h.table.cluster.Pods().Get(running.GetPod().UID)
		if at, ok := EndOf(p); ok {
			ends = append(ends, endOn{at, p})
		}
	}
	slices.SortStableFunc(ends, func(a, b endOn) int { return cmp.Compare(a.at, b.at) })
	return ends
}

// takes returns how many of the pods find room in some amounts.
func (h *Horizon) takes(amounts []int64) int32 {
	most := int64(mostOnNode)
	for k, need := range h.needs {
		if need > 0 {
			most = min(most, max(0, amounts[k])/need)
		}
	}
	return int32(most)
}

// FitsNow is as Outlook.FitsNow.
func (h *Horizon) FitsNow() bool { return h.total >= h.wanted }

// Earliest is as Outlook.Earliest.
func (h *Horizon) Earliest() (at eventlog.Time, places []eventlog.Place, until eventlog.Time, ok bool) {
	until = math.MaxInt64
	past, _ := slices.BinarySearchFunc(h.steps, h.now, func(s step, now eventlog.Time) int {
		if s.at > now {
			return 1
		}
		return -1
	})
	if past < len(h.steps) {
		until = h.steps[past].at
	}
	total := h.total
	for i := range past {
		total += int64(h.steps[i].more)
	}
	at, ended := h.now, past
	for total < h.wanted && ended < len(h.steps) {
		at = h.steps[ended].at
		for ; ended < len(h.steps) && h.steps[ended].at == at; ended++ {
			total += int64(h.steps[ended].more)
		}
	}
	if total < h.wanted {
		return 0, nil, until, false
	}
	return at, h.places(at, h.steps[:ended]), until, true
}

// places returns places for the pods when the pods of the given steps have ended by a time. Room that has come free is
// taken before room that is free now, each in the order of the nodes.
func (h *Horizon) places(at eventlog.Time, ended []step) []eventlog.Place {
	places := make([]eventlog.Place, 0, h.wanted)
	put := func(node int32, pods int32) {
		for ; pods > 0 && len(places) < int(h.wanted); pods-- {
			uid := h.pods[len(places)].Object.UID
			places = append(places, eventlog.Place{UID: uid, Node: h.nodes[node].info.Node().Name})
		}
	}
	came := h.cameFree(ended)
	// The steps say how many pods a node takes in all. The room that has come free matters only if that is more than 0.
	for n := range came {
		if c := &came[n]; c.ended && c.takes > 0 {
			first := h.takesFirst(h.nodes[n].info, at)
			c.takes -= first
			if put(int32(n), first); len(places) == int(h.wanted) {
				return places
			}
		}
	}
	for n := range came {
		if put(int32(n), came[n].takes); len(places) == int(h.wanted) {
			break
		}
	}
	return places
}

// cameOn has the number of the pods that a node takes once some steps have ended, and whether any of these steps is of
// the node.
type cameOn struct {
	takes int32
	ended bool
}

// cameFree returns cameOn for all nodes. It is valid until the next call.
func (h *Horizon) cameFree(ended []step) []cameOn {
	h.came = slices.Grow(h.came[:0], len(h.nodes))[:len(h.nodes)]
	for n := range h.nodes {
		h.came[n] = cameOn{takes: h.nodes[n].base}
	}
	for _, s := range ended {
		h.came[s.node].takes += s.more
		h.came[s.node].ended = true
	}
	return h.came
}

// takesFirst returns how many of the pods find room on a node in the room that has come free there by a time.
func (h *Horizon) takesFirst(info fwk.NodeInfo, at eventlog.Time) int32 {
	h.table.walked++
	coming := h.free(info)
	for k := range coming {
		coming[k] = min(0, coming[k])
	}
	for _, e := range h.endsOn(info) {
		if e.at > at {
			break
		}
		for k, name := range h.resources {
			coming[k] += e.pod.Amount(name)
		}
	}
	return h.takes(coming)
}
