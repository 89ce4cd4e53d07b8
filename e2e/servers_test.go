package e2e_test

import (
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/e2e/accountant"
	"github.com/rollcall-sched/rollcall/e2e/cluster"
)

// TestGangsAreBoundAfterTheAPIServerWasKilled kills the API server, and then etcd, before and after gangs come.
func TestGangsAreBoundAfterTheAPIServerWasKilled(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		w.gang("one", 4, "1")
		w.waitFor("one-", 4, bound)
		if err := w.c.APIServer.Restart(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.gang("two", 4, "1")
		w.waitFor("two-", 4, bound)
		if err := w.c.Etcd.Restart(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.gang("three", 4, "1")
		w.waitFor("three-", 4, bound)
		w.audit(12)
	})
}

// TestKilledInTheMiddleOfBindsASchedulerGoesOn kills the scheduler with signal 9 while it binds gangs, again and again,
// and starts it. At the end each gang is bound whole, and each pod once.
func TestKilledInTheMiddleOfBindsASchedulerGoesOn(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		const rounds, members = 5, 4
		w.start(w.options())
		for round := range rounds {
			prefix := string(rune('a' + round))
			w.gang(prefix, members, "100m")
			// At least one of its binds has arrived, or it is about to.
			w.waitFor(prefix+"-", round%members, bound)
			if err := w.scheduler.Restart(w.Context()); err != nil {
				w.Fatal(err)
			}
			w.waitFor(prefix+"-", members, bound)
			if err := accountant.Look(w.Context(), w.c); err != nil {
				w.Fatal(err)
			}
		}
		w.audit(rounds * members)
	})
}

// TestASuspendedSchedulerCatchesUp stops the scheduler for a while (SIGSTOP) in which the world changes.
func TestASuspendedSchedulerCatchesUp(t *testing.T) {
	w := newWorld(t, true, cluster.Options{})
	w.start(w.options())
	w.gang("before", 4, "1")
	w.waitFor("before-", 4, bound)
	if err := w.scheduler.Suspend(); err != nil {
		t.Fatal(err)
	}
	w.gang("after", 4, "1")
	time.Sleep(time.Second)
	w.none("after-", bound)
	if err := w.scheduler.Resume(); err != nil {
		t.Fatal(err)
	}
	w.waitFor("after-", 4, bound)
	w.audit(8)
}
