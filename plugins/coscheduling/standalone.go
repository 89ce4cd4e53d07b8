package coscheduling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// standalone is the plugin in a scheduler without a log, such as a stock kube-scheduler. It decides with the same
// Coscheduling. Its answers about gangs come from a view that informers feed, and that the cycles themselves update for
// held members.
//
// The scheduler calls it from its cycles, from binding cycles, and from under the lock of its queue. Informers call it
// from goroutines of their own. So everything here happens under mu. Nothing that takes the queue's lock may be called
// with mu held.
type standalone struct {
	handle fwk.Handle
	logger klog.Logger
	pods   corelisters.PodLister
	clock  clock.WithDelayedExecution

	mu   sync.Mutex
	gang *Coscheduling
	view *view
}

var (
	_ fwk.PreEnqueuePlugin  = (*standalone)(nil)
	_ fwk.QueueSortPlugin   = (*standalone)(nil)
	_ fwk.PreFilterPlugin   = (*standalone)(nil)
	_ fwk.PostFilterPlugin  = (*standalone)(nil)
	_ fwk.ReservePlugin     = (*standalone)(nil)
	_ fwk.PermitPlugin      = (*standalone)(nil)
	_ fwk.PreBindPlugin     = (*standalone)(nil)
	_ fwk.EnqueueExtensions = (*standalone)(nil)
	_ fwk.SignPlugin        = (*standalone)(nil)
)

// newStandalone makes the plugin without anything that feeds its view: see watch.
func newStandalone(
	logger klog.Logger,
	h fwk.Handle,
	args Args,
	pods corelisters.PodLister,
	clock clock.WithDelayedExecution,
) *standalone {
	v := newView(h, *args.PodGroupRejectPercentage)
	return &standalone{
		handle: h, logger: logger, pods: pods, clock: clock,
		gang: &Coscheduling{handle: tellingHandle{h, v}, groups: v, args: args},
		view: v,
	}
}

// Name implements fwk.Plugin.
func (s *standalone) Name() string { return Name }

// PreEnqueue implements fwk.PreEnqueuePlugin.
func (s *standalone) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admit(ctx, pod)
}

// admit is PreEnqueue. PreFilter and Permit ask it again, because the answer may have changed since the pod came into
// the queue. A pod that it turns away is checked again when the gang changes.
func (s *standalone) admit(ctx context.Context, pod *v1.Pod) *fwk.Status {
	s.learn(pod)
	if s.view.counts(pod) && s.view.state.Pods().Get(pod.UID) == nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod is deleted or finished")
	}
	status, g := s.gang.PreEnqueue(ctx, pod), s.view.GroupOf(pod)
	if status.IsSuccess() && g != nil {
		// Nobody here keeps the members in one domain: better none than all over the place.
		if required, _ := g.Topology(); len(required) > 0 {
			status = fwk.NewStatus(
				fwk.UnschedulableAndUnresolvable,
				fmt.Sprintf(
					"pod group %s requires one value of %s: a required topology is supported by Rollcall only",
					g,
					strings.Join(required, ", "),
				),
			)
		}
	}
	if g != nil && !status.IsSuccess() {
		s.view.record(g).turnedAway = true
	}
	return status
}

// learn makes sure that the view knows a pod that the scheduler knows already: their informer calls them at different
// times. A pod that the informer's store does not have was deleted, and no further call about it would come.
func (s *standalone) learn(pod *v1.Pod) {
	if s.view.state.Pods().Get(pod.UID) != nil || !s.view.counts(pod) {
		return
	}
	stored, err := s.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || stored.UID != pod.UID {
		return
	}
	if err := s.view.podIs(stored); err != nil {
		utilruntime.HandleErrorWithLogger(s.logger, err, "A pod is left out of its gang", "pod", klog.KObj(pod))
	}
}

// PreFilter implements fwk.PreFilterPlugin.
func (s *standalone) PreFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status := s.admit(ctx, pod); !status.IsSuccess() {
		return nil, status
	}
	if g := s.view.GroupOf(pod); g != nil && s.view.record(g).backsOff {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("pod group %s failed less than %s ago", g, s.gang.PodGroupBackoff()))
	}
	return s.gang.PreFilter(ctx, state, pod, nodes)
}

// PreFilterExtensions implements fwk.PreFilterPlugin: there are none.
func (s *standalone) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter implements fwk.PostFilterPlugin. As long as the gang lacks no more of its minimum than
// podGroupRejectPercentage its held members stay; otherwise they are released, and if all members were there the
// gang begins its podGroupBackoffSeconds.
func (s *standalone) PostFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	nodes fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.view.GroupOf(pod)
	s.view.failing = g
	defer func() { s.view.failing = nil }()
	result, status := s.gang.PostFilter(ctx, state, pod, nodes)
	if g != nil && s.failed(g) {
		for _, each := range g.Unit() {
			s.backOff(each)
		}
	}
	return result, status
}

// failed reports whether g, one of whose members has just found no node, cannot be complete now although its members
// are there.
func (s *standalone) failed(g *cluster.Group) bool {
	u := s.gang.tally(g)
	u.OwnGang().Fail()
	return !u.OwnGang().NonStrict && !u.OwnSuffices(gang.Possible) && u.OwnSuffices(gang.Present)
}

// backOff leaves g alone for podGroupBackoffSeconds, and then retries its members.
func (s *standalone) backOff(g *cluster.Group) {
	r, name := s.view.record(g), g.Key()
	if s.gang.PodGroupBackoff() == 0 || r.backsOff {
		return
	}
	r.backsOff = true
	s.clock.AfterFunc(s.gang.PodGroupBackoff(), func() {
		s.change(func() (gangs, error) {
			if g := s.view.state.Gangs().Named(name.Namespace, name.Name); g != nil {
				r := s.view.record(g)
				r.backsOff, r.turnedAway = false, true
			}
			return gangs{name}, nil
		})
	})
}

// Reserve implements fwk.ReservePlugin: the scheduler books capacity itself, and the view books the member in Permit.
func (s *standalone) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

// Permit implements fwk.PermitPlugin. A member that is held has its siblings tried at once, even if they back off.
func (s *standalone) Permit(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	node string,
) (*fwk.Status, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status := s.admit(ctx, pod); !status.IsSuccess() {
		return status, 0
	}
	g := s.view.GroupOf(pod)
	if g == nil {
		return nil, 0
	}
	member := s.view.state.Pods().Get(pod.UID)
	if member.Stage != cluster.Pending {
		return fwk.NewStatus(
			fwk.Unschedulable,
			fmt.Sprintf("the pod is %s on node %s already", member.Stage, member.Node),
		), 0
	}
	status, timeout := s.gang.Permit(ctx, state, pod, node)
	stage := cluster.Binding
	if status.IsWait() {
		stage = cluster.Waiting
		s.activateSiblings(state, g, member)
	} else if !status.IsSuccess() {
		return status, timeout
	}
	if err := s.view.state.Assume(member, node, stage, nil); err != nil {
		return fwk.AsStatus(fmt.Errorf("hold pod for its gang: %w", err)), 0
	}
	return status, timeout
}

// activateSiblings has the scheduler try the other members of g's unit as soon as this cycle has ended.
func (s *standalone) activateSiblings(state fwk.CycleState, g *cluster.Group, member *cluster.Pod) {
	data, err := state.Read(framework.PodsToActivateKey)
	if err != nil {
		return
	}
	stash, ok := data.(*framework.PodsToActivate)
	if !ok {
		return
	}
	stash.Lock()
	defer stash.Unlock()
	for _, each := range g.Unit() {
		for _, p := range pending(each) {
			if p != member {
				stash.Map[p.Object.Namespace+"/"+p.Object.Name] = p.Object
			}
		}
	}
}

// PreBindPreFlight is called when a member that Permit holds can be allowed for the first time. It takes in the events
// that informers have brought since Permit. PreBind has nothing to do.
func (s *standalone) PreBindPreFlight(
	_ context.Context,
	_ fwk.CycleState,
	pod *v1.Pod,
	_ string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.view.GroupOf(pod); g != nil {
		s.releaseOrAllow(g)
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreBind implements fwk.PreBindPlugin.
func (s *standalone) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

// Unreserve takes a member that loses its place out of the books. If the gang held it, and not enough are left, it
// releases the others. It is idempotent.
func (s *standalone) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.view.state.Pods().Get(pod.UID)
	if p == nil || p.Stage == cluster.Pending || p.Stage == cluster.Bound {
		return // released by this plugin, or deleted, or bound after all
	}
	stage := p.Stage
	if err := s.view.state.Release(p); err != nil {
		utilruntime.HandleErrorWithLogger(
			s.logger,
			err,
			"A pod keeps its place in its gang's books",
			"pod",
			klog.KObj(pod),
		)
		return
	}
	s.lost(p.Group, stage)
}

// lost releases the held members of g's unit if too few have nodes after one of g in the given stage lost its place. A
// NonStrict gang keeps its nodes after a failed bind, but not after a member was turned away or timed out.
func (s *standalone) lost(g *cluster.Group, stage cluster.Stage) {
	u := s.gang.tally(g)
	if !u.OwnSuffices(gang.OnNodes) && (stage == cluster.Waiting || !u.OwnGang().NonStrict) {
		s.gang.release(g, &u, gang.OnNodes)
	}
}

// SignPod implements fwk.SignPlugin.
func (s *standalone) SignPod(ctx context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return s.gang.SignPod(ctx, pod)
}

// EventsToRegister implements fwk.EnqueueExtensions.
func (s *standalone) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	events, err := s.gang.EventsToRegister(ctx)
	for i, hint := range events {
		events[i].QueueingHintFn = func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return hint.QueueingHintFn(logger, pod, oldObj, newObj)
		}
	}
	return events, err
}
