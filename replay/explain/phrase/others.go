package phrase

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Removal says who made a pod go, without the subject: "was preempted by default-scheduler for default/x".
func Removal(r *answer.Removal) string {
	of := func(text, details string) string {
		if details != "" {
			return text + ": " + details
		}
		return text
	}
	switch r.Reason {
	case v1.PodReasonPreemptionByScheduler:
		text := "was preempted"
		if r.By != "" {
			text += " by " + r.By
		}
		if r.For != "" {
			text += " for " + r.For
		}
		return text
	case byEvictionAPI:
		text := "was evicted by the eviction API"
		if r.By != "" {
			text += " (" + r.By + ")"
		}
		if r.Cordoned {
			return text + ", its node being cordoned, as kubectl drain does"
		}
		return text
	case byTaintManager:
		return of("was deleted because of the taints of its node", "")
	case v1.PodReasonTerminationByKubelet:
		return of("was terminated by the kubelet", r.Details)
	case byPodGC:
		return of("was deleted by the garbage collection of pods", r.Details)
	}
	return of("was made to go ("+r.Reason+")", r.Details)
}

// The reasons of the condition DisruptionTarget that API packages have no constant for.
const (
	byEvictionAPI  = "EvictionByEvictionAPI"
	byTaintManager = "DeletionByTaintManager"
	byPodGC        = "DeletionByPodGC"
)
