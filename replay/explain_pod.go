package replay

import (
	"fmt"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// isGang says whether an entity is a gang, or several that are admitted together.
func isGang(e *queue.Entity) bool { return e != nil && e.Type() != fwk.PodKeyType }

// podExplanation puts together what both readings of the log have brought.
func podExplanation(s *podScan, r *rerun, gang *groupHistory) *PodExplanation {
	m := r.machine
	x := &PodExplanation{
		Pod: s.name.String(), UID: s.uid, At: r.at, KnownFrom: r.opts.knownFrom(), Stage: "Gone", Node: s.lastNode,
		SchedulerName: s.object.Spec.SchedulerName, Ignored: !m.Schedules(s.object), Terminating: s.object.DeletionTimestamp != nil,
		Created: s.created, Earlier: s.earlier, Gone: s.gone, GoneHow: s.goneHow,
		Attempts: s.attempts, FirstQueued: Instant(s.firstQueued),
		Allowed: s.allowed, Released: s.released, Bind: s.bind,
	}
	if s.group.Name != "" {
		x.Group = s.group.String()
	}
	p := m.Cluster().Pod(s.uid)
	if p != nil {
		x.Stage = p.Stage.String()
		x.gang = gangNumbersOf(p.Group)
	}
	e := m.Queue().Find(s.uid)
	if e != nil {
		standing := s.standing(m, e, gang)
		x.Queue, x.Attempts, x.FirstQueued = &standing, e.Attempts(), Instant(e.FirstActive())
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

// standing is where the pod, or its gang, stands in the queue, with since when, which the queue forgets when it owes a
// retry.
func (s *podScan) standing(m *scheduler.Machine, e *queue.Entity, gang *groupHistory) QueueStanding {
	if isGang(e) && gang != nil {
		return gang.standing(m, e)
	}
	standing := queueStanding(m, e)
	if standing.Owed && standing.Since == 0 {
		standing.Since = s.failedAt.Time
	}
	return standing
}

// queueStanding says where an entity stands in the queue.
func queueStanding(m *scheduler.Machine, e *queue.Entity) QueueStanding {
	unschedulable, pending := e.RejectedBy()
	s := QueueStanding{
		Entity: string(e.Type()), State: e.State().String(), Owed: e.Owed(), Since: Instant(e.Since()),
		Ahead: m.Queue().Ahead(e), BackoffUntil: Instant(e.BackoffUntil()),
		RejectedBy:   append(append([]string(nil), unschedulable...), pending...),
		GatingPlugin: e.GatingPlugin(), GatingMessage: e.GatingMessage(),
	}
	if at, ok := m.Queue().RetryAt(e); ok {
		s.RetryAt = Instant(at)
	}
	s.NextRetry = nextRetry(&s, Instant(m.Now()))
	return s
}

// nextRetry says in words when an entity is tried again.
func nextRetry(s *QueueStanding, now Instant) string {
	switch s.State {
	case queue.Active.String():
		if s.Ahead > 0 {
			return fmt.Sprintf("in its turn: %s before it", count(int64(s.Ahead), "entity", "entities"))
		}
		return "with the next cycle"
	case queue.InFlight.String():
		return "its cycles are running"
	case queue.Backoff.String():
		return fmt.Sprintf("at %s, when its backoff ends", s.RetryAt)
	case queue.Gated.String():
		return fmt.Sprintf("when %s lets it in", s.GatingPlugin)
	case queue.Unschedulable.String():
		return retryOfUnschedulable(s, now)
	}
	return ""
}

func retryOfUnschedulable(s *QueueStanding, now Instant) string {
	if s.Owed {
		return "as soon as all nodes together have enough free for it"
	}
	var b strings.Builder
	b.WriteString("when something changes")
	if len(s.RejectedBy) > 0 {
		fmt.Fprintf(&b, " that may satisfy %s", strings.Join(s.RejectedBy, " or "))
	}
	if s.BackoffUntil > now {
		fmt.Fprintf(&b, ", but not before %s", s.BackoffUntil)
	}
	if s.RetryAt != 0 {
		fmt.Fprintf(&b, "; at the latest at %s", s.RetryAt)
	}
	return b.String()
}

// count is n of something, in words.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
