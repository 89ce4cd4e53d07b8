package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/framework"
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
