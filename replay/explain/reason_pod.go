package explain

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// podReason returns the reason why the pod is pending, nil if it is not: its gang's reason, or one of its own.
func podReason(s *podScan, r *rerun, x *answer.Pod, gang *gangHistory) *answer.Reason {
	m := r.machine
	p := s.podIn(m)
	if p == nil || p.Stage == cluster.Binding || p.Stage == cluster.Bound {
		return nil
	}
	if !x.Ignored && !x.Terminating && gang != nil && isGang(m.Queue().Find(s.uid)) {
		if reason := gang.reason(r, x.Queue); reason != nil {
			reason.Pod = podPart(s, m, p, gang)
			return reason
		}
	}
	return ownReason(s, r, x, p)
}

// ownReason returns the reason why a pod by itself is pending.
func ownReason(s *podScan, r *rerun, x *answer.Pod, p *cluster.Pod) *answer.Reason {
	m := r.machine
	reason := &answer.Reason{Code: podCode(m, x, p, s.failedAs), Attempts: x.Attempts}
	w := &reason.WaitsFor
	switch e := m.Queue().Find(s.uid); {
	case reason.Code == answer.BeingDeleted:
		w.Kind, reason.NextRetry.Words = "Nothing", "never"
	case reason.Code == answer.BeingEvicted:
		w.Kind, reason.NextRetry.Words = "Nothing", "never"
		if x.Bind != nil {
			reason.Since = x.Bind.Time // it lost its node; if that is not in the log, it is not known when
		}
	case reason.Code == answer.NoProfile:
		w.Kind, reason.Since = "Configuration", s.created.Time
		reason.NextRetry.Words = "when a configuration has a profile for it"
	case reason.Code == answer.HeldByPermit:
		if held, ok := m.WaitingPods().Get(s.uid); ok {
			w.Kind, w.Plugins, w.Until = "Permit", held.Plugins, answer.Instant(held.Until)
		}
		reason.Since = s.placed.at.Time
		reason.NextRetry.Words = fmt.Sprintf("when %s lets it go, without another attempt; it is released at %s",
			phrase.List(w.Plugins, "a plugin"), w.Until)
	default:
		reason.Since = answer.Instant(e.Timestamp())
		if reason.Code == answer.Gated {
			reason.Since = answer.Instant(e.Since())
		}
		reason.NextRetry = answer.NextRetry{At: x.Queue.RetryAt, Words: x.Queue.NextRetry}
		waitInQueue(w, x.Queue)
	}
	if ofAnAttempt(reason.Code) && reason.Code != answer.FailedBefore {
		reason.Since, reason.Failed, reason.Member = s.failedSince, &s.failedAt, x.Pod
		addRefusals(reason, r.explained(s.last))
	}
	if r.asked(reason.Code) {
		if t := r.trialOf(m.Queue().Find(s.uid)); t != nil {
			reason.Now = t.answer(nil)
			addUnmatched(reason, r, p)
			if !reason.Now.Fits {
				b := boundsOf(r)
				never := b.pod(p)
				if never.why == "" {
					never = refusedWhole(&t.fail)
				}
				never.addNever(reason, true)
			}
		}
	}
	r.asOthersDecide(reason)
	reason.Reserved = reservedFor(m, m.Queue().Find(s.uid))
	if reason.Reserved == nil {
		reason.ReservationEnded = s.unreserved
	}
	reason.Blocks = blocksFor(m, m.Queue().Find(s.uid))
	x.Reason = reason // the text is made of it
	reason.Predicate = phrase.PodPending(x)
	reason.Message = "Pod " + x.Pod + " " + reason.Predicate
	setCode(reason)
	return reason
}

// addRefusals adds what the pod's last decision said.
func addRefusals(x *answer.Reason, d *answer.Decision) {
	if d == nil || x.Code == answer.BindFailed {
		return
	}
	x.Refusals = ownRefusals(d.Refusals)
	if x.Code != answer.Unplaceable {
		return
	}
	if x.Shortfall = shortOf(d, &failure{code: x.Code}); len(x.Shortfall) > 0 {
		x.ShortfallAt = &d.Point
	}
}

// podCode returns the reason code of a pod by itself. failedAs is the code of its last failure, "" if that is not
// known.
func podCode(m *scheduler.Machine, x *answer.Pod, p *cluster.Pod, failedAs answer.Code) answer.Code {
	e := m.Queue().Find(p.Object.UID)
	switch {
	case x.Ignored:
		return answer.NoProfile
	case x.Terminating:
		return answer.BeingDeleted
	case p.Stage == cluster.Pending && !p.MayBePlaced():
		return answer.BeingEvicted
	case p.Stage == cluster.Waiting:
		return answer.HeldByPermit
	case e == nil:
		return answer.NoProfile
	case e.State() == queue.InFlight:
		return answer.InFlight
	case e.State() == queue.Asking:
		return answer.AsksExtenders
	case e.State() == queue.Gated || x.GatingPlugin != "":
		return answer.Gated
	case e.Failed() && failedAs != "":
		return failedAs
	case e.Failed():
		return answer.FailedBefore
	case e.State() == queue.Backoff:
		return answer.Backoff
	}
	return answer.InTurn
}

// podPart returns the part of the answer about the pod beside the reason of its gang.
func podPart(s *podScan, m *scheduler.Machine, p *cluster.Pod, gang *gangHistory) *answer.PodPart {
	var begun uint64 // the last attempt
	if n := len(gang.attempts); n > 0 {
		begun = gang.attempts[n-1].First.Seq
	}
	plugin, message, gated := gateOf(m, p)
	tried := s.last.exists() && s.last.at.Seq >= begun
	switch {
	case p.Stage == cluster.Waiting:
		part := &answer.PodPart{Outcome: "Held", Node: p.Node}
		if s.placed.exists() {
			part.At, part.Until = &s.placed.at, answer.Instant(s.placed.decision.WaitUntil)
		}
		part.Message = fmt.Sprintf("It is held on %s until %s at the latest", part.Node, part.Until)
		return part
	case gated && plugin != gangPlugin:
		return &answer.PodPart{Outcome: "KeptOut", Message: fmt.Sprintf("%s keeps it out of the queue: %s", plugin,
			message)}
	case tried && s.released != nil && s.placed.exists():
		return &answer.PodPart{Outcome: "Released", At: s.released, Node: s.placed.decision.Node,
			Message: fmt.Sprintf("It gave back %s, on which it was held", s.placed.decision.Node)}
	case tried && s.last.failed():
		refusals := ownRefusals(refusalsOf(s.last.decision.Rejections))
		return &answer.PodPart{Outcome: "NoNode", At: &s.last.at, Refusals: refusals,
			Message: "No node was found for it: " + phrase.Refusals(refusals)}
	case tried && s.bind != nil:
		return &answer.PodPart{Outcome: "Released", At: &s.bind.Point, Node: s.bind.Node,
			Message: fmt.Sprintf("Binding it to %s ended in %s", s.bind.Node, phrase.BindOutcome(s.bind))}
	}
	return &answer.PodPart{Outcome: "NotTried", Message: "The last attempt did not come to it"}
}
