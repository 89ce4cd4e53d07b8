package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// say writes the message: one sentence, built of the reason's data.
func (h *gangHistory) say(x *answer.Reason, r *rerun, g *cluster.Group, f *failure) {
	x.Predicate = h.predicate(x, r, g, f)
	x.Message = "Gang " + x.Group + " " + x.Predicate
	if x.BeyondMinimum > 0 {
		x.Message = fmt.Sprintf("Gang %s has its minimum on nodes, and %s pending: it %s", x.Group,
			phrase.Count(int64(x.BeyondMinimum), "member more is", "members more are"), x.Predicate)
	}
}

// predicate is the reason, to follow the gang's name. The present tense is about the point in question.
func (h *gangHistory) predicate(x *answer.Reason, r *rerun, g *cluster.Group, f *failure) string {
	if now := x.Now; now != nil {
		text := now.Message
		if now.Fits {
			text += "; it is tried " + x.NextRetry.Words
		}
		return withLast(x, text, lastAttempt(x, r, f))
	}
	if f != nil && f.known() && f != failedBeforeItJoined && f.at != r.at && f.inShort() != "" {
		return fmt.Sprintf("failed in its last attempt, at %s (entry %d): %s", f.at.Time, f.at.Seq, f.inShort())
	}
	return h.predicateOf(x, r, g, f)
}

// withLast puts what holds now before how the last attempt failed, as far as that differs.
func withLast(x *answer.Reason, now, last string) string {
	if last == "" {
		return now
	}
	return now + "; " + last
}

// lastAttempt says how the last attempt failed and when; "" if the next one would fail in the same way now, and nothing
// has been lost since.
func lastAttempt(x *answer.Reason, r *rerun, f *failure) string {
	if x.Code == answer.FailedBefore {
		return fmt.Sprintf("it had its %s before entry %d, with which what is known begins",
			phrase.Count(int64(x.Attempts), "attempt", "attempts"), r.knownFrom())
	}
	if f == nil || f == failedBeforeItJoined || !f.known() {
		return ""
	}
	switch f.code {
	case answer.PermitTimedOut, answer.BrokenOff, answer.BindFailed:
		return "it " + failedText(x, r, f)
	}
	if x.Now.Code == f.code || x.Never != "" {
		return ""
	}
	short := f.inShort()
	if short == "" {
		short = string(f.code)
	}
	return fmt.Sprintf("its last attempt, at %s (entry %d), failed: %s", f.at.Time, f.at.Seq, short)
}

// predicateOf is the reason without the result of an attempt now.
func (h *gangHistory) predicateOf(x *answer.Reason, r *rerun, g *cluster.Group, f *failure) string {
	switch x.Code {
	case answer.Undeclared:
		return undeclaredText(g)
	case answer.Refused:
		if why := g.Refusal(); why != "" {
			return "is refused: " + why
		}
		return "is refused with those that it is admitted together with: " + g.Composite().Refusal()
	case answer.NoProfile:
		return "is not in the queue: no profile of the configuration places its pods as a gang"
	case answer.InFlight:
		return fmt.Sprintf("is being placed right now: %d of %d members so far", g.Count(gang.OnNodes), g.Min())
	case answer.BeingEvicted:
		return beingEvictedText(r, h, g)
	case answer.Incomplete, answer.Gated:
		return shortOfMembers(x, g)
	case answer.HeldByPermit:
		return fmt.Sprintf("has the %s on nodes, and waits for %s, until %s at the latest", membersNeeded(g),
			phrase.List(x.WaitsFor.Plugins, "a plugin"), x.WaitsFor.Until)
	case answer.WaitsForOthers:
		if f == failedBeforeItJoined {
			return "waits for those that it is admitted together with: " +
				"their last attempt failed before it was one of them"
		}
		return waitsForOthers(x, r, g, f)
	case answer.FailedBefore:
		text := fmt.Sprintf("had its %s before entry %d, with which what is known begins",
			phrase.Count(int64(x.Attempts), "attempt", "attempts"), r.knownFrom())
		if len(x.Shortfall) > 0 {
			text += "; it " + phrase.Shortfall(&x.Shortfall[0], r.at)
		}
		return text + "; it is tried " + x.NextRetry.Words
	case answer.Backoff:
		return fmt.Sprintf("waits for the end of a backoff at %s; nothing has failed since", x.WaitsFor.Until)
	case answer.AsksExtenders:
		return "waits for HTTP extenders, which were asked about its members and have not answered yet"
	case answer.InTurn:
		return "waits for its turn: it is tried " + x.NextRetry.Words
	}
	return failedText(x, r, f)
}

// beingEvictedText names the entries that evicted the members, as far as they are known.
func beingEvictedText(r *rerun, h *gangHistory, g *cluster.Group) string {
	var asked []string
	unknown := false
	for _, p := range askedToGo(r.machine, g) {
		text := h.evictedBy(p.Object.UID)
		by := r.machine.AskedBy(p.Object.UID, scheduler.Evict)
		switch {
		case text != "":
			text = strings.TrimPrefix(text, ": ")
		case by > 0:
			text = fmt.Sprintf("asked to go by entry %d", by)
		default:
			text = "asked to go"
		}
		if unknown = unknown || by <= r.base; !slices.Contains(asked, text) {
			asked = append(asked, text)
		}
	}
	text := fmt.Sprintf("is being evicted: %s left, %s", phrase.Count(int64(len(g.Members())), "member is",
		"members are"), strings.Join(asked[:min(2, len(asked))], ", "))
	if len(asked) > 2 {
		text += ", and more"
	}
	if from := r.knownFrom(); unknown && from > 0 {
		text += fmt.Sprintf(", before what is known begins with entry %d", from)
	}
	return text
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
	return fmt.Sprintf("waits for its PodGroup: there is no such object, and %s",
		phrase.Count(int64(len(g.Members())), "pod names it", "pods name it"))
}

// shortOfMembers says how many members there are, and why the others do not count.
func shortOfMembers(x *answer.Reason, g *cluster.Group) string {
	more := "more "
	text := fmt.Sprintf("is incomplete: it has %d of the %d members it needs", g.Count(gang.Present), g.Min())
	if g.Lacking(gang.Present) <= 0 {
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
			text += fmt.Sprintf("; %s %s", phrase.Count(int64(k.Count), "more is", "more are"),
				strings.TrimPrefix(k.Message, "is "))
		} else {
			text += fmt.Sprintf("; %s kept out by %s: %s", phrase.Count(int64(k.Count), more+"is", more+"are"),
				k.Plugin, k.Message)
		}
	}
	return text
}

// waitsForOthers says which of the gangs that are admitted together are not so far.
func waitsForOthers(x *answer.Reason, r *rerun, g *cluster.Group, f *failure) string {
	c := g.Composite()
	if f != nil {
		return fmt.Sprintf("waits for gang %s, which it is admitted together with: that one %s", f.gang,
			failedText(x, r, f))
	}
	by, verb := gang.Present, "can be complete"
	lacks := lackingAbove(g, by)
	if lacks == nil {
		by, verb = gang.OnNodes, "have their members on nodes"
		lacks = lackingAbove(g, by)
	}
	of, with := "gangs", ""
	if lacks != nil && lacks != c {
		c, with = lacks, fmt.Sprintf(" below %s", lacks)
	}
	if _, below := c.Directly(); len(below) > 0 {
		of = "groups"
	}
	text := fmt.Sprintf("waits for those that it is admitted together with%s: %d of the %d %s needed %s",
		with, c.Min()-gangsLacking(c, by), c.Min(), of, verb)
	for i, name := range x.WaitsFor.Groups {
		if name == c.String() {
			return text + "; no other names it"
		}
		if i == 2 {
			return text + ", and more"
		}
		text += "; " + progressText(c, name, by)
	}
	return text
}

func progressText(c *cluster.Composite, name string, by gang.Count) string {
	for _, g := range c.Gangs() {
		switch {
		case g.String() != name:
		case !g.Declared():
			return name + " has no PodGroup yet"
		case g.Refusal() != "":
			return name + " is refused: " + g.Refusal()
		default:
			return fmt.Sprintf("%s has %d of the %d members it needs", name, g.Count(by), g.Min())
		}
	}
	return name + " is not there yet"
}

// failedText says how the last attempt failed.
func failedText(x *answer.Reason, r *rerun, f *failure) string {
	switch f.code {
	case answer.LacksRoom:
		if len(x.Shortfall) > 0 {
			return phrase.Shortfall(&x.Shortfall[0], r.at)
		}
		return phrase.GangRefusal(x.Refusals, f.gang.String())
	case answer.PluginFailed:
		return fmt.Sprintf("is stopped at member %s: %s", x.Member, phrase.Refusals(x.Refusals))
	case answer.PermitTimedOut:
		return fmt.Sprintf("gave its nodes back at %s (entry %d): member %s was held until its deadline", f.at.Time,
			f.at.Seq, x.Member)
	case answer.BrokenOff:
		if f.by != nil {
			return fmt.Sprintf("gave its nodes back at %s (entry %d): %s", f.at.Time, f.at.Seq, phrase.LostTo(f.by))
		}
		return fmt.Sprintf("gave its nodes back at %s (entry %d), at member %s: %s", f.at.Time, f.at.Seq, x.Member,
			phrase.Refusals(x.Refusals))
	case answer.BindFailed:
		return fmt.Sprintf("lost a member at %s (entry %d): binding %s to %s ended in %s", f.at.Time, f.at.Seq, f.pod,
			f.bind.Node, phrase.BindOutcome(f.bind))
	}
	return unplaceableText(x, r.explained(f.recorded), f)
}

// unplaceableText says for which member no node was found; d is the decision that ended the attempt, nil if it was not
// explained.
func unplaceableText(x *answer.Reason, d *answer.Decision, f *failure) string {
	why := phrase.Refusals(x.Refusals)
	if d != nil && d.Pod == x.Member {
		why = phrase.NoNode(d, f.at)
	}
	text := fmt.Sprintf("is stopped at member %s: %s", x.Member, why)
	if slices.ContainsFunc(x.Refusals, func(r answer.Refusal) bool { return r.Nodes > 0 }) {
		text = fmt.Sprintf("finds no node for member %s: %s", x.Member, why)
	}
	others := x.MoreMembers - 1
	for _, row := range x.Members {
		others += row.Count
	}
	if others > 0 {
		text += fmt.Sprintf("; nor for %s", phrase.Count(int64(others), "other", "others"))
	}
	return text
}
