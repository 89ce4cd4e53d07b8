package render

import (
	"fmt"
	"io"
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// Group writes the explanation for people: the answer in the first line, then what it rests on.
func Group(w io.Writer, g *answer.Group) error {
	out := page{at: g.At}
	out.printf("Gang %s %s%s.\n\n", g.Group, groupAnswer(g), lostNode(g))
	out.columns(groupFacts(g))
	out.together(g.Together)
	out.members(g.Members)
	out.attempts(&g.History)
	out.ahead(g.Queue)
	out.letPast(g.History.LetPast)
	out.unmatched(g.Reason)
	stopped := out.stopped(g)
	if n := g.Needs; n != nil {
		out.resources(fmt.Sprintf("FOR %s", phrase.Count(int64(n.Members), "MEMBER", "MEMBERS")), n.AsOf, n.Resources)
	}
	if stopped != nil && stopped.Evaluated > 0 {
		out.resources("FOR "+stopped.Pod, stopped.Point, stopped.Resources)
	}
	return out.writeTo(w)
}

// stopped shows which members find no node, and returns the decision that an attempt ends by: now, or, if none can be
// made now, in the last one. It is nil if there is none.
func (p *page) stopped(g *answer.Group) *answer.Decision {
	if x := g.Reason; x != nil && x.Now != nil {
		if x.Now.Fits {
			return nil
		}
		p.refusedMembers(x.Now.Point, x.Now.Members, x.Now.MoreMembers)
		p.refusals(x.Now.Decision)
		return x.Now.Decision
	}
	if !failing(g) {
		return nil
	}
	if x := g.Reason; x != nil && x.Failed != nil {
		p.refusedMembers(*x.Failed, x.Members, x.MoreMembers)
	}
	p.refusals(g.LastFailure)
	return g.LastFailure
}

// failing reports whether the last attempt is a failed one and the gang is not placed.
func failing(g *answer.Group) bool {
	attempts := g.History.Attempts
	return g.LastFailure != nil && g.Stage == "Pending" && len(attempts) > 0 &&
		attempts[len(attempts)-1].Outcome == "Failed"
}

// readyAndGated counts each pending member once. gated members are kept out of the queue by something else than their
// own gang. ready are the others.
func readyAndGated(g *answer.Group) (ready, gated int) {
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

func groupFacts(g *answer.Group) facts {
	var f facts
	f.add("at", "%s", g.At)
	c := g.Counts
	minimum := fmt.Sprintf("minimum %d", g.Min)
	switch {
	case g.Declared:
	case g.LastMin > 0:
		minimum = fmt.Sprintf("minimum was %d", g.LastMin)
	default:
		minimum = "minimum not known"
	}
	ready, gated := readyAndGated(g)
	leaving := ""
	if c.Leaving > 0 {
		leaving = fmt.Sprintf(" %d ending,", c.Leaving)
	}
	well := ""
	if c.EndedWell > 0 {
		well = fmt.Sprintf(", of which %d ended well", c.EndedWell)
	}
	f.add("members", "%s; %d placed, %d held, %d ready, %d gated,%s %d gone%s", minimum, c.Assigned, c.Waiting, ready,
		gated, leaving, c.Gone, well)
	if below := whenBelow(g); below != "" {
		f.add("policy", "%s", below)
	}
	f.knownFrom(g.KnownFrom)
	f.history(&g.History, g.KnownFrom)
	h := &g.History
	f.preemptions(h.PreemptedBy, h.Preempted, h.OmittedPreemptedBy, h.OmittedPreempted)
	f.reason(g.Reason, g.KnownFrom)
	if q := g.Queue; q != nil {
		text := q.State
		if q.Since != 0 {
			text += fmt.Sprintf(" since %s", q.Since)
		}
		if g.Reason != nil && g.Reason.Attempts > 0 {
			text += fmt.Sprintf("; %s", phrase.Count(int64(g.Reason.Attempts), "attempt", "attempts"))
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
func groupAnswer(g *answer.Group) string {
	c := g.Counts
	switch g.Stage {
	case "Gone":
		return groupGone(g)
	case "Placed":
		text := fmt.Sprintf("is placed: %s (minimum %d) on %s",
			phrase.Count(int64(c.Assigned), "member", "members"), g.Min,
			phrase.Count(int64(nodesOf(g)), "node", "nodes"))
		if p := lastPlaced(&g.History); p != nil {
			text += fmt.Sprintf(" since %s", moment(*p, g.KnownFrom))
		}
		if x := g.Reason; x != nil && x.BeyondMinimum > 0 {
			text += fmt.Sprintf("; %d more pending: it %s", x.BeyondMinimum, x.Predicate)
		} else if x != nil {
			text += "; for the pending ones it " + x.Predicate
		}
		return text
	case "Done":
		return fmt.Sprintf("is done: as many members as it needs (%d) have ended well, and none is left; %s gone",
			g.Min, phrase.Count(int64(c.Gone), "is", "are"))
	case "Evicted":
		if g.Evicted == nil {
			return g.Reason.Predicate
		}
		return fmt.Sprintf("was evicted at %s: %s; %s%s", moment(g.Evicted.Point, g.KnownFrom), g.Evicted.Why,
			endingAndGone(g), lostBefore(g))
	case "Preempted":
		x := lastLoss(g)
		return fmt.Sprintf("was %s, at %s (entry %d); %s", phrase.LostTo(x), moment(x.Point, g.KnownFrom), x.Seq,
			endingAndGone(g))
	case "BelowMinimum":
		if c.Assigned == 0 {
			return fmt.Sprintf("has no member left: %s; it was placed at %s", endingAndGone(g),
				moment(*g.History.Placed, g.KnownFrom))
		}
		text := fmt.Sprintf("is below its minimum: %d of %d members are left on nodes, and none is pending; %s",
			c.Assigned, g.Min, endingAndGone(g)) + lostBefore(g)
		if g.WhenBelow == "Keep" {
			text += "; those that are left go on, since it does not ask to be evicted"
		}
		return text
	}
	switch x := g.Reason; {
	case x == nil:
		return "is not pending"
	case g.Stage != "Pending", x.Code == answer.InFlight, x.Code == answer.NoProfile, x.Code == answer.WaitsForOthers:
		return x.Predicate
	default:
		nominated := slices.ContainsFunc(g.Members, func(m answer.GroupMember) bool { return m.Nominated != "" })
		return "is pending: it " + x.Predicate + phrase.RoomAwaited(nominated, g.History.Preempted)
	}
}

// groupGone describes the end of a gang that is gone.
func groupGone(g *answer.Group) string {
	c := g.Counts
	text := fmt.Sprintf("is gone with its %s", phrase.Count(int64(c.Gone), "member", "members"))
	if x := lastLoss(g); x != nil && g.Ends.Preempted > 0 {
		text = fmt.Sprintf("was %s, at %s (entry %d); it %s", phrase.LostTo(x), moment(x.Point, g.KnownFrom), x.Seq,
			text)
	} else if e := g.Evicted; e != nil {
		text = fmt.Sprintf("was evicted at %s: %s; it %s", moment(e.Point, g.KnownFrom), e.Why, text)
	}
	if ends := endsText(&g.Ends); ends != "" {
		text += " (" + ends + ")"
	}
	if p := g.History.Placed; p != nil {
		if p.Seq == 0 {
			return text + "; it was placed " + place(*p, g.KnownFrom)
		}
		return text + fmt.Sprintf("; it was placed at %s", p.Time)
	}
	if g.KnownFrom > 0 && g.History.FirstSeen.Seq == 0 {
		return text + fmt.Sprintf("; whether it was placed before entry %d is not known", g.KnownFrom)
	}
	return text + "; it was never placed"
}

// lastLoss is the last preemption of members since the gang was last placed; nil for none.
func lastLoss(g *answer.Group) *answer.Preemption { return lastLost(&g.History) }

func lastLost(h *answer.GroupHistory) *answer.Preemption {
	if n := len(h.PreemptedBy); n > 0 {
		if p := lastPlaced(h); p == nil || p.Seq < h.PreemptedBy[n-1].Seq {
			return &h.PreemptedBy[n-1]
		}
	}
	return nil
}

// lostBefore names the preemption of members since the gang was last placed; "" for none.
func lostBefore(g *answer.Group) string {
	x := lastLoss(g)
	if x == nil {
		return ""
	}
	return fmt.Sprintf("; at %s (entry %d) %s %s", moment(x.Point, g.KnownFrom), x.Seq,
		phrase.Count(int64(x.OwnPods), "member was", "members were"), phrase.LostTo(x))
}

// endingAndGone says how many members are ending and gone, and how those went.
func endingAndGone(g *answer.Group) string {
	c := &g.Counts
	gone := phrase.Count(int64(c.Gone), "is", "are") + " gone"
	if ends := endsText(&g.Ends); ends != "" && c.Gone > 0 {
		gone += " (" + ends + ")"
	}
	if c.Leaving == 0 {
		return gone
	}
	ending := phrase.Count(int64(c.Leaving), "member is", "members are") + " still ending"
	if c.Gone == 0 {
		return ending
	}
	return ending + ", and " + gone
}

// whenBelow says, of a gang that had its minimum on nodes and has less, what is on nodes, what is missing, and what
// becomes of that; "" for another one.
func whenBelow(g *answer.Group) string {
	c := g.Counts
	if g.History.Placed == nil || c.Assigned == 0 || g.Stage != "Pending" && g.Stage != "Incomplete" &&
		g.Stage != "BelowMinimum" {
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

// lastPlaced is the point where the gang came to its minimum the last time.
func lastPlaced(h *answer.GroupHistory) *answer.Point {
	for _, m := range slices.Backward(h.Milestones) {
		if m.What == "Placed" {
			return &m.Point
		}
	}
	return h.Placed
}

// nodes counts the nodes on which members are.
func nodesOf(g *answer.Group) int {
	var nodes []string
	for _, m := range g.Members {
		if m.Node != "" {
			nodes = append(nodes, m.Node)
		}
	}
	slices.Sort(nodes)
	return len(slices.Compact(nodes))
}
