package render

import (
	"fmt"
	"io"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// Pod writes the explanation for people: the answer in the first line, then what it rests on.
func Pod(w io.Writer, p *answer.Pod) error {
	out := page{at: p.At}
	out.printf("Pod %s %s.\n\n", p.Pod, podAnswer(p))
	out.columns(podFacts(p))
	out.ahead(p.Queue)
	out.unmatched(p.Reason)
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
	out.choice(p)
	return out.writeTo(w)
}

func podFacts(p *answer.Pod) facts {
	var f facts
	f.add("at", "%s", p.At)
	earlier := ""
	if p.Earlier > 0 {
		earlier = fmt.Sprintf(", after %s of that name", phrase.Count(int64(p.Earlier), "other pod", "other pods"))
	}
	f.knownFrom(p.KnownFrom)
	f.add("created", "%s%s; UID %s", place(p.Created, p.KnownFrom), earlier, p.UID)
	if p.Gone != nil {
		f.add("gone", "%s: %s", p.Gone, p.GoneHow)
	}
	if p.Removal != nil {
		f.add("made to go", "%s: %s", p.Removal.Point, p.Removal.Reason)
		f.add("said", "%s", p.Removal.Details)
	}
	f.add("failed", "%s", p.FailedFor)
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
	f.managed(p)
	if p.GatingPlugin != "" && (p.GatingPlugin != gangPlugin || !phrase.OfGang(p)) {
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
			f.add("bind", "%s: on %s, %s", b.Point, b.Node, phrase.BindOutcome(b))
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
		f.add("evicted", "%s: with its gang, %s: %s", e.Point, phrase.Count(int64(e.Members), "pod", "pods"), e.Why)
	}
	f.eviction(p)
	f.nodesLost(p)
	return f
}

// eviction writes the result of the pod's eviction, and the entry that asked for it if no fact above does.
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
		return phrase.PodPending(p)
	}
	if d := p.Decision; d != nil && d.Node != p.Node {
		return fmt.Sprintf("stands on %s, though the decision gave it %s", p.Node, d.Node)
	}
	if asked := phrase.AskedToGo(p); asked != "" {
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
		r.Seq, phrase.InWords(r), r.RetryAt)
}

// whyItStays says how the pod's eviction ended if it did not go by it; "" if nobody asked for it, or it was not told.
func whyItStays(p *answer.Pod) string {
	if !phrase.Stays(p) {
		return ""
	}
	r, what := p.Eviction, "was given up"
	if r.Outcome == "Withdrawn" {
		what = "was not sent"
	}
	return fmt.Sprintf("; its eviction, asked for by entry %d, %s at %s (entry %d)%s", r.Decision, what, r.Time,
		r.Seq, phrase.InWords(r))
}

// allAnswered reports whether every node took the pod or refused it, so that none was left out.
func allAnswered(d *answer.Decision) bool {
	answered := d.Feasible
	for _, r := range d.Refusals {
		answered += r.Nodes
	}
	return max(answered, d.Evaluated) >= int64(d.Nodes)
}

func podGone(p *answer.Pod) string {
	how := podLost(p) + "was deleted"
	if p.GoneHow != "Deleted" {
		how = podLost(p) + "has finished (" + p.GoneHow + ")"
	}
	if p.Removal != nil {
		how = p.Removal.Message + ", and " + how
	}
	if p.Gone != nil {
		how += fmt.Sprintf(" at %s", p.Gone.Time)
	}
	if asked := phrase.AskedToGo(p); asked != "" && (p.Node != "" || !phrase.WasHeld(p)) {
		how = asked + ", and " + how
	}
	if p.Node == "" {
		how += "; when it went it had no node"
		if why := phrase.WhyRefused(p); why != "" {
			how += ": " + why
		}
		return how
	}
	return how + "; it " + podPlaced(p)
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

// podPlacedByOthers says where a pod is that others have placed, and by whom as far as that is known.
func podPlacedByOthers(p *answer.Pod) string {
	text := "is on node " + p.Node
	if p.Stage == "Gone" {
		text = "was on node " + p.Node
	}
	if c := p.Choice; c != nil && c.By == "" {
		return text + fmt.Sprintf(" since entry %d, %s", c.Seq, c.Time)
	}
	if p.Placing != nil && p.Placing.Since != 0 {
		text += fmt.Sprintf(" since %s", p.Placing.Since)
	}
	if p.Placing != nil && p.Placing.By != "" {
		return text + ", bound by " + p.Placing.By
	}
	return fmt.Sprintf("%s; its scheduler is %s, and who bound it is not in the log", text, p.SchedulerName)
}

// podPlaced says where and with which score.
func podPlaced(p *answer.Pod) string {
	d := p.Decision
	if d == nil && p.Created.Seq == 0 {
		return fmt.Sprintf("was on %s already before entry %d, with which what is known begins", p.Node, p.KnownFrom)
	}
	if d == nil && p.Undecided != "" {
		return podPlacedByOthers(p)
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
			phrase.Count(int64(d.Nodes)-d.Evaluated, "node", "nodes"))
	case d.Feasible == 1 && !allAnswered(d):
		text += fmt.Sprintf(": the only one that took it of the %s tried, of %d",
			phrase.Count(d.Evaluated, "node", "nodes"), d.Nodes)
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
