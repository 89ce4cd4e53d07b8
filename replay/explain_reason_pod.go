package replay

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// fail notes how the pod by itself was refused; alike ones after each other are one time.
func (s *podScan) fail(code Code, at Point) {
	if s.failedAs != code {
		s.failedAs, s.failedSince = code, at.Time
	}
	s.failedAt = at
}

// failedIn notes what a decision on the pod, or one that released it, means for it.
func (s *podScan) failedIn(r recorded, held recorded) {
	switch {
	case !r.failed():
		s.failedAs = ""
	case held.exists() && held.decision.Outcome == eventlog.Waiting:
		code := BrokenOff
		if r.at.Time >= Instant(held.decision.WaitUntil) {
			code = PermitTimedOut
		}
		s.fail(code, r.at)
	case r.decision.Outcome == eventlog.Error:
		s.fail(PluginFailed, r.at)
	default:
		s.fail(Unplaceable, r.at)
	}
}

// podReason is why the pod is pending, nil if it is not: its gang's reason, or one of its own.
func podReason(s *podScan, r *rerun, x *PodExplanation, gang *groupHistory) *Reason {
	m := r.machine
	p := m.Cluster().Pod(s.uid)
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

// ownReason is why a pod by itself is pending.
func ownReason(s *podScan, r *rerun, x *PodExplanation, p *cluster.Pod) *Reason {
	m := r.machine
	reason := &Reason{Code: s.code(m, x, p), Attempts: x.Attempts}
	w := &reason.WaitsFor
	switch e := m.Queue().Find(s.uid); {
	case reason.Code == BeingDeleted:
		w.Kind, reason.NextRetry.Words = "Nothing", "never"
	case reason.Code == NoProfile:
		w.Kind, reason.Since = "Configuration", s.created.Time
		reason.NextRetry.Words = "when a configuration has a profile for it"
	case reason.Code == HeldByPermit:
		if held, ok := m.WaitingPods().Get(s.uid); ok {
			w.Kind, w.Plugins, w.Until = "Permit", held.Plugins, Instant(held.Until)
		}
		reason.Since = s.placed.at.Time
		reason.NextRetry.Words = fmt.Sprintf("when %s lets it go, without another attempt; it is released at %s", list(w.Plugins, "a plugin"), w.Until)
	default:
		reason.Since = Instant(e.Timestamp())
		if reason.Code == Gated {
			reason.Since = Instant(e.Since())
		}
		reason.NextRetry = NextRetry{At: x.Queue.RetryAt, Words: x.Queue.NextRetry}
		w.ofQueue(x.Queue)
	}
	if reason.Code.ofAnAttempt() && reason.Code != FailedBefore {
		reason.Since, reason.Failed, reason.Member = s.failedSince, &s.failedAt, x.Pod
		reason.addRefusals(r.explained(s.last))
	}
	reason.Reserved = reservedFor(m, m.Queue().Find(s.uid))
	reason.Held = heldFor(m, m.Queue().Find(s.uid))
	x.Reason = reason // the text is made of it
	reason.said = x.pending()
	reason.Message = "Pod " + x.Pod + " " + reason.said
	return reason
}

// addRefusals adds what the pod's last decision said.
func (x *Reason) addRefusals(d *DecisionExplanation) {
	if d == nil || x.Code == BindFailed {
		return
	}
	x.Refusals = ownRefusals(d.Refusals)
	if x.Code != Unplaceable {
		return
	}
	if x.Shortfall = shortOf(d, &failure{code: x.Code}); len(x.Shortfall) > 0 {
		x.ShortfallAt = &d.Point
	}
}

// code is the one of a pod by itself.
func (s *podScan) code(m *scheduler.Machine, x *PodExplanation, p *cluster.Pod) Code {
	e := m.Queue().Find(s.uid)
	switch {
	case x.Ignored:
		return NoProfile
	case x.Terminating:
		return BeingDeleted
	case p.Stage == cluster.Waiting:
		return HeldByPermit
	case e == nil:
		return NoProfile
	case e.State() == queue.InFlight:
		return InFlight
	case e.State() == queue.Gated || x.GatingPlugin != "":
		return Gated
	case e.Failed() && s.failedAs != "":
		return s.failedAs
	case e.Failed():
		return FailedBefore
	case e.State() == queue.Backoff:
		return Backoff
	}
	return InTurn
}

// podPart is what is to be said of the pod beside the reason of its gang.
func podPart(s *podScan, m *scheduler.Machine, p *cluster.Pod, gang *groupHistory) *PodPart {
	var begun uint64 // the last attempt
	if n := len(gang.attempts); n > 0 {
		begun = gang.attempts[n-1].First.Seq
	}
	plugin, message, gated := gateOf(m, p)
	tried := s.last.exists() && s.last.at.Seq >= begun
	switch {
	case p.Stage == cluster.Waiting:
		part := &PodPart{Outcome: "Held", Node: p.Node}
		if s.placed.exists() {
			part.At, part.Until = &s.placed.at, Instant(s.placed.decision.WaitUntil)
		}
		part.Message = fmt.Sprintf("It is held on %s until %s at the latest", part.Node, part.Until)
		return part
	case gated && plugin != gangPlugin:
		return &PodPart{Outcome: "KeptOut", Message: fmt.Sprintf("%s keeps it out of the queue: %s", plugin, message)}
	case tried && s.released != nil && s.placed.exists():
		return &PodPart{Outcome: "Released", At: s.released, Node: s.placed.decision.Node,
			Message: fmt.Sprintf("It gave back %s, on which it was held", s.placed.decision.Node)}
	case tried && s.last.failed():
		refusals := ownRefusals(refusalsOf(s.last.decision.Rejections))
		return &PodPart{Outcome: "NoNode", At: &s.last.at, Refusals: refusals, Message: "No node was found for it: " + refusalsText(refusals)}
	case tried && s.bind != nil:
		return &PodPart{Outcome: "Released", At: &s.bind.Point, Node: s.bind.Node,
			Message: fmt.Sprintf("Binding it to %s ended in %s", s.bind.Node, s.bind.said())}
	}
	return &PodPart{Outcome: "NotTried", Message: "The last attempt did not come to it"}
}
