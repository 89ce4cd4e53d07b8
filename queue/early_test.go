package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func popEarly(o *Options) { o.PopEarly = true }

// backOff has an attempt on the entity fail, and an event that asks for another.
func backOff(q *Queue, key Key, plugins ...string) {
	fail(q, key, plugins...)
	q.Move(nodeAdd, nil, nil)
}

func TestAnEntityThatBacksOffIsAttemptedEarlyWhenNothingElseIs(t *testing.T) {
	q := newQueue(t, hintful(), popEarly)
	q.Add(podKey("a"), podNamed("a"))
	backOff(q, podKey("a"), "A")
	wantState(t, q, podKey("a"), Backoff)
	wantHead(t, q, "none") // ChooseHead was not called
	q.ChooseHead()
	wantHead(t, q, "a")
	wantState(t, q, podKey("a"), Backoff) // the head is a memo
	q.Unpick()
	wantHead(t, q, "none")

	q.Add(podKey("b"), podNamed("b"))
	q.ChooseHead()
	wantHead(t, q, "b")

	without := newQueue(t, hintful())
	without.Add(podKey("a"), podNamed("a"))
	backOff(without, podKey("a"), "A")
	without.ChooseHead()
	wantHead(t, without, "none")
}

func TestAnEntityIsAttemptedEarlyOnceInABackoff(t *testing.T) {
	q := newQueue(t, hintful(), popEarly)
	q.Add(podKey("a"), podNamed("a"))
	backOff(q, podKey("a"), "A") // until 1 s
	q.ChooseHead()
	wantHead(t, q, "a")
	q.SetTime(epoch + sec/10)
	backOff(q, podKey("a"), "A") // until 2.1 s
	q.ChooseHead()
	wantHead(t, q, "none")
	q.SetTime(epoch + sec) // the end of the backoff before is of no account
	q.ChooseHead()
	wantHead(t, q, "none")
	// Whatever else has it attempted meanwhile: the new backoff has to end as well.
	q.Activate(podKey("a"))
	q.SetTime(epoch + 2*sec)
	backOff(q, podKey("a"), "A") // until 6 s
	q.ChooseHead()
	wantHead(t, q, "none")
	q.SetTime(epoch + 6*sec)
	wantHead(t, q, "a")
	backOff(q, podKey("a"), "A")
	wantState(t, q, podKey("a"), Backoff)
	q.ChooseHead()
	wantHead(t, q, "a")
}

func TestEarlyAttemptsGoBySecondAndThenByTheOrderOfTheQueue(t *testing.T) {
	q := newQueue(t, hintful(), popEarly)
	for i, name := range []string{"low", "high", "late"} {
		q.Add(podKey(name), withPriority(podNamed(name), []int32{0, 9, 99}[i]))
	}
	fail(q, podKey("low"), "A")
	q.SetTime(epoch + sec/2)
	fail(q, podKey("high"), "A")
	fail(q, podKey("late"), "A")
	fail(q, podKey("late"), "A") // until 2.5 s, the others until 1 s and 1.5 s
	q.Move(nodeAdd, nil, nil)
	for _, want := range []string{"high", "low", "late", "none"} {
		q.ChooseHead()
		wantHead(t, q, want)
		if want != "none" {
			fail(q, podKey(want), "A")
		}
		checkPlaces(t, q)
	}
	// A change of priority changes the order.
	q = newQueue(t, hintful(), popEarly)
	for _, name := range []string{"a", "b"} {
		q.Add(podKey(name), podNamed(name))
		fail(q, podKey(name), "A")
	}
	q.Move(nodeAdd, nil, nil)
	q.ChooseHead()
	wantHead(t, q, "a")
	q.Update(podKey("b"), nil, withPriority(podNamed("b"), 1))
	q.ChooseHead()
	wantHead(t, q, "b")
	checkPlaces(t, q)
}

func TestWhatIsNeverAttemptedEarly(t *testing.T) {
	for name, c := range map[string]struct {
		profile func(*Profile)
		key     Key
		failure Failure
		room    bool
	}{
		"an error":               {nil, podKey("g-0"), Failure{Error: true, Plugins: []string{"A"}}, true},
		"a failure of no plugin": {key: podKey("g-0"), room: true},
		"without room":           {key: podKey("g-0"), failure: blaming("A")},
		"a gang with its own backoff": {
			func(p *Profile) { p.GroupBackoff = time.Minute }, gangKey("g"), blaming("A"), true},
		"in a lane": {func(p *Profile) { p.Lanes = &oneLane{} }, podKey("g-0"), blaming("A"), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := hintful()
			if c.profile != nil {
				c.profile(&p)
			}
			q := newQueue(t, p, popEarly, func(o *Options) { o.Room = func(*Entity) bool { return c.room } })
			q.Add(c.key, podNamed("g-0"))
			q.StartAttempt(c.key)
			q.Park(c.key, c.failure)
			q.Move(nodeAdd, nil, nil)
			wantState(t, q, c.key, Backoff)
			q.ChooseHead()
			wantHead(t, q, "none")
		})
	}
}

// TestRoomIsAskedOnceForAnEarlyAttempt: 1,000 that back off and have no room cost nothing until there may be some.
func TestRoomIsAskedOnceForAnEarlyAttempt(t *testing.T) {
	asked, version, room := 0, uint64(1), false
	q := newQueue(t, hintful(), popEarly, func(o *Options) {
		o.Room = func(*Entity) bool { asked++; return room }
		o.RoomVersion = func() uint64 { return version }
	})
	const n = 1000
	for i := range n {
		key := podKey(fmt.Sprintf("p-%03d", i))
		q.Add(key, podNamed(key.Name))
		fail(q, key, "A")
	}
	q.Move(nodeAdd, nil, nil)
	for range 5 {
		q.ChooseHead()
		wantHead(t, q, "none")
	}
	if asked != n {
		t.Errorf("Room was asked %d times of %d entities", asked, n)
	}
	version, room = 2, true
	q.ChooseHead()
	wantHead(t, q, "p-000")
}

// TestTwoAttemptsInABackoffAtTheMost: whatever comes, between two early attempts on an entity one of its backoffs has
// ended.
func TestTwoAttemptsInABackoffAtTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(t, hintful(), popEarly)
		ends := map[Key]eventlog.Time{} // of the backoff that must end before the next early attempt
		for i := range rapid.IntRange(1, 4).Draw(t, "entities") {
			q.Add(podKey(fmt.Sprint(i)), withPriority(podNamed(fmt.Sprint(i)), int32(i%2)))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				q.SetTime(q.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond))
			case 1:
				q.Activate(podKey(fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "entity"))))
			case 2:
				q.Move(nodeAdd, nil, nil)
			default:
				q.ChooseHead()
				e := q.Head()
				if e == nil {
					continue
				}
				early := e.State() == Backoff
				if early && q.now < ends[e.Key()] {
					t.Fatalf("%v is attempted early at %v again, before %v", e.Key(), q.now, ends[e.Key()])
				}
				q.Unpick()
				fail(q, e.Key(), "A")
				if early || q.now < ends[e.Key()] {
					ends[e.Key()] = e.BackoffUntil()
				}
			}
			checkPlaces(t, q)
		}
	})
}

func TestEarlyAttemptsAreRestored(t *testing.T) {
	q := newQueue(t, hintful(), popEarly)
	for _, name := range []string{"a", "b"} {
		q.Add(podKey(name), podNamed(name))
		backOff(q, podKey(name), "A")
	}
	backOff(q, podKey("a"), "A") // an early attempt
	again := restored(t, q)
	for _, q := range []*Queue{q, again} {
		q.ChooseHead()
		wantHead(t, q, "b")
		backOff(q, podKey("b"), "A")
		q.ChooseHead()
		wantHead(t, q, "none")
		checkPlaces(t, q)
	}
	wantAlike(t, q, again)
}
