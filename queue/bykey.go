package queue

import "slices"

// byKey is a set of entities that can be listed by key. Entities come and go with every gang, and are seldom listed:
// above all when a snapshot is written. So a list sorts only the entities that came since the last one. Over many
// changes, each costs at most the logarithm of the number of entities.
//
// Example: of 300,000 entities 2,000 are new since the last snapshot. These are sorted, and one walk over the list
// merges them.
type byKey struct {
	list  []*Entity // by key; some of them may have left since
	added []*Entity // came since, in the order in which they did; some of them may have left
	left  int       // how many of both have left
}

// leastUnsorted is the minimum number of entities that come and leave before the list is rebuilt.
const leastUnsorted = 1024

func (s *byKey) add(e *Entity) {
	s.added = append(s.added, e)
	s.bound()
}

// remove takes out an entity that was added. It is not added again.
func (s *byKey) remove(e *Entity) {
	e.left = true
	s.left++
	s.bound()
}

// bound rebuilds the list once more than half as many entities have come and left as the list has. So the cost of a
// rebuilding is spread over many changes.
func (s *byKey) bound() {
	if len(s.added)+s.left > leastUnsorted+len(s.list)/2 {
		s.all()
	}
}

// all returns the entities by key. The slice must not be changed, and is valid until the next entity comes or goes.
func (s *byKey) all() []*Entity {
	if len(s.added)+s.left == 0 {
		return s.list
	}
	gone := func(e *Entity) bool { return e.left }
	s.list, s.added = slices.DeleteFunc(s.list, gone), slices.DeleteFunc(s.added, gone)
	slices.SortFunc(s.added, func(a, b *Entity) int { return CompareKeys(a.key, b.key) })
	old := len(s.list)
	s.list = append(s.list, s.added...)
	// From the end on, so that no entity of the old list is written over before it has moved.
	i, j := old-1, len(s.added)-1
	for at := len(s.list) - 1; j >= 0; at-- {
		if i >= 0 && CompareKeys(s.list[i].key, s.added[j].key) > 0 {
			s.list[at] = s.list[i]
			i--
			continue
		}
		s.list[at] = s.added[j]
		j--
	}
	clear(s.added)
	s.added, s.left = s.added[:0], 0
	return s.list
}
