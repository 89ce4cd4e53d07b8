package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// Work returns how many outlooks were made for lanes, how often it was tried whether their pods find a node each, and
// how often what stands on a node was gone through to count what is left there beside a reservation.
func (m *Machine) Work() (outlooks, trials, counts int) {
	return m.backfill.Work()
}

// Looked returns how many nominations were looked at to find what overtakes the first of a lane.
func (m *Machine) Looked() int { return m.backfill.Looked() }

// Evaluations returns the sums of its profiles' counts.
func (m *Machine) Evaluations() (filters, apart int) {
	for _, p := range m.profiles.byName { // any order: a sum
		f, a := p.Evaluations()
		filters, apart = filters+f, apart+a
	}
	return filters, apart
}

// CountedEmpty returns how often a node was looked at to count what it would take if nothing ran there.
func (m *Machine) CountedEmpty() int { return m.backfill.CountedEmpty() }

// CountedCleared returns how often a node was looked at to count what it would take without less important pods.
func (m *Machine) CountedCleared() int { return m.backfill.CountedCleared() }

// Recounted returns how many nominated pods were looked at to find out which count.
func (m *Machine) Recounted() int { return m.nominated.checked }

// Planned returns what the default profile's preemption has done for gangs.
func (m *Machine) Planned() preemption.Planned {
	return m.profiles.byName[v1.DefaultSchedulerName].Plugin(preemption.Name).(*preemption.Preemption).Planned()
}

// Walked returns how often the pods of a node were gone through to know when there is room for the first of a lane.
func (m *Machine) Walked() int { return m.backfill.Walked() }
