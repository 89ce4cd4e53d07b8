package room

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Rule says which pods count as gone when places are counted. Example: a node with 8 GPUs has 5 held by a pod of
// priority 9, and 2 by one of priority 1. For pods of one GPU it has 8 places by Empty, and 3 by Below(5).
type Rule struct {
	gone     gone
	priority int32
}

// gone selects the pods that count as gone.
type gone uint8

const (
	all           gone = iota // every pod
	less                      // the pods of lower priority
	lessOrDeleted             // these, and pods that are being deleted
	rules         = iota
)

// Empty is the rule that nothing runs on the nodes.
var Empty = Rule{gone: all}

// Below is the rule that all pods of lower priority have gone.
func Below(priority int32) Rule { return Rule{gone: less, priority: priority} }

// Evicted is the rule that all pods of lower priority have gone, and pods that are being deleted: the most that
// preemption can free.
func Evicted(priority int32) Rule { return Rule{gone: lessOrDeleted, priority: priority} }

// mostPlaces bounds the memos of each rule: 256 of them take 51 MB with 50,000 nodes. Those by Empty are few in most
// clusters, and a lane relies on them for all of its entities.
var mostPlaces = [rules]int{all: 4096, less: 256, lessOrDeleted: 256}

// mostOnNode bounds how many pods a node is counted to take. No gang has as many members.
const mostOnNode = 1 << 20

// Places counts the pods of one shape that each node takes, and all nodes together, if the pods of a Rule had gone. It
// is a memo: a question examines only the nodes that have changed since the last one.
type Places struct {
	table   *Table
	shape   *Shape
	rule    Rule
	on      []int32 // by node, as the State lists them
	total   int64
	counts  []bool // by resource: see counting
	seen    seen
	version uint64 // State.Version at the last count: counts, and the nodes' objects, depend on it alone
	asked   uint64 // placesMemo.asked when it was asked for last
}

// placesMemo has the Places of one kind of rule. It is bounded. Places that nobody has asked for lately make room for
// new ones. If all are in use, a new one is not kept, because it would displace one that is needed again soon.
type placesMemo struct {
	by      map[placesKey]*Places
	asked   uint64 // how often Places were asked for
	counted int    // how often a node was counted
}

// placesKey is whose Places these are.
type placesKey struct {
	shape    string
	priority int32
}

// Places returns the Places of a shape; nil if too many others are in use.
func (t *Table) Places(s *Shape, r Rule) *Places {
	m, key := &t.places[r.gone], placesKey{s.key, r.priority}
	m.asked++
	p := m.by[key]
	if p == nil {
		if most := mostPlaces[r.gone]; len(m.by) >= most {
			maps.DeleteFunc(m.by, func(_ placesKey, p *Places) bool { return m.asked-p.asked > 4*uint64(most) })
			if len(m.by) >= most {
				return nil
			}
		}
		if m.by == nil {
			m.by = map[placesKey]*Places{}
		}
		p = &Places{table: t, shape: s, rule: r}
		m.by[key] = p
	}
	p.asked = m.asked
	return p
}

// Knows reports whether the memo has Places of the shape, or is full, so that it cannot get them.
func (t *Table) Knows(s *Shape, r Rule) bool {
	m := &t.places[r.gone]
	return m.by[placesKey{s.key, r.priority}] != nil || len(m.by) >= mostPlaces[r.gone]
}

// Take reports whether all nodes together might take so many pods of a shape if the pods that the rule names had gone.
// A no is certain, as far as requests, selectors, required affinity and taints say.
func (t *Table) Take(s *Shape, r Rule, wanted int) bool {
	if wanted <= 0 {
		return true
	}
	if p := t.Places(s, r); p != nil {
		return p.Total() >= int64(wanted)
	}
	// Without a memo it looks at nodes until it has found enough, and at all of them if there are fewer.
	list, _ := t.cluster.Nodes().List()
	p := &Places{table: t, shape: s, rule: r}
	p.counts = p.counting()
	for _, info := range list {
		if wanted -= int(p.takes(info)); wanted <= 0 {
			return true
		}
	}
	return false
}

// Counted returns how often a node was counted for rules like r. Tests bound it.
func (t *Table) Counted(r Rule) int { return t.places[r.gone].counted }

// Total returns how many pods all nodes together take.
func (p *Places) Total() int64 {
	t := p.table
	p.asked = t.places[p.rule.gone].asked
	version := t.cluster.Changed(cluster.ObjectChanged)
	same := p.seen.valid && p.version == version
	if same && p.rule.gone == all {
		return p.total
	}
	counts := p.counts
	if !same {
		counts = p.counting()
	}
	p.version = version
	list, _ := t.cluster.Nodes().List()
	places, known := t.changedSince(&p.seen, p.rule)
	if !known || !slices.Equal(p.counts, counts) {
		p.on, p.total, p.counts = make([]int32, len(list)), 0, counts
		for at := range list {
			p.count(int32(at), list[at])
		}
		return p.total
	}
	for _, at := range places {
		p.count(at, list[at])
	}
	return p.total
}

// count counts the places on one node.
func (p *Places) count(at int32, info fwk.NodeInfo) {
	takes := p.takes(info)
	p.total += int64(takes - p.on[at])
	p.on[at] = takes
}

// counting returns the inputs of the places besides nodes and pods, by resource. For pods that are alike it says
// whether the resource is a name for devices. For least needs it says whether a node offers the resource. A resource
// that none offers is left to NodeResourcesFit, which a configuration can make ignore it.
func (p *Places) counting() []bool {
	counts := make([]bool, len(p.shape.resources))
	for k, name := range p.shape.resources {
		if p.shape.like != nil {
			counts[k] = p.table.cluster.Devices().Stands(name)
		} else {
			_, counts[k] = p.table.cluster.Free(name)
		}
	}
	return counts
}

// takes returns how many pods of the shape a node takes.
func (p *Places) takes(info fwk.NodeInfo) int32 {
	t, s := p.table, p.shape
	t.places[p.rule.gone].counted++
	if s.like != nil && !mayRunOn(s.like, info.Node(), t.comparisons) {
		return 0
	}
	most := int64(mostOnNode)
	for k, name := range s.resources {
		if need := s.needs[k]; need > 0 && (s.like != nil || p.counts[k]) {
			most = min(most, p.roomFor(info, name, need, most))
		}
	}
	return int32(most)
}

// roomFor returns for how many pods that need so much of a resource a node has room, up to most.
func (p *Places) roomFor(info fwk.NodeInfo, name v1.ResourceName, need, most int64) int64 {
	amountOn := cluster.AmountOn
	if p.shape.like != nil {
		amountOn = p.table.cluster.AmountOn // which has plenty of a resource that is a name for devices
	}
	allocatable, requested := amountOn(info, name)
	switch {
	case p.rule.gone == all:
		requested = 0
	case (allocatable-requested)/need < most:
		requested -= p.held(info, name)
	}
	return max(0, allocatable-requested) / need
}

// held returns how much of a node's resource those pods request that the rule names.
func (p *Places) held(info fwk.NodeInfo, name v1.ResourceName) (amount int64) {
	for _, each := range info.GetPods() {
		pod := p.table.cluster.Pods().Get(each.GetPod().UID)
		if pod != nil && (pod.CountedPriority() < p.rule.priority ||
			p.rule.gone == lessOrDeleted && pod.Object.DeletionTimestamp != nil) {
			amount = cluster.AddUpTo(amount, pod.Amount(name))
		}
	}
	return amount
}

// MayMakeRoom reports whether there could be room for the rest of g if all pods of lower priority had gone: on all
// nodes together, and on each node by itself for pods with the least requests of g. The gangs that are admitted with g
// count as well. False is certain. See cluster.State.MayMakeRoom.
func (t *Table) MayMakeRoom(g *cluster.Group, priority int32) bool {
	lacking := max(0, g.Lacking(gang.Assigned))
	return t.cluster.MayMakeRoom(g, priority) &&
		t.Take(leastShape(t.cluster.RequestsOf(g)), Below(priority), lacking)
}
