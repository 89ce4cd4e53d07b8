package replay

import (
	"fmt"
	"io"
	"slices"

	"github.com/rollcall-sched/rollcall/queue"
)

// WriteText writes the explanation for people: the answer in the first line, then what it rests on.
func (g *GroupExplanation) WriteText(w io.Writer) error {
	var out page
	fmt.Fprintf(&out.b, "Gang %s %s.\n\n", g.Group, g.answer())
	out.columns(g.facts())
	out.members(g.Members)
	out.attempts(&g.History)
	if g.failing() {
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

func (g *GroupExplanation) facts() facts {
	var f facts
	f.add("at", "%s", g.At)
	c := g.Counts
	minimum := fmt.Sprintf("minimum %d", g.Min)
	if !g.Declared {
		minimum = "minimum not known"
	}
	f.add("members", "%s; %d placed, %d held, %d ready, %d gated, %d gone", minimum, c.Assigned, c.Waiting, c.Ready, c.Gated, c.Gone)
	f.knownFrom(g.KnownFrom)
	f.add("first seen", "%s", place(g.History.FirstSeen, g.KnownFrom))
	if p := g.History.Complete; p != nil {
		f.add("complete", "%s: as many members as it needs were there", place(*p, g.KnownFrom))
	}
	if p := g.History.Placed; p != nil {
		f.add("placed", "%s: its minimum was on nodes", place(*p, g.KnownFrom))
	}
	if g.Queue != nil {
		text := g.Queue.State
		if g.Queue.Since != 0 {
			text += fmt.Sprintf(" since %s", g.Queue.Since)
		}
		if g.Queue.GatingPlugin != "" {
			text += fmt.Sprintf("; %s: %s", g.Queue.GatingPlugin, g.Queue.GatingMessage)
		}
		f.add("queue", "%s", text)
		f.add("next try", "%s", g.Queue.NextRetry)
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
	case "Undeclared":
		return fmt.Sprintf("waits for its PodGroup: there is no such object, and %s", count(int64(len(g.Members)), "pod names it", "pods name it"))
	case "Refused":
		return "is refused: " + g.Refusal
	case "Incomplete":
		text := fmt.Sprintf("is incomplete: it has %d of the %d members it needs", c.Ready+c.Waiting+c.Assigned, g.Min)
		if own := g.unready(); own > 0 {
			text += fmt.Sprintf(", and %d more that are gated or being deleted", own)
		}
		if c.Gone > 0 {
			text += fmt.Sprintf("; %d are gone", c.Gone)
		}
		return text
	case "Placed":
		text := fmt.Sprintf("is placed: %s (minimum %d) on %s", count(int64(c.Assigned), "member", "members"), g.Min, count(int64(g.nodes()), "node", "nodes"))
		if p := g.History.Placed; p != nil {
			text += fmt.Sprintf(" since %s", moment(*p, g.KnownFrom))
		}
		if more := c.Ready + c.Gated; more > 0 {
			text += fmt.Sprintf("; %d more pending", more)
		}
		return text
	}
	switch {
	case g.Queue != nil && g.Queue.State == queue.InFlight.String():
		return fmt.Sprintf("is being placed right now: %d of %d members so far", c.Waiting+c.Assigned, g.Min)
	case g.failing():
		return "is pending: it " + gangStopped(g.LastFailure, g.Group)
	case g.Queue != nil && g.History.Omitted > 0 && len(g.History.Attempts) == 0:
		text := fmt.Sprintf("is pending: its %s came before entry %d, with which what is known begins", count(int64(g.History.Omitted), "attempt", "attempts"), g.KnownFrom)
		return text + "; it is tried " + g.Queue.NextRetry
	case g.Queue != nil:
		return "is pending: no attempt has failed yet; it is tried " + g.Queue.NextRetry
	}
	return "is pending and not in the queue: no profile of the configuration places its pods as a gang"
}

// unready counts the members that do not count towards the minimum.
func (g *GroupExplanation) unready() int {
	return len(g.Members) - g.Counts.Ready - g.Counts.Waiting - g.Counts.Assigned
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
		if m.GatingPlugin != "" {
			gate = m.GatingPlugin + ": " + m.GatingMessage
		}
		rows = append(rows, []string{m.Pod, m.Stage, m.Node, gate})
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
		rows = append(rows, []string{a.First.Time.String(), entries, a.Outcome, fmt.Sprint(a.Placed), fmt.Sprint(a.Released), a.FailedMember})
	}
	p.table([]string{"ATTEMPT", "ENTRIES", "OUTCOME", "FOUND A NODE", "RELEASED", "STOPPED AT"}, rows)
}
