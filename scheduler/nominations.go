package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/queue"
)

// Nominations: nodes where room is kept for pods that have none yet, mostly because others have to go first. A pod's
// nomination comes by a Decision, which makes it one of its own, or with the pod's object, and ends when the pod is
// known to be bound or gone, when its node is gone, or by another Decision. It has no effect while the pod is held on a
// node, or is kept out of the queue.

// nominations is also the PodNominator that plugins see. They cannot change it: their calls to add or delete a
// nomination do nothing.
type nominations struct {
	entities *entities
	planner  *backfill.Planner
	nodes    map[types.UID]string
	byNode   map[string][]types.UID // in the order in which they came
	// own are the pods that a Decision nominated to the node.
	own map[types.UID]bool
	// named are the nodes that objects of pods without a node name in their status, also those that are not there: a
	// memo for joinNode.
	named map[types.UID]string
	// index is what byEntity returns, nil if it is to be made again: a memo.
	index *nominatedEntities
	// overtaking are the entities that might overtake when that was last looked at: a memo.
	overtaking []queue.Key
	// counted are the pods whose nomination counted when that was last looked at: other pods may have been refused a
	// node because of it, and are told when it counts no more.
	counted map[types.UID]bool
	// priorities are those that the counted pods had then: a memo.
	priorities map[types.UID]int32
	// doubted are the nominated pods of which it is to be found out again whether they count, and with what priority;
	// doubtAll says that all are. Together with what the cluster and the queue tell they are a memo for recount.
	doubted  []types.UID
	doubtAll bool
	visited  int // how many pods recount has looked at, for tests
	// termed are those of own that have required anti-affinity: a memo.
	termed map[types.UID]bool
	// changes counts nominations that came and went, began or ceased to count, or have another priority: a memo's
	// version, not state.
	changes uint64
	// vacated are the pods whose nomination ended, or counts no more, since the last entry, each as if it were on the
	// node where room was kept for it.
	vacated []*v1.Pod
	// devices says that devices are not kept any more, since the last entry, for a pod whose nomination ended or counts
	// no more. It may have got some of them: others may fit beside it now.
	devices bool
}

var _ fwk.PodNominator = (*nominations)(nil)

func newNominations() *nominations {
	return &nominations{
		nodes: map[types.UID]string{}, byNode: map[string][]types.UID{}, counted: map[types.UID]bool{},
		priorities: map[types.UID]int32{}, own: map[types.UID]bool{}, named: map[types.UID]string{},
		termed: map[types.UID]bool{}, doubtAll: true,
	}
}

// set nominates the pod to the node, "" for none, in place of the node it was nominated to. A node that is not there is
// none.
func (n *nominations) set(uid types.UID, node string) {
	old := n.nodes[uid]
	if node != "" && n.entities.cluster.Node(node) == nil {
		node = ""
	}
	if old == node {
		return
	}
	n.changes++
	n.forgetIndex()
	if e := n.entities.queue.Find(uid); e != nil {
		n.entities.queue.Renew(e.Key())
	}
	if old != "" {
		n.vacate(uid, old)
		delete(n.nodes, uid)
		delete(n.counted, uid)
		delete(n.priorities, uid)
		delete(n.own, uid)
		delete(n.termed, uid)
		n.byNode[old] = slices.DeleteFunc(n.byNode[old], func(other types.UID) bool { return other == uid })
		if len(n.byNode[old]) == 0 {
			delete(n.byNode, old)
		}
	}
	if node != "" {
		n.nodes[uid] = node
		n.doubted = append(n.doubted, uid)
		n.byNode[node] = append(n.byNode[node], uid)
	}
}

// vacate notes that room is not kept on the node any more, unless the pod has it now.
func (n *nominations) vacate(uid types.UID, node string) {
	if p := n.entities.cluster.Pod(uid); p != nil && n.wantsDevices(p) {
		n.devices = true
	}
	if p := n.entities.cluster.Pod(uid); p != nil && p.Node != node && n.entities.cluster.Node(node) != nil {
		n.vacated = append(n.vacated, p.InfoOn(node).GetPod())
	}
}

// wantsDevices reports whether devices are kept for a pod while it is nominated, and may come free when it goes.
func (n *nominations) wantsDevices(p *cluster.Pod) bool {
	return len(p.Object.Spec.ResourceClaims) > 0 ||
		n.entities.cluster.Devices().RequestsExtended(p.Object)
}

// followClaim notes, if the entry says that a claim is gone which a nominated pod uses, that devices are not kept any
// more for the pod: it cannot have any.
func (n *nominations) followClaim(entry eventlog.Entry) {
	d, ok := entry.Payload.(*eventlog.Deleted)
	if !ok || d.Resource != eventlog.ResourceClaims {
		return
	}
	// any order: one is enough
	for uid := range n.nodes {
		if p := n.entities.cluster.Pod(uid); p != nil && n.counts(uid) && devices.Uses(p.Object, d.Namespace, d.Name) {
			n.devices = true
		}
	}
}

// recount finds the pods that no longer count, and the ones that do now. It looks only at pods for which that may have
// changed since the last recount: the moved ones, and the ones whose entity became gated or is no longer.
func (n *nominations) recount(moved []types.UID) {
	n.doubted = append(n.doubted, moved...)
	n.doubted = append(n.doubted, n.entities.queue.TakeRegated()...)
	var quiet []types.UID
	if n.doubtAll {
		// any order: sorted right below
		for uid := range n.nodes {
			quiet = n.look(uid, quiet)
		}
	} else {
		for _, uid := range n.doubted {
			if n.nodes[uid] != "" {
				quiet = n.look(uid, quiet)
			}
		}
	}
	n.doubted, n.doubtAll = n.doubted[:0], false
	if invariants {
		n.checkCounted()
	}
	slices.Sort(quiet)
	for _, uid := range quiet {
		n.vacate(uid, n.nodes[uid])
	}
}

// look finds out whether a nominated pod counts. It adds it to quiet if it did, and counts no more.
func (n *nominations) look(uid types.UID, quiet []types.UID) []types.UID {
	n.visited++
	counts := n.counts(uid)
	if n.counted[uid] && !counts {
		quiet = append(quiet, uid)
	}
	if n.counted[uid] != counts {
		n.changes++
	}
	n.counted[uid] = counts
	n.notePriority(uid)
	return quiet
}

// checkCounted panics if recount has left out a pod.
func (n *nominations) checkCounted() {
	// any order: each by itself
	for uid := range n.nodes {
		if counts := n.counts(uid); n.counted[uid] != counts ||
			counts && n.priorities[uid] != n.PriorityOf(n.entities.cluster.Pod(uid).Object) {
			panic(fmt.Sprintf("scheduler: nominated pod %s counts: %v, with priority %d; it was not looked at again",
				uid, counts, n.priorities[uid]))
		}
		if p := n.entities.cluster.Pod(uid); p != nil && n.repels(p) != n.termed[uid] {
			panic(fmt.Sprintf("scheduler: nominated pod %s has required anti-affinity: %v; it was not looked at again",
				uid, n.repels(p)))
		}
	}
}

// followPriorities notes that an entry may have given nominated pods other priorities: an epoch, or an object that says
// what gangs are.
func (n *nominations) followPriorities(entry eventlog.Entry) {
	var resource eventlog.Resource
	switch p := entry.Payload.(type) {
	case *eventlog.EpochStarted:
		n.doubtAll = true
	case *eventlog.Upserted:
		resource = p.Resource
	case *eventlog.Deleted:
		resource = p.Resource
	}
	n.doubtAll = n.doubtAll || cluster.DeclaresGroups(resource) || resource == eventlog.CompositePodGroups ||
		resource == eventlog.PriorityClasses
}

// notePriority notes the priority of a nominated pod if it counts.
func (n *nominations) notePriority(uid types.UID) {
	if !n.counted[uid] {
		return
	}
	priority := n.PriorityOf(n.entities.cluster.Pod(uid).Object)
	if was, known := n.priorities[uid]; !known || was != priority {
		n.changes++
		n.priorities[uid] = priority
	}
}

// tellVacated tells the queue of the room that is not kept any more, as if the pods had been on these nodes and left.
func (n *nominations) tellVacated(entry eventlog.Entry, moved []types.UID) {
	n.followPriorities(entry)
	n.recount(moved)
	for _, pod := range n.vacated {
		n.entities.queue.Move(upstream.EventAssignedPodDelete, pod, nil)
	}
	n.vacated = nil
	if n.devices {
		n.devices = false
		tellDevices(n.entities.queue)
	}
}

// tellDevices tells the queue that devices are there for others, as if a claim gave them back.
func tellDevices(q *queue.Queue) {
	before := &resourcev1.ResourceClaim{}
	before.Status.Allocation = &resourcev1.AllocationResult{}
	q.Move(fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Update}, before, &resourcev1.ResourceClaim{})
}

// counts reports whether room is to be kept for the pod now.
func (n *nominations) counts(uid types.UID) bool {
	p := n.entities.cluster.Pod(uid)
	if p == nil || p.Stage != cluster.Pending {
		return false
	}
	e := n.entities.queue.Find(uid)
	return e != nil && e.State() != queue.Gated
}

// nodeOf returns the node that the pod is nominated to, "" for none.
func (n *nominations) nodeOf(uid types.UID) string { return n.nodes[uid] }

var (
	_ framework.Nominations = (*nominations)(nil)
	_ framework.Keeper      = (*nominations)(nil)
)

// AnyNominated is asked by the framework once a cycle.
func (n *nominations) AnyNominated() bool {
	// any order: one is enough
	for uid := range n.nodes {
		if n.counts(uid) {
			return true
		}
	}
	return false
}

// NominatedPodsForNode implements fwk.PodNominator, in the order in which the pods were nominated.
func (n *nominations) NominatedPodsForNode(node string) (pods []fwk.PodInfo) {
	for _, uid := range n.byNode[node] {
		if n.counts(uid) {
			pods = append(pods, n.entities.cluster.Pod(uid).Info())
		}
	}
	return pods
}

// PriorityOf returns the priority that counts between nominated pods and others.
func (n *nominations) PriorityOf(pod *v1.Pod) int32 { return n.entities.cluster.PriorityOf(pod) }

// AddNominatedPod implements fwk.PodNominator; it does nothing.
func (n *nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists implements fwk.PodNominator; it does nothing.
func (n *nominations) DeleteNominatedPodIfExists(*v1.Pod) {}

// UpdateNominatedPod implements fwk.PodNominator; it does nothing.
func (n *nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

// apply makes the nominations state that a decision gives and takes away. A pod that loses one is tried again: there
// may be room for it elsewhere.
func (n *nominations) apply(key queue.Key, d *eventlog.Decision) {
	if d.Outcome == eventlog.Unschedulable || d.Outcome == eventlog.Error {
		n.nominate(d.UID, d.Nominated, len(d.Victims) > 0)
	}
	for _, nomination := range d.Nominations {
		p := n.entities.cluster.Pod(nomination.UID)
		if p == nil || p.Stage == cluster.Bound {
			continue
		}
		n.nominate(nomination.UID, nomination.Node, true)
		if other := n.entities.keyOf(p); nomination.Node == "" && other != key {
			n.entities.queue.Retry(other)
		}
	}
}

// nominate applies the nomination of a pod that a Decision names. One that stood before stays as it is, also if the
// pod's object gave it, unless the Decision gives it anew.
func (n *nominations) nominate(uid types.UID, node string, anew bool) {
	anew = anew || n.nodes[uid] != node
	n.set(uid, node)
	if anew && n.nodes[uid] != "" && !n.own[uid] {
		n.own[uid] = true
		n.noteTerms(n.entities.cluster.Pod(uid))
		n.changes++
		n.forgetIndex()
	}
}

// noteTerms notes whether a pod that a Decision nominated has required anti-affinity.
func (n *nominations) noteTerms(p *cluster.Pod) {
	if p == nil {
		return
	}
	if n.repels(p) {
		n.termed[p.Object.UID] = true
	} else {
		delete(n.termed, p.Object.UID)
	}
}

// repels reports whether a Decision nominated a pod and it has required anti-affinity.
func (n *nominations) repels(p *cluster.Pod) bool {
	return n.own[p.Object.UID] && len(p.Info().GetRequiredAntiAffinityTerms()) > 0
}

// nominatedEntities are the nominations of each entity, and these entities in the order of their first nodes.
type nominatedEntities struct {
	kept     map[queue.Key][]backfill.Kept
	entities []*queue.Entity
}

// forgetIndex forgets what byEntity returned, and what follows from it: it may be otherwise now.
func (n *nominations) forgetIndex() {
	n.index = nil
	if n.planner != nil {
		n.planner.ForgetOvertaking()
	}
}

// byEntity returns the nominations of each entity, and the entities that have any.
func (n *nominations) byEntity() (map[queue.Key][]backfill.Kept, []*queue.Entity) {
	if n.index != nil {
		return n.index.kept, n.index.entities
	}
	n.index = &nominatedEntities{kept: map[queue.Key][]backfill.Kept{}}
	for _, node := range slices.Sorted(maps.Keys(n.byNode)) {
		for _, uid := range n.byNode[node] {
			p, e := n.entities.cluster.Pod(uid), n.entities.queue.Find(uid)
			if p == nil || e == nil {
				continue
			}
			if n.index.kept[e.Key()] == nil {
				n.index.entities = append(n.index.entities, e)
			}
			k := backfill.Kept{Pod: p, Node: node, Own: n.own[uid], Counts: n.counts(uid)}
			n.index.kept[e.Key()] = append(n.index.kept[e.Key()], k)
		}
	}
	return n.index.kept, n.index.entities
}

// noteOvertaking makes changes differ if other entities than before might overtake the first of their lane. It ends the
// applying of an entry, which may have changed whatever byEntity returns.
func (n *nominations) noteOvertaking() {
	n.forgetIndex()
	if len(n.own)+len(n.overtaking) == 0 {
		return
	}
	if !n.planner.HasLanes() && len(n.overtaking) == 0 {
		return // nobody comes first of a lane
	}
	_, entities := n.byEntity()
	var overtaking []queue.Key
	for _, e := range entities {
		if n.planner.Overtakes(e, e) {
			overtaking = append(overtaking, e.Key())
		}
	}
	if !slices.Equal(overtaking, n.overtaking) {
		n.overtaking = overtaking
		n.changes++
	}
}

// followGroup notes, if the entry brought a group's object, that room is free for others which Decisions had kept for
// entities that do not overtake: the object may have raised a minimum.
func (n *nominations) followGroup(entry eventlog.Entry) {
	u, ok := entry.Payload.(*eventlog.Upserted)
	if !ok || len(n.own) == 0 || !cluster.DeclaresGroups(u.Resource) &&
		u.Resource != eventlog.CompositePodGroups {
		return
	}
	n.forgetIndex()
	kept, entities := n.byEntity()
	for _, e := range entities {
		if !n.planner.HasLane(e.Profile()) || n.planner.Overtakes(e, e) {
			continue
		}
		for _, k := range kept[e.Key()] {
			if k.Own && k.Counts {
				n.vacate(k.Pod.Object.UID, k.Node)
			}
		}
	}
}

// hasOwnIn reports whether a Decision nominated any pod of a gang.
func (n *nominations) hasOwnIn(g *cluster.Group) bool {
	return len(n.own) > 0 &&
		slices.ContainsFunc(g.Members(), func(p *cluster.Pod) bool { return n.own[p.Object.UID] })
}

// KeepsFrom is asked by the framework whether the room that is kept for a nominated pod is not free for another one.
func (n *nominations) KeepsFrom(kept, other *v1.Pod) bool {
	p, o := n.entities.cluster.Pod(kept.UID), n.entities.cluster.Pod(other.UID)
	if p == nil || o == nil || n.planner == nil {
		return n.PriorityOf(kept) >= n.PriorityOf(other)
	}
	return n.planner.KeepsFrom(p, o)
}

// followObject follows what the object of a pod without a node says of its nomination: it counts unless a decision
// has nominated the pod since.
func (n *nominations) followObject(old, pod *v1.Pod) {
	before, now := "", pod.Status.NominatedNodeName
	if old != nil {
		before = old.Status.NominatedNodeName
	}
	if p := n.entities.cluster.Pod(pod.UID); !n.entities.cluster.MayBePlaced(p) || n.entities.profiles.of(pod) == nil {
		n.set(pod.UID, "")
		return
	}
	if current := n.nodeOf(pod.UID); before != now && (current == "" || current == before) {
		n.set(pod.UID, now)
	}
}

// noteNamed notes which node the object of a pod without a node names.
func (n *nominations) noteNamed(pod *v1.Pod) {
	if node := pod.Status.NominatedNodeName; node != "" {
		n.named[pod.UID] = node
	} else {
		delete(n.named, pod.UID)
	}
}

// joinNode nominates the pods to a node that has joined whose objects name it, if no Decision has nominated them
// elsewhere: an autoscaler may name a node before it is there.
func (n *nominations) joinNode(name string) {
	var pods []types.UID
	// any order: sorted right below
	for uid, node := range n.named {
		if node == name && n.nodeOf(uid) == "" {
			pods = append(pods, uid)
		}
	}
	slices.Sort(pods)
	for _, uid := range pods {
		p := n.entities.cluster.Pod(uid)
		if p != nil && p.Stage == cluster.Pending && n.entities.cluster.MayBePlaced(p) &&
			n.entities.profiles.of(p.Object) != nil {
			n.set(uid, name)
		}
	}
}

// forgetNode ends the nominations to a node that is gone, and has the pods tried again.
func (n *nominations) forgetNode(name string) {
	for _, uid := range slices.Clone(n.byNode[name]) {
		n.set(uid, "")
		if p := n.entities.cluster.Pod(uid); p != nil {
			n.entities.queue.Retry(n.entities.keyOf(p))
		}
	}
}

// forgetStrangers ends the nominations of pods that no profile schedules any more.
func (n *nominations) forgetStrangers() {
	for _, uid := range slices.Sorted(maps.Keys(n.nodes)) {
		if p := n.entities.cluster.Pod(uid); p == nil || n.entities.profiles.of(p.Object) == nil {
			n.set(uid, "")
		}
	}
}

func (n *nominations) appendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(n.byNode)))
	for _, node := range slices.Sorted(maps.Keys(n.byNode)) {
		dst = canonical.AppendString(dst, node)
		dst = binary.AppendUvarint(dst, uint64(len(n.byNode[node])))
		for _, uid := range n.byNode[node] {
			dst = canonical.AppendString(dst, string(uid))
			dst = append(dst, canonical.Flags(n.counted[uid], n.own[uid]))
		}
	}
	return dst
}

func (n *nominations) restore(r *canonical.Reader) {
	for range r.Count("nominated nodes", 2) {
		node := r.String("node")
		for range r.Count("nominated pods", 2) {
			uid, flags := types.UID(r.String("uid")), r.Flags("nomination's flags", 2)
			if r.Err() != nil {
				return
			}
			if n.entities.cluster.Pod(uid) == nil {
				r.Fail("uid", fmt.Errorf("no pod %q is there to be nominated", uid))
				return
			}
			n.set(uid, node)
			n.counted[uid] = flags[0]
			if flags[1] {
				n.own[uid] = true
				n.noteTerms(n.entities.cluster.Pod(uid))
			}
			n.notePriority(uid)
		}
	}
	n.restoreNamed()
}

// restoreNamed makes named of the pods that were restored.
func (n *nominations) restoreNamed() {
	named := func(p *cluster.Pod) bool {
		return p.Object.Spec.NodeName == "" && p.Object.Status.NominatedNodeName != ""
	}
	for _, p := range n.entities.cluster.PodsThat(named) {
		n.noteNamed(p.Object)
	}
}
