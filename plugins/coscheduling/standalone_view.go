package coscheduling

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// view is the state of gangs in standalone: the pods that name one, and the PodGroups. It has no nodes and no other
// pods.
type view struct {
	handle           fwk.Handle
	rejectPercentage int
	// ownCycle says that the scheduler has a cycle of its own for pods that name their group in a field, which Permit
	// is no part of: such pods are left to it.
	ownCycle bool
	state    *cluster.State
	// failing is the gang in whose PostFilter we are, nil outside of it.
	failing *cluster.Group
	records map[types.NamespacedName]*record
}

// record has the notes about an existing gang.
type record struct {
	// turnedAway: a member was kept out of the queue, or sent back to it, because of the gang's state at the time.
	turnedAway bool
	// backsOff: its podGroupBackoffSeconds run.
	backsOff bool
	// since is the time for its place in the queue, the zero time if nobody has asked yet.
	since time.Time
}

var _ framework.Gangs = (*view)(nil)

func newView(h fwk.Handle, rejectPercentage int32) *view {
	v := &view{
		handle:           h,
		rejectPercentage: int(rejectPercentage),
		ownCycle:         utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload),
		state:            cluster.New(),
		records:          map[types.NamespacedName]*record{},
	}
	v.state.WithoutNodes()
	v.state.SetMine(func(scheduler string) bool { return scheduler == h.ProfileName() })
	return v
}

// counts says whether the pod names a gang that is this plugin's to see to.
func (v *view) counts(pod *v1.Pod) bool {
	_, ok := cluster.GroupName(pod)
	return ok && !(v.ownCycle && pod.Spec.SchedulingGroup != nil)
}

// GroupOf implements framework.Gangs.
func (v *view) GroupOf(pod *v1.Pod) *cluster.Group {
	if !v.counts(pod) && v.state.Pods().Get(pod.UID) == nil {
		return nil
	}
	return v.state.Gangs().OfPod(pod)
}

// Cleared implements framework.Gangs. A member counts even if another Permit plugin holds it as well, because no event
// tells when that plugin allows it. A member whose wait has ended otherwise does not count, even before its Unreserve.
func (v *view) Cleared(g *cluster.Group) int {
	n := 0
	if g.Waiting() > 0 {
		for _, p := range g.Members() {
			if p.Stage == cluster.Waiting && v.handle.GetWaitingPod(p.Object.UID) != nil {
				n++
			}
		}
	}
	return n
}

// HeldByOthers implements framework.Gangs: kube-scheduler does not tell.
func (v *view) HeldByOthers() bool { return false }

// Left implements framework.Gangs. Each member is an entity of its own in the queue, so the number of further members
// is not known. If one of its members has just found no node, a gang is trusted to find places for
// podGroupRejectPercentage of its minimum, beside that member. Otherwise it is trusted to find places for all its
// existing members.
func (v *view) Left(g *cluster.Group) int {
	if g == v.failing {
		return 1 + g.Min()*v.rejectPercentage/100
	}
	return g.Ready()
}

// Lacks implements framework.Gangs, for minResources only. The scheduler's own filters handle the members' requests. It
// may be called from a scheduling cycle only, whose snapshot it reads.
func (v *view) Lacks(g *cluster.Group) (cluster.Shortfall, bool) {
	least := v.minResources(g)
	if len(least) == 0 || g.Placed()+g.Waiting() > 0 {
		return cluster.Shortfall{}, false
	}
	nodes, err := v.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return cluster.Shortfall{}, false
	}
	var names []v1.ResourceName
	// any order: sorted right below
	for name := range least {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		quantity := least[name]
		needed := quantity.Value()
		if name == v1.ResourceCPU {
			needed = quantity.MilliValue()
		}
		free := int64(0)
		for _, node := range nodes {
			free += freeOn(node, name)
		}
		if free < needed {
			return cluster.Shortfall{Resource: name, Needed: needed, Free: free, Asked: true}, true
		}
	}
	return cluster.Shortfall{}, false
}

// Domain implements framework.Gangs. Topology is Rollcall's own, and ignored here.
func (v *view) Domain(*cluster.Group) framework.Domain { return framework.Domain{} }

// LacksTogether implements framework.Gangs: nothing is certain but minResources, which are each gang's own.
func (v *view) LacksTogether(*cluster.Composite) (cluster.Shortfall, bool) {
	return cluster.Shortfall{}, false
}

// minResources returns the minResources of the gang's object, if that object counts.
func (v *view) minResources(g *cluster.Group) v1.ResourceList {
	if v.state.Informers().Get(eventlog.PodGroups, g.Namespace, g.Name) != nil {
		return nil
	}
	if obj, ok := v.state.Informers().Get(eventlog.XPodGroups, g.Namespace, g.Name).(*xscheduling.PodGroup); ok {
		return obj.Spec.MinResources
	}
	if obj, ok := v.state.Informers().Get(eventlog.VolcanoPodGroups, g.Namespace, g.Name).(*volcano.PodGroup); ok {
		return cluster.WithoutQuotaNames(obj.Spec.MinResources)
	}
	return nil
}

// freeOn returns a node's free amount, in the resource's base unit; cpu in thousandths of a core.
func freeOn(node fwk.NodeInfo, name v1.ResourceName) int64 {
	can, has := node.GetAllocatable(), node.GetRequested()
	var free int64
	switch name {
	case v1.ResourceCPU:
		free = can.GetMilliCPU() - has.GetMilliCPU()
	case v1.ResourceMemory:
		free = can.GetMemory() - has.GetMemory()
	case v1.ResourceEphemeralStorage:
		free = can.GetEphemeralStorage() - has.GetEphemeralStorage()
	case v1.ResourcePods:
		free = int64(can.GetAllowedPodNumber() - len(node.GetPods()))
	default:
		free = can.GetScalarResources()[name] - has.GetScalarResources()[name]
	}
	return max(0, free)
}

// podIs takes a pod in. One that is finished holds nothing and is as good as deleted.
func (v *view) podIs(pod *v1.Pod) error {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		_, err := v.podGone(pod.UID)
		return err
	}
	if before := v.state.Pods().Named(pod.Namespace, pod.Name); before != nil && before.Object.UID != pod.UID {
		// An informer that lists again may report a successor without a deletion.
		if _, err := v.podGone(before.Object.UID); err != nil {
			return err
		}
	}
	_, err := v.state.UpsertPod(pod)
	return err
}

// podGone takes a pod out and returns it, nil if the view did not have it.
func (v *view) podGone(uid types.UID) (*cluster.Pod, error) { return v.state.DeletePod(uid) }

// record returns the record of a gang. It makes one if there is none.
func (v *view) record(g *cluster.Group) *record {
	r, ok := v.records[g.Key()]
	if !ok {
		r = &record{}
		v.records[g.Key()] = r
	}
	return r
}

// pending returns g's members that wait for a cycle, by name.
func pending(g *cluster.Group) []*cluster.Pod {
	return slices.DeleteFunc(g.Members(), func(p *cluster.Pod) bool {
		return p.Stage != cluster.Pending || p.Object.DeletionTimestamp != nil
	})
}

// tellingHandle tells the view what becomes of waiting pods.
type tellingHandle struct {
	fwk.Handle
	view *view
}

// IterateOverWaitingPods implements fwk.Handle.
func (h tellingHandle) IterateOverWaitingPods(f func(fwk.WaitingPod)) {
	h.Handle.IterateOverWaitingPods(func(w fwk.WaitingPod) { f(tellingPod{w, h.view}) })
}

// tellingPod is a waiting pod whose fate the view learns at once. The scheduler acts on it later, on a goroutine of the
// pod's own.
type tellingPod struct {
	fwk.WaitingPod
	view *view
}

// Allow implements fwk.WaitingPod.
func (w tellingPod) Allow(plugin string) {
	if p := w.view.state.Pods().Get(w.GetPod().UID); p != nil && p.Stage == cluster.Waiting {
		w.view.state.Allow(p)
	}
	w.WaitingPod.Allow(plugin)
}

// Reject implements fwk.WaitingPod.
func (w tellingPod) Reject(plugin, why string) bool {
	if p := w.view.state.Pods().Get(w.GetPod().UID); p != nil && p.Stage == cluster.Waiting {
		if err := w.view.state.Release(p); err != nil {
			return false // it keeps its place until its deadline
		}
	}
	return w.WaitingPod.Reject(plugin, why)
}
