package explain

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Pod says where the pod stood at the point in question, and why. Of several pods that had the name
// one after the other it is the last one up to that point. The error is a *NotFoundError if the log has
// none, or else about reading the log.
func Pod(ctx context.Context, read Reader, namespace, name string, opts Options) (*answer.Pod, error) {
	if opts.Index != nil {
		scan := newPodScan(namespace, name)
		found, err := scanPod(ctx, read, &opts, scan)
		by := &leaps{search: found}
		switch {
		case err != nil || scan.group.Name == "":
		case scan.history(opts.knownFrom()) != nil:
			by.group = scan.group
			err = found.addMembers(scan.group)
		case scan.gone == nil:
			err = found.tryMembers(scan.group)
		}
		if err == nil && scan.gone != nil {
			by.own, err = found.naming(index.UID(scan.uid), index.Pod(scan.name), index.Barrier())
		}
		var x *answer.Pod
		if err == nil {
			x, err = explainPod(ctx, read, scan, found.at, opts, by)
		}
		if !errors.Is(err, errWhole) {
			return x, err
		}
	}
	scan := newPodScan(namespace, name)
	at, err := scanPrefix(ctx, read, &opts, scan)
	if err != nil {
		return nil, err
	}
	return explainPod(ctx, read, scan, at, opts, nil)
}

// explainPod makes the second reading, behind the first one, which has ended at a point.
func explainPod(ctx context.Context, read Reader, scan *podScan, at answer.Point, opts Options, by *leaps,
) (*answer.Pod, error) {
	rerun := newRerun(opts, at)
	rerun.leaps = by
	rerun.explain(scan.placed, scan.last, scan.resized)
	if stop, ok := scan.stops[scan.group]; ok && scan.group.Name != "" {
		rerun.explain(stop)
	}
	rerun.own = scan.uid
	rerun.tell(scan.lostTo)
	rerun.tell(scan.preempted...)
	if scan.gone != nil {
		rerun.startBefore(scan.gone.Seq)
	}
	gang := scan.history(opts.knownFrom())
	if gang != nil {
		rerun.startBefore(gang.first.Seq)
		rerun.alsoWanted = func(e eventlog.Entry) bool {
			return gang.stopped(rerun.machine, e,
				func(name types.NamespacedName) uint64 { return scan.stops[name].at.Seq })
		}
	}
	if err := rerun.start(); err != nil {
		return nil, err
	}
	scan.noteStanding(rerun.machine)
	var w watcher = scan
	if gang != nil {
		gang.begun(rerun.machine)
		w = podOfGang{scan, gang}
	}
	if err := rerun.run(ctx, read, w); err != nil {
		return nil, err
	}
	x := podExplanation(scan, rerun, gang)
	if opts.Trace {
		x.Untraced = untraced(x)
	}
	return x, rerun.failed
}

// podExplanation puts together what both readings of the log have brought.
func podExplanation(s *podScan, r *rerun, gang *gangHistory) *answer.Pod {
	m := r.machine
	x := &answer.Pod{
		Pod: s.name.String(), UID: s.uid, At: r.at, KnownFrom: r.opts.knownFrom(), Stage: "Gone", Node: s.lastNode,
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
	if by := m.AskedBy(s.uid, scheduler.Evict); by > 0 && by <= r.opts.Base {
		x.AskedToGoBy = by
	}
	p := m.Cluster().Pod(s.uid)
	if p != nil {
		if x.Stage = p.Stage.String(); p.Stage == cluster.Pending {
			x.Nominated = m.NominatedNode(s.uid)
		}
		x.Gang = gangNumbersOf(p.Group)
	}
	e := m.Queue().Find(s.uid)
	if e != nil && e.Resize() {
		x.Resize, e = resizeOf(s, r, e), nil
		x.Resize.Predicate = render.Resize(x)
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

// place is where the pod, or its gang, stands in the queue, with since when, which the queue forgets when it owes a
// retry.
func (s *podScan) place(m *scheduler.Machine, e *queue.Entity, gang *gangHistory) answer.QueuePlace {
	if isGang(e) && gang != nil {
		return gang.place(m, e)
	}
	place := queuePlace(m, e)
	if place.Owed && place.Since == 0 {
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
