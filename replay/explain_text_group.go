package replay

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// WriteText writes the explanation for people: the answer in the first line, then what it rests on.
func (g *GroupExplanation) WriteText(w io.Writer) error {
	var out page
	fmt.Fprintf(&out.b, "Gang %s %s.\n\n", g.Group, g.answer())
	out.columns(g.facts())
	out.together(g.Together)
	out.members(g.Members)
	out.attempts(&g.History)
	out.letPast(g.History.LetPast)
	if g.failing() {
		out.refusedMembers(g.Reason)
		out.refusals(g.LastFailure)
	}
	if g.Needs != nil {
		out.resources(fmt.Sprintf("FOR %s", count(int64(g.Needs.Members), "MEMBER", "MEMBERS")), g.Needs.Resources)
		if g.failing() && g.LastFailure.Evaluated > 0 {
			out.resources("FOR "+g.LastFailure.Pod, g.LastFailure.Resources)
		}
	}
	return out.writeTo(w)
}

// failing says whether the last attempt is a failed one and the gang is not placed.
func (g *GroupExplanation) failing() bool {
	attempts := g.History.Attempts
	return g.LastFailure != nil && g.Stage == "Pending" && len(attempts) > 0 && attempts[len(attempts)-1].Outcome == "Failed"
}

// readyAndGated counts each pending member once: gated are those that something else than their own gang keeps out of the
// queue, and ready those that nothing else does.
func (g *GroupExplanation) readyAndGated() (ready, gated int) {
	ready = g.Counts.Ready
	for _, m := range g.Members {
		switch m.GatingPlugin {
		case "", gangPlugin:
		case names.SchedulingGates:
			gated++ // which does not count as ready anyway
		default:
			gated++
			ready--
		}
	}
	return max(0, ready), gated
}

func (g *GroupExplanation) facts() facts {
	var f facts
	f.add("at", "%s", g.At)
	c := g.Counts
	minimum := fmt.Sprintf("minimum %d", g.Min)
	if !g.Declared {
		minimum = "minimum not known"
	}
	ready, gated := g.readyAndGated()
	leaving := ""
	if c.Leaving > 0 {
		leaving = fmt.Sprintf(" %d ending,", c.Leaving)
	}
	f.add("members", "%s; %d placed, %d held, %d ready, %d gated,%s %d gone", minimum, c.Assigned, c.Waiting, ready, gated, leaving, c.Gone)
	if below := g.whenBelow(); below != "" {
		f.add("policy", "%s", below)
	}
	f.knownFrom(g.KnownFrom)
	f.history(&g.History, g.KnownFrom)
	f.reason(g.Reason)
	if q := g.Queue; q != nil {
		text := q.State
		if q.Since != 0 {
			text += fmt.Sprintf(" since %s", q.Since)
		}
		if g.Reason != nil && g.Reason.Attempts > 0 {
			text += fmt.Sprintf("; %s", count(int64(g.Reason.Attempts), "attempt", "attempts"))
		}
		f.add("queue", "%s", text)
	}
	if g.Reason != nil {
		f.add("next try", "%s", g.Reason.NextRetry.Words)
	}
	if g.LastFailure != nil {
		f.decision("last failure", g.LastFailure)
	}
	return f
}

// answer is the explanation in one sentence, to follow the gang's name.
func (g *GroupExplanation) answer() string {
	c := g.Counts
	switch g.Stage {
	case "Gone":
		text := fmt.Sprintf("is gone with its %s", count(int64(c.Gone), "member", "members"))
		if p := g.History.Placed; p != nil {
			if p.Seq == 0 {
				return text + "; it was placed " + place(*p, g.KnownFrom)
			}
			return text + fmt.Sprintf("; it was placed at %s", p.Time)
		}
		return text + "; it was never placed"
	case "Placed":
		text := fmt.Sprintf("is placed: %s (minimum %d) on %s", count(int64(c.Assigned), "member", "members"), g.Min, count(int64(g.nodes()), "node", "nodes"))
		if p := g.History.lastPlaced(); p != nil {
			text += fmt.Sprintf(" since %s", moment(*p, g.KnownFrom))
		}
		if x := g.Reason; x != nil && x.BeyondMinimum > 0 {
			text += fmt.Sprintf("; %d more pending: it %s", x.BeyondMinimum, x.said)
		} else if x != nil {
			text += "; for the pending ones it " + x.said
		}
		return text
	case "Done":
		return fmt.Sprintf("is done: as many members as it needs (%d) have ended well, and none is left; %s gone", g.Min, count(int64(c.Gone), "is", "are"))
	case "Evicted":
		return fmt.Sprintf("was evicted at %s: %s; %s", moment(g.Evicted.Point, g.KnownFrom), g.Evicted.Why, c.whoEnds())
	case "BelowMinimum":
		if c.Assigned == 0 {
			return fmt.Sprintf("has no member left: %s; it was placed at %s", c.whoEnds(), moment(*g.History.Placed, g.KnownFrom))
		}
		text := fmt.Sprintf("is below its minimum: %d of %d members are left on nodes, and none is pending; %s", c.Assigned, g.Min, c.whoEnds())
		if g.WhenBelow == "Keep" {
			text += "; those that are left go on, since it does not ask to be evicted"
		}
		return text
	}
	switch x := g.Reason; {
	case x == nil:
		return "is not pending"
	case g.Stage != "Pending", x.Code == InFlight, x.Code == NoProfile, x.Code == WaitsForOthers:
		return x.said
	default:
		return "is pending: it " + x.said
	}
}

// whoEnds says how many members are ending and gone.
func (c *GroupCounts) whoEnds() string {
	gone := count(int64(c.Gone), "is", "are") + " gone"
	if c.Leaving == 0 {
		return gone
	}
	ending := count(int64(c.Leaving), "member is", "members are") + " still ending"
	if c.Gone == 0 {
		return ending
	}
	return ending + ", and " + gone
}

// whenBelow says, of a gang that had its minimum on nodes and has less, what is on nodes, what is missing, and what becomes
// of that; "" for another one.
func (g *GroupExplanation) whenBelow() string {
	c := g.Counts
	if g.History.Placed == nil || c.Assigned == 0 || g.Stage != "Pending" && g.Stage != "Incomplete" && g.Stage != "BelowMinimum" {
		return ""
	}
	well := ""
	if c.EndedWell > 0 {
		well = fmt.Sprintf(" %d ended well,", c.EndedWell)
	}
	text := fmt.Sprintf("%d of %d on nodes,%s %d missing; rollcall.dev/below-minimum is %s: ", c.Assigned, g.Min, well,
		max(0, g.Min-c.Assigned-c.EndedWell), g.WhenBelow)
	if g.WhenBelow == "Keep" {
		return text + "what is on nodes goes on"
	}
	return text + "when a member is lost the rest is asked to go"
}

// lastPlaced is where the gang came to its minimum the last time.
func (h *GroupHistory) lastPlaced() *Point {
	for _, m := range slices.Backward(h.Milestones) {
		if m.What == "Placed" {
			return &m.Point
		}
	}
	return h.Placed
}

// nodes counts the nodes on which members are.
func (g *GroupExplanation) nodes() int {
	var nodes []string
	for _, m := range g.Members {
		if m.Node != "" {
			nodes = append(nodes, m.Node)
		}
	}
	slices.Sort(nodes)
	return len(slices.Compact(nodes))
}

func (p *page) members(members []GroupMember) {
	var rows [][]string
	for i, m := range members {
		if i == textMembers && len(members) > textMembers+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(members)-i)})
			break
		}
		gate := ""
		if m.GatingPlugin != "" && m.GatingPlugin != gangPlugin {
			gate = m.GatingPlugin + ": " + m.GatingMessage
		}
		stage := m.Stage
		if m.Leaving {
			stage += ", ending"
		}
		rows = append(rows, []string{m.Pod, stage, m.Node, gate})
	}
	p.table([]string{"MEMBER", "STAGE", "NODE", "GATED BY"}, rows)
}

func (p *page) attempts(h *GroupHistory) {
	var rows [][]string
	shown := h.Attempts[max(0, len(h.Attempts)-textAttempts):]
	if before := h.Omitted + len(h.Attempts) - len(shown); before > 0 {
		rows = append(rows, []string{fmt.Sprintf("%d before", before)})
	}
	for _, a := range shown {
		entries := fmt.Sprintf("%d-%d", a.First.Seq, a.Last.Seq)
		if a.First.Seq == a.Last.Seq {
			entries = fmt.Sprint(a.First.Seq)
		}
		rows = append(rows, []string{a.First.Time.String(), entries, a.Outcome, fmt.Sprint(a.Placed), numberOr(a.NoNode, ""),
			numberOr(a.Released, ""), a.FailedMember, a.Why})
	}
	p.table([]string{"ATTEMPT", "ENTRIES", "OUTCOME", "FOUND A NODE", "NO NODE", "RELEASED", "STOPPED AT", "WHY"}, rows)
}

// numberOr is n, or what stands for nothing.
func numberOr(n int, nothing string) string {
	if n == 0 {
		return nothing
	}
	return fmt.Sprint(n)
}

// together shows how far those are that are admitted together.
func (p *page) together(t *Together) {
	if t == nil {
		return
	}
	var rows [][]string
	for i, g := range t.Gangs {
		if i == textMembers && len(t.Gangs)+t.Others > textMembers+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(t.Gangs)+t.Others-i)})
			break
		}
		minimum := fmt.Sprint(g.Min)
		if !g.Declared {
			minimum = "not known"
		}
		rows = append(rows, []string{g.Group, minimum, fmt.Sprint(g.Present), numberOr(g.Held, ""), fmt.Sprint(g.Placed), g.Refusal})
	}
	p.table([]string{"TOGETHER WITH", "MINIMUM", "THERE", "HELD", "PLACED", "REFUSED"}, rows)
}

// refusedMembers shows which members found no node in the last attempt, if they are more than the one that ended it.
func (p *page) refusedMembers(x *Reason) {
	if x == nil || len(x.Members) == 0 || len(x.Members) == 1 && x.Members[0].Count == 1 {
		return
	}
	var rows [][]string
	for i, r := range x.Members {
		if i == textReasons {
			more := x.MoreMembers
			for _, row := range x.Members[i:] {
				more += row.Count
			}
			rows = append(rows, []string{fmt.Sprint(more), "others"})
			break
		}
		rows = append(rows, []string{fmt.Sprint(r.Count), strings.Join(r.Examples, ", "), refusalsText(r.Refusals)})
	}
	p.table([]string{"NO NODE FOR", "MEMBERS", "WHY"}, rows)
}

// letPast shows who was given nodes while the gang waited.
func (p *page) letPast(l *LetPast) {
	if l == nil {
		return
	}
	var rows [][]string
	others, pods, took := l.Others, l.OtherPods, l.OthersTook
	for i, by := range l.By {
		if i >= textPassers {
			others, pods, took = others+1, pods+by.Pods, sum(took, by.Took)
			continue
		}
		kind := by.Kind
		if kind == "group" {
			kind = "gang"
		}
		rows = append(rows, []string{by.First.Time.String(), kind + " " + by.Name, fmt.Sprint(by.Pods), amountsText(by.Took), by.Meanwhile})
	}
	if others > 0 {
		rows = append(rows, []string{"", count(int64(others), "other", "others"), fmt.Sprint(pods), amountsText(took)})
	}
	p.table([]string{"LET PAST", "WHO", "PODS", "TOOK", "WHILE IT WAS"}, rows)
}

func amountsText(amounts []Amount) string {
	var parts []string
	for _, a := range amounts {
		if a.Amount > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", amount(a.Resource, a.Amount), a.Resource))
		}
	}
	return strings.Join(parts, ", ")
}

// sum adds amounts of the same resources.
func sum(a, b []Amount) []Amount {
	out := slices.Clone(b)
	for i := range a {
		out[i].Amount += a[i].Amount
	}
	return out
}
