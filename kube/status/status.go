// Package status shows decisions in the cluster: the condition PodScheduled and the nominated node of pods, events, and
// the status of PodGroups of all APIs. It also deletes ResourceClaims that were made for pods and left behind.
//
// None of this is an effect of the log. It follows from decisions that are durable, is written best effort, and no
// decision depends on it. Only the last of several statuses for one object is written, and only if the API server does
// not have it already: after a restart nothing is written twice. Each kind has its own limit of requests a second, and
// events and the statuses of PodGroups wait while binds are queued, so that binds go first.
//
// Observe and the functions that it calls run in the scheduler's loop: they never wait. Run writes.
//
// Start reading at Status.Observe.
package status

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Pod is a pod at the API server, as far as it matters here.
type Pod struct {
	NodeName, NominatedNodeName string
	// Scheduled is the condition PodScheduled, nil for none.
	Scheduled *corev1.PodCondition
	// Generation is metadata.generation.
	Generation int64
	// ResourceVersion is metadata.resourceVersion.
	ResourceVersion string
	// Terminating: the pod has a deletion timestamp.
	Terminating bool
}

// Options configure a Status.
type Options struct {
	// Pods writes the status of pods and of PodGroups, Events writes events. They have limits of their own.
	Pods, Events kubernetes.Interface
	// Config reaches the PodGroups that are custom resources, and Volcano's jobs.
	Config *rest.Config
	// Schedulers are the names that pods give this scheduler: the jobs of Volcano that have one of them are its own.
	Schedulers []string
	// Seen returns the pod as the API server has it; false for one that is gone.
	Seen func(types.UID) (Pod, bool)
	// Workers is the number of statuses that are written at once.
	Workers int
	// Crowded reports whether binds or evictions wait for others to be answered: events and the statuses of PodGroups
	// wait then, for holdPatience at the most. nil means never.
	Crowded func() bool
	// Report receives a message about a failure that continues.
	Report func(message string)
	// Now stamps conditions and events; nil means time.Now.
	Now func() time.Time
}

// Counts count the writes so far.
type Counts struct {
	// PodStatuses, GroupStatuses and Events were written.
	PodStatuses, GroupStatuses, Events uint64
	// ClaimsDeleted are ResourceClaims that were left behind.
	ClaimsDeleted uint64
	// Standing counts the statuses that the API server had already, Replaced the statuses that a later one replaced
	// before they were written.
	Standing, Replaced uint64
	// Failed could not be written and were given up.
	Failed uint64
	// Dropped are events that were not written because too many waited, the oldest, or because a plugin recorded too
	// many in a cycle, or one that cannot be written.
	Dropped uint64
	// Waiting are there to be written.
	Waiting int
}

// Status keeps the statuses and events that wait to be written.
type Status struct {
	opts  Options
	pods  *pending[types.UID, podStatus]
	group *pending[groupKey, groupStatus]
	event *pending[eventKey, event]
	// claims are the claims that are to be deleted.
	claims *pending[types.NamespacedName, leftClaim]

	podsWritten, groupsWritten, eventsWritten, claimsDeleted, standing, failed atomic.Uint64

	groups groupWriter
	events eventWriter
	own    ownPods
	silent bool // no events are written of the inputs; of the scheduler's loop
	// victims are the events of pods that were asked to go and whose outcome is unknown; of the scheduler's loop.
	victims  map[types.UID]event
	together together
	plugins  pluginEvents
}

// eventWriters is the number of events that are written at once.
const eventWriters = 2

// maxEvents is the largest number of events that wait to be written. When so many wait and one comes, the oldest is
// dropped: the log has the same facts.
const maxEvents = 20_000

// holdPatience is the time for which an event, or the status of a PodGroup, lets all binds and evictions pass. holdStep
// is the interval between checks for them. If they continue after holdPatience, each of the writers writes one in each
// holdStep, so that most calls are still for binds and evictions.
const (
	holdPatience = 10 * time.Second
	holdStep     = 50 * time.Millisecond
)

// New returns a Status that has nothing to write yet.
func New(opts Options) *Status {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Workers == 0 {
		opts.Workers = 8
	}
	s := &Status{
		opts: opts, pods: newPending[types.UID, podStatus](0), group: newPending[groupKey, groupStatus](0),
		event: newPending[eventKey, event](maxEvents), together: newTogether(),
		claims:  newPending[types.NamespacedName, leftClaim](0),
		victims: map[types.UID]event{},
	}
	s.plugins.s = s
	// A claim that was left behind keeps its devices from all pods until it is gone.
	s.claims.keeps = func(leftClaim) bool { return true }
	s.group.keeps = func(g groupStatus) bool { return g.condition == nil } // nothing else asks again for the pods
	if opts.Crowded != nil {
		s.event.hold = letEffectsPass(s.event, opts.Crowded)
		s.group.hold = letEffectsPass(s.group, opts.Crowded)
	}
	return s
}

// letEffectsPass returns a function that waits while binds or evictions wait for others (crowded), or for a holdStep if
// something has waited to be written for too long. It does not wait if so much waits that some would soon be dropped.
func letEffectsPass[K comparable, V any](p *pending[K, V], crowded func() bool) func(context.Context) {
	return func(ctx context.Context) {
		for late := false; !late && ctx.Err() == nil && crowded(); {
			since, n := p.waitsSince()
			if n == 0 || p.limit > 0 && n > p.limit/2 {
				return
			}
			late = time.Since(since) >= holdPatience
			select {
			case <-ctx.Done():
			case <-time.After(holdStep):
			}
		}
	}
}

// Run writes until ctx is done.
func (s *Status) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range s.opts.Workers {
		all.Go(func() {
			s.pods.each(ctx, s.writePod, func(_ types.UID, p podStatus, came outcome, err error) {
				s.count(&s.podsWritten, came, err, "status of pod %s/%s", p.ref.namespace, p.ref.name)
			})
		})
	}
	all.Go(func() {
		s.group.each(ctx, s.writeGroup, func(key groupKey, _ groupStatus, came outcome, err error) {
			s.count(&s.groupsWritten, came, err, "status of %s %s/%s", key.resource, key.namespace, key.name)
		})
	})
	all.Go(func() {
		s.claims.each(ctx, s.deleteClaim, func(key types.NamespacedName, _ leftClaim, came outcome, err error) {
			s.count(&s.claimsDeleted, came, err, "deletion of ResourceClaim %s", key)
		})
	})
	for range eventWriters {
		all.Go(func() {
			s.event.each(ctx, s.writeEvent, func(_ eventKey, e event, came outcome, err error) {
				s.count(&s.eventsWritten, came, err, "event %s of %s %s/%s", e.reason,
					strings.ToLower(e.regarding.Kind), e.regarding.Namespace, e.regarding.Name)
			})
		})
	}
	all.Wait()
}

// count counts the outcome of a try to write, and reports a write that was given up and might have succeeded.
func (s *Status) count(written *atomic.Uint64, came outcome, err error, what string, args ...any) {
	switch came {
	case wrote:
		written.Add(1)
	case stands:
		s.standing.Add(1)
	case lost:
		s.failed.Add(1)
		if s.opts.Report != nil && !lasting(err) {
			s.opts.Report(fmt.Sprintf(what, args...) + fmt.Sprintf(": %v: given up", err))
		}
	case delayed:
		if s.opts.Report != nil {
			s.opts.Report(fmt.Sprintf(what, args...) + fmt.Sprintf(": %v: tried on", err))
		}
	}
}

// Counts returns the counts so far.
func (s *Status) Counts() Counts {
	return Counts{
		PodStatuses: s.podsWritten.Load(), GroupStatuses: s.groupsWritten.Load(), Events: s.eventsWritten.Load(),
		Standing: s.standing.Load(), Failed: s.failed.Load(),
		ClaimsDeleted: s.claimsDeleted.Load(),
		Replaced:      s.pods.replaced() + s.group.replaced() + s.event.replaced() + s.claims.replaced(),
		Dropped:       s.event.dropped() + s.plugins.dropped(),
		Waiting:       s.pods.len() + s.group.len() + s.event.len() + s.claims.len() + s.plugins.waiting(),
	}
}

// Observe takes in the entries that have become durable, and shows the Ready's State. It keeps no part of the Ready.
func (s *Status) Observe(r engine.Ready) {
	for _, c := range r.Commits {
		s.observe(r.State, c.Entries)
	}
}

// observe takes in entries in their order, of a state that has come as far or further.
func (s *Status) observe(m *scheduler.Machine, entries []eventlog.Entry) {
	for i := range entries {
		switch p := entries[i].Payload.(type) {
		case *eventlog.Decision:
			s.decided(m, p)
			s.judged(m, m.Cluster().Pods().Get(p.UID))
		case *eventlog.BindResult:
			s.answered(m, p)
			s.judged(m, m.Cluster().Pods().Get(p.UID))
		case *eventlog.EvictResult:
			s.leaves(p)
		case *eventlog.Deleted:
			s.left(p.UID)
		case *eventlog.Upserted:
			if pod, ok := p.Object.(*corev1.Pod); ok {
				s.joined(m, pod.UID)
				s.leftBehind(m, pod.UID)
				s.judged(m, m.Cluster().Pods().Get(pod.UID))
			} else if claim, ok := p.Object.(*resourcev1.ResourceClaim); ok {
				if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
					s.leftBehind(m, owner.UID)
				}
			} else if cluster.DeclaresGroups(p.Resource) {
				s.declared(m, p.Resource, p.Object)
			} else if p.Resource == eventlog.CompositePodGroups {
				s.judgedBelow(m, p.Object)
			}
		}
	}
	s.release(entries[len(entries)-1].Seq)
}

// Recover takes in the last entries of the log that m was recovered from, in order. The process that made them may have
// ended before it wrote their statuses: these are written now, if they still hold and the API server does not have them
// already. Recover writes no events. It is called in the scheduler's loop, once the cluster is known.
func (s *Status) Recover(m *scheduler.Machine, entries iter.Seq2[eventlog.Entry, error]) error {
	s.silent = true
	defer func() { s.silent = false }()
	for e, err := range entries {
		if err != nil {
			return err
		}
		s.observe(m, []eventlog.Entry{e})
	}
	for obj := range m.Cluster().ObjectsOf(eventlog.VolcanoPodGroups) {
		s.declared(m, eventlog.VolcanoPodGroups, obj)
	}
	for _, p := range m.Cluster().Pods().That(func(p *cluster.Pod) bool {
		return p.Object.Spec.NodeName == "" && m.Schedules(p.Object)
	}) {
		pod := p.Object
		s.leftBehind(m, pod.UID)
		s.judged(m, m.Cluster().Pods().Get(pod.UID))
		if p := m.Cluster().Pods().Get(pod.UID); p != nil && p.Stage == cluster.Pending &&
			(m.NominatedNode(pod.UID) != "" || pod.Status.NominatedNodeName != "") {
			s.show(m, p, nil)
		}
	}
	return nil
}

// answered takes in the result of a bind.
func (s *Status) answered(m *scheduler.Machine, r *eventlog.BindResult) {
	if r.Outcome == eventlog.BindBound {
		s.bound(m, r)
		return
	}
	p := m.Cluster().Pods().Get(r.UID)
	if r.Outcome == eventlog.BindUnknown || p == nil || p.Stage != cluster.Pending {
		return // it is not known, or nothing is to be said any more
	}
	s.leftBehind(m, r.UID)
	message := "binding to node " + r.Node + " failed: " + r.Message
	s.refused(m, p, reason{corev1.PodReasonSchedulerError, message})
	if s.opts.Report != nil && !s.silent {
		s.opts.Report(fmt.Sprintf("pod %s/%s: %s", p.Object.Namespace, p.Object.Name, message))
	}
}

// decided takes in a decision.
func (s *Status) decided(m *scheduler.Machine, d *eventlog.Decision) {
	state := m.Cluster()
	by := ref{d.Namespace, d.Name, d.UID}
	if d.Outcome != eventlog.Evicted {
		s.preempted(m, d, by)
	}
	for _, n := range d.Nominations {
		if p := state.Pods().Get(n.UID); p != nil {
			s.show(m, p, nil)
		}
	}
	if d.Outcome == eventlog.Scheduled || d.Outcome == eventlog.Waiting {
		s.pods.drop(d.UID) // why it had no node is over; the API server writes the rest with the binding
	}
	if d.Outcome != eventlog.Unschedulable && d.Outcome != eventlog.Error {
		return
	}
	nodes, _ := state.Nodes().List()
	why := reasonOf(d, len(nodes))
	// No status mentions a resize.
	if p := state.Pods().Get(d.UID); p != nil && !(p.Stage == cluster.Bound && d.Group == "") {
		if p.Group != nil && m.MembersLeaveNoDomain(p.Group) {
			why.reason = corev1.PodReasonSchedulerError // as kube-scheduler says; it is tried again after events alone
		}
		s.refused(m, p, why)
		if p.Group != nil {
			s.together.remember(p.Group, why)
		}
		if g := p.Group; g != nil && !isPlaced(g) {
			s.groupRefused(m, g, p, why, len(d.Victims))
			s.othersRefused(m, p, why)
		}
	}
}

// refused has a pod's condition and an event say why it has no node.
func (s *Status) refused(m *scheduler.Machine, p *cluster.Pod, why reason) {
	if p.Stage != cluster.Pending {
		return
	}
	s.show(m, p, &corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: why.reason, Message: why.message,
	})
	s.tell(event{
		regarding: refOf(p).object(), eventtype: corev1.EventTypeWarning, reason: "FailedScheduling",
		action: "Scheduling", note: why.message, reporter: reporterOf(p),
	})
}

// groupRefused writes why a gang was not placed, into its status and into the conditions of its pods that had no cycle
// of their own. victims is the number of pods that are preempted for it.
func (s *Status) groupRefused(m *scheduler.Machine, g *cluster.Group, tried *cluster.Pod, why reason, victims int) {
	of := why
	of.message = "gang " + g.Name + " is not placed: " + why.message
	for _, member := range g.Members() {
		if member != tried && isPending(m, member) {
			s.refused(m, member, of)
		}
	}
	s.showGroup(g, groupStatus{condition: &metav1.Condition{
		Status: metav1.ConditionFalse, Reason: why.reason, Message: groupMessage(g, why.message, victims),
	}})
}

// isPending reports whether a cycle could place a member.
func isPending(m *scheduler.Machine, p *cluster.Pod) bool {
	return p.Stage == cluster.Pending && m.Schedules(p.Object) && len(p.Object.Spec.SchedulingGates) == 0 &&
		p.MayBePlaced()
}

// isPlaced reports whether as many members as the gang needs have nodes permanently, or have ended well. Its
// MatchPolicy is no part of it: the pods exist.
func isPlaced(g *cluster.Group) bool {
	known := g.Gang()
	return known.Enough(known.Placed() + known.Succeeded)
}

// isBound is isPlaced of members that are known to be bound: a bind that is under way may fail.
func isBound(g *cluster.Group) bool {
	known := g.Gang()
	return known.Enough(known.Bound + known.Succeeded)
}

// bound takes in that a pod is bound.
func (s *Status) bound(m *scheduler.Machine, r *eventlog.BindResult) {
	p := m.Cluster().Pods().Get(r.UID)
	if p == nil {
		return
	}
	s.pods.drop(r.UID) // the API server has written the condition, and taken the nomination away, with the binding
	of := refOf(p)
	s.tell(event{
		regarding: of.object(), eventtype: corev1.EventTypeNormal, reason: "Scheduled", action: "Binding",
		note: "Successfully assigned " + of.namespace + "/" + of.name + " to " + r.Node, reporter: reporterOf(p),
	})
	if g := p.Group; g != nil && isBound(g) {
		s.showGroup(g, groupStatus{condition: &metav1.Condition{
			Status: metav1.ConditionTrue, Reason: "Scheduled", Message: "the gang has its minimum of pods on nodes",
		}})
	}
}

// preempted prepares the events of the victims, which name the preemptor, beginning with the words of kube-scheduler.
// Like kube-scheduler it writes them when they go: an eviction may be given up, or withdrawn.
func (s *Status) preempted(m *scheduler.Machine, d *eventlog.Decision, by ref) {
	preemptor := by.object()
	for _, uid := range d.Victims {
		victim := m.Cluster().Pods().Get(uid)
		if victim == nil {
			continue
		}
		note := "Preempted by pod " + string(by.uid) + " on node " + victim.Node
		if d.Group != "" {
			note = "Preempted by podgroup " + d.Namespace + "/" + d.Group + " (pod " + string(by.uid) + ") on node " +
				victim.Node
		}
		s.victims[uid] = event{
			regarding: refOf(victim).object(), related: &preemptor, eventtype: corev1.EventTypeNormal,
			reason: "Preempted", action: "Preempting", note: note, reporter: reporterOf(victim),
		}
	}
}

// leaves takes in the result of an eviction.
func (s *Status) leaves(r *eventlog.EvictResult) {
	switch r.Outcome {
	case eventlog.EvictDone, eventlog.EvictGone:
		s.left(r.UID)
	case eventlog.EvictGivenUp, eventlog.EvictWithdrawn:
		delete(s.victims, r.UID)
	}
}

// left writes the event of a victim that was preempted: it goes, or is gone.
func (s *Status) left(uid types.UID) {
	if e, ok := s.victims[uid]; ok {
		delete(s.victims, uid)
		s.tell(e)
	}
}

// ref names a pod.
type ref struct {
	namespace, name string
	uid             types.UID
}

func refOf(p *cluster.Pod) ref { return ref{p.Object.Namespace, p.Object.Name, p.Object.UID} }

// reporterOf is the name under which events of a pod are written: its scheduler's.
func reporterOf(p *cluster.Pod) string { return p.Object.Spec.SchedulerName }
