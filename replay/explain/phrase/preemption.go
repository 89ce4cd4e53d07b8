package phrase

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

// Priorities says which priorities pods have.
func Priorities(of []answer.Victim) string { return "priority " + numbersText(of) }

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

// InWords adds what is recorded of why an eviction ended so; "" for nothing.
func InWords(r *answer.EvictResult) string {
	if r.Message == "" {
		return ""
	}
	return ": " + r.Message
}

// Spared says until when a pod whose eviction was given up is no victim; "" if it may be one.
func Spared(r *answer.EvictResult) string {
	if r.SparedUntil == 0 {
		return ""
	}
	return fmt.Sprintf("; it is not chosen again before %s", r.SparedUntil)
}

// RoomAwaited names, for a pending entity with a node kept for it, the pods that were preempted for it; "" if none is
// kept.
func RoomAwaited(nominated bool, preempted []answer.Preemption) string {
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
		text += fmt.Sprintf(", which still %s", Verb(x.Remaining, "holds its node", "hold their nodes"))
	} else if x.Remaining > 0 {
		text += fmt.Sprintf(", of which %d still %s", x.Remaining,
			Verb(x.Remaining, "holds its node", "hold their nodes"))
	}
	return text + refusedText(&x, "Refused")
}

// refusedText returns the API server's answer to the last eviction with that outcome; "" for none.
func refusedText(x *answer.Preemption, outcome string) string {
	for _, r := range slices.Backward(x.Refused) {
		if r.Outcome != outcome {
			continue
		}
		text := fmt.Sprintf("; the API server refused to evict %s at %s (entry %d)%s", cmp.Or(r.Pod, string(r.UID)),
			r.Time, r.Seq, InWords(&r))
		if outcome == "Refused" {
			return text + fmt.Sprintf("; it is asked again at %s", r.RetryAt)
		}
		return text + Spared(&r)
	}
	return ""
}

func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
