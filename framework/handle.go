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

// World is everything that plugins can see. The objects are the same for the life of a profile. Their content changes
// between cycles, never within one.
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
	// Nominator has the pods that are nominated to nodes; nil means none. It may implement Nominations and Keeper.
	Nominator fwk.PodNominator
	// Reserved returns the reservations that keep the pod from feasible nodes. It returns nil if the pod may use any
	// node. Every cycle asks it again, unlike plugins, whose answers about a node are kept. A nil Reserved restricts no
	// pod.
	Reserved func(pod *v1.Pod) *Reserved
	// Extenders returns the answers of HTTP extenders about a pod, nil if no extender is interested in it. A nil
	// Extenders means that there are none.
	Extenders func(pod *v1.Pod) *Verdict
	// Activate receives the pods that a plugin, within a cycle, wants to be tried at once. Their order has no meaning.
	// If it is nil, they are ignored.
	Activate func(pods map[string]*v1.Pod)
	// Events returns the sink for the events that plugins record, nil if there is none, for example without an API
	// server. Any goroutine may call it. A nil Events means that there never is a sink.
	Events func() EventSink
	// Version returns a number that changes whenever plugins' answers about an unchanged node may change:
	// nodes come or go, or an object other than a pod or a gang's object changes. If Version is nil, the profile keeps
	// no memos of plugins' answers.
	Version func() uint64
	// Changed returns the places, in Lister's list, of the nodes that have changed or whose pods have changed. It
	// covers the time since the call that returned since as now. ok is false if it does not know. If Changed is nil,
	// every pod's search visits all nodes.
	Changed func(since uint64) (places []int32, now uint64, ok bool)
	// Claims appends a description of the requests of the pod's ResourceClaims, and of its extended resources that map
	// to devices. If ok, DynamicResources gives pods with equal descriptions the same answer about a node, as long as
	// neither the node nor Version changes. If Claims is nil, such pods are not grouped.
	Claims func(dst []byte, pod *v1.Pod) (out []byte, ok bool)
	// Removed completes a node's free devices after a rehearsal has removed a pod from it. nil means that nothing is
	// left to complete.
	Removed func(node fwk.NodeInfo, pod *v1.Pod)
	// Now returns the time of the event that is being processed. There is no other clock.
	Now func() time.Time
	// Gangs and Evictions are for plugins that need more than kube-scheduler's handle offers; nil means that there is
	// no such view.
	Gangs     Gangs
	Evictions Evictions
	// Victims returns the victim policy of the profile. nil means none.
	Victims func() VictimPolicy
}

// Handle is the interface that plugins receive. It is kube-scheduler's Handle, closed to the outside within a cycle: it
// does not reach an API server then, start work beside the cycle, or read another clock.
type Handle interface {
	fwk.Handle
	// Gangs returns the view for gang plugins, nil if the World has none.
	Gangs() Gangs
	// Evictions returns the view for preemption plugins, nil if the World has none.
	Evictions() Evictions
	// Victims returns the victim policy of the profile, nil if the World has none.
	Victims() VictimPolicy
	// Now returns the time of the event that is being processed.
	Now() time.Time
	// Rehearse begins a rehearsal, which Rehearsal.End ends. In it the nominations of the given pods do not count, and
	// PreFilter skips the plugin named without.
	Rehearse(without string, unnominated map[types.UID]bool) *Rehearsal
}

// WithoutLogger returns ctx with a logger that drops everything. Plugins are called with such a context, because the
// core's log is the log of entries. klog's default logger would also cost an allocation per call.
func WithoutLogger(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// handle is the view that a Profile's plugins have of it. The methods that run plugins are in runner.go.
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

// Now returns the time of the event that is being processed, or the zero time if the World has no clock.
func (h *handle) Now() time.Time {
	if h.p.world.Now == nil {
		return time.Time{}
	}
	return h.p.world.Now()
}

// ProfileName returns the profile's schedulerName.
func (h *handle) ProfileName() string { return h.p.name }

// SnapshotSharedLister returns the World's Lister, with the changes of a rehearsal if one is under way.
func (h *handle) SnapshotSharedLister() fwk.SharedLister { return &h.p.stage }

// MutableSnapshotSharedLister returns nil. It is for pod group preemption, an extension point that this framework does
// not run.
func (h *handle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister { return nil }

// SharedInformerFactory returns the World's Informers.
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.p.world.Informers }

// SharedDRAManager returns the World's DRA.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return h.p.world.DRA }

// SharedCSIManager returns the World's CSI.
func (h *handle) SharedCSIManager() fwk.CSIManager { return h.p.world.CSI }

// ClientSet returns a client. Its requests fail within a cycle, and always if there is no API server.
func (h *handle) ClientSet() clientset.Interface { return h.client }

// KubeConfig returns the configuration of ClientSet's client, with the same limits.
func (h *handle) KubeConfig() *restclient.Config { return h.rest }

// EventRecorder returns a recorder. The events are written once the decision is durable; see World.Events.
func (h *handle) EventRecorder() events.EventRecorderLogger { return recorder{h.p} }

// Extenders returns none.
func (h *handle) Extenders() []fwk.Extender { return nil }

// Parallelizer returns one that does the pieces one after the other, in order.
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

// GetWaitingPod returns the waiting pod with that UID, nil if there is none.
func (h *handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if w := h.p.world.Waiting; w != nil {
		if pod, ok := w.Get(uid); ok {
			return view{w, pod}
		}
	}
	return nil
}

// RejectWaitingPod rejects a waiting pod. It returns false if the pod does not wait or was already allowed or rejected.
func (h *handle) RejectWaitingPod(uid types.UID) bool {
	pod := h.GetWaitingPod(uid)
	return pod != nil && pod.Reject("", "removed")
}

// Activate passes the pods to World.Activate, if it is called within a cycle.
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

// inOrder is a Parallelizer without parallelism. So plugins that collect results under a lock collect them in the order
// of the nodes.
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

// podGroups is the PodGroupManager over a SharedLister. It has no hierarchy, because composite pod groups are an alpha
// feature.
type podGroups struct{ lister fwk.SharedLister }

var errNoHierarchy = errors.New("composite pod groups are not supported")

// PodGroupStates returns the lister's.
func (g podGroups) PodGroupStates() fwk.PodGroupStateLister { return g.lister.PodGroupStates() }

// PodGroups returns the lister's.
func (g podGroups) PodGroups() fwk.PodGroupLister { return g.lister.PodGroups() }

// CompositePodGroupStates returns an empty lister.
func (g podGroups) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositeStates{}
}

// CompositePodGroups returns an empty lister.
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
