package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/cluster"
)

// say writes the message: one sentence, built of what the reason has as data.
func (h *groupHistory) say(x *Reason, r *rerun, g *cluster.Group, f *failure) {
	x.said = h.predicate(x, r, g, f)
	x.Message = "Gang " + x.Group + " " + x.said
	if x.BeyondMinimum > 0 {
		x.Message = fmt.Sprintf("Gang %s has its minimum on nodes, and %s pending: it %s", x.Group,
			count(int64(x.BeyondMinimum), "member more is", "members more are"), x.said)
	}
}

// predicate is the reason, to follow the gang's name.
func (h *groupHistory) predicate(x *Reason, r *rerun, g *cluster.Group, f *failure) string {
	switch x.Code {
	case Undeclared:
		return undeclaredText(g)
	case Refused:
		if why := g.Refusal(); why != "" {
			return "is refused: " + why
		}
		return "is refused with those that it is admitted together with: " + g.Composite().Refusal()
	case NoProfile:
		return "is not in the queue: no profile of the configuration places its pods as a gang"
	case InFlight:
		return fmt.Sprintf("is being placed right now: %d of %d members so far", withNode(g), g.Min())
	case Incomplete, Gated:
		return shortOfMembers(x, g)
	case HeldByPermit:
		return fmt.Sprintf("has the %s on nodes, and waits for %s, until %s at the latest", membersNeeded(g),
			list(x.WaitsFor.Plugins, "a plugin"), x.WaitsFor.Until)
	case WaitsForOthers:
		if f == failedBeforeItJoined {
			return "waits for those that it is admitted together with: their last attempt failed before it was one of them"
		}
		return waitsForOthers(x, r, g, f)
	case FailedBefore:
		text := fmt.Sprintf("had its %s before entry %d, with which what is known begins", count(int64(x.Attempts), "attempt", "attempts"), r.opts.knownFrom())
		if len(x.Shortfall) > 0 {
			text += "; it " + x.Shortfall[0].said()
		}
		return text + "; it is tried " + x.NextRetry.Words
	case Backoff:
		return fmt.Sprintf("waits for the end of a backoff at %s; nothing has failed since", x.WaitsFor.Until)
	case InTurn:
		return "waits for its turn: it is tried " + x.NextRetry.Words
	}
	return failedText(x, r, f)
}

func membersNeeded(g *cluster.Group) string {
	if g.Min() == 1 {
		return "member that it needs"
	}
	return fmt.Sprintf("%d members that it needs", g.Min())
}

func undeclaredText(g *cluster.Group) string {
	if g.Declared() {
		return fmt.Sprintf("waits for composite pod group %s: there is no such object", g.Composite())
	}
	return fmt.Sprintf("waits for its PodGroup: there is no such object, and %s", count(int64(len(g.Members())), "pod names it", "pods name it"))
}

// shortOfMembers says how many members there are, and what keeps out those that do not count.
func shortOfMembers(x *Reason, g *cluster.Group) string {
	more := "more "
	text := fmt.Sprintf("is incomplete: it has %d of the %d members it needs", presentIn(g), g.Min())
	if presentIn(g) >= g.Min() {
		text, more = "has enough members, of which some are kept out of the queue", ""
	}
	if held := g.Waiting(); held > 0 {
		text += fmt.Sprintf(", %d of them held on nodes until %s at the latest", held, x.WaitsFor.Until)
	}
	for i, k := range x.KeptOut {
		if i == 2 {
			return text + ", and more"
		}
		if k.Plugin == "" {
			text += fmt.Sprintf("; %s being deleted", count(int64(k.Count), "more is", "more are"))
		} else {
			text += fmt.Sprintf("; %s kept out by %s: %s", count(int64(k.Count), more+"is", more+"are"), k.Plugin, k.Message)
		}
	}
	return text
}

// waitsForOthers says which of the gangs that are admitted together are not so far.
func waitsForOthers(x *Reason, r *rerun, g *cluster.Group, f *failure) string {
	c := g.Composite()
	if f != nil {
		return fmt.Sprintf("waits for gang %s, which it is admitted together with: that one %s", f.gang, failedText(x, r, f))
	}
	counts, verb := presentIn, "can be complete"
	if lacking, _, _ := c.Lacking(presentIn); lacking == 0 {
		counts, verb = withNode, "have their members on nodes"
	}
	lacking, _, _ := c.Lacking(counts)
	text := fmt.Sprintf("waits for those that it is admitted together with: %d of the %d gangs needed %s", c.Min()-lacking, c.Min(), verb)
	for i, name := range x.WaitsFor.Groups {
		if name == c.String() {
			return text + "; no other names it"
		}
		if i == 2 {
			return text + ", and more"
		}
		text += "; " + progressText(c, name, counts)
	}
	return text
}

func progressText(c *cluster.Composite, name string, counts func(*cluster.Group) int) string {
	for _, g := range c.Gangs() {
		switch {
		case g.String() != name:
		case !g.Declared():
			return name + " has no PodGroup yet"
		case g.Refusal() != "":
			return name + " is refused: " + g.Refusal()
		default:
			return fmt.Sprintf("%s has %d of the %d members it needs", name, counts(g), g.Min())
		}
	}
	return name + " is not there yet"
}

// failedText says how the last attempt failed.
func failedText(x *Reason, r *rerun, f *failure) string {
	switch f.code {
	case LacksRoom:
		if len(x.Shortfall) > 0 {
			return x.Shortfall[0].said()
		}
		return wordsOf(x.Refusals, f.gang.String())
	case PluginFailed:
		return fmt.Sprintf("was stopped at member %s: %s", x.Member, refusalsText(x.Refusals))
	case PermitTimedOut:
		return fmt.Sprintf("gave its nodes back at %s: member %s was held until its deadline", f.at.Time, x.Member)
	case BrokenOff:
		return fmt.Sprintf("gave its nodes back at %s, at member %s: %s", f.at.Time, x.Member, refusalsText(x.Refusals))
	case BindFailed:
		return fmt.Sprintf("lost a member: binding %s to %s ended in %s", f.pod, f.bind.Node, f.bind.said())
	}
	return unplaceableText(x, r.explained(f.recorded))
}

// unplaceableText says for which member no node was found; d is the decision that ended the attempt, nil if it was not
// explained.
func unplaceableText(x *Reason, d *DecisionExplanation) string {
	why := refusalsText(x.Refusals)
	if d != nil && d.Pod == x.Member {
		why = noNode(d)
	}
	text := fmt.Sprintf("was stopped at member %s: %s", x.Member, why)
	if slices.ContainsFunc(x.Refusals, func(r Refusal) bool { return r.Nodes > 0 }) {
		text = fmt.Sprintf("found no node for member %s: %s", x.Member, why)
	}
	others := x.MoreMembers - 1
	for _, row := range x.Members {
		others += row.Count
	}
	if others > 0 {
		text += fmt.Sprintf("; nor for %s", count(int64(others), "other", "others"))
	}
	return text
}

// refusalsText puts refusals into one phrase.
func refusalsText(refusals []Refusal) string {
	var parts []string
	merged := mergeRefusals(refusals)
	for i, r := range merged {
		if i == 3 {
			parts = append(parts, "and more")
			break
		}
		reason := r.Reason
		if reason == "" {
			reason = "refused by " + r.Plugin
		}
		if r.Nodes > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", reason, count(r.Nodes, "node", "nodes")))
		} else {
			parts = append(parts, fmt.Sprintf("%s: %s", r.Plugin, reason))
		}
	}
	if len(parts) == 0 {
		for _, r := range refusals {
			parts = append(parts, "refused by "+r.Plugin)
		}
	}
	return strings.Join(parts, ", ")
}

// wordsOf are the gang plugin's own, without the gang's name, or those of all that refused.
func wordsOf(refusals []Refusal, gang string) string {
	for _, r := range refusals {
		if said, ok := strings.CutPrefix(r.Reason, "pod group "+gang+" "); ok && r.Nodes == 0 {
			return said
		}
	}
	return "was refused: " + refusalsText(refusals)
}

// said is the shortfall in words, to follow the name of who has it.
func (s *Shortfall) said() string {
	needed := fmt.Sprintf("%s %s", amount(s.Resource, s.Needed), s.Resource)
	var text string
	switch s.Of {
	case "MinResources":
		text = "asks for " + needed + " in minResources"
	case "Unit":
		text = "and those that it is admitted together with need " + needed
		if s.Members > 0 {
			text += " for " + count(int64(s.Members), "member", "members")
		}
	case "Pod":
		return fmt.Sprintf("needs %s on one node for %s; the most on one is %s%s", needed, s.Pod, amount(s.Resource, s.LargestFree), s.holdersText())
	default:
		text = fmt.Sprintf("needs %s for %s", needed, count(int64(s.Members), "member", "members"))
	}
	text += "; " + amount(s.Resource, s.Free) + " free"
	if s.Allocatable > 0 && s.Needed > s.Allocatable {
		text += fmt.Sprintf(", and all nodes together have only %s", amount(s.Resource, s.Allocatable))
	}
	if s.Usable < s.Free {
		text += fmt.Sprintf(", %s of them on nodes that take it", amount(s.Resource, s.Usable))
	}
	return text + s.holdersText()
}

// holdersText names who has the most.
func (s *Shortfall) holdersText() string {
	const most = 2
	var text strings.Builder
	others, rest := s.Others, s.OthersAmount
	for i, h := range s.Holders {
		switch {
		case i >= most:
			others, rest = others+1, rest+h.Amount
		case i == 0:
			fmt.Fprintf(&text, ", %s held by %s", amount(s.Resource, h.Amount), h.Name)
		default:
			fmt.Fprintf(&text, ", %s by %s", amount(s.Resource, h.Amount), h.Name)
		}
	}
	if others > 0 {
		fmt.Fprintf(&text, ", %s by %s", amount(s.Resource, rest), count(int64(others), "other", "others"))
	}
	return text.String()
}

// inShort is a failure in a few words, for the row of an attempt.
func (f *failure) inShort() string {
	switch f.code {
	case LacksRoom:
		return fmt.Sprintf("%s %s needed, %s free", amount(f.short.Resource, f.short.Needed), f.short.Resource, amount(f.short.Resource, f.short.Free))
	case PermitTimedOut:
		return "held until its deadline"
	case "", BindFailed:
		return ""
	}
	refusals := ownRefusals(refusalsOf(f.decision.Rejections))
	if len(refusals) > 0 && f.code == PluginFailed {
		return refusals[0].Plugin + " failed"
	}
	return refusalsText(refusals)
}

// list puts names into one phrase; otherwise stands for none.
func list(names []string, otherwise string) string {
	switch len(names) {
	case 0:
		return otherwise
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
