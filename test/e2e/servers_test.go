package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// TestGangsAreBoundAfterServersWereKilled kills the API server, and then etcd, while gangs come, again and again.
func TestGangsAreBoundAfterServersWereKilled(t *testing.T) {
	faultsByEachAPI(t, func(w *world) {
		w.start(w.options())
		moment := rand.New(rand.NewPCG(3, 3))
		for i := range times() {
			for _, server := range []*cluster.Process{w.c.APIServer, w.c.Etcd} {
				name := fmt.Sprintf("%s%03d", strings.ReplaceAll(server.Name, "-", ""), i)
				w.gang(name, 4, "1m")
				time.Sleep(time.Duration(moment.IntN(50)) * time.Millisecond)
				if err := server.Restart(w.Context()); err != nil {
					w.Fatal(err)
				}
				w.waitFor(name+"-", 4, bound)
			}
		}
		// Not by whom each pod was bound: what was carried out at the moment of a kill is not in the audit log.
		accountant.Audit(w.T, w.c, w.scheduler)
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
