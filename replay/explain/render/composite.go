package render

import (
	"fmt"
	"io"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// Composite writes the explanation for people: the answer in the first line, then what it rests on.
func Composite(w io.Writer, x *answer.Composite) error {
	out := page{at: x.At}
	out.printf("CompositePodGroup %s %s.\n\n", x.Composite, compositeAnswer(x))
	out.columns(compositeFacts(x))
	out.composites(x)
	out.gangs(x)
	out.attempts(&x.History)
	out.ahead(x.Queue)
	return out.writeTo(w)
}

// answer is the explanation in one sentence, to follow the name.
func compositeAnswer(x *answer.Composite) string {
	all := len(x.Gangs) + x.Others
	progress := fmt.Sprintf("%d of %s have their minimum on nodes, and %d must", x.WithMinimum,
		phrase.Count(int64(all), "gang", "gangs"), x.Min)
	if groups := groupsBelow(x); len(x.Composites) > 0 {
		all = groups
		progress = fmt.Sprintf("%d of %s directly below it have what they need on nodes, and %d must", x.WithMinimum,
			phrase.Count(int64(groups), "group", "groups"), x.Min)
	}
	switch x.Stage {
	case "Gone":
		return "is gone, and no gang names it any more"
	case "Undeclared":
		return fmt.Sprintf("is not there, though %s it", phrase.Count(int64(all), "gang names", "gangs name"))
	case "Refused":
		return "is refused: " + x.Refusal
	case "Independent":
		if len(x.Composites) > 0 {
			return fmt.Sprintf("has the basic policy: the %s directly below it placed each by itself",
				phrase.Count(int64(all), "group is", "groups are"))
		}
		return fmt.Sprintf("has the basic policy: its %s placed each by itself",
			phrase.Count(int64(all), "gang is", "gangs are"))
	case "Placed":
		text := "is placed: " + progress
		if p := lastPlaced(&x.History); p != nil {
			text += fmt.Sprintf(", since %s", moment(*p, x.KnownFrom))
		}
		return text
	case "BelowMinimum":
		text := "is below its minimum: " + progress + "; nothing is pending"
		if last := lastLost(&x.History); last != nil {
			text += fmt.Sprintf("; at %s (entry %d) %s %s", last.Time, last.Seq,
				phrase.Count(int64(last.OwnPods), "member was", "members were"), phrase.LostTo(last))
		}
		return text
	}
	text := "is pending: " + progress
	if x.Stage == "Incomplete" && all < x.Min {
		return text + "; it waits for " + phrase.Count(int64(x.Min-all), "gang more", "gangs more") + " below it"
	}
	if x.Reason != nil {
		text += "; gang " + x.Reason.Group + " " + x.Reason.Predicate
	}
	return text
}

// groupsBelow counts the gangs and composites directly below.
func groupsBelow(x *answer.Composite) (n int) {
	for _, g := range x.Gangs {
		if g.Parent == "" {
			n++
		}
	}
	for _, c := range x.Composites {
		if c.Parent == x.Composite {
			n++
		}
	}
	return n
}

func compositeFacts(x *answer.Composite) facts {
	var f facts
	f.add("at", "%s", x.At)
	if x.Parent != "" {
		f.add("below", "%s", x.Parent)
	}
	if x.Together != "" {
		f.add("admitted with", "all that is below %s", x.Together)
	}
	f.knownFrom(x.KnownFrom)
	h := &x.History
	f.add("first seen", "%s", place(h.FirstSeen, x.KnownFrom))
	if p := h.Declared; p != nil && *p != h.FirstSeen {
		f.add("declared", "%s: it was known how many gangs it needs", place(*p, x.KnownFrom))
	}
	if p := h.Complete; p != nil {
		f.add("complete", "%s: as many gangs as it needs had as many members as they need", place(*p, x.KnownFrom))
	}
	if p := h.Placed; p != nil {
		f.add("placed", "%s: as many gangs as it needs had their minimum on nodes", place(*p, x.KnownFrom))
	}
	f.later(h, x.KnownFrom)
	f.preemptions(h.PreemptedBy, h.Preempted, h.OmittedPreemptedBy, h.OmittedPreempted)
	if x.Stage == "Placed" && x.Reason != nil {
		f.add("not placed", "gang %s %s", x.Reason.Group, x.Reason.Predicate)
	} else {
		f.reason(x.Reason, x.KnownFrom)
	}
	if q := x.Queue; q != nil {
		text := q.State
		if q.Since != 0 {
			text += fmt.Sprintf(" since %s", q.Since)
		}
		f.add("queue", "%s", text)
	}
	if x.Reason != nil && x.Stage != "Placed" {
		f.add("next try", "%s", x.Reason.NextRetry.Words)
	}
	return f
}
