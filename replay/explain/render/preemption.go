package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// victimsText names victims: gangs with how many of their pods go, and pods of no gang.
func victimsText(x *answer.Preemption) string {
	var names []string
	pods, victims := map[string]int{}, map[string][]answer.Victim{}
	for _, v := range x.Victims {
		name := v.Pod
		if v.Group != "" {
			name = "gang " + v.Group
		}
		if pods[name]++; pods[name] == 1 {
			names = append(names, name)
		}
		victims[name] = append(victims[name], v)
	}
	var parts []string
	told := 0
	for i, name := range names {
		if i == textVictims {
			break
		}
		told += pods[name]
		part := fmt.Sprintf("%s (%s)", name, phrase.Priorities(victims[name]))
		if victims[name][0].Group != "" {
			part = fmt.Sprintf("%s of %s", phrase.Count(int64(pods[name]), "pod", "pods"), part)
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, ", ")
	if rest := x.Pods - told; rest > 0 {
		text += fmt.Sprintf(", and %s", phrase.Count(int64(rest), "pod more", "pods more"))
	}
	return text
}

// preemptions says what was lost to others, and what had to go.
func (f *facts) preemptions(by, preempted []answer.Preemption, omittedBy, omitted int) {
	last := func(list []answer.Preemption, omitted int, label string) []answer.Preemption {
		if before := omitted + len(list) - textPreemptions; before > 0 {
			f.add(label, "%s before those that follow", phrase.Count(int64(before), "time", "times"))
		}
		return list[max(0, len(list)-textPreemptions):]
	}
	for _, x := range last(by, omittedBy, "preempted by") {
		victims := ""
		if x.Pods > x.OwnPods {
			victims = "; all that had to go: " + victimsText(&x)
		}
		f.add("preempted by", "%s: %s%s", x.Point, strings.TrimPrefix(phrase.LostTo(&x), "preempted by "), victims)
	}
	for _, x := range last(preempted, omitted, "preempted") {
		f.add("preempted", "%s: %s%s", x.Point, victimsText(&x), remainingText(&x))
		for _, r := range x.Refused[max(0, len(x.Refused)-textPreemptions):] {
			f.add("eviction", "%s: of %s: %s", r.Point, cmp.Or(r.Pod, string(r.UID)), evictResultText(&r))
		}
	}
}

// evictResultText returns the result of an eviction in words.
func evictResultText(r *answer.EvictResult) string {
	text := map[string]string{
		"Done": "the API server has taken it", "Gone": "there was nothing left to evict",
		"Refused": "the API server refused it", "GivenUp": "the API server refused it, and it was given up",
		"Withdrawn": "it was not sent",
	}[r.Outcome]
	text += phrase.InWords(r)
	if r.RetryAt != 0 {
		text += fmt.Sprintf("; it is tried again at %s", r.RetryAt)
	}
	return text + phrase.Spared(r)
}

// remainingText says how many of the victims have gone.
func remainingText(x *answer.Preemption) string {
	switch {
	case x.Remaining == 0:
		return "; " + phrase.Verb(x.Pods, "it has left its node", "they have left their nodes")
	case x.Remaining == x.Pods:
		return "; " + phrase.Verb(x.Pods, "it is still on its node", "they are still on their nodes")
	}
	return fmt.Sprintf("; %d of the %d still on their nodes", x.Remaining, x.Pods)
}

// endsText says how pods went, each kind with its number.
func endsText(n *answer.Ends) string {
	var parts []string
	for _, part := range []struct {
		n   int
		how string
	}{{n.Succeeded, "ended well"}, {n.Failed, "failed"}, {n.Preempted, "preempted"},
		{n.Evicted, "evicted with their gang"}, {n.AskedToGo, "asked to go before what is known begins"},
		{n.Deleted, "deleted"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.how))
		}
	}
	return phrase.List(parts, "")
}
