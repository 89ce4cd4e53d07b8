package watch

import (
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// brokenServer is a server with a node and a pod, and a Watch of it with such a timing. While watches of pods and of
// other resources are broken, the node goes and a pod comes; nodes are not told of until forget is called.
func brokenServer(t *testing.T, together time.Duration, others ...eventlog.Resource) (w *watched, allow func()) {
	s := newServer(t)
	s.put(node("n1", "u1"), pod("a", "a1"))
	w = watchServerWith(t, s, nil, func(timing *timing) { timing.together = together })
	w.sync()
	s.edit(func() {
		s.stalled[eventlog.Nodes], s.stalled[eventlog.Pods] = true, true
		s.refused["list nodes"], s.refused["watch nodes"] = true, true
	})
	s.delete(eventlog.Nodes, "", "n1")
	s.put(pod("b", "b1"))
	for _, res := range others {
		s.breakWatches(res, true)
	}
	await(t, "the end of the watches", func() bool {
		w.contact.mu.Lock()
		defer w.contact.mu.Unlock()
		return len(w.contact.lost) > 0 && w.contact.broken == (len(others) > 1)
	})
	s.edit(func() { s.stalled[eventlog.Nodes], s.stalled[eventlog.Pods] = false, false })
	return w, func() { s.edit(func() { clear(s.refused) }) }
}

// Otherwise a pod of the list that is in first would be placed on a node that went meanwhile.
func TestWhatChangedDuringABreakIsTakenAtOnce(t *testing.T) {
	w, allow := brokenServer(t, patience, eventlog.Nodes, eventlog.Pods)
	await(t, "the pods", func() bool { _, ok := w.Pod("b1"); return ok })
	if got := w.take(); len(got) > 0 {
		t.Errorf("took %q before the nodes were told of", got)
	}
	allow()
	var got []string
	for len(got) == 0 { // the first message may be one of before the break
		select {
		case <-w.Changed():
			got = w.take()
		case <-time.After(patience):
			t.Fatal("no change after the break")
		}
	}
	slices.Sort(got)
	same(t, got, "+ pods ns/b b1", "- nodes /n1 u1")
}

func TestABreakHoldsNothingUpForLong(t *testing.T) {
	w, _ := brokenServer(t, 50*time.Millisecond, eventlog.Nodes, eventlog.Pods)
	same(t, w.takeUntil("+ pods ns/b b1"), "+ pods ns/b b1")
}

func TestOneWatchThatEndsHoldsNothingUp(t *testing.T) {
	w, _ := brokenServer(t, patience, eventlog.Nodes)
	same(t, w.takeUntil("+ pods ns/b b1"), "+ pods ns/b b1")
}

// An API server that was away for long is asked by all at once when it answers again.
func TestAllTryAgainWhenTheServerAnswersAgain(t *testing.T) {
	s := newServer(t)
	s.put(node("n1", "u1"))
	w := watchServerWith(t, s, nil, func(timing *timing) { timing.together = patience })
	w.sync()
	answers := w.contact.answers()
	w.contact.heard(false)
	w.contact.heard(true)
	select {
	case <-answers:
	default:
		t.Error("nothing is tried again when the server answers")
	}
	again := w.contact.answers()
	w.contact.heard(true)
	w.contact.heard(false)
	w.contact.heard(true)
	select {
	case <-again:
		t.Error("all is tried again twice within a second")
	default:
	}
}
