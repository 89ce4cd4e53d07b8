package explain

import (
	"fmt"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// isGang reports whether an entity is a gang, or several that are admitted together.
func isGang(e *queue.Entity) bool { return e != nil && e.Type() != fwk.PodKeyType }

// queuePlace says where an entity is in the queue.
func queuePlace(m *scheduler.Machine, e *queue.Entity) answer.QueuePlace {
	return queuePlaceWith(m, e, func(s *answer.QueuePlace) { addAhead(s, m, e) })
}

// queuePlaceWith is queuePlace, with the entities ahead as addAhead adds them.
func queuePlaceWith(m *scheduler.Machine, e *queue.Entity, addAhead func(*answer.QueuePlace)) answer.QueuePlace {
	unschedulable, pending := e.RejectedBy()
	s := answer.QueuePlace{
		Entity: string(e.Type()), State: e.State().String(), Retryable: e.Retryable(), Since: answer.Instant(e.Since()),
		BackoffUntil: answer.Instant(e.BackoffUntil()),
		RejectedBy:   append(append([]string(nil), unschedulable...), pending...),
		GatingPlugin: e.GatingPlugin(), GatingMessage: e.GatingMessage(),
	}
	addAhead(&s)
	if at, ok := m.Queue().RetryAt(e); ok {
		s.RetryAt = answer.Instant(at)
	}
	s.NextRetry = nextRetry(&s, answer.Instant(m.Now()))
	if m.Queue().MayPopEarly(e) {
		s.NextRetry = "as soon as there is room for all that it needs and nothing else is to be attempted; " +
			"at the latest " + s.NextRetry
	}
	if s.Retryable && s.State == queue.Unschedulable.String() {
		s.NextRetry += withinOneOf(m, e)
	}
	return s
}

// withinOneOf says within what the room of an entity has to be: nodes with one value of the labels that its gang
// requires; "" if its gang requires none.
func withinOneOf(m *scheduler.Machine, e *queue.Entity) string {
	key := e.Key()
	if key.Type != fwk.PodGroupKeyType {
		return ""
	}
	g := m.Cluster().Gangs().Named(key.Namespace, key.Name)
	if g == nil {
		return ""
	}
	if required, _ := g.Topology(); len(required) > 0 {
		return " within one " + strings.Join(required, ", ")
	}
	return ""
}

// nextRetry says in words when an entity is tried again.
func nextRetry(s *answer.QueuePlace, now answer.Instant) string {
	switch s.State {
	case queue.Active.String():
		if s.Ahead > 0 {
			return fmt.Sprintf("in its turn: %s before it", phrase.Count(int64(s.Ahead), "entity", "entities")) +
				phrase.Ahead(s)
		}
		return "with the next cycle"
	case queue.InFlight.String():
		return "its cycles are running"
	case queue.Asking.String():
		return "as soon as HTTP extenders have answered"
	case queue.Backoff.String():
		return fmt.Sprintf("at %s, when its backoff ends", s.RetryAt)
	case queue.Gated.String():
		return fmt.Sprintf("when %s lets it in", s.GatingPlugin)
	case queue.Unschedulable.String():
		return retryOfUnschedulable(s, now)
	}
	return ""
}

func retryOfUnschedulable(s *answer.QueuePlace, now answer.Instant) string {
	if s.Retryable {
		return "as soon as there is room for all that it needs"
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

// reservedFor returns the reservation of an entity of the queue, nil for none.
func reservedFor(m *scheduler.Machine, e *queue.Entity) *answer.Reserved {
	if e == nil {
		return nil
	}
	for _, r := range m.Reservations() {
		if r.Key == e.Key() {
			nodes := map[string]bool{}
			for _, place := range r.Places {
				nodes[place.Node] = true
			}
			return &answer.Reserved{At: answer.Instant(r.At), Nodes: len(nodes)}
		}
	}
	return nil
}

// reservationEnd returns how a Decision of outcome Reserved ended a reservation, nil if it made one.
func reservationEnd(at answer.Point, d *eventlog.Decision) *answer.ReservationEnd {
	why := ""
	switch d.Ended {
	case eventlog.NotFirst:
		why = "it was not the first in its lane any more of those that wait for room"
	case eventlog.NoTime:
		why = "there was no time any more at which it was to have room"
	case eventlog.OtherReason:
		why = "there was room for it, and it was refused for another reason"
	default:
		return nil
	}
	return &answer.ReservationEnd{Point: at, Ended: d.Ended.String(), Why: why}
}

// blocksFor returns the room that is kept free for an entity of the queue, nil if others may pass it.
func blocksFor(m *scheduler.Machine, e *queue.Entity) *answer.Blocks {
	if e == nil {
		return nil
	}
	for _, h := range m.BlockedLanes() {
		if h.Key == e.Key() {
			return &answer.Blocks{Since: answer.Instant(h.Since), Nodes: h.Nodes, Pods: h.Pods, Needed: h.Needed}
		}
	}
	return nil
}

// gateOf returns the plugin that keeps a pending pod out of the queue. Its own scheduling gates come first, also if
// another plugin answered first.
func gateOf(m *scheduler.Machine, p *cluster.Pod) (plugin, message string, gated bool) {
	if gates := p.Object.Spec.SchedulingGates; len(gates) > 0 {
		var of []string
		for _, g := range gates {
			of = append(of, g.Name)
		}
		return names.SchedulingGates, fmt.Sprintf("waiting for scheduling gates: %v", of), true
	}
	e := m.Queue().Find(p.Object.UID)
	if e == nil || e.NumGated() == 0 {
		return "", "", false
	}
	return e.Gate(p.Object.UID)
}

// ofQueue says what an entity waits for that was tried, or could be.
func waitInQueue(w *answer.WaitsFor, q *answer.QueuePlace) {
	switch {
	case q == nil:
		w.Kind = "Nothing"
	case q.Retryable:
		w.Kind = "Room"
	case q.State == queue.Active.String():
		w.Kind, w.Ahead = "Turn", q.Ahead
	case q.State == queue.Asking.String():
		w.Kind = "Extenders"
	case q.State == queue.Backoff.String():
		w.Kind, w.Until = "Time", q.BackoffUntil
	case q.State == queue.Unschedulable.String():
		w.Kind, w.Plugins = "Change", q.RejectedBy
	case q.State == queue.Gated.String():
		w.Kind, w.Plugins = "Gates", []string{q.GatingPlugin}
	default:
		w.Kind = "Nothing"
	}
}
