package watch

import (
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// phaseOf returns how far a break has come, and of how many watches that have ended it is not known that they go on.
func (w *watched) phaseOf() (phase, int) {
	w.contact.mu.Lock()
	defer w.contact.mu.Unlock()
	return w.contact.phase, len(w.contact.ended)
}

// refuse has the server refuse to list and watch resources, or no resource any more.
func (s *apiServer) refuse(resources ...eventlog.Resource) {
	s.edit(func() {
		clear(s.refused)
		for _, res := range resources {
			s.refused["list "+string(res)], s.refused["watch "+string(res)] = true, true
		}
	})
}

// brokenServer is a server with a node and a pod, and a Watch of it. While the watches of these resources are broken
// and refused, the node goes and a pod comes.
func brokenServer(t *testing.T, resources ...eventlog.Resource) (*apiServer, *watched) {
	s := newServer(t)
	s.put(node("n1", "u1"), pod("a", "a1"))
	w := watchServerWith(t, s, nil, func(timing *timing) { timing.together = patience })
	w.sync()
	s.refuse(resources...)
	s.edit(func() { s.stalled[eventlog.Nodes], s.stalled[eventlog.Pods] = true, true })
	s.delete(eventlog.Nodes, "", "n1")
	s.put(pod("b", "b1"))
	for _, res := range resources {
		s.breakWatches(res, true)
	}
	await(t, "the break", func() bool {
		p, n := w.phaseOf()
		return n == len(resources) && (p == broken) == (n > 1)
	})
	s.edit(func() { s.stalled[eventlog.Nodes], s.stalled[eventlog.Pods] = false, false })
	return s, w
}

// takeSome takes once there is something.
func (w *watched) takeSome() []string {
	w.t.Helper()
	for {
		select {
		case <-w.Changed():
			if got := w.take(); len(got) > 0 { // a message may be one of before
				slices.Sort(got)
				return got
			}
		case <-time.After(patience):
			w.t.Fatal("there is nothing to take")
		}
	}
}

// Otherwise a pod of the list that is in first would be placed on a node that went meanwhile. It is the same after an
// API server was away for longer than what has changed waits.
func TestWhatChangedDuringABreakIsTakenAtOnce(t *testing.T) {
	for _, long := range []bool{false, true} {
		s, w := brokenServer(t, eventlog.Nodes, eventlog.Pods)
		if long {
			w.contact.mu.Lock()
			w.contact.until = time.Now()
			w.contact.mu.Unlock()
			w.contact.expire()
		}
		s.refuse(eventlog.Nodes)
		await(t, "the pods", func() bool { _, ok := w.Pod("b1"); return ok })
		if got := w.take(); len(got) > 0 {
			t.Errorf("took %q before the nodes were told of", got)
		}
		s.refuse()
		same(t, w.takeSome(), "+ pods ns/b b1", "- nodes /n1 u1")
		if p, n := w.phaseOf(); p != whole || n != 0 {
			t.Errorf("phase %d, %d watches ended after all are back", p, n)
		}
	}
}

// What does not come back with the others is not waited for again.
func TestABreakHoldsNothingUpForLong(t *testing.T) {
	s, w := brokenServer(t, eventlog.Nodes, eventlog.Pods)
	w.contact.mu.Lock()
	w.contact.timing.together = 50 * time.Millisecond
	w.contact.mu.Unlock()
	s.refuse(eventlog.Nodes)
	same(t, w.takeSome(), "+ pods ns/b b1")
	if p, n := w.phaseOf(); p != whole || n != 0 {
		t.Errorf("phase %d, %d watches ended", p, n)
	}
	s.refuse()
	same(t, w.takeSome(), "- nodes /n1 u1")
}

func TestOneWatchThatEndsHoldsNothingUp(t *testing.T) {
	_, w := brokenServer(t, eventlog.Nodes)
	same(t, w.takeSome(), "+ pods ns/b b1")
}

// The API server ends each watch every few minutes, and some proxies say nothing until there is something to tell.
func TestWatchesThatEndAndDoNotFailHoldNothingUp(t *testing.T) {
	c := newContact(&timing{together: patience}, func() {})
	c.end(0)
	c.end(1)
	if c.waits() {
		t.Error("waits for watches that end as usual")
	}
	c.fail(2) // which never began
	if c.waits() {
		t.Error("waits for others than those that fail")
	}
	c.fail(1)
	if !c.waits() {
		t.Error("does not wait for watches that fail")
	}
}

// One resource may be refused for good: nothing waits for it whenever another watch ends.
func TestAResourceThatFailsByItselfIsNotWaitedForLater(t *testing.T) {
	c := newContact(&timing{together: time.Millisecond}, func() {})
	c.end(0)
	time.Sleep(2 * time.Millisecond)
	c.fail(0)
	c.timing.together = patience
	c.end(1)
	c.fail(0)
	if c.waits() {
		t.Error("waits for a resource that failed long before")
	}
}

// Decisions follow the first call of Take: it gets all that there is, whatever has ended since.
func TestTheFirstTakeIsNotHeldUp(t *testing.T) {
	s := newServer(t)
	s.put(node("n1", "u1"), pod("a", "a1"))
	s.refuse(eventlog.Pods)
	w := watchServerWith(t, s, nil, func(timing *timing) { timing.together = patience })
	await(t, "all but pods", func() bool {
		w.first.Lock()
		defer w.first.Unlock()
		return len(w.unlisted) == 1
	})
	s.refuse(eventlog.Pods, eventlog.Nodes, eventlog.Services)
	s.breakWatches(eventlog.Nodes, true)
	s.breakWatches(eventlog.Services, true)
	await(t, "the break", w.contact.waits)
	s.refuse(eventlog.Nodes, eventlog.Services)
	same(t, w.sync(), "+ nodes /n1 u1", "+ pods ns/a a1")
}

// A resource that the API server does not have any more does not come back.
func TestAResourceThatGoesIsNotWaitedFor(t *testing.T) {
	s := newServer(t)
	w := watchServerWith(t, s, nil, func(timing *timing) { timing.together = patience })
	w.sync()
	s.edit(func() { s.absent[eventlog.XPodGroups], s.absent[eventlog.PodGroups] = true, true })
	w.awaitReport("podgroups.scheduling.x-k8s.io: the API server has them no more")
	w.awaitReport("podgroups.scheduling.k8s.io: the API server has them no more")
	await(t, "the end of the break", func() bool { p, n := w.phaseOf(); return p == whole && n == 0 })
}

// An API server that was away for long is asked by all at once when it answers again.
func TestAllTryAgainWhenTheServerAnswersAgain(t *testing.T) {
	c := newContact(&timing{together: patience}, func() {})
	for range 2 { // the second time within a second of the first
		c.fail(0)
		again, _ := c.answers()
		c.succeed()
		select {
		case <-again:
		case <-time.After(patience):
			t.Fatal("what waits to try again is not told that the server answers")
		}
		if _, lately := c.answers(); !lately {
			t.Error("a request that was sent before is not tried again soon")
		}
	}
	again, _ := c.answers()
	c.succeed()
	select {
	case <-again:
		t.Error("all try again although none has failed")
	case <-time.After(10 * time.Millisecond):
	}
}
