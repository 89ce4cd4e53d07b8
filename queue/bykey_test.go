package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEntitiesAreListedByKey has entities come and go, some of them under the key of one that has left, and compares
// the list with one that is sorted again. It is listed rarely, so that it is also made again in between.
func TestEntitiesAreListedByKey(t *testing.T) {
	for seed := range uint64(20) {
		draw := rand.New(rand.NewPCG(seed, 3))
		var s byKey
		there := map[Key]*Entity{}
		listed, bounded := 0, 0
		for step := range 6000 {
			key := Key{Type: "pod", Namespace: "ns", Name: fmt.Sprint(draw.IntN(3000))}
			if e := there[key]; e != nil {
				s.remove(e)
				delete(there, key)
			} else {
				there[key] = &Entity{key: key}
				s.add(there[key])
			}
			if len(s.added)+s.left == 0 {
				bounded++
			}
			if step%1500 != 1499 && draw.IntN(400*int(seed)+2) != 0 {
				continue
			}
			listed++
			want := make([]*Entity, 0, len(there))
			for _, e := range there { // any order: sorted right below
				want = append(want, e)
			}
			slices.SortFunc(want, func(a, b *Entity) int { return CompareKeys(a.key, b.key) })
			if got := s.all(); !slices.Equal(got, want) || !slices.Equal(s.all(), want) {
				t.Fatalf("seed %d, step %d: %d entities are listed, want %d, or in another order", seed, step, len(got),
					len(want))
			}
		}
		if seed == 19 && (listed > 100 || bounded == 0) {
			t.Errorf("it was listed %d times, and made anew in between %d times: not what is to be tried", listed,
				bounded)
		}
	}
}

// TestALargeQueueDoesNotMoveAsEntitiesComeAndGo counts how often the list of all entities is made again while they come
// and go and nobody asks for it: each time that half of it is new.
func TestALargeQueueDoesNotMoveAsEntitiesComeAndGo(t *testing.T) {
	var s byKey
	made := 0
	note := func() {
		if len(s.added)+s.left == 0 {
			made++
		}
	}
	var there []*Entity
	for i := range 50_000 {
		e := &Entity{key: Key{Name: fmt.Sprint(i)}}
		there = append(there, e)
		s.add(e)
		note()
	}
	if made > 12 {
		t.Errorf("as 50,000 entities came the list was made %d times, want at most 12", made)
	}
	made = 0
	for _, e := range there[:10_000] {
		s.remove(e)
		note()
		s.add(&Entity{key: e.key})
		note()
	}
	if made > 2 {
		t.Errorf("as 10,000 of 50,000 entities were replaced the list was made %d times, want at most 2", made)
	}
}
