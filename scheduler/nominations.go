package scheduler

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	"github.com/rollcall-sched/rollcall/queue"
)

// nominations are the nodes where room is kept for pods without a node, mostly because victims have to leave first.
//
// A nomination comes with a Decision, which makes it the scheduler's own, or with the pod's object. It ends when the
// pod is bound or gone, when the node is gone, or with another Decision. It counts only while the pod is pending and
// may be attempted: not while Permit holds the pod on a node, and not while a gate keeps it out of the queue.
//
// It is also the PodNominator of plugins. Their calls to add or delete a nomination do nothing.
type nominations struct {
	entities *entities
	planner  *backfill.Planner
	nodes    map[types.UID]string
	byNode   map[string][]types.UID // in the order in which the pods were nominated
	own      map[types.UID]bool     // nominated by a Decision
	// named has the node in the status of each pod without a node, whether or not that node exists. It is a memo for
	// joinNode.
	named map[types.UID]string
	// index is the answer of byEntity, nil if it has to be built again. It is a memo.
	index *nominatedEntities
	// overtaking are the entities that might overtake, as noteOvertaking found them last. It is a memo.
	overtaking []queue.Key
	// counted are the pods whose nomination counted at the last recount. Other pods may have been refused a node
	// because of it, and are retried when it no longer counts.
	counted map[types.UID]bool
	// priorities are the priorities of the counted pods at the last recount. It is a memo.
	priorities map[types.UID]int32
	// unchecked are the pods that the next recount has to check; recountAll makes it check all. They are a memo.
	unchecked  []types.UID
	recountAll bool
	checked    int // the number of pods that recounts have checked, for tests
	// repelling are the pods of own with required anti-affinity. It is a memo.
	repelling map[types.UID]bool
	// changes grows whenever a nomination comes, goes, begins or ceases to count, or gets another priority. It is the
	// version of a memo, and not state.
	changes uint64
	// freed are the pods whose nomination ended or ceased to count since the last entry, each on the node where room
	// was kept for it.
	freed []*v1.Pod
	// freedDevices reports whether one of them may have kept devices from others.
	freedDevices bool
}

var _ fwk.PodNominator = (*nominations)(nil)

func newNominations() *nominations {
	return &nominations{
		nodes: map[types.UID]string{}, byNode: map[string][]types.UID{}, counted: map[types.UID]bool{},
		priorities: map[types.UID]int32{}, own: map[types.UID]bool{}, named: map[types.UID]string{},
		repelling: map[types.UID]bool{}, recountAll: true,
	}
}

// set nominates the pod to the node, in place of the node to which it was nominated. With "" or a node that does not
// exist the nomination ends.
func (n *nominations) set(uid types.UID, node string) {
	n.change(uid, n.entities.cluster.Pods().Get(uid), node)
}

// end ends the nomination of a pod, which may be gone.
func (n *nominations) end(p *cluster.Pod) { n.change(p.Object.UID, p, "") }

// change is set for a pod that is gone too; p is nil for a pod that nobody has seen.
func (n *nominations) change(uid types.UID, p *cluster.Pod, node string) {
	old := n.nodes[uid]
	if node != "" && n.entities.cluster.Nodes().Object(node) == nil {
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
		n.free(p, old)
		delete(n.nodes, uid)
		delete(n.counted, uid)
		delete(n.priorities, uid)
		delete(n.own, uid)
		delete(n.repelling, uid)
		n.byNode[old] = slices.DeleteFunc(n.byNode[old], func(other types.UID) bool { return other == uid })
		if len(n.byNode[old]) == 0 {
			delete(n.byNode, old)
		}
	}
	if node != "" {
		n.nodes[uid] = node
		n.unchecked = append(n.unchecked, uid)
		n.byNode[node] = append(n.byNode[node], uid)
	}
}

// free notes that room is no longer kept on the node, unless the pod has it now.
func (n *nominations) free(p *cluster.Pod, node string) {
	if p != nil && n.wantsDevices(p) {
		n.freedDevices = true
	}
	if p != nil && p.Node != node && n.entities.cluster.Nodes().Object(node) != nil {
		n.freed = append(n.freed, p.InfoOn(node).GetPod())
	}
}

// wantsDevices reports whether devices are kept for a pod while it is nominated.
func (n *nominations) wantsDevices(p *cluster.Pod) bool {
	return len(p.Object.Spec.ResourceClaims) > 0 ||
		n.entities.cluster.Devices().RequestsExtended(p.Object)
}

// counts reports whether room is kept for the pod now.
func (n *nominations) counts(uid types.UID) bool {
	p := n.entities.cluster.Pods().Get(uid)
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

// AnyNominated implements framework.Nominations. The framework calls it once for each cycle.
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
			pods = append(pods, n.entities.cluster.Pods().Get(uid).Info())
		}
	}
	return pods
}

// PriorityOf returns the priority that counts between nominated pods and others.
func (n *nominations) PriorityOf(pod *v1.Pod) int32 {
	return n.entities.cluster.Gangs().PriorityOf(pod)
}

// AddNominatedPod implements fwk.PodNominator; it does nothing.
func (n *nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists implements fwk.PodNominator; it does nothing.
func (n *nominations) DeleteNominatedPodIfExists(*v1.Pod) {}

// UpdateNominatedPod implements fwk.PodNominator; it does nothing.
func (n *nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

// apply adds and removes the nominations that a Decision names. A pod that loses its nomination is retried, because
// there may be room for it elsewhere.
func (n *nominations) apply(key queue.Key, d *eventlog.Decision) {
	if d.Outcome == eventlog.Unschedulable || d.Outcome == eventlog.Error {
		n.nominate(d.UID, d.Nominated, len(d.Victims) > 0)
	}
	for _, nomination := range d.Nominations {
		p := n.entities.cluster.Pods().Get(nomination.UID)
		if p == nil || p.Stage == cluster.Bound {
			continue
		}
		n.nominate(nomination.UID, nomination.Node, true)
		if other := n.entities.keyOf(p); nomination.Node == "" && other != key {
			n.entities.queue.Retry(other)
		}
	}
}

// nominate applies the nomination of a pod that a Decision names. A nomination to the same node stays as it is, also
// one that the pod's object gave, unless renew makes it the scheduler's own.
func (n *nominations) nominate(uid types.UID, node string, renew bool) {
	renew = renew || n.nodes[uid] != node
	n.set(uid, node)
	if renew && n.nodes[uid] != "" && !n.own[uid] {
		n.own[uid] = true
		n.noteTerms(n.entities.cluster.Pods().Get(uid))
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
		n.repelling[p.Object.UID] = true
	} else {
		delete(n.repelling, p.Object.UID)
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

// forgetIndex drops the answer of byEntity and the Planner's answers that rest on it.
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
			p, e := n.entities.cluster.Pods().Get(uid), n.entities.queue.Find(uid)
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

// noteOvertaking increments changes if other entities than before might overtake the first of their lane. It is called
// after each entry, because any entry may have changed the answer of byEntity.
func (n *nominations) noteOvertaking() {
	n.forgetIndex()
	if len(n.own)+len(n.overtaking) == 0 {
		return
	}
	if !n.planner.HasLanes() && len(n.overtaking) == 0 {
		return // no lanes, so nothing to overtake
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

// followGroup frees, after an entry with a group's object, the room that Decisions kept for entities that do not
// overtake: the object may have raised a minimum.
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
				n.free(k.Pod, k.Node)
			}
		}
	}
}

// hasOwnIn reports whether a Decision nominated any pod of a gang.
func (n *nominations) hasOwnIn(g *cluster.Group) bool {
	return len(n.own) > 0 &&
		slices.ContainsFunc(g.Members(), func(p *cluster.Pod) bool { return n.own[p.Object.UID] })
}

// KeepsFrom implements framework.Keeper: it reports whether the room kept for a nominated pod is not free for another
// pod.
func (n *nominations) KeepsFrom(kept, other *v1.Pod) bool {
	p, o := n.entities.cluster.Pods().Get(kept.UID), n.entities.cluster.Pods().Get(other.UID)
	if p == nil || o == nil || n.planner == nil {
		return n.PriorityOf(kept) >= n.PriorityOf(other)
	}
	return n.planner.KeepsFrom(p, o)
}

// followObject takes the nomination over from the object of a pod without a node, unless a Decision has nominated the
// pod since.
func (n *nominations) followObject(old, pod *v1.Pod) {
	before, now := "", pod.Status.NominatedNodeName
	if old != nil {
		before = old.Status.NominatedNodeName
	}
	if p := n.entities.cluster.Pods().Get(pod.UID); !p.MayBePlaced() || n.entities.profiles.of(pod) == nil {
		n.set(pod.UID, "")
		return
	}
	if current := n.nodeOf(pod.UID); before != now && (current == "" || current == before) {
		n.set(pod.UID, now)
	}
}

// noteNamed notes the node that the object of a pod without a node names.
func (n *nominations) noteNamed(pod *v1.Pod) {
	if node := pod.Status.NominatedNodeName; node != "" {
		n.named[pod.UID] = node
	} else {
		delete(n.named, pod.UID)
	}
}

// joinNode nominates pods to a node that has joined, if their objects name it and no Decision has nominated them
// elsewhere. An autoscaler may name a node before it exists.
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
		p := n.entities.cluster.Pods().Get(uid)
		if p != nil && p.Stage == cluster.Pending && p.MayBePlaced() &&
			n.entities.profiles.of(p.Object) != nil {
			n.set(uid, name)
		}
	}
}

// forgetNode ends the nominations to a node that is gone, and retries the pods.
func (n *nominations) forgetNode(name string) {
	for _, uid := range slices.Clone(n.byNode[name]) {
		n.set(uid, "")
		if p := n.entities.cluster.Pods().Get(uid); p != nil {
			n.entities.queue.Retry(n.entities.keyOf(p))
		}
	}
}

// forgetStrangers ends the nominations of pods that no profile schedules any longer.
func (n *nominations) forgetStrangers() {
	for _, uid := range slices.Sorted(maps.Keys(n.nodes)) {
		if p := n.entities.cluster.Pods().Get(uid); p == nil || n.entities.profiles.of(p.Object) == nil {
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
			if n.entities.cluster.Pods().Get(uid) == nil {
				r.Fail("uid", fmt.Errorf("no pod %q is there to be nominated", uid))
				return
			}
			n.set(uid, node)
			n.counted[uid] = flags[0]
			if flags[1] {
				n.own[uid] = true
				n.noteTerms(n.entities.cluster.Pods().Get(uid))
			}
			n.notePriority(uid)
		}
	}
	n.restoreNamed()
}

// restoreNamed builds named from the restored pods.
func (n *nominations) restoreNamed() {
	named := func(p *cluster.Pod) bool {
		return p.Object.Spec.NodeName == "" && p.Object.Status.NominatedNodeName != ""
	}
	for _, p := range n.entities.cluster.Pods().That(named) {
		n.noteNamed(p.Object)
	}
}
