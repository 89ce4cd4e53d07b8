package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Pod writes the explanation for people: the answer in the first line, then what it rests on.
func Pod(w io.Writer, p *answer.Pod) error {
	out := page{at: p.At}
	out.printf("Pod %s %s.\n\n", p.Pod, podAnswer(p))
	out.columns(podFacts(p))
	switch {
	case p.Reason != nil && p.Reason.ShortNow:
		out.shortfall(p.Reason)
	case p.Reason != nil && p.Reason.Now != nil:
		out.trial(p.Reason.Now)
	case p.StoppedBy != nil:
		out.cause(p.StoppedBy)
	case p.Decision != nil && p.Decision.Node == "":
		out.cause(p.Decision)
	default:
		out.scores(p.Decision)
		out.refusals(p.Decision)
	}
	return out.writeTo(w)
}

func podFacts(p *answer.Pod) facts {
	var f facts
	f.add("at", "%s", p.At)
	earlier := ""
	if p.Earlier > 0 {
		earlier = fmt.Sprintf(", after %s of that name", Count(int64(p.Earlier), "other pod", "other pods"))
	}
	f.knownFrom(p.KnownFrom)
	f.add("created", "%s%s; UID %s", place(p.Created, p.KnownFrom), earlier, p.UID)
	if p.Gone != nil {
		f.add("gone", "%s: %s", p.Gone, p.GoneHow)
	}
	switch g := p.Gang; {
	case g == nil:
	case !g.Declared:
		f.add("gang", "%s: its PodGroup is not there; %d placed, %d held, %d ready", p.Group, g.Assigned, g.Waiting,
			g.Ready)
	default:
		f.add("gang", "%s: minimum %d; %d placed, %d held, %d ready", p.Group, g.Min, g.Assigned, g.Waiting, g.Ready)
	}
	f.queue(p.Queue, p.Reason, p.Attempts, p.FirstQueued)
	f.resize(p.Resize)
	if p.GatingPlugin != "" && (p.GatingPlugin != gangPlugin || !ofGang(p)) {
		f.add("gated by", "%s: %s", p.GatingPlugin, p.GatingMessage)
	}
	f.reason(p.Reason, p.KnownFrom)
	if p.Nominated != "" {
		f.add("nominated", "to %s: room there is kept for it", p.Nominated)
	}
	f.decision("decision", p.Decision)
	if p.Decision != nil && p.Decision.Node != "" {
		if p.Allowed != nil {
			f.add("allowed", "%s: the gang was complete", p.Allowed)
		}
		if b := p.Bind; b != nil {
			f.add("bind", "%s: on %s, %s", b.Point, b.Node, BindOutcome(b))
		}
	}
	if p.Released != nil && p.Stage == cluster.Pending.String() {
		f.add("released", "%s: it gave back the node that it was held on", p.Released)
	}
	f.decision("stopped by", p.StoppedBy)
	var by []answer.Preemption
	if p.PreemptedBy != nil {
		by = append(by, *p.PreemptedBy)
	}
	f.preemptions(by, p.Preempted, 0, p.OmittedPreempted)
	if e := p.Evicted; e != nil {
		f.add("evicted", "%s: with its gang, %s: %s", e.Point, Count(int64(e.Members), "pod", "pods"), e.Why)
	}
	f.eviction(p)
	return f
}

// eviction says what came of the pod's eviction, and which entry asked for it if no fact above does.
func (f *facts) eviction(p *answer.Pod) {
	r := p.Eviction
	if r == nil {
		return
	}
	asked := fmt.Sprintf("asked for by entry %d: ", r.Decision)
	if x := p.PreemptedBy; x != nil && x.Seq == r.Decision || p.Evicted != nil && p.Evicted.Seq == r.Decision {
		asked = ""
	}
	f.add("eviction", "%s: %s%s", r.Point, asked, evictResultText(r))
}

// answer is the explanation in one sentence, to follow the pod's name.
func podAnswer(p *answer.Pod) string {
	switch p.Stage {
	case "Gone":
		return podGone(p)
	case cluster.Pending.String(), cluster.Waiting.String():
		return PodPending(p)
	}
	if d := p.Decision; d != nil && d.Node != p.Node {
		return fmt.Sprintf("stands on %s, though the decision gave it %s", p.Node, d.Node)
	}
	if asked := askedToGo(p); asked != "" {
		return fmt.Sprintf("%s, and has not left %s yet%s; it %s", asked, p.Node, refusedSoFar(p), podPlaced(p))
	}
	text := podPlaced(p) + whyItStays(p)
	if p.Resize != nil {
		text += "; its resize " + p.Resize.Predicate
	}
	return text
}

// refusedSoFar says what the API server answered to the pod's eviction, and when it is tried again; "" if it did not
// refuse it.
func refusedSoFar(p *answer.Pod) string {
	r := p.Eviction
	if r == nil || r.Outcome != "Refused" {
		return ""
	}
	return fmt.Sprintf(": the API server refused its eviction at %s (entry %d)%s; it is tried again at %s", r.Time,
		r.Seq, inWords(r), r.RetryAt)
}

// whyItStays says how the pod's eviction ended if it did not go by it; "" if nobody asked for it, or it was not told.
func whyItStays(p *answer.Pod) string {
	if !stays(p) {
		return ""
	}
	r, what := p.Eviction, "was given up"
	if r.Outcome == "Withdrawn" {
		what = "was not sent"
	}
	return fmt.Sprintf("; its eviction, asked for by entry %d, %s at %s (entry %d)%s", r.Decision, what, r.Time,
		r.Seq, inWords(r))
}

// stays reports whether the pod's last eviction was given up or withdrawn.
func stays(p *answer.Pod) bool {
	return p.Eviction != nil && (p.Eviction.Outcome == "GivenUp" || p.Eviction.Outcome == "Withdrawn")
}

// allAnswered reports whether every node took the pod or refused it, so that none was left out.
func allAnswered(d *answer.Decision) bool {
	answered := d.Feasible
	for _, r := range d.Refusals {
		answered += r.Nodes
	}
	return max(answered, d.Evaluated) >= int64(d.Nodes)
}

// askedToGo says by which decision the pod had to give up its node since it had it, and why, as far as that is known;
// "" for none.
func askedToGo(p *answer.Pod) string {
	since := func(at answer.Point) bool {
		return (p.Decision == nil || p.Decision.Seq < at.Seq) && !(stays(p) && p.Eviction.Decision == at.Seq)
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

// wasHeld reports whether the pod was held on its node by Permit when it was preempted, so that it could be tried
// again.
func wasHeld(p *answer.Pod) bool {
	return p.PreemptedBy != nil && len(p.PreemptedBy.Own) > 0 && p.PreemptedBy.Own[0].Held
}

// PodPending says why the pod has no node yet, or may still lose it, to follow its name.
func PodPending(p *answer.Pod) string {
	if p.Stage == cluster.Pending.String() {
		return "is pending: " + whyPending(p) + roomAwaited(p.Nominated != "", p.Preempted)
	}
	text := "is held on " + p.Node
	if d := p.Decision; d != nil {
		text += fmt.Sprintf(" since %s, until %s at the latest", d.Time, d.WaitUntil)
	}
	switch g := p.Gang; {
	case ofGang(p) && p.Reason.Code != answer.InFlight:
		text += fmt.Sprintf(": its gang %s %s", p.Group, p.Reason.Predicate)
	case g != nil:
		text += fmt.Sprintf(": its gang %s has %d of the %d members it needs on nodes", p.Group, g.Assigned+g.Waiting,
			g.Min)
	case p.Reason != nil:
		text += fmt.Sprintf(": it waits for %s", List(p.Reason.WaitsFor.Plugins, "a plugin"))
	}
	return text
}

// ofGang reports whether the reason is that of the pod's gang.
func ofGang(p *answer.Pod) bool { return p.Reason != nil && p.Reason.Group != "" }

// placed says where and with which score.
func podPlaced(p *answer.Pod) string {
	d := p.Decision
	if d == nil && p.Created.Seq == 0 {
		return fmt.Sprintf("was on %s already before entry %d, with which what is known begins", p.Node, p.KnownFrom)
	}
	if d == nil {
		verb := "stands"
		if p.Stage == "Gone" {
			verb = "stood"
		}
		return fmt.Sprintf("%s on %s without a decision in this log: it came with its node", verb, p.Node)
	}
	text := fmt.Sprintf("was placed on %s at %s", d.Node, d.Time)
	switch {
	case d.Feasible == 1 && d.Nodes == 1:
		text += ": the only node there was"
	case d.NominatedTo == d.Node && d.Evaluated < int64(d.Nodes):
		text += fmt.Sprintf(": the node was kept for it, so that the other %s were not tried",
			Count(int64(d.Nodes)-d.Evaluated, "node", "nodes"))
	case d.Feasible == 1 && !allAnswered(d):
		text += fmt.Sprintf(": the only one that took it of the %s tried, of %d",
			Count(d.Evaluated, "node", "nodes"), d.Nodes)
	case d.Feasible == 1:
		text += fmt.Sprintf(": the only one of %d nodes that took it", d.Nodes)
	case len(d.RunnersUp) > 0 && d.RunnersUp[0].Total == d.Score:
		text += fmt.Sprintf(" with score %d; %s has the same, and the smaller name goes first", d.Score,
			d.RunnersUp[0].Node)
	case len(d.RunnersUp) > 0:
		text += fmt.Sprintf(" with score %d; next best %s with %d", d.Score, d.RunnersUp[0].Node, d.RunnersUp[0].Total)
	default:
		text += fmt.Sprintf(" with score %d", d.Score)
	}
	if p.Stage == cluster.Binding.String() {
		text += "; it is being bound"
	}
	return text
}

func podGone(p *answer.Pod) string {
	how := "was deleted"
	if p.GoneHow != "Deleted" {
		how = "has finished (" + p.GoneHow + ")"
	}
	if p.Gone != nil {
		how += fmt.Sprintf(" at %s", p.Gone.Time)
	}
	if asked := askedToGo(p); asked != "" && (p.Node != "" || !wasHeld(p)) {
		how = asked + ", and " + how
	}
	if p.Node == "" {
		how += "; when it went it had no node"
		if why := whyRefused(p); why != "" {
			how += ": " + why
		}
		return how
	}
	return how + "; it " + podPlaced(p)
}

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
	case p.GatingPlugin != "" && (p.GatingPlugin != gangPlugin || !ofGang(p)):
		return fmt.Sprintf("%s keeps it out of the queue: %s", p.GatingPlugin, p.GatingMessage)
	}
	if ofGang(p) {
		return whyOfGang(p)
	}
	if asked := askedToGo(p); asked != "" {
		return "it was held on a node and " + asked
	}
	if p.Reason != nil && p.Reason.Code == answer.AsksExtenders {
		return "HTTP extenders were asked about it and have not answered yet"
	}
	if p.Reason != nil && p.Reason.Now != nil {
		return nowAndLast(p)
	}
	if why := whyRefused(p); why != "" {
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
	asked := askedToGo(p)
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
	case x.Failed == nil, x.Code == x.Now.Code:
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

// trial shows what an attempt would end by.
func (p *page) trial(t *answer.Trial) {
	switch {
	case t.Fits:
	case t.Own != nil:
		p.cause(t.Own)
	case t.Decision != nil:
		p.cause(t.Decision)
	}
}

// whyOfGang says what keeps the gang of a pod from its nodes, and the pod itself if it is that member.
func whyOfGang(p *answer.Pod) string {
	if now := p.Reason.Now; now != nil && now.Own != nil {
		if p.Reason.BeyondMinimum > 0 {
			return NoNode(now.Own, p.At)
		}
		if now.Member == p.Pod && now.Code == answer.Unplaceable {
			return fmt.Sprintf("%s, so that its gang %s cannot be complete", NoNode(now.Own, p.At), p.Group)
		}
	}
	return fmt.Sprintf("its gang %s %s", p.Group, p.Reason.Predicate)
}

// triedBefore says what the queue still knows of attempts that are not in the log.
func triedBefore(p *answer.Pod) string {
	text := fmt.Sprintf("its %s came before entry %d, with which what is known begins",
		Count(int64(p.Attempts), "attempt", "attempts"), p.KnownFrom)
	if by := p.Queue.RejectedBy; len(by) > 0 {
		text += "; the last was refused by " + strings.Join(by, " and ")
	}
	return text + "; it is tried " + p.Queue.NextRetry
}

// whyRefused says what the decision that stopped the pod, or its gang, found; "" if there is none.
func whyRefused(p *answer.Pod) string {
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
