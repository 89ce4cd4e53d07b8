package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Preemptor names what others had to go for, with its priority.
func Preemptor(by *answer.Preemptor) string {
	if by.Composite != "" {
		return fmt.Sprintf("composite %s (priority %d)", by.Composite, by.Priority)
	}
	if by.Group != "" {
		return fmt.Sprintf("gang %s (priority %d)", by.Group, by.Priority)
	}
	if by.Resize {
		return fmt.Sprintf("the resize of pod %s (priority %d)", by.Pod, by.Priority)
	}
	return fmt.Sprintf("pod %s (priority %d)", by.Pod, by.Priority)
}

// LostTo says what the pods that are explained had to go for, with which priorities, and what else had to.
func LostTo(x *answer.Preemption) string {
	text := "preempted by " + Preemptor(&x.By)
	if len(x.Own) > 0 {
		text = strings.TrimSuffix(text, ")") + ", above its own " + numbersText(x.Own) + ")"
	}
	if others := x.Pods - x.OwnPods; others > 0 {
		text += fmt.Sprintf(", with %s", Count(int64(others), "other pod", "other pods"))
	}
	return text
}

// prioritiesText says which priorities pods have.
func prioritiesText(of []answer.Victim) string { return "priority " + numbersText(of) }

// numbersText is the priority of pods, or their lowest and highest.
func numbersText(of []answer.Victim) string {
	lowest, highest := of[0].Priority, of[0].Priority
	for _, v := range of {
		lowest, highest = min(lowest, v.Priority), max(highest, v.Priority)
	}
	if lowest == highest {
		return fmt.Sprint(lowest)
	}
	return fmt.Sprintf("%d to %d", lowest, highest)
}

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
		part := fmt.Sprintf("%s (%s)", name, prioritiesText(victims[name]))
		if victims[name][0].Group != "" {
			part = fmt.Sprintf("%s of %s", Count(int64(pods[name]), "pod", "pods"), part)
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, ", ")
	if rest := x.Pods - told; rest > 0 {
		text += fmt.Sprintf(", and %s", Count(int64(rest), "pod more", "pods more"))
	}
	return text
}

// preemptions says what was lost to others, and what had to go.
func (f *facts) preemptions(by, preempted []answer.Preemption, omittedBy, omitted int) {
	last := func(list []answer.Preemption, omitted int, label string) []answer.Preemption {
		if before := omitted + len(list) - textPreemptions; before > 0 {
			f.add(label, "%s before those that follow", Count(int64(before), "time", "times"))
		}
		return list[max(0, len(list)-textPreemptions):]
	}
	for _, x := range last(by, omittedBy, "preempted by") {
		victims := ""
		if x.Pods > x.OwnPods {
			victims = "; all that had to go: " + victimsText(&x)
		}
		f.add("preempted by", "%s: %s%s", x.Point, strings.TrimPrefix(LostTo(&x), "preempted by "), victims)
	}
	for _, x := range last(preempted, omitted, "preempted") {
		f.add("preempted", "%s: %s%s", x.Point, victimsText(&x), remainingText(&x))
		for _, r := range x.Refused[max(0, len(x.Refused)-textPreemptions):] {
			f.add("eviction", "%s: of %s: %s", r.Point, cmp.Or(r.Pod, string(r.UID)), evictResultText(&r))
		}
	}
}

// evictResultText says what came of an eviction.
func evictResultText(r *answer.EvictResult) string {
	text := map[string]string{
		"Done": "the API server has taken it", "Gone": "there was nothing left to evict",
		"Refused": "the API server refused it", "GivenUp": "the API server refused it, and it was given up",
		"Withdrawn": "it was not sent",
	}[r.Outcome]
	text += inWords(r)
	if r.RetryAt != 0 {
		text += fmt.Sprintf("; it is tried again at %s", r.RetryAt)
	}
	return text + sparedText(r)
}

// sparedText says until when a pod whose eviction was given up is no victim; "" if it may be one.
func sparedText(r *answer.EvictResult) string {
	if r.SparedUntil == 0 {
		return ""
	}
	return fmt.Sprintf("; it is not chosen again before %s", r.SparedUntil)
}

// inWords adds what is recorded of why an eviction ended so; "" for nothing.
func inWords(r *answer.EvictResult) string {
	if r.Message == "" {
		return ""
	}
	return ": " + r.Message
}

// remainingText says how many of the victims have gone.
func remainingText(x *answer.Preemption) string {
	switch {
	case x.Remaining == 0:
		return "; " + verb(x.Pods, "it has left its node", "they have left their nodes")
	case x.Remaining == x.Pods:
		return "; " + verb(x.Pods, "it is still on its node", "they are still on their nodes")
	}
	return fmt.Sprintf("; %d of the %d still on their nodes", x.Remaining, x.Pods)
}

// roomAwaited says, of what is pending and has a node kept for it, what had to go for it; "" if none is kept.
func roomAwaited(nominated bool, preempted []answer.Preemption) string {
	if len(preempted) == 0 {
		return ""
	}
	x := preempted[len(preempted)-1]
	if !nominated {
		return refusedText(&x, "GivenUp")
	}
	text := fmt.Sprintf("; for its sake %s had to go at %s (entry %d)", Count(int64(x.Pods), "pod", "pods"),
		x.Time, x.Seq)
	if x.Remaining == x.Pods {
		text += fmt.Sprintf(", which still %s", verb(x.Remaining, "holds its node", "hold their nodes"))
	} else if x.Remaining > 0 {
		text += fmt.Sprintf(", of which %d still %s", x.Remaining,
			verb(x.Remaining, "holds its node", "hold their nodes"))
	}
	return text + refusedText(&x, "Refused")
}

// refusedText says of the last of the victims whose eviction ended so what the API server said; "" for none.
func refusedText(x *answer.Preemption, outcome string) string {
	for _, r := range slices.Backward(x.Refused) {
		if r.Outcome != outcome {
			continue
		}
		text := fmt.Sprintf("; the API server refused to evict %s at %s (entry %d)%s", cmp.Or(r.Pod, string(r.UID)),
			r.Time, r.Seq, inWords(&r))
		if outcome == "Refused" {
			return text + fmt.Sprintf("; it is asked again at %s", r.RetryAt)
		}
		return text + sparedText(&r)
	}
	return ""
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
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
	return List(parts, "")
}
