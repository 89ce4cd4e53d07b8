package framework

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// World is what plugins may look at. It is the same objects for the life of a profile; what they show
// changes between cycles and never within one.
type World struct {
	// Lister shows the nodes with their pods. Its list of nodes is sorted by name.
	Lister fwk.SharedLister
	// Informers are fed from the log. None of them is ever started.
	Informers informers.SharedInformerFactory
	// CSI shows the CSINodes.
	CSI fwk.CSIManager
	// DRA shows the objects of dynamic resource allocation.
	DRA fwk.SharedDRAManager
	// Waiting are the pods held by Permit.
	Waiting *WaitingPods
	// Nominator knows the pods nominated to nodes; nil stands for one that knows none. It may implement Nominations
	// and Priorities.
	Nominator fwk.PodNominator
	// Reserved returns what is kept from the pod of the nodes that every plugin finds feasible; nil if it may go to
	// any. Unlike what plugins say of nodes it is asked anew in every cycle. A nil Reserved lets all pods pass.
	Reserved func(pod *v1.Pod) *Reserved
	// Extenders returns what HTTP extenders have answered about a pod, nil if none has a say in where it goes. A nil
	// Extenders has none.
	Extenders func(pod *v1.Pod) *Verdict
	// Activate is told the pods that a plugin wants tried at once, within a cycle, in any order; nil ignores it.
	Activate func(pods map[string]*v1.Pod)
	// Events returns what takes the events that plugins record, nil if nothing does, as where there is no API server.
	// It may be called by any goroutine. A nil Events stands for nil always.
	Events func() EventSink
	// Version returns a number that changes with everything that what plugins say of a node may depend on besides the
	// node and the pods on it: nodes that come or go, and every other object but pods and the gangs'. nil keeps no memo
	// of what plugins said of nodes.
	Version func() uint64
	// Changed returns the places in Lister's list of the nodes that have changed, or whose pods have, since the
	// call that returned since as now; ok is false if it cannot tell. nil has all nodes looked at for every pod.
	Changed func(since uint64) (places []int32, now uint64, ok bool)
	// Claims appends what the pod's ResourceClaims ask for, and its extended resources that stand for devices. Where
	// ok, pods with the same are answered the same by DynamicResources about a node that has not changed, while Version
	// has not. nil has such pods looked at one by one.
	Claims func(dst []byte, pod *v1.Pod) (out []byte, ok bool)
	// Removed is told of a pod that was taken off a node in a rehearsal, and completes what the node says then; nil for
	// nothing to complete.
	Removed func(node fwk.NodeInfo, pod *v1.Pod)
	// Now is the time of the event being worked on: the only clock there is.
	Now func() time.Time
	// Gangs and Evictions are for plugins that know more than kube-scheduler shows; nil if there is no such view.
	Gangs     Gangs
	Evictions Evictions
	// Victims returns the victim policy of the profile. nil stands for none.
	Victims func() VictimPolicy
}

// Handle is what plugins get. It is kube-scheduler's Handle with the doors to the outside closed within a cycle:
// nothing behind it reaches an API server then, starts work beside the cycle, or reads a clock of its own.
type Handle interface {
	fwk.Handle
	// Gangs returns what a gang plugin asks of the state, nil if the World has no such view.
	Gangs() Gangs
	// Evictions returns what a preemption plugin asks of the state, nil if the World has no such view.
	Evictions() Evictions
	// Victims returns the victim policy of the profile, nil if the World has none.
	Victims() VictimPolicy
	// Now returns the time of the event being worked on.
	Now() time.Time
	// Rehearse begins a rehearsal in which the nominations of the given pods do not count and the plugin of the name
	// without has no say in PreFilter. End ends it.
	Rehearse(without string, unnominated map[types.UID]bool) *Rehearsal
}

// Quiet returns ctx with a logger that drops everything: the context to call plugins with. In the core the
// log of entries is the log; klog's default logger would also cost an allocation per call.
func Quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// handle is a Profile as its plugins see it. Its part that runs plugins is in runner.go.
type handle struct {
	p      *Profile
	client clientset.Interface
	rest   *restclient.Config

	inPreBind podsInPreBind
	shared    map[string]any // see Share
}

var _ Handle = (*handle)(nil)

func newHandle(p *Profile, outside *restclient.Config) (*handle, error) {
	clients, cfg, err := client(outside)
	if err != nil {
		return nil, err
	}
	return &handle{p: p, client: clients, rest: cfg}, nil
}

// Gangs returns the World's Gangs.
func (h *handle) Gangs() Gangs { return h.p.world.Gangs }

// Evictions returns the World's Evictions.
func (h *handle) Evictions() Evictions { return h.p.world.Evictions }

// Victims returns the World's victim policy, nil if it has none.
func (h *handle) Victims() VictimPolicy {
	if h.p.world.Victims == nil {
		return nil
	}
	return h.p.world.Victims()
}

// Now returns the time of the event being worked on; the zero time if the World has no clock.
func (h *handle) Now() time.Time {
	if h.p.world.Now == nil {
		return time.Time{}
	}
	return h.p.world.Now()
}

// ProfileName returns the profile's schedulerName.
func (h *handle) ProfileName() string { return h.p.name }

// SnapshotSharedLister returns the World's Lister, or what a rehearsal makes of it.
func (h *handle) SnapshotSharedLister() fwk.SharedLister { return &h.p.stage }

// MutableSnapshotSharedLister returns nil: it is for pod group preemption, an extension point that is not
// run.
func (h *handle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister { return nil }

// SharedInformerFactory returns the World's Informers.
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.p.world.Informers }

// SharedDRAManager returns the World's DRA.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return h.p.world.DRA }

// SharedCSIManager returns the World's CSI.
func (h *handle) SharedCSIManager() fwk.CSIManager { return h.p.world.CSI }

// ClientSet returns a client. A request fails within a cycle, and everywhere if there is no API server.
func (h *handle) ClientSet() clientset.Interface { return h.client }

// KubeConfig returns a configuration of which the same holds as of ClientSet.
func (h *handle) KubeConfig() *restclient.Config { return h.rest }

// EventRecorder returns a recorder. What is recorded is written once the decision is durable; see World.Events.
func (h *handle) EventRecorder() events.EventRecorderLogger { return recorder{h.p} }

// Extenders returns none.
func (h *handle) Extenders() []fwk.Extender { return nil }

// Parallelizer returns one that does the pieces in order, one after the other.
func (h *handle) Parallelizer() fwk.Parallelizer { return inOrder{} }

// APIDispatcher returns nil.
func (h *handle) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher returns nil.
func (h *handle) APICacher() fwk.APICacher { return nil }

// PodGroupManager returns one built on the World's Lister.
func (h *handle) PodGroupManager() fwk.PodGroupManager { return podGroups{h.p.world.Lister} }

// IterateOverWaitingPods calls f with the pods held by Permit, in the order of their decisions.
func (h *handle) IterateOverWaitingPods(f func(fwk.WaitingPod)) {
	if w := h.p.world.Waiting; w != nil {
		w.each(f)
	}
}

// GetWaitingPod returns the held pod of that UID, nil if there is none.
func (h *handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w := h.p.world.Waiting; w != nil {
		if pod, ok := w.Get(uid); ok {
			return view{w, pod}
		}
	}
	return nil
}

// RejectWaitingPod turns the held pod away. It returns false if it is not held or its fate is settled.
func (h *handle) RejectWaitingPod(uid types.UID) bool {
	pod := h.GetWaitingPod(uid)
	return pod != nil && pod.Reject("", "removed")
}

// Activate tells the World which pods are to be tried at once, if it is called within a cycle.
func (h *handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	if h.p.world.Activate != nil && InsideCycle() {
		h.p.world.Activate(pods)
	}
}

// AddNominatedPod passes the nomination to the World's Nominator.
func (h *handle) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	if n := h.p.world.Nominator; n != nil {
		n.AddNominatedPod(logger, pod, info)
	}
}

// DeleteNominatedPodIfExists passes the call to the World's Nominator.
func (h *handle) DeleteNominatedPodIfExists(pod *v1.Pod) {
	if n := h.p.world.Nominator; n != nil {
		n.DeleteNominatedPodIfExists(pod)
	}
}

// UpdateNominatedPod passes the call to the World's Nominator.
func (h *handle) UpdateNominatedPod(logger klog.Logger, old *v1.Pod, pod fwk.PodInfo) {
	if n := h.p.world.Nominator; n != nil {
		n.UpdateNominatedPod(logger, old, pod)
	}
}

// NominatedPodsForNode returns the pods nominated to the node.
func (h *handle) NominatedPodsForNode(node string) []fwk.PodInfo {
	if n := h.p.world.Nominator; n != nil {
		return n.NominatedPodsForNode(node)
	}
	return nil
}

// inOrder is a Parallelizer without parallelism: plugins that gather results under a lock gather them in
// node order.
type inOrder struct{}

// Until does the pieces in order and stops when ctx is done.
func (inOrder) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	done := ctx.Done()
	for i := range pieces {
		if done != nil && ctx.Err() != nil {
			return
		}
		do(i)
	}
}

// podGroups is the PodGroupManager over a SharedLister. It knows no hierarchy: composite pod groups are an
// alpha feature.
type podGroups struct{ lister fwk.SharedLister }

var errNoHierarchy = errors.New("composite pod groups are not supported")

// PodGroupStates returns the lister's.
func (g podGroups) PodGroupStates() fwk.PodGroupStateLister { return g.lister.PodGroupStates() }

// PodGroups returns the lister's.
func (g podGroups) PodGroups() fwk.PodGroupLister { return g.lister.PodGroups() }

// CompositePodGroupStates returns one that knows none.
func (g podGroups) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositeStates{}
}

// CompositePodGroups returns one that knows none.
func (g podGroups) CompositePodGroups() fwk.CompositePodGroupLister { return noComposites{} }

// BuildHierarchySnapshotFromPod fails.
func (g podGroups) BuildHierarchySnapshotFromPod(*v1.Pod) (fwk.PodGroupManager, error) {
	return nil, errNoHierarchy
}

// GetRootKeyForGroup returns the key itself: every group is its own root.
func (g podGroups) GetRootKeyForGroup(key fwk.EntityKey) (fwk.EntityKey, bool, error) {
	return key, true, nil
}

type noCompositeStates struct{}

// Get fails.
func (noCompositeStates) Get(string, string) (fwk.CompositePodGroupState, error) {
	return nil, errNoHierarchy
}

type noComposites struct{}

// Get fails.
func (noComposites) Get(string, string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, errNoHierarchy
}
