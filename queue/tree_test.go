package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// checkTree checks that each subtree of w has its entities in order, and their summary.
func checkTree(t *testing.T, w *tree, compare func(a, b *Entity) int) {
	t.Helper()
	all := w.all()
	if len(all) != w.size || !slices.IsSortedFunc(all, compare) {
		t.Fatalf("%d of %d entities, in order: %v", len(all), w.size, slices.IsSortedFunc(all, compare))
	}
	for _, e := range all {
		under := &tree{root: e}
		var want summary
		for i, other := range under.all() {
			own := other.node.own
			own.need.Amounts = slices.Clone(own.need.Amounts)
			if i == 0 {
				want = own
			} else {
				want.add(&own)
			}
		}
		got := e.node.all
		if got.due != want.due || got.retryable != want.retryable || got.passed != want.passed ||
			got.asked != want.asked ||
			got.retryable && fmt.Sprint(got.need) != fmt.Sprint(want.need) {
			t.Fatalf("below %v: %+v, want %+v", e.key, got, want)
		}
	}
}

// TestWhatWaitsIsInOrderWithItsNeeds adds, changes and removes entities at random.
func TestWhatWaitsIsInOrderWithItsNeeds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	compare := func(a, b *Entity) int { return CompareKeys(a.key, b.key) }
	some := func() summary {
		g := summary{due: random.IntN(8) == 0, retryable: random.IntN(3) > 0, passed: random.IntN(2) == 0,
			asked: neverAsked}
		if !g.retryable {
			return g
		}
		g.asked = uint64(random.IntN(2))
		g.need = Need{Unknown: random.IntN(9) == 0, Priority: random.Int32N(5), Free: random.IntN(9) == 0,
			Longest: time.Duration(random.IntN(3)), Preempts: random.IntN(9) == 0}
		for range random.IntN(4) {
			g.need.Amounts = append(g.need.Amounts, random.Int64N(9))
		}
		return g
	}
	var w tree
	var in []*Entity
	for i := range 2000 {
		switch n := len(in); {
		case n == 0 || random.IntN(3) > 0:
			e := &Entity{key: podKey(fmt.Sprintf("p%d-%d", random.IntN(1000), i))}
			w.add(e, some(), compare)
			in = append(in, e)
		case random.IntN(2) == 0:
			e := in[random.IntN(n)]
			e.node.own = some()
			e.refresh()
		default:
			at := random.IntN(n)
			w.remove(in[at])
			in = slices.Delete(in, at, at+1)
		}
		if i%50 == 0 {
			checkTree(t, &w, compare)
		}
	}
	checkTree(t, &w, compare)
}

// TestTheOneThatMayHaveRoomIsFoundWithoutAskingAll has backlogs of which one entity, anywhere, may have room. The
// number of entities visited to find it grows with the depth of the tree, and Room is asked about it alone.
func TestTheOneThatMayHaveRoomIsFoundWithoutAskingAll(t *testing.T) {
	for _, n := range []int{100, 1000, 10000} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("p%05d", i))
		}
		small, asked := names[n*2/3], 0
		r := &withRoom{}
		q := failedPods(t, r, names...)
		q.opts.Room = func(e *Entity) bool {
			asked++
			return e.key.Name == small
		}
		q.opts.Need = func(e *Entity) Need {
			if e.key.Name == small {
				return Need{Amounts: []int64{1}}
			}
			return Need{Amounts: []int64{2}}
		}
		q.opts.MayHaveRoom = func(_ string, n *Need) bool { return n.Amounts[0] <= 1 }
		q.Move(nodeAdd, nil, nil)
		q.ChooseHead()
		if e := q.Head(); e == nil || e.key.Name != small {
			t.Fatalf("the head is %v, want %s", e, small)
		}
		q.Unpick()
		before, version := q.Looked(), q.opts.RoomVersion()
		asked = 0
		q.opts.RoomVersion = func() uint64 { return version + 1 }
		q.ChooseHead()
		if looked, most := q.Looked()-before, 100; asked != 1 || looked > most {
			t.Errorf("of %d: Room was asked %d times, %d were looked at, want 1 and at most %d", n, asked, looked, most)
		}
	}
}
