package replay

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// How much of an explanation its text shows; JSON has all of it.
const (
	textReasons  = 10
	textHolders  = 3
	textMembers  = 12
	textAttempts = 6
	textPassers  = 8
	textFalls    = 4
)

// page collects a text: the answer, facts under labels, then tables.
type page struct {
	b bytes.Buffer
}

// table writes rows in aligned columns, without those columns that are empty; nothing if there is no row.
func (p *page) table(heading []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	lines := make([][]string, len(rows)+1)
	for column, title := range heading {
		cells := []string{title}
		empty := true
		for _, row := range rows {
			cell := ""
			if column < len(row) {
				cell = row[column]
			}
			empty = empty && cell == ""
			cells = append(cells, cell)
		}
		if empty {
			continue
		}
		for i, cell := range cells {
			lines[i] = append(lines[i], cell)
		}
	}
	p.b.WriteByte('\n')
	p.columns(lines)
}

func (p *page) columns(rows [][]string) {
	var aligned bytes.Buffer
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory: it cannot fail
	for line := range strings.Lines(aligned.String()) {
		p.b.WriteString(strings.TrimRight(line, " \n"))
		p.b.WriteByte('\n')
	}
}

func (p *page) writeTo(w io.Writer) error {
	_, err := w.Write(p.b.Bytes())
	return err
}

// facts are rows of a label and what it says; those that say nothing are left out.
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
func place(p Point, knownFrom uint64) string {
	if p.Seq == 0 && knownFrom > 0 {
		return fmt.Sprintf("before entry %d", knownFrom)
	}
	return p.String()
}

// moment is p's time in words, as place is.
func moment(p Point, knownFrom uint64) string {
	if p.Seq == 0 && knownFrom > 0 {
		return fmt.Sprintf("before entry %d", knownFrom)
	}
	return p.Time.String()
}

// decision adds what was decided, and a note if this program decides otherwise.
func (f *facts) decision(label string, d *DecisionExplanation) {
	if d == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, cycle %d: %s %s", d.Point, d.Cycle, d.Pod, d.Outcome)
	if d.Node != "" {
		fmt.Fprintf(&b, " on %s", d.Node)
	}
	if d.Evaluated > 0 {
		fmt.Fprintf(&b, "; %d of %s tried, %d feasible", d.Evaluated, count(int64(d.Nodes), "node", "nodes"), d.Feasible)
	}
	if d.Released > 0 {
		fmt.Fprintf(&b, "; %s released", count(int64(d.Released), "held member", "held members"))
	}
	f.add(label, "%s", b.String())
	switch v := d.Diverged; {
	case v == nil:
	case v.Kind == Extra:
		f.add("note", "this program would decide nothing there; explained is what was recorded")
	default:
		f.add("note", "this program decides otherwise (%s): recorded %s, decided %s", v.Field, v.Recorded, v.Decided)
	}
}

func (f *facts) standing(q *QueueStanding, x *Reason, attempts int, firstQueued Instant) {
	if q == nil {
		if attempts > 0 {
			f.add("queue", "left it after %s; first queued %s", count(int64(attempts), "attempt", "attempts"), firstQueued)
		}
		return
	}
	text := q.State
	if q.Since != 0 {
		text += fmt.Sprintf(" since %s", q.Since)
	}
	text += "; " + count(int64(attempts), "attempt", "attempts")
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

// history says when a gang came to what, but for its attempts.
func (f *facts) history(h *GroupHistory, knownFrom uint64) {
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

// later tells of the last milestones but for the first of each kind that history has already.
func (f *facts) later(h *GroupHistory, knownFrom uint64) {
	var later []Milestone
	for _, m := range h.Milestones {
		first := m.What == "Declared" && m.Point == *h.Declared || m.What == "Complete" && m.Point == *h.Complete ||
			m.What == "Placed" && m.Point == *h.Placed
		if !first {
			later = append(later, m)
		}
	}
	if before := h.OmittedMilestones + len(later) - textFalls; before > 0 {
		f.add("then", "%s", count(int64(before), "change more", "changes more"))
	}
	for _, m := range later[max(0, len(later)-textFalls):] {
		f.add(milestoneWords[m.What], "%s", withDetail(place(m.Point, knownFrom), m.Detail))
	}
}

// milestoneWords are the labels of what a gang comes to later than the first time.
var milestoneWords = map[string]string{
	"Declared": "declared again", "Undeclared": "undeclared", "Complete": "complete again", "Incomplete": "incomplete",
	"Refused": "refused", "Accepted": "accepted", "Placed": "placed again", "BelowMinimum": "below minimum", "Evicted": "evicted",
	"Done": "done",
}

// withDetail puts what happened behind where it did.
func withDetail(place, detail string) string {
	if detail == "" {
		return place
	}
	return place + ": " + detail
}

// reason says by which code it is pending, and since when.
func (f *facts) reason(x *Reason) {
	if x == nil {
		return
	}
	text := string(x.Code)
	if x.Since != 0 {
		text += fmt.Sprintf(" since %s", x.Since)
	}
	f.add("reason", "%s", text)
	if v := x.Held; v != nil {
		f.add("backfill", "%s", v.words())
	}
	if v := x.Reserved; v != nil {
		f.add("reserved", "by what is declared of the pods that run, there is room for it at %s, on %s", v.At, count(int64(v.Nodes), "node", "nodes"))
	}
}

// refusals writes the table of who refused what; reasons that differ in their code only are one row.
func (p *page) refusals(d *DecisionExplanation) {
	if d == nil {
		return
	}
	merged := mergeRefusals(d.Refusals)
	var rows [][]string
	for i, r := range merged {
		if i == textReasons {
			rows = append(rows, []string{"", fmt.Sprintf("and %d more", len(merged)-i)})
			break
		}
		nodes := "pod"
		if r.Nodes > 0 {
			nodes = fmt.Sprint(r.Nodes)
		}
		rows = append(rows, []string{nodes, r.Plugin, r.Reason, strings.Join(r.Examples, ", ")})
	}
	p.table([]string{"NODES", "REFUSED BY", "REASON", "FOR EXAMPLE"}, rows)
}

// mergeRefusals makes one of the rows that read alike, the most nodes first, and drops those that say nothing.
func mergeRefusals(refusals []Refusal) []Refusal {
	var out []Refusal
	for _, r := range refusals {
		if r.Nodes == 0 && r.Reason == "" {
			if r.Code != "Error" {
				continue // a plugin that an event must concern, and that refused no node itself
			}
			r.Reason = "it failed"
		}
		i := slices.IndexFunc(out, func(o Refusal) bool {
			return o.Plugin == r.Plugin && o.Reason == r.Reason && (o.Nodes > 0) == (r.Nodes > 0)
		})
		if i < 0 {
			r.Examples = slices.Clone(r.Examples)
			out = append(out, r)
			continue
		}
		out[i].Nodes += r.Nodes
		examples := append(out[i].Examples, r.Examples...)
		slices.Sort(examples)
		examples = slices.Compact(examples)
		out[i].Examples = examples[:min(maxExamples, len(examples))]
	}
	slices.SortStableFunc(out, func(a, b Refusal) int { return int(b.Nodes - a.Nodes) })
	return out
}

func (p *page) resources(title string, uses []ResourceUse) {
	var rows [][]string
	for _, u := range uses {
		largest := "0"
		if u.LargestFree > 0 {
			largest = fmt.Sprintf("%s on %s", amount(u.Resource, u.LargestFree), u.LargestFreeNode)
		}
		usable := ""
		if u.Usable != u.Free {
			usable = amount(u.Resource, u.Usable)
		}
		rows = append(rows, []string{string(u.Resource), amount(u.Resource, u.Needed), amount(u.Resource, u.Free), usable, largest,
			amount(u.Resource, u.Allocatable), heldBy(u)})
	}
	p.table([]string{title, "NEEDED", "FREE", "USABLE", "MOST ON ONE NODE", "OF", "HELD BY"}, rows)
}

func heldBy(u ResourceUse) string {
	var parts []string
	others, rest := u.Others, u.OthersAmount
	for i, h := range u.Holders {
		if i >= textHolders {
			others, rest = others+1, rest+h.Amount
			continue
		}
		kind := ""
		if h.Kind == "group" {
			kind = "gang "
		}
		parts = append(parts, fmt.Sprintf("%s%s %s", kind, h.Name, amount(u.Resource, h.Amount)))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%s %s", count(int64(others), "other", "others"), amount(u.Resource, rest)))
	}
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, ", ")
}

// scores writes how the plugins rated the chosen node, and why the next ones came after it.
func (p *page) scores(d *DecisionExplanation) {
	if d == nil || d.Winner == nil || len(d.Winner.Plugins) == 0 {
		return
	}
	var rows [][]string
	for i, s := range d.Winner.Plugins {
		if s.Weighted == 0 && !slices.ContainsFunc(d.RunnersUp, func(n NodeScore) bool { return i < len(n.Plugins) && n.Plugins[i].Weighted != 0 }) {
			continue // it tells none of these nodes from another
		}
		rows = append(rows, []string{s.Plugin, fmt.Sprint(s.Raw), fmt.Sprint(s.Normalized), fmt.Sprint(s.Weight), fmt.Sprint(s.Weighted)})
	}
	rows = append(rows, []string{"total", "", "", "", fmt.Sprint(d.Winner.Total)})
	p.table([]string{"SCORE OF " + d.Winner.Node, "RAW", "NORMALIZED", "WEIGHT", "WEIGHTED"}, rows)
	rows = nil
	for _, n := range d.RunnersUp {
		rows = append(rows, []string{n.Node, fmt.Sprint(n.Total), fmt.Sprintf("%+d", n.Total-d.Winner.Total), scoreDifference(n, *d.Winner)})
	}
	p.table([]string{"RUNNER-UP", "TOTAL", "AGAINST " + d.Winner.Node, "BY PLUGIN"}, rows)
}

// scoreDifference says by which plugins n was rated otherwise than the winner.
func scoreDifference(n, winner NodeScore) string {
	var parts []string
	for i, s := range n.Plugins {
		if i < len(winner.Plugins) && s.Weighted != winner.Plugins[i].Weighted {
			parts = append(parts, fmt.Sprintf("%s %+d", s.Plugin, s.Weighted-winner.Plugins[i].Weighted))
		}
	}
	if len(parts) == 0 {
		return "equal; the smaller name goes first"
	}
	return strings.Join(parts, ", ")
}

// noNode says why the cycle found no node for its pod.
func noNode(d *DecisionExplanation) string {
	if d.Nodes == 0 {
		return "there are no nodes"
	}
	var byNode, whole []string
	for _, r := range mergeRefusals(d.Refusals) {
		switch {
		case r.Nodes > 0 && r.Reason == "":
			byNode = append(byNode, fmt.Sprintf("refused by %s (%s)", r.Plugin, count(r.Nodes, "node", "nodes")))
		case r.Nodes > 0:
			byNode = append(byNode, fmt.Sprintf("%s (%s)", r.Reason, count(r.Nodes, "node", "nodes")))
		default:
			whole = append(whole, fmt.Sprintf("%s: %s", r.Plugin, r.Reason))
		}
	}
	reasons := whole
	text := ""
	if d.Feasible == 0 && len(byNode) > 0 {
		reasons = byNode
		text = fmt.Sprintf("none of the %d nodes takes it: ", d.Nodes)
		if d.Nodes == 1 {
			text = "the only node does not take it: "
		}
	}
	const most = 3
	if len(reasons) > most {
		reasons = append(reasons[:most:most], "and more")
	}
	return text + strings.Join(reasons, ", ")
}

// gangStopped says, to follow the name of a gang, what made its attempt fail.
func gangStopped(d *DecisionExplanation, group string) string {
	if d.Evaluated == 0 {
		for _, r := range d.Refusals {
			if said, ok := strings.CutPrefix(r.Reason, "pod group "+group+" "); ok && r.Nodes == 0 {
				return said // the gang plugin's own words
			}
		}
		return fmt.Sprintf("was stopped at member %s: %s", d.Pod, noNode(d))
	}
	return fmt.Sprintf("found no node for member %s: %s", d.Pod, noNode(d))
}
