package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// MaxSearches is the number of searches for a plan before a gang waits for an event.
const MaxSearches = maxSearches

// Work returns the numbers of outlooks made for lanes, of trials whether their pods find a node each, and of counts of
// a node's pods for the room beside a reservation.
func (m *Machine) Work() (outlooks, trials, counts int) {
	return m.backfill.Work()
}

// Looked returns the number of nominations checked to find the entities that overtake the first of a lane.
func (m *Machine) Looked() int { return m.backfill.Looked() }

// Evaluations returns the sums of its profiles' counts.
func (m *Machine) Evaluations() (filters, apart int) {
	for _, p := range m.profiles.byName { // any order: a sum
		f, a := p.Evaluations()
		filters, apart = filters+f, apart+a
	}
	return filters, apart
}

// CountedEmpty returns the number of times that a node was counted as if it were empty.
func (m *Machine) CountedEmpty() int { return m.backfill.CountedEmpty() }

// CountedCleared returns the number of times that a node was counted without pods of lower priority.
func (m *Machine) CountedCleared() int { return m.backfill.CountedCleared() }

// Recounted returns the number of checks whether a nominated pod counts.
func (m *Machine) Recounted() int { return m.nominated.checked }

// Planned returns the work of the default profile's preemption for gangs.
func (m *Machine) Planned() preemption.Planned {
	return m.profiles.byName[v1.DefaultSchedulerName].Plugin(preemption.Name).(*preemption.Preemption).Planned()
}

// Walked returns how often the pods of a node were gone through to know when there is room for the first of a lane.
func (m *Machine) Walked() int { return m.backfill.Walked() }

// HardestFirst reports whether all ready members of a gang find a node if the ones that are hardest to place come first
// and nothing is taken back.
func (m *Machine) HardestFirst(namespace, group string) bool {
	g := m.cluster.Gangs().Named(namespace, group)
	pods := m.cluster.Gangs().Placeable(g)
	list, _ := m.cluster.Nodes().List()
	nodes, indexes := make([]int, len(list)), make([]int, len(pods))
	for i := range nodes {
		nodes[i] = i
	}
	for i := range indexes {
		indexes[i] = i
	}
	return m.topology.table.Packing(pods).PlaceHardestFirst(indexes, nodes) == len(pods)
}
