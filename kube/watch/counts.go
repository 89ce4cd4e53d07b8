package watch

// Counts count, for one resource, what Take made of the objects and events of the API server since New.
type Counts struct {
	// Lists counts the lists of all objects: at the start, and after a watch that could not continue. Listed counts the
	// objects of these lists, Events the events of the watches.
	Lists, Listed, Events uint64
	// Unchanged counts the objects and events without news: the log already had everything that scheduling reads of
	// them. Coalesced counts the changes that were taken together with a later one of the same object, or with one that
	// undid them.
	Unchanged, Coalesced uint64
	// Upserted and Deleted are the inputs that Take returned.
	Upserted, Deleted uint64
	// Refused counts the objects that were reported because the log cannot hold them.
	Refused uint64
}

func (l *ledger) event(place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[place].Events++
}

func (l *ledger) listed(place, objects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[place].Lists++
	l.count[place].Listed += uint64(objects)
}

func (l *ledger) refused(place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[place].Refused++
}

// counts returns a copy of the counts of a resource.
func (l *ledger) counts(place int) Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[place]
}
