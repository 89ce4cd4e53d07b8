package queue

import (
	"slices"
	"strings"
	"testing"
)

// withRoom makes queues in which the entities named have room.
type withRoom struct {
	names   map[string]bool
	asked   []string
	version uint64
}

func (r *withRoom) options(o *Options) {
	o.Room = func(e *Entity) bool {
		r.asked = append(r.asked, e.Key().Name)
		return r.names[e.Key().Name]
	}
	o.RoomVersion = func() uint64 { return r.version }
}

func (r *withRoom) set(names ...string) {
	r.names = map[string]bool{}
	for _, n := range names {
		r.names[n] = true
	}
	r.version++
}

func (r *withRoom) wantAsked(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(r.asked, " "); got != want {
		t.Errorf("Room was asked for %q, want %q", got, want)
	}
	r.asked = nil
}

// failedPods returns a queue at epoch+20s in which the pods failed and their backoff is over.
func failedPods(t *testing.T, r *withRoom, names ...string) *Queue {
	q := newQueue(t, Profile{Hints: hints("P", on(nodeAdd, nil), "R", on(podDelete, nil))}, r.options)
	for _, n := range names {
		q.Add(podKey(n), podNamed(n))
		q.ChooseHead()
		fail(q, podKey(n), "P")
	}
	q.SetTime(epoch + 20*sec)
	return q
}

func TestANewEntityIsNotAskedForRoom(t *testing.T) {
	r := &withRoom{}
	q := newQueue(t, Profile{}, r.options)
	q.Add(podKey("a"), podNamed("a"))
	q.ChooseHead()
	wantHead(t, q, "a")
	r.wantAsked(t, "")
}

func TestWithoutRoomAnEntityStaysRetryable(t *testing.T) {
	r := &withRoom{}
	q := failedPods(t, r, "a", "b")
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	wantHead(t, q, "none")
	wantWake(t, q, 0)
	r.wantAsked(t, "a b")
	if e := q.Get(podKey("a")); !e.Retryable() || e.State() != Unschedulable || e.GetUnschedulablePlugins().Len() != 1 {
		t.Errorf("owed %v, %v", e.Retryable(), e.State())
	}
	checkPlaces(t, q)

	q.ChooseHead()
	r.wantAsked(t, "") // nothing could have changed
	r.set("b")
	q.ChooseHead()
	wantHead(t, q, "b")
	r.wantAsked(t, "a b")
	r.set("a", "b")
	q.ChooseHead()
	wantHead(t, q, "a") // first in the order
	checkPlaces(t, q)
}

func TestNoEventIsLostToLackOfRoom(t *testing.T) {
	// P rejected it. P's event comes while there is no room; then room comes by an event P does not know.
	r := &withRoom{}
	q := failedPods(t, r, "a")
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	wantHead(t, q, "none")
	r.set("a")
	q.Move(podDelete, nil, nil)
	q.ChooseHead()
	wantHead(t, q, "a")
}

func TestTheHeadThatLostItsRoomIsPassedOver(t *testing.T) {
	r := &withRoom{}
	q := failedPods(t, r, "a", "b")
	r.set("a", "b")
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	wantHead(t, q, "a")
	q.Add(podKey("new"), podNamed("new"))
	r.names = nil // taken, by something else: the version need not tell
	q.ChooseHead()
	wantHead(t, q, "new")
	wantState(t, q, podKey("a"), Unschedulable)
}

func TestRoomIsNotAskedForDuringAnAttempt(t *testing.T) {
	r := &withRoom{}
	q := failedPods(t, r, "a")
	q.Move(nodeAdd, nil, nil)
	q.Add(podKey("b"), podNamed("b"))
	q.StartAttempt(podKey("b"))
	r.set("a")
	q.ChooseHead()
	r.wantAsked(t, "")
	wantHead(t, q, "b")
}

func TestARetryableEntityThatChangesIsAskedAgain(t *testing.T) {
	r := &withRoom{}
	q := newQueue(t, Profile{Hints: hints("P", on(nodeAdd, nil))}, r.options)
	key := addGang(q, "g", 2)
	fail(q, key, "P")
	q.SetTime(epoch + 20*sec)
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	wantHead(t, q, "none")
	r.names = map[string]bool{"g": true} // for one member there is room
	q.Delete(key, "uid-g-1")
	q.ChooseHead()
	wantHead(t, q, "g")
}

func TestAFlushWaitsForRoomAndLeavesNoTimer(t *testing.T) {
	r := &withRoom{}
	q := failedPods(t, r, "a")
	q.Move(nodeLabel, nil, nil)
	at, ok := q.Wake()
	if !ok {
		t.Fatal("no flush is due")
	}
	q.SetTime(at)
	q.ChooseHead()
	wantHead(t, q, "none")
	wantWake(t, q, 0)
	q.Move(nodeLabel, nil, nil)
	wantWake(t, q, 0)
	r.set("a")
	q.ChooseHead()
	wantHead(t, q, "a")
}

func TestWithoutARoomVersionEveryChangeAsksForRoomAgain(t *testing.T) {
	r := &withRoom{}
	q := newQueue(
		t,
		Profile{Hints: hints("P", on(nodeAdd, nil))},
		func(o *Options) { r.options(o); o.RoomVersion = nil },
	)
	q.Add(podKey("a"), podNamed("a"))
	fail(q, podKey("a"), "P")
	q.SetTime(epoch + 20*sec)
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	q.ChooseHead()
	r.wantAsked(t, "a")
	q.Move(podDelete, nil, nil)
	q.ChooseHead()
	r.wantAsked(t, "a")
}

func TestRetryableEntitiesFollowTheirPriority(t *testing.T) {
	r := &withRoom{}
	q := failedPods(t, r, "a", "b", "c")
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	q.Update(podKey("c"), nil, withPriority(podNamed("c"), 9))
	checkPlaces(t, q)
	if !slices.IsSortedFunc(q.retryable.all(), q.compare) || q.retryable.all()[0].key.Name != "c" {
		t.Error("the owed are out of order")
	}
	q.Delete(podKey("c"), "uid-c")
	q.Recheck(podKey("b"))
	r.set("b")
	q.ChooseHead()
	wantHead(t, q, "b")
}

func TestTakingARetryableEntityOutSkipsNoOther(t *testing.T) {
	r := &withRoom{}
	q := newQueue(t, Profile{Hints: hints("P", on(nodeAdd, nil))}, r.options)
	for i, n := range []string{"a", "b", "c"} {
		q.Add(podKey(n), withPriority(podNamed(n), int32(9-4*i)))
		fail(q, podKey(n), "P")
	}
	q.SetTime(epoch + 20*sec)
	q.Move(nodeAdd, nil, nil)
	q.Add(podKey("new"), withPriority(podNamed("new"), 3))
	r.set("c")
	q.ChooseHead()
	wantHead(t, q, "new") // before c, after a and b
	r.wantAsked(t, "a b")
	q.StartAttempt(podKey("a")) // a recorded decision says so
	q.Park(podKey("a"), by("P"))
	q.Delete(podKey("new"), "uid-new")
	q.ChooseHead()
	wantHead(t, q, "c")
}
