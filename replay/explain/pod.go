package explain

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Pod explains the state of the pod at a point of the log, and its reasons. If several pods had the name one after the
// other, it is the last one up to that point. The error is a *NotFoundError if the log has none. Other errors are about
// reading the log.
func Pod(ctx context.Context, log *history.Log, namespace, name string, opts Options) (*answer.Pod, error) {
	return ask(ctx, log, &opts, func(r *reading) (*answer.Pod, error) {
		scan := newPodScan(namespace, name)
		if err := scan.read(r); err != nil {
			return nil, err
		}
		return explainPod(r, scan)
	})
}

// read makes the first reading.
func (s *podScan) read(r *reading) error {
	if err := r.start(s); err != nil {
		return err
	}
	s.addNames(r.names)
	if err := r.selectFor(s.learn); err != nil {
		return err
	}
	if err := r.scan(s); err != nil {
		return err
	}
	var err error
	if s.gone != nil {
		s.own, err = r.Naming(r.ctx, index.UID(s.uid), index.Pod(s.name), index.Barrier())
	}
	if err == nil && s.group.Name != "" && s.gone == nil {
		// The members of its gang: it may be pending with them, and the answer has the number on nodes in any case.
		var narrow bool
		narrow, err = r.Grow(r.ctx, learnOfMembers(s.group))
		if err == nil && !narrow && s.history(r.knownFrom()) != nil {
			err = history.ErrTooNarrow
		}
	}
	return err
}

// addNames adds the names of the pod at the beginning of the log.
func (s *podScan) addNames(names *history.Names) {
	if !s.seen {
		return
	}
	names.Add(index.UID(s.uid))
	if node := s.object.Spec.NodeName; node != "" {
		names.Add(index.Node(node))
	}
	if s.group.Name != "" {
		names.Add(index.Group(s.group))
	}
}

// learn is a history.Learner: it adds the pod's UID, its nodes and its gang.
func (s *podScan) learn(e eventlog.Entry, names *history.Names) error {
	own := func(pod *v1.Pod) bool { return pod.Namespace == s.name.Namespace && pod.Name == s.name.Name }
	if p, ok := e.Payload.(*eventlog.Upserted); ok {
		if pod, ok := p.Object.(*v1.Pod); ok && own(pod) {
			if group, ok := cluster.GroupName(pod); ok {
				names.Add(index.Group(group))
			}
		}
	}
	learn(e, names, own)
	return nil
}

// explainPod makes the second reading, behind the first one.
func explainPod(r *reading, scan *podScan) (*answer.Pod, error) {
	rerun := newRerun(r)
	rerun.explain(scan.placed, scan.last, scan.resized)
	if stop, ok := scan.stops[scan.group]; ok && scan.group.Name != "" {
		rerun.explain(stop)
	}
	rerun.own = scan.uid
	rerun.tell(scan.lost.to)
	rerun.tell(scan.preempted...)
	rerun.tellLosses(&scan.lost.own)
	rerun.tellLosses(&scan.lost.earlier)
	if scan.gone != nil {
		rerun.startBefore(scan.gone.Seq)
	}
	gang := scan.history(r.knownFrom())
	if gang != nil {
		rerun.startBefore(gang.first.Seq)
		rerun.alsoWanted = func(e eventlog.Entry) bool {
			return gang.stopped(rerun.machine, e,
				func(name types.NamespacedName) uint64 { return scan.stops[name].at.Seq })
		}
	}
	if err := rerun.begin(); err != nil {
		return nil, err
	}
	scan.noteStanding(rerun.machine)
	var w watcher = scan
	if gang != nil {
		gang.begun(rerun.machine)
		w = podOfGang{scan, gang}
	}
	if err := rerun.run(w); err != nil {
		return nil, err
	}
	x := podExplanation(scan, rerun, gang)
	if err := addUndecided(x, scan, rerun); err != nil {
		return nil, err
	}
	if err := addChoice(x, scan, rerun); err != nil {
		return nil, err
	}
	if r.opts.Trace {
		x.Untraced = untraced(x)
	}
	return x, rerun.failed
}

// podExplanation puts together what both readings of the log have brought.
func podExplanation(s *podScan, r *rerun, gang *gangHistory) *answer.Pod {
	m := r.machine
	x := &answer.Pod{
		Pod: s.name.String(), UID: s.uid, At: r.at, KnownFrom: r.knownFrom(), Stage: "Gone", Node: s.lastNode,
		SchedulerName: s.object.Spec.SchedulerName, Ignored: !m.Schedules(s.object),
		Terminating: s.object.DeletionTimestamp != nil,
		Created:     s.created, Earlier: s.earlier, Gone: s.gone, GoneHow: s.goneHow,
		Attempts: s.attempts, FirstQueued: answer.Instant(s.firstQueued),
		Allowed: s.allowed, Released: s.released, Bind: s.bind,
	}
	if s.group.Name != "" {
		x.Group = s.group.String()
	}
	addPreemptions(x, s, r)
	addNodeLosses(x, s, r, gang)
	if by := m.AskedBy(s.uid, scheduler.Evict); by > 0 && by <= r.base {
		x.AskedToGoBy = by
	}
	p := s.podIn(m)
	if p != nil {
		if x.Stage = p.Stage.String(); p.Stage == cluster.Pending {
			x.Nominated = m.NominatedNode(s.uid)
		}
		x.Gang = gangNumbersOf(p.Group)
	}
	e := m.Queue().Find(s.uid)
	if e != nil && e.Resize() {
		x.Resize, e = resizeOf(s, r, e), nil
		x.Resize.Predicate = phrase.Resize(x)
		x.Resize.Message = "The resize of pod " + x.Pod + " " + x.Resize.Predicate
	}
	if e != nil {
		place := s.place(m, e, gang)
		x.Queue, x.Attempts, x.FirstQueued = &place, e.Attempts(), answer.Instant(e.FirstActive())
		x.GatingPlugin, x.GatingMessage, _ = e.Gate(s.uid)
	}
	if x.Node != "" {
		x.Decision = r.explained(s.placed)
		x.Reason = podReason(s, r, x, gang)
		return x
	}
	x.Decision = r.explained(s.last)
	stop := s.stops[s.group]
	if isGang(e) && e.Attempts() > 0 && stop.exists() && stop.decision.UID != s.uid &&
		!(s.last.failed() && s.last.at.Seq > stop.at.Seq) {
		x.StoppedBy = r.explained(stop)
	}
	x.Reason = podReason(s, r, x, gang)
	return x
}

// place returns the place of the pod, or of its gang, in the queue, with its time, which the queue forgets when the
// entity is retryable.
func (s *podScan) place(m *scheduler.Machine, e *queue.Entity, gang *gangHistory) answer.QueuePlace {
	if isGang(e) && gang != nil {
		return gang.place(m, e)
	}
	place := queuePlace(m, e)
	if place.Retryable && place.Since == 0 {
		place.Since = s.failedAt.Time
	}
	return place
}

// podOfGang watches a pod and the gang that it is pending with.
type podOfGang struct {
	*podScan
	gang *gangHistory
}

func (w podOfGang) before(m *scheduler.Machine, e eventlog.Entry) { w.gang.before(m, e) }

func (w podOfGang) after(m *scheduler.Machine, e eventlog.Entry) {
	w.podScan.after(m, e)
	w.gang.after(m, e)
}

// needs keeps every entry while the gang does, and the state at the point in question: the gang is pending.
func (w podOfGang) needs(m *scheduler.Machine, ahead []uint64, names *history.Names) history.Need {
	if need := w.gang.needs(m, ahead, names); need != history.NothingMore {
		return need
	}
	return history.SelectedEntries
}

// addPreemptions adds what the pod had to go for, and what had to go for it.
func addPreemptions(x *answer.Pod, s *podScan, r *rerun) {
	if by := r.preemption(s.lost.to); by != nil && by.OwnPods > 0 {
		countRemaining(r.machine, by)
		x.PreemptedBy = by
	}
	if s.lost.evicted.exists() {
		x.Evicted = &answer.Eviction{Point: s.lost.evicted.at, Members: len(s.lost.evicted.decision.Victims),
			Why: whyEvicted(s.lost.evicted.decision)}
	}
	addEviction(x, s, r.machine.AskedBy(s.uid, scheduler.Evict))
	for _, d := range s.preempted {
		if told := r.preemption(d); told != nil && told.OwnPods == 0 &&
			(d.decision.UID == s.uid || told.By.Group != "") {
			countRemaining(r.machine, told)
			addRefused(r.machine, told, s.results)
			x.Preempted = append(x.Preempted, *told)
		}
	}
	x.OmittedPreempted = s.earlierPreempted
}

// addEviction adds the latest result of the pod's eviction: of the outstanding one, or else of the last one. Results of
// an earlier one have no meaning for it.
func addEviction(x *answer.Pod, s *podScan, outstanding uint64) {
	last := outstanding
	if last == 0 && x.PreemptedBy != nil {
		last = x.PreemptedBy.Seq
	}
	if outstanding == 0 && x.Evicted != nil {
		last = max(last, x.Evicted.Seq)
	}
	for _, r := range s.results {
		if r.UID == s.uid && r.Decision >= last {
			own := *r
			own.Pod = s.name.String()
			x.Eviction = &own
		}
	}
}

// history returns the history of the pod's gang, to be collected if the pod may be pending with it; nil if it is not.
func (s *podScan) history(knownFrom uint64) *gangHistory {
	if s.group.Name == "" || s.gone != nil || s.object.Spec.NodeName != "" || s.bound() {
		return nil
	}
	first := s.gangs[s.group]
	if knownFrom > 0 {
		first = answer.Point{} // it may have been there before
	}
	return &gangHistory{group: s.group, first: &first}
}

// resizeOf returns the progress of a pod's resize. e is its entity in the queue.
func resizeOf(s *podScan, r *rerun, e *queue.Entity) *answer.Resize {
	x := &answer.Resize{Attempts: e.Attempts(), Queue: queuePlace(r.machine, e), Decision: r.explained(s.resized)}
	if s.resized.exists() {
		x.Fits = slices.ContainsFunc(s.resized.decision.Rejections, func(rejection eventlog.Rejection) bool {
			return rejection.Plugin == names.DeferredPodScheduling && s.resized.decision.Feasible > 0
		})
	}
	return x
}
