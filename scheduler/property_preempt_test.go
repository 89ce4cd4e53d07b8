package scheduler_test

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// Preemption in generated histories: who may be evicted for whom, and that nobody else gets the room.

// claim is the room that pods were evicted for.
type claim struct {
	entity   string
	node     string
	priority int32
}

// priorityOf is the priority of a pod as a part of its entity. ok is false for one of several gangs, whose priority the
// books do not follow.
func (b *books) priorityOf(p *bookedPod) (priority int32, ok bool) {
	if p.group != "" {
		if d, declared := b.object(p.group); declared && d.priority != nil {
			return *d.priority, b.compositeOf(p.group) == ""
		}
		return ptr.Deref(p.object.Spec.Priority, 0), b.compositeOf(p.group) == ""
	}
	return ptr.Deref(p.object.Spec.Priority, 0), true
}

// enterPreemption checks a cycle's victims and brings the nominations up to date.
func (h *history) enterPreemption(d *eventlog.Decision) {
	preemptor := h.pods[d.UID]
	priority, known := h.priorityOf(preemptor)
	if len(d.Victims) > 0 && (d.Outcome != eventlog.Unschedulable || !h.mayPreempt(preemptor)) {
		h.fatalf("cycle %d has victims for %s, which may have none", d.Cycle, d.UID)
	}
	for _, uid := range d.Victims {
		v := h.pods[uid]
		if v == nil || v.stage == cluster.Pending || v.stage == cluster.Waiting || v.object.DeletionTimestamp != nil ||
			h.evicting[uid] {
			h.fatalf("cycle %d evicts %s, which is %+v and asked to go already: %v", d.Cycle, uid, v, h.evicting[uid])
		}
		if its, ok := h.priorityOf(v); ok && known && its >= priority {
			h.fatalf("cycle %d evicts %s of priority %d for %s of priority %d", d.Cycle, uid, its, d.UID, priority)
		}
		h.checkWholeGroup(d, v)
	}
	h.checkNeeded(d, preemptor)
	for _, uid := range d.Victims {
		h.evicting[uid] = true
	}
	if d.Outcome == eventlog.Unschedulable || d.Outcome == eventlog.Error {
		h.nominate(d, d.UID, d.Nominated)
	}
	for _, n := range d.Nominations {
		h.nominate(d, n.UID, n.Node)
	}
}

// checkNeeded: the victims are enough, and with any of them kept, or any group of them that is disrupted together, they
// are not. It is checked where room is a matter of counting: pods that are alike and mind nothing but resources, no
// others leaving or nominated, no room reserved.
func (h *history) checkNeeded(d *eventlog.Decision, preemptor *bookedPod) {
	if len(d.Victims) == 0 || h.shape.durations || h.shape.extenders {
		return
	}
	pods, needed := []*bookedPod{preemptor}, 1
	var nodes []string
	if preemptor.group == "" || h.hasMinimum(preemptor.group) {
		nodes = []string{d.Nominated}
	} else {
		if object, ok := h.object(
			preemptor.group,
		); h.compositeOf(preemptor.group) != "" ||
			ok && (object.inRack || object.room > 0) ||
			preemptor.object.Annotations["gang.scheduling.koordinator.sh/mode"] == "NonStrict" {
			return
		}
		minimum, _ := h.minimum(preemptor.group)
		_, assigned := h.count(preemptor.group)
		needed = minimum - assigned
		nodes = slices.Sorted(maps.Keys(h.nodes))
		for _, p := range h.pods {
			if p.group == preemptor.group && h.ready(p) {
				pods = append(pods, p)
			}
		}
	}
	for _, p := range pods {
		if requests(p.object) != requests(preemptor.object) || len(p.object.Spec.Containers[0].Ports) > 0 {
			return
		}
	}
	for uid, p := range h.pods {
		leaves := slices.Contains(nodes, p.node) && (p.object.DeletionTimestamp != nil || h.evicting[uid])
		others := slices.Contains(nodes, h.nominated[uid]) && p != preemptor &&
			(preemptor.group == "" || p.group != preemptor.group)
		if leaves || others || slices.Contains(d.Victims, uid) && p.group != "" && h.compositeOf(p.group) != "" {
			return
		}
	}
	if n := h.roomWithout(d.Victims, nodes, preemptor); n < needed {
		h.fatalf(
			"cycle %d evicts %v for %s: then there is room for %d of the %d that are needed",
			d.Cycle,
			d.Victims,
			d.UID,
			n,
			needed,
		)
	}
	for _, kept := range d.Victims {
		gone := slices.DeleteFunc(slices.Clone(d.Victims), func(uid types.UID) bool {
			g, ok := h.groups[groupKey{eventlog.PodGroups, h.pods[kept].group}]
			return uid == kept || ok && g.all && h.pods[uid].group == h.pods[kept].group
		})
		if n := h.roomWithout(gone, nodes, preemptor); n >= needed {
			h.fatalf(
				"cycle %d evicts %v for %s, and %s could stay: there would be room for %d of the %d that are needed",
				d.Cycle,
				d.Victims,
				d.UID,
				kept,
				n,
				needed,
			)
		}
	}
}

// roomWithout counts how many pods like p the nodes have room for once the pods of gone have gone, and the members of
// p's gang that are held on nodes.
func (h *history) roomWithout(gone []types.UID, nodes []string, p *bookedPod) (room int) {
	wants := requests(p.object)
	for _, name := range nodes {
		node := h.nodes[name]
		if node == nil || node.Spec.Unschedulable {
			continue
		}
		left := h.left(name)
		// any order: sums
		for uid, other := range h.pods {
			if other.node == name &&
				(slices.Contains(gone, uid) || other.stage == cluster.Waiting && p.group != "" &&
					other.group == p.group) {
				for i, amount := range requests(other.object) {
					left[i] += amount
				}
			}
		}
		n := int64(math.MaxInt32)
		for i := range wants {
			if wants[i] > 0 {
				n = min(n, max(0, left[i])/wants[i])
			}
		}
		room += int(n)
	}
	return room
}

// nominate notes a nomination. The room is claimed if a pod was evicted for it. A pod that is nominated to a node beats
// the claims to it of lower priority.
func (h *history) nominate(d *eventlog.Decision, uid types.UID, node string) {
	p := h.pods[uid]
	if h.nominated[uid] != node {
		delete(h.claims, uid)
	}
	delete(h.nominated, uid)
	if node == "" {
		return
	}
	h.nominated[uid] = node
	priority, known := h.priorityOf(p)
	h.beat(node, priority, known)
	if len(d.Victims) > 0 && known {
		h.claims[uid] = claim{entity: h.entity(p), node: node, priority: priority}
	}
}

// beat drops the claims to the node that a pod of that priority need not respect.
func (h *history) beat(node string, priority int32, known bool) {
	for _, uid := range slices.Sorted(maps.Keys(h.claims)) {
		if c := h.claims[uid]; c.node == node && (!known || c.priority < priority) {
			h.waive(c.entity)
		}
	}
}

// waive drops all claims of an entity.
func (h *history) waive(entity string) {
	maps.DeleteFunc(h.claims, func(_ types.UID, c claim) bool { return c.entity == entity })
}

// mayPreempt reports whether none of the pods that are to be placed says Never.
func (h *history) mayPreempt(preemptor *bookedPod) bool {
	if preemptor.group != "" && h.compositeOf(preemptor.group) != "" {
		return true // others speak for it as well
	}
	for _, p := range h.pods {
		its := p == preemptor || p.group != "" && p.group == preemptor.group
		if policy := p.object.Spec.PreemptionPolicy; its && policy != nil && *policy == v1.PreemptNever {
			return p != preemptor && h.hasMinimum(preemptor.group)
		}
	}
	return true
}

// hasMinimum reports whether the gang's members are placed one by one by now.
func (h *history) hasMinimum(group string) bool {
	stages, assigned := h.count(group)
	minimum, _ := h.minimum(group)
	return assigned+stages[cluster.Waiting] >= minimum
}

// checkWholeGroup: with one pod of a group whose disruptionMode is all, all others go that have a node.
func (h *history) checkWholeGroup(d *eventlog.Decision, victim *bookedPod) {
	if victim.group == "" {
		return
	}
	if g, ok := h.groups[groupKey{eventlog.PodGroups, victim.group}]; !ok || !g.all {
		return
	}
	for uid, p := range h.pods {
		gone := p.object.DeletionTimestamp != nil || h.evicting[uid] || p.stage == cluster.Pending ||
			p.stage == cluster.Waiting
		if p.group == victim.group && !gone && !slices.Contains(d.Victims, uid) {
			h.fatalf("cycle %d evicts %s and not %s, which are disrupted together", d.Cycle, victim.object.UID, uid)
		}
	}
}

// checkKept: a pod is put on a node only if those nominated to it, of the pod's priority and above, still had their
// room.
func (h *history) checkKept(d *eventlog.Decision) {
	own := h.pods[d.UID]
	priority, known := h.priorityOf(own)
	if h.beat(d.Node, priority, known); !known {
		return
	}
	left, wants := h.left(d.Node), requests(own.object)
	for _, uid := range slices.Sorted(maps.Keys(h.nominated)) {
		p := h.pods[uid]
		its, ok := h.priorityOf(p)
		e := h.m.Queue().Find(uid)
		if h.nominated[uid] != d.Node || uid == d.UID || p.stage != cluster.Pending || !ok || its < priority ||
			e == nil ||
			e.State() == queue.Gated {
			continue
		}
		for i, amount := range requests(p.object) {
			left[i] -= amount
		}
	}
	for i, name := range resourceNames {
		if wants[i] > 0 && left[i] < 0 {
			h.fatalf(
				"cycle %d puts %s on node %s, where %d %s are then lacking for pods that are nominated to it: %v",
				d.Cycle,
				d.Name,
				d.Node,
				-left[i],
				name,
				h.nominated,
			)
		}
	}
}

// disturb notes what an input means for nominations and claims.
func (h *history) disturb(p eventlog.Payload) {
	switch p := p.(type) {
	case *eventlog.EpochStarted:
		clear(h.claims)
	case *eventlog.Upserted:
		switch obj := p.Object.(type) {
		case *v1.Node:
			h.disturbNode(obj.Name)
		case *v1.Pod:
			h.disturbPod(obj)
		default:
			clear(h.claims)
		}
	case *eventlog.Deleted:
		switch p.Resource {
		case eventlog.Nodes:
			h.disturbNode(p.Name)
			maps.DeleteFunc(h.nominated, func(_ types.UID, node string) bool { return node == p.Name })
		case eventlog.Pods:
			if b := h.pods[p.UID]; b != nil {
				h.waive(h.entity(b))
			}
		default:
			clear(h.claims)
		}
	}
}

func (h *history) disturbNode(name string) {
	for _, uid := range slices.Sorted(maps.Keys(h.claims)) {
		if c := h.claims[uid]; c.node == name {
			h.waive(c.entity)
		}
	}
}

func (h *history) disturbPod(obj *v1.Pod) {
	b := h.pods[obj.UID]
	if b == nil {
		b = &bookedPod{object: obj, group: groupOf(obj)}
	}
	h.waive(h.entity(b))
	if b.node != "" && b.object != obj {
		h.disturbNode(b.node) // it may want more room there
	}
	if obj.Spec.NodeName != "" {
		h.disturbNode(obj.Spec.NodeName)
	}
}

// checkNominations compares what the Machine has with the books, which forget who has a node or is on the way out.
func (h *history) checkNominations() {
	maps.DeleteFunc(h.nominated, func(uid types.UID, _ string) bool {
		p := h.pods[uid]
		return p == nil || p.stage == cluster.Bound || p.stage == cluster.Pending && p.object.DeletionTimestamp != nil
	})
	for uid := range h.pods {
		if got := h.m.NominatedNode(uid); got != h.nominated[uid] {
			h.fatalf("%s is nominated to %q; the books say %q", uid, got, h.nominated[uid])
		}
	}
}

// finishLeaving brings the end of all pods that were asked to go or are being deleted on their nodes.
func (h *history) finishLeaving() bool {
	var inputs []eventlog.Payload
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		if h.evicting[uid] || h.pods[uid].stage == cluster.Bound && h.pods[uid].object.DeletionTimestamp != nil {
			inputs = append(inputs, h.deletionOf(uid))
		}
	}
	if len(inputs) > 0 {
		h.step(inputs...)
	}
	return len(inputs) > 0
}

// checkClaims: when all have gone that were asked to, the pods that they had to go for have their nodes.
func (h *history) checkClaims() {
	if h.shape.foreign || h.shape.approval || h.shape.extenders {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(h.claims)) {
		if p := h.pods[uid]; p != nil && h.ready(p) {
			h.fatalf("pods were evicted for %s, and it has not got its place %+v", uid, h.claims[uid])
		}
	}
}

// fillUp makes nodes and fills them with small pods of low priority, which are bound at once.
func (h *history) fillUp() {
	for i := range 3 {
		if name := fmt.Sprintf("n%d", i); h.nodes[name] == nil {
			h.step(h.nodeEntry(name, rapid.Int64Range(2, 5).Draw(h.t, "cpu"), 0, false))
		}
	}
	var inputs []eventlog.Payload
	for range rapid.IntRange(4, 9).Draw(h.t, "fillers") {
		p := h.newPod(fmt.Sprintf("p%d", rapid.IntRange(6, 15).Draw(h.t, "filler")), "")
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
			v1.ResourceCPU: *resource.NewQuantity(rapid.Int64Range(1, 2).Draw(h.t, "cpu"), resource.DecimalSI),
		}
		p.Spec.Priority, p.Spec.SchedulingGates = nil, nil
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	}
	h.step(inputs...)
	h.confirmBinds()
}

// urge fills the nodes up, and then somebody of high priority comes who minds nothing but room.
func (h *history) urge() {
	h.finishLeaving()
	h.fillUp()
	if h.chance(50, "a gang") {
		h.createGang()
		return
	}
	p := h.newPod("p16", "")
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(rapid.Int64Range(2, 4).Draw(h.t, "cpu"), resource.DecimalSI),
	}
	p.Spec.Containers[0].Ports = nil
	p.Spec.Priority, p.Spec.PreemptionPolicy, p.Spec.SchedulingGates = ptr.To[int32](7), nil, nil
	h.step(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
}
