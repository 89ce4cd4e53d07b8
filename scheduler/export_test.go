package scheduler

// Work returns how many outlooks were made for lanes, how often it was tried whether their pods find a node each, and
// how often what stands on a node was gone through to count what is left there beside a reservation.
func (m *Machine) Work() (outlooks, trials, counts int) {
	return m.backfill.Work()
}

// Evaluations returns the sums of its profiles' counts.
func (m *Machine) Evaluations() (filters, apart int) {
	for _, p := range m.profiles.byName { // any order: a sum
		f, a := p.Evaluations()
		filters, apart = filters+f, apart+a
	}
	return filters, apart
}
