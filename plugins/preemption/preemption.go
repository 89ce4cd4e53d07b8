package preemption

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Name is the plugin's name in configurations and in recorded rejections: the name of the plugin that it replaces.
const Name = names.DefaultPreemption

// Preemption is the plugin.
type Preemption struct {
	handle framework.Handle
	view   framework.Evictions
	args   config.DefaultPreemptionArgs

	known   knownTargets
	planned Planned
}

// Planned counts what was done to find victims for gangs, for tests.
type Planned struct {
	Plans    int // that were made
	Listings int // how often all pods with a node were gone through to list the targets
	Looks    int // at how many nodes it was counted what they take
	Trials   int // how often all members were placed to see whether they fit
}

// Planned returns the counts since the plugin was made.
func (p *Preemption) Planned() Planned { return p.planned }

var (
	_ fwk.PostFilterPlugin  = (*Preemption)(nil)
	_ fwk.EnqueueExtensions = (*Preemption)(nil)
	_ fwk.SignPlugin        = (*Preemption)(nil)
)

// New makes the plugin. It fails on arguments that kube-scheduler would refuse, and on any handle but this project's
// with its Evictions.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, ok := obj.(*config.DefaultPreemptionArgs)
	if !ok {
		return nil, fmt.Errorf("arguments are a %T, want DefaultPreemptionArgs", obj)
	}
	if err := validation.ValidateDefaultPreemptionArgs(nil, args); err != nil {
		return nil, err
	}
	handle, ok := h.(framework.Handle)
	if !ok {
		return nil, fmt.Errorf(
			"handle %T is not that of this project's runtime: use kube-scheduler's own plugin there",
			h,
		)
	}
	view := handle.Evictions()
	if view == nil {
		return nil, fmt.Errorf("handle %T offers no view of the state", h)
	}
	return &Preemption{handle: handle, view: view, args: *args}, nil
}

// Name implements fwk.Plugin.
func (p *Preemption) Name() string { return Name }

// EventsToRegister implements fwk.EnqueueExtensions: there are none. The plugin that refused the pod registers the
// events that would help it, and the end of a victim is among them.
func (p *Preemption) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod implements fwk.SignPlugin: the plugin has no say on which node a pod fits.
func (p *Preemption) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// A Proposal has the actions that a PostFilter plugin wants so that the pod fits, beside the pod's own nomination. It
// is in the cycle's state.
type Proposal struct {
	// Victims have to go, the most important first. Some may be on their way out already.
	Victims []types.UID
	// Nominations are nominations of other pods: given, or with Node "" taken away.
	Nominations []Nomination
}

// Nomination is the node where room is kept for a pod.
type Nomination struct {
	UID  types.UID
	Node string
}

// Clone implements fwk.StateData.
func (p *Proposal) Clone() fwk.StateData { return p }

const proposalKey fwk.StateKey = Name + "/proposal"

// Proposed returns the proposal of the cycle, nil if there is none.
func Proposed(state fwk.CycleState) *Proposal {
	data, err := state.Read(proposalKey)
	if err != nil {
		return nil
	}
	return data.(*Proposal)
}

// leaveOut is in the cycle's state if nobody is to be preempted.
type leaveOut struct{}

// Clone implements fwk.StateData.
func (leaveOut) Clone() fwk.StateData { return leaveOut{} }

const leaveOutKey fwk.StateKey = Name + "/leave-out"

// LeaveOut makes PostFilter preempt nobody in this cycle: the members of the gang fit without that.
func LeaveOut(state fwk.CycleState) { state.Write(leaveOutKey, leaveOut{}) }

// PostFilter searches for pods to evict for the pod, or for its gang once the attempt to place it has come to its end.
// The answer is Success with a nomination and a Proposal, or Unschedulable. Unschedulable has no result if the pod's
// nomination is to stay as it is, and an empty one if the nomination is of no use any more.
func (p *Preemption) PostFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := state.Read(leaveOutKey); err == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	ctx = withBudget(ctx, maxDeviceSteps)
	if gangPlugin := p.view.GangPlugin(); gangPlugin != "" && !isResized(pod) {
		if g := p.view.State().Gangs().OfPod(pod); g != nil && !g.Suffices(gang.OnNodes) {
			refused := statuses.Get("").Plugin() == gangPlugin
			if !refused && !p.endsAttempt(g) {
				return nil, fwk.NewStatus(fwk.Unschedulable)
			}
			return p.preemptForGang(ctx, state, pod, g)
		}
	}
	return p.preemptForPod(ctx, state, pod, statuses)
}

// isResized reports whether the cycle is for a pod on its node that is to be resized there.
func isResized(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

// endsAttempt reports whether the gang, now that a member of it has found no node, cannot be completed any more. It
// does not have its minimum on nodes then, and no gang that might be admitted without it can be completed either.
func (p *Preemption) endsAttempt(own *cluster.Group) bool {
	u := own.Tally(func(g *cluster.Group, n *gang.Counts) { n.Untried = p.view.Left(g) })
	u.OwnGang().Fail()
	return !u.CanComplete()
}

// propose ends PostFilter well.
func propose(state fwk.CycleState, node string, proposal *Proposal) (*fwk.PostFilterResult, *fwk.Status) {
	state.Write(proposalKey, proposal)
	return upstream.NewPostFilterResultWithNominatedNode(node), nil
}

// notHelpful ends PostFilter with nothing to be done, and takes the pod's nomination away.
func notHelpful() (*fwk.PostFilterResult, *fwk.Status) {
	return upstream.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable)
}

// budgets returns the disruption budgets in a fixed order.
func (p *Preemption) budgets() ([]*policyv1.PodDisruptionBudget, error) {
	return p.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
}

// going says whether the pod was asked to leave for a preemptor's sake.
func (p *Preemption) going(pod *v1.Pod) bool {
	return p.view.Going(pod.UID) || terminatingByPreemption(pod)
}

// spared reports whether the eviction of one of the target's pods was refused a short while ago, or the pod's gang says
// that it is not to be preempted. A spared target is not chosen as a victim, so a preemptor looks for other victims.
func (p *Preemption) spared(u *target) bool {
	return slices.ContainsFunc(u.pods, func(pod *cluster.Pod) bool {
		return p.view.Spared(pod.Object.UID) || pod.Group != nil && pod.Group.Stays()
	})
}

// started returns when the pod started; the time of the cycle if it has not.
func (p *Preemption) started(pod *v1.Pod) time.Time { return startOf(pod, p.handle.Now()) }

// startOf returns when the pod started; now if it has not.
func startOf(pod *v1.Pod, now time.Time) time.Time {
	if t := pod.Status.StartTime; t != nil {
		return t.Time
	}
	return now
}

// yields returns the pods nominated to the nodes that the preemptor may preempt: no room is kept for them any longer.
func (p *Preemption) yields(by framework.Preemptor, nodes ...string) (out []Nomination) {
	for _, node := range nodes {
		for _, info := range p.handle.NominatedPodsForNode(node) {
			if pod := info.GetPod(); p.mayPreemptPod(by, pod) {
				out = append(out, Nomination{UID: pod.UID})
			}
		}
	}
	return out
}
