package phrase

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Stays reports whether the pod's last eviction was given up or withdrawn.
func Stays(p *answer.Pod) bool {
	return p.Eviction != nil && (p.Eviction.Outcome == "GivenUp" || p.Eviction.Outcome == "Withdrawn")
}

// AskedToGo names the decision that evicted the pod from its present node, and the reason, as far as that is known; ""
// for none.
func AskedToGo(p *answer.Pod) string {
	since := func(at answer.Point) bool {
		return (p.Decision == nil || p.Decision.Seq < at.Seq) && !(Stays(p) && p.Eviction.Decision == at.Seq)
	}
	switch x, e := p.PreemptedBy, p.Evicted; {
	case x != nil && since(x.Point) && (e == nil || x.Seq > e.Seq):
		return fmt.Sprintf("was %s, at %s (entry %d)", LostTo(x), x.Time, x.Seq)
	case e != nil && since(e.Point):
		return fmt.Sprintf("was evicted at %s (entry %d): %s", e.Time, e.Seq, e.Why)
	}
	if p.AskedToGoBy > 0 {
		return fmt.Sprintf("was asked to go by entry %d, before what is known begins with entry %d", p.AskedToGoBy,
			p.KnownFrom)
	}
	return ""
}

// WasHeld reports whether the pod was held on its node by Permit when it was preempted, so that it could be tried
// again.
func WasHeld(p *answer.Pod) bool {
	return p.PreemptedBy != nil && len(p.PreemptedBy.Own) > 0 && p.PreemptedBy.Own[0].Held
}

// PodPending says why the pod has no node yet, or may still lose it, to follow its name.
func PodPending(p *answer.Pod) string {
	if p.Stage == cluster.Pending.String() {
		return "is pending: " + whyPending(p) + RoomAwaited(p.Nominated != "", p.Preempted)
	}
	text := "is held on " + p.Node
	if d := p.Decision; d != nil {
		text += fmt.Sprintf(" since %s, until %s at the latest", d.Time, d.WaitUntil)
	}
	switch g := p.Gang; {
	case OfGang(p) && p.Reason.Code != answer.InFlight:
		text += fmt.Sprintf(": its gang %s %s", p.Group, p.Reason.Predicate)
	case g != nil:
		text += fmt.Sprintf(": its gang %s has %d of the %d members it needs on nodes", p.Group, g.Assigned+g.Waiting,
			g.Min)
	case p.Reason != nil:
		text += fmt.Sprintf(": it waits for %s", List(p.Reason.WaitsFor.Plugins, "a plugin"))
	}
	return text
}

// OfGang reports whether the reason is the reason of the pod's gang.
func OfGang(p *answer.Pod) bool { return p.Reason != nil && p.Reason.Group != "" }

// whyPending says what keeps a pending pod from its node.
func whyPending(p *answer.Pod) string {
	switch {
	case p.Ignored:
		return fmt.Sprintf("it asks for scheduler %q, and the configuration has no profile of that name",
			p.SchedulerName)
	case p.Terminating:
		return "it is being deleted and will not be placed"
	case p.Reason != nil && p.Reason.Code == answer.BeingEvicted:
		return beingEvicted(p)
	case p.GatingPlugin != "" && (p.GatingPlugin != gangPlugin || !OfGang(p)):
		return fmt.Sprintf("%s keeps it out of the queue: %s", p.GatingPlugin, p.GatingMessage)
	}
	if OfGang(p) {
		return whyOfGang(p)
	}
	if asked := AskedToGo(p); asked != "" {
		return "it was held on a node and " + asked
	}
	if p.Reason != nil && p.Reason.Code == answer.AsksExtenders {
		return "HTTP extenders were asked about it and have not answered yet"
	}
	if p.Reason != nil && p.Reason.Now != nil {
		return nowAndLast(p)
	}
	if why := WhyRefused(p); why != "" {
		return why
	}
	if p.Queue == nil {
		return "it is not in the queue"
	}
	if p.Created.Seq == 0 && p.Attempts > 0 {
		return triedBefore(p)
	}
	return "nothing has been decided on it yet; it is tried " + p.Queue.NextRetry
}

// beingEvicted says, of a pod that is still to be evicted and has no node any more, at whose behest and since when.
func beingEvicted(p *answer.Pod) string {
	asked := AskedToGo(p)
	if asked == "" {
		asked = fmt.Sprintf("was asked to go before entry %d, with which what is known begins", p.KnownFrom)
	}
	text := fmt.Sprintf("it is being evicted and will not be placed: it %s", asked)
	if b := p.Bind; b != nil {
		return text + fmt.Sprintf("; it has no node since %s (entry %d), when binding it to %s ended in %s", b.Time,
			b.Seq, b.Node, BindOutcome(b))
	}
	if p.KnownFrom > 0 {
		text += fmt.Sprintf("; it had lost its node before entry %d already", p.KnownFrom)
	}
	return text
}

// nowAndLast says, of a pod by itself, what an attempt would come to now, and how the last one failed as far as that
// differs.
func nowAndLast(p *answer.Pod) string {
	x := p.Reason
	text := x.Now.Message
	if x.Now.Fits {
		text += "; it is tried " + x.NextRetry.Words
	}
	switch {
	case x.Failed == nil && p.Created.Seq == 0 && p.Attempts > 0:
		return text + "; " + triedBefore(p)
	case x.Failed == nil, x.Never != "", cmp.Or(x.LastCode, x.Code) == x.Now.Code:
		return text
	case x.Code == answer.BindFailed && p.Bind != nil:
		return fmt.Sprintf("%s; binding it to %s ended in %s, at %s (entry %d)", text, p.Bind.Node, BindOutcome(p.Bind),
			p.Bind.Time, p.Bind.Seq)
	case len(x.Refusals) == 0:
		return text
	}
	return fmt.Sprintf("%s; its last attempt, at %s (entry %d), failed: %s", text, x.Failed.Time, x.Failed.Seq,
		Refusals(x.Refusals))
}

// whyOfGang says what keeps the gang of a pod from its nodes, and the pod itself if it is that member.
func whyOfGang(p *answer.Pod) string {
	if now := p.Reason.Now; now != nil && now.Own != nil && p.Reason.DomainLimit == nil {
		own := NoNode(now.Own, p.At)
		if u := p.Reason.Unmatched; u != nil && u.Pod == p.Pod {
			own += ": " + Unmatched(u, false)
		}
		if p.Reason.BeyondMinimum > 0 {
			return own
		}
		if now.Member == p.Pod && now.Code == answer.Unplaceable {
			return fmt.Sprintf("%s, so that its gang %s cannot be complete", own, p.Group)
		}
	}
	return fmt.Sprintf("its gang %s %s", p.Group, p.Reason.Predicate)
}

// triedBefore describes attempts that the queue remembers and the log does not have.
func triedBefore(p *answer.Pod) string {
	text := fmt.Sprintf("its %s came before entry %d, with which what is known begins",
		Count(int64(p.Attempts), "attempt", "attempts"), p.KnownFrom)
	if by := p.Queue.RejectedBy; len(by) > 0 {
		text += "; the last was refused by " + strings.Join(by, " and ")
	}
	return text + "; it is tried " + p.Queue.NextRetry
}

// WhyRefused says what the decision that stopped the pod, or its gang, found; "" if there is none.
func WhyRefused(p *answer.Pod) string {
	d := p.Decision
	switch {
	case p.StoppedBy != nil:
		return fmt.Sprintf("its gang %s %s", p.Group, gangStopped(p.StoppedBy, p.Group, p.At))
	case d == nil:
		return ""
	case d.Node != "" && p.Bind != nil && p.Released == nil:
		return fmt.Sprintf("binding it to %s ended in %s", p.Bind.Node, BindOutcome(p.Bind))
	case d.Node != "":
		return ""
	case d.Gang != nil && d.Evaluated == 0:
		return fmt.Sprintf("its gang %s %s", p.Group, gangStopped(d, p.Group, p.At))
	case d.Gang != nil:
		return fmt.Sprintf("%s, so that its gang %s cannot be complete", NoNode(d, p.At), p.Group)
	}
	return NoNode(d, p.At)
}

// Resize says how far the resize of a pod has come that the kubelet has put off, to follow the words "its resize".
func Resize(p *answer.Pod) string {
	x := p.Resize
	d := x.Decision
	switch {
	case d == nil && x.Attempts > 0:
		return fmt.Sprintf("is put off by the kubelet; room on %s was looked for before entry %d, with which what is "+
			"known begins", p.Node, p.KnownFrom)
	case d == nil:
		return "is put off by the kubelet; room for it is looked for " + x.Queue.NextRetry
	case x.Fits:
		return fmt.Sprintf("waits for the kubelet: %s has room for it, as of %s (entry %d)", p.Node, d.Time, d.Seq)
	}
	text := fmt.Sprintf("is put off by the kubelet; at %s (entry %d) %s did not have room for it: %s", d.Time, d.Seq,
		p.Node, Refusals(d.Refusals)) + keptFromPod(d)
	if n := len(p.Preempted); n > 0 && p.Preempted[n-1].By.Resize {
		text += RoomAwaited(true, p.Preempted)
	}
	return text
}
