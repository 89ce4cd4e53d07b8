package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
)

// The rules of an epoch about nodes, for explanations. No decision reads them here.

// FiltersBy reports whether the profile of the pod asks the Filter plugin of that name. It is false for a pod of no
// profile.
func FiltersBy(m *Machine, pod *v1.Pod, plugin string) bool {
	profile := m.profiles.of(pod)
	return profile != nil && profile.Has(framework.Filter, plugin)
}

// ComparesTolerations reports whether a toleration may compare numbers, by the epoch's feature gates.
func ComparesTolerations(m *Machine) bool {
	m.keepGates()
	return comparesTolerations()
}

// QueueAsIs returns the scheduling queue, to be read only; nil before the first entry. Unlike Machine.Queue it does not
// search for the entity whose turn is next. An entity that has room now may still be Unschedulable and Retryable here.
func QueueAsIs(m *Machine) *queue.Queue { return m.queue }
