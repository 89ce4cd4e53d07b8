package render

import (
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// planWords say the results of the search for nodes for all members of a gang.
var planWords = map[string]string{
	eventlog.PlanFound.String():   "all members fit in another order, which is tried next",
	eventlog.PlanNone.String():    "no placement of all members that it needs exists on these nodes",
	eventlog.PlanUnknown.String(): "a search found no placement of all members within its limit of steps",
}

// words say it in full.
func blocksWords(h *answer.Blocks) string {
	if h.Nodes == 0 {
		return fmt.Sprintf("holds what comes free for it since %s; no node has room for a pod of it yet", h.Since)
	}
	return fmt.Sprintf("holds %s for it since %s, with room for %d of the %s that it needs",
		phrase.Count(int64(h.Nodes), "node", "nodes"), h.Since, h.Pods, phrase.Count(int64(h.Needed), "pod", "pods"))
}

// facts are rows of a label and its text; rows without a text are left out.
type facts [][]string

func (f *facts) add(label, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		*f = append(*f, []string{label, text})
	}
}

// knownFrom says that what came before an entry is not known; nothing for entry 0.
func (f *facts) knownFrom(seq uint64) {
	if seq > 0 {
		f.add("known from", "entry %d; what came before it is not in this log", seq)
	}
}

// place is p in words: a place that is not known lies before knownFrom.
func place(p answer.Point, knownFrom uint64) string {
	if p.Seq == 0 && knownFrom > 0 {
		return fmt.Sprintf("before entry %d", knownFrom)
	}
	return p.String()
}

// moment is p's time in words, as place is.
func moment(p answer.Point, knownFrom uint64) string {
	if p.Seq == 0 && knownFrom > 0 {
		return fmt.Sprintf("before entry %d", knownFrom)
	}
	return p.Time.String()
}

// decision adds what was decided, and a note if this program decides otherwise.
func (f *facts) decision(label string, d *answer.Decision) {
	if d == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, cycle %d: %s %s", d.Point, d.Cycle, d.Pod, d.Outcome)
	if d.Node != "" {
		fmt.Fprintf(&b, " on %s", d.Node)
	}
	if d.Evaluated > 0 {
		fmt.Fprintf(&b, "; %d of %s tried, %d feasible", d.Evaluated, phrase.Count(int64(d.Nodes), "node", "nodes"),
			d.Feasible)
	}
	if d.Released > 0 {
		fmt.Fprintf(&b, "; %s released", phrase.Count(int64(d.Released), "held pod", "held pods"))
	}
	if d.Plan != "" {
		b.WriteString("; " + planWords[d.Plan])
	}
	if d.NextSearch > 0 {
		b.WriteString("; the next attempt searches elsewhere")
	}
	if len(d.PlanBlockers) > 0 {
		fmt.Fprintf(&b, "; %s had taken %s, which %s gets then", phrase.List(d.PlanBlockers, ""), d.Nominated, d.Pod)
	}
	if d.Evicted > 0 {
		fmt.Fprintf(&b, "; %s evicted", phrase.Count(int64(d.Evicted), "pod", "pods"))
	}
	f.add(label, "%s", b.String())
	switch v := d.Diverged; {
	case v == nil:
	case v.Kind == replay.Extra:
		f.add("note", "this program would decide nothing there; explained is what was recorded")
	default:
		f.add("note", "this program decides otherwise (%s): recorded %s, decided %s", v.Field, v.Recorded, v.Decided)
	}
}

func (f *facts) queue(q *answer.QueuePlace, x *answer.Reason, attempts int, firstQueued answer.Instant) {
	if q == nil {
		if attempts > 0 {
			f.add("queue", "left it after %s; first queued %s", phrase.Count(int64(attempts), "attempt", "attempts"),
				firstQueued)
		}
		return
	}
	text := q.State
	if q.Since != 0 {
		text += fmt.Sprintf(" since %s", q.Since)
	}
	text += "; " + phrase.Count(int64(attempts), "attempt", "attempts")
	if firstQueued != 0 {
		text += fmt.Sprintf("; first queued %s", firstQueued)
	}
	f.add("queue", "%s", text)
	if x != nil {
		f.add("next try", "%s", x.NextRetry.Words)
	} else {
		f.add("next try", "%s", q.NextRetry)
	}
}

// history writes a gang's first milestones. It leaves out its attempts.
func (f *facts) history(h *answer.GroupHistory, knownFrom uint64) {
	f.add("first seen", "%s", place(h.FirstSeen, knownFrom))
	if p := h.Declared; p != nil && *p != h.FirstSeen {
		f.add("declared", "%s: it was known how many members it needs", place(*p, knownFrom))
	}
	if p := h.Complete; p != nil {
		f.add("complete", "%s: as many members as it needs were there", place(*p, knownFrom))
	}
	if p := h.Placed; p != nil {
		f.add("placed", "%s: its minimum was on nodes", place(*p, knownFrom))
	}
	f.later(h, knownFrom)
}

// later writes the last milestones. It leaves out the first of each kind, which history has already.
func (f *facts) later(h *answer.GroupHistory, knownFrom uint64) {
	var later []answer.Milestone
	for _, m := range h.Milestones {
		first := m.What == "Declared" && m.Point == *h.Declared || m.What == "Complete" && m.Point == *h.Complete ||
			m.What == "Placed" && m.Point == *h.Placed
		if !first {
			later = append(later, m)
		}
	}
	if before := h.OmittedMilestones + len(later) - textFalls; before > 0 {
		f.add("then", "%s", phrase.Count(int64(before), "change more", "changes more"))
	}
	if h.OmittedNodeLosses > 0 {
		f.add("node lost", "%s before these",
			phrase.Count(int64(h.OmittedNodeLosses), "loss of a node", "losses of nodes"))
	}
	events := losses(h.NodeLosses, knownFrom)
	for _, m := range later[max(0, len(later)-textFalls):] {
		text := withDetail(place(m.Point, knownFrom), m.Detail)
		events = append(events, event{m.Point, []string{milestoneWords[m.What], text}, false})
	}
	f.inOrder(events)
}

// milestoneWords are the labels of later milestones of a gang.
var milestoneWords = map[string]string{
	"Declared": "declared again", "Undeclared": "undeclared", "Complete": "complete again", "Incomplete": "incomplete",
	"Refused": "refused", "Accepted": "accepted", "Placed": "placed again", "BelowMinimum": "below minimum",
	"Evicted": "evicted",
	"Done":    "done",
}

// withDetail puts what happened behind where it did.
func withDetail(place, detail string) string {
	if detail == "" {
		return place
	}
	return place + ": " + detail
}

// reason writes the code of the reason, and its time.
func (f *facts) reason(x *answer.Reason, knownFrom uint64) {
	if x == nil {
		return
	}
	text := string(x.Code)
	if x.LastCode != "" {
		text += ", and " + string(x.LastCode) + " at its last attempts"
	}
	if x.Since != 0 {
		text += fmt.Sprintf(" since %s", x.Since)
	} else if x.Code == answer.BeingEvicted && knownFrom > 0 {
		text += fmt.Sprintf(" since before entry %d", knownFrom)
	}
	f.add("reason", "%s", text)
	if v := x.Blocks; v != nil {
		f.add("backfill", "%s", blocksWords(v))
	}
	if v := x.Reserved; v != nil {
		f.add("reserved", "by what is declared of the pods that run, there is room for it at %s, on %s", v.At,
			phrase.Count(int64(v.Nodes), "node", "nodes"))
	}
	if v := x.ReservationEnded; v != nil {
		f.add("reserved", "no room any more since %s: %s", v.Point, v.Why)
	}
}

// resize says where the resize of a pod stands.
func (f *facts) resize(x *answer.Resize) {
	if x == nil {
		return
	}
	f.add("resize", "%s; %s", x.Queue.State, phrase.Count(int64(x.Attempts), "attempt", "attempts"))
	f.add("next try", "%s", x.Queue.NextRetry)
	f.decision("decision", x.Decision)
}
