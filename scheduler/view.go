package scheduler

import v1 "k8s.io/api/core/v1"

// Schedules says whether the running configuration has a profile for the pod's scheduler name. Other pods
// take up room, and nothing is decided on them.
func (m *Machine) Schedules(pod *v1.Pod) bool { return m.profileOf(pod) != nil }
