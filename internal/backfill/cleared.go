package backfill

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// clearedRoom is how many pods of a shape all nodes would take if the pods of lower priority had gone, and those that
// are being deleted. It is the room that preemption can make at the most. Where gangs of one shape and priority are
// kept out by more important pods, it is counted for the first of them, and after that only on nodes that change. It is
// a memo only.
//
// Example: a node with 8 GPUs has 5 held by a pod of priority 9, and 2 by one of priority 1. For pods of priority 5
// that want one GPU each there is room for 3 if the less important one goes.
type clearedRoom struct {
	version clearedVersion
	changes uint64 // View.ChangedSince
	on      []int32
	total   int64
	asked   uint64 // Planner.clearedAsked when it was asked for last
}

// clearedVersion says what else a clearedRoom rests on: which nodes there are, and what priority their pods have.
type clearedVersion struct{ list, priorities uint64 }

// clearedKey is whose room it is.
type clearedKey struct {
	shape    *shape
	priority int32
}

// maxCleared bounds the shapes and priorities that are remembered: with 50,000 nodes these take 51 MB.
const maxCleared = 256

// TakesCleared reports whether all nodes together might take so many of the pods if all pods of lower priority had
// gone, and those that are being deleted. A no is certain, as far as requests, selectors, required affinity and taints
// say; of pods that are not alike the answer is yes. So it is for a shape and a priority that nothing is known of,
// unless it is to be counted now, or so many are known that this one cannot be remembered.
func (p *Planner) TakesCleared(pods []*cluster.Pod, wanted int, priority int32, count bool) bool {
	if len(p.cleared) == 0 && !count || slices.ContainsFunc(pods, comparesTaints) {
		return true
	}
	s, ok := p.shapeOf(pods)
	if !ok || slices.ContainsFunc(s.resources, p.view.Devices().Stands) {
		return true // what is free of devices is not counted here
	}
	key := clearedKey{s, priority}
	p.clearedAsked++
	room := p.cleared[key]
	if room == nil {
		if len(p.cleared) >= maxCleared && !p.forgetCleared() {
			return p.findCleared(key, wanted)
		}
		if !count {
			return true
		}
		if p.cleared == nil {
			p.cleared = map[clearedKey]*clearedRoom{}
		}
		room = &clearedRoom{}
		p.cleared[key] = room
	}
	room.asked = p.clearedAsked
	p.refreshCleared(room, key)
	return room.total >= int64(wanted)
}

// forgetCleared makes room for a memo: any of them may be of gangs that are gone. It returns false if all are in use:
// otherwise each new one would take the place of one that is about to be asked for.
func (p *Planner) forgetCleared() bool {
	before := len(p.cleared)
	maps.DeleteFunc(p.cleared, func(_ clearedKey, r *clearedRoom) bool {
		return p.clearedAsked-r.asked > 4*maxCleared
	})
	return len(p.cleared) < before
}

// findCleared reports whether the nodes have so much room, without a memo. It looks at nodes until it has found it, and
// at all of them if there is less, which takes a fraction of the time that a plan takes.
func (p *Planner) findCleared(key clearedKey, wanted int) bool {
	list, _ := p.view.Nodes().List()
	for _, info := range list {
		if wanted <= 0 {
			break
		}
		wanted -= int(p.clearedOn(key, info))
	}
	return wanted <= 0
}

// refreshCleared looks again at the nodes that have changed, or at all of them if it is not known which have.
func (p *Planner) refreshCleared(room *clearedRoom, key clearedKey) {
	list, _ := p.view.Nodes().List()
	version := clearedVersion{p.view.ListVersion(), p.view.Reprioritised()}
	places, now, known := p.view.Nodes().ChangedSince(room.changes)
	if known && room.on != nil && room.version == version && len(room.on) == len(list) {
		for _, at := range places {
			p.countCleared(room, key, int(at), list[at])
		}
	} else {
		room.on, room.total = make([]int32, len(list)), 0
		for at, info := range list {
			p.countCleared(room, key, at, info)
		}
	}
	room.version, room.changes = version, now
}

// countCleared counts a node anew.
func (p *Planner) countCleared(room *clearedRoom, key clearedKey, at int, info fwk.NodeInfo) {
	takes := p.clearedOn(key, info)
	room.total += int64(takes - room.on[at])
	room.on[at] = takes
}

// clearedOn returns how many of the pods the node would take.
func (p *Planner) clearedOn(key clearedKey, info fwk.NodeInfo) int32 {
	p.countedCleared++
	if !p.table.MayRunOn(key.shape.like, info.Node()) {
		return 0
	}
	return p.placesWithout(key, info)
}

// maxPlaces bounds how many pods a node is taken to have room for. No gang has as many members.
const maxPlaces = 1 << 20

// placesWithout returns for how many pods a node has room beside the pods that stay.
func (p *Planner) placesWithout(key clearedKey, info fwk.NodeInfo) int32 {
	s := key.shape
	places := int64(maxPlaces)
	for k, name := range s.resources {
		if s.needs[k] <= 0 {
			continue
		}
		allocatable, requested := p.view.AmountOn(info, name)
		if (allocatable-requested)/s.needs[k] < places {
			requested -= p.leaves(info, name, key.priority)
			places = min(places, max(0, allocatable-requested)/s.needs[k])
		}
	}
	return int32(places)
}

// leaves returns how much of a resource those pods of a node request that have a lower priority, or are being deleted.
func (p *Planner) leaves(info fwk.NodeInfo, name v1.ResourceName, priority int32) (amount int64) {
	for _, each := range info.GetPods() {
		pod := p.view.Pods().Get(each.GetPod().UID)
		if pod != nil && (pod.CountedPriority() < priority || pod.Object.DeletionTimestamp != nil) {
			amount = cluster.AddUpTo(amount, pod.Amount(name))
		}
	}
	return amount
}
