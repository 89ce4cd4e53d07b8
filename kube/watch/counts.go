package watch

// Counts say what has become of what the API server told of one resource, since New.
type Counts struct {
	// Lists is how often all objects were listed, at the start and after a watch that could not go on; Listed how many
	// objects these lists had; Events how many events the watches brought.
	Lists, Listed, Events uint64
	// Unchanged is how many of these objects and events said nothing that scheduling reads and the log did not have
	// already; Coalesced how many changes were taken together with a later one of the same object, or with one that
	// undid them.
	Unchanged, Coalesced uint64
	// Upserted and Deleted are the inputs that Take returned.
	Upserted, Deleted uint64
	// Refused is how many objects were reported because the log cannot hold them.
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
