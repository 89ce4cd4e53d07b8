package scheduler

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Which nominations count. A nominated pod that is held on a node, or is gated, keeps no room. When a nomination ceases
// to count, pods that were refused the room are retried.

// followPriorities makes the next recount check all pods if the entry may have changed their priorities: the beginning
// of an epoch, or an object that declares gangs or priorities.
func (n *nominations) followPriorities(entry eventlog.Entry) {
	var resource eventlog.Resource
	switch p := entry.Payload.(type) {
	case *eventlog.EpochStarted:
		n.recountAll = true
	case *eventlog.Upserted:
		resource = p.Resource
	case *eventlog.Deleted:
		resource = p.Resource
	}
	n.recountAll = n.recountAll || cluster.DeclaresGroups(resource) || resource == eventlog.CompositePodGroups ||
		resource == eventlog.PriorityClasses
}

// followClaim notes that devices are no longer kept for a nominated pod if the entry deleted a claim that the pod uses.
func (n *nominations) followClaim(entry eventlog.Entry) {
	d, ok := entry.Payload.(*eventlog.Deleted)
	if !ok || d.Resource != eventlog.ResourceClaims {
		return
	}
	// any order: one is enough
	for uid := range n.nodes {
		p := n.entities.cluster.Pods().Get(uid)
		if p != nil && n.counts(uid) && devices.Uses(p.Object, d.Namespace, d.Name) {
			n.freedDevices = true
		}
	}
}

// recount finds the pods that begin or cease to count. It checks only pods for which that may have changed since the
// last recount: the moved pods, and those whose entity became gated or ceased to be gated.
func (n *nominations) recount(moved []types.UID) {
	n.unchecked = append(n.unchecked, moved...)
	n.unchecked = append(n.unchecked, n.entities.queue.TakeRegated()...)
	var ended []types.UID
	if n.recountAll {
		// any order: sorted right below
		for uid := range n.nodes {
			ended = n.check(uid, ended)
		}
	} else {
		for _, uid := range n.unchecked {
			if n.nodes[uid] != "" {
				ended = n.check(uid, ended)
			}
		}
	}
	n.unchecked, n.recountAll = n.unchecked[:0], false
	if invariants {
		n.checkCounted()
	}
	slices.Sort(ended)
	for _, uid := range ended {
		n.free(n.entities.cluster.Pods().Get(uid), n.nodes[uid])
	}
}

// check notes whether a nominated pod counts. It appends the pod to ended if the pod has ceased to count.
func (n *nominations) check(uid types.UID, ended []types.UID) []types.UID {
	n.checked++
	counts := n.counts(uid)
	if n.counted[uid] && !counts {
		ended = append(ended, uid)
	}
	if n.counted[uid] != counts {
		n.changes++
	}
	n.counted[uid] = counts
	n.notePriority(uid)
	return ended
}

// checkCounted panics if recount has missed a pod.
func (n *nominations) checkCounted() {
	// any order: each by itself
	for uid := range n.nodes {
		if counts := n.counts(uid); n.counted[uid] != counts ||
			counts && n.priorities[uid] != n.PriorityOf(n.entities.cluster.Pods().Get(uid).Object) {
			panic(fmt.Sprintf("scheduler: nominated pod %s counts: %v, with priority %d; recount missed it",
				uid, counts, n.priorities[uid]))
		}
		if p := n.entities.cluster.Pods().Get(uid); p != nil && n.repels(p) != n.repelling[uid] {
			panic(fmt.Sprintf("scheduler: nominated pod %s has required anti-affinity: %v; recount missed it",
				uid, n.repels(p)))
		}
	}
}

// notePriority notes the priority of a nominated pod if it counts.
func (n *nominations) notePriority(uid types.UID) {
	if !n.counted[uid] {
		return
	}
	priority := n.PriorityOf(n.entities.cluster.Pods().Get(uid).Object)
	if was, known := n.priorities[uid]; !known || was != priority {
		n.changes++
		n.priorities[uid] = priority
	}
}

// retryFreed retries pods that may use the room of nominations that ended, as if the nominated pods had been on these
// nodes and left.
func (n *nominations) retryFreed(entry eventlog.Entry, moved []types.UID) {
	n.followPriorities(entry)
	n.recount(moved)
	for _, pod := range n.freed {
		n.entities.queue.Move(upstream.EventAssignedPodDelete, pod, nil)
	}
	n.freed = nil
	if n.freedDevices {
		n.freedDevices = false
		moveOnDevices(n.entities.queue)
	}
}

// moveOnDevices makes the queue retry pods that wait for devices, as if a claim had given its devices back.
func moveOnDevices(q *queue.Queue) {
	before := &resourcev1.ResourceClaim{}
	before.Status.Allocation = &resourcev1.AllocationResult{}
	q.Move(fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Update}, before, &resourcev1.ResourceClaim{})
}
