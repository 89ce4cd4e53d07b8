package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// TestPodGroupsThatTheServerLacksAreWaitedFor starts the scheduler on a server without PodGroups of either API, and
// installs the ones of scheduling.x-k8s.io later.
func TestPodGroupsThatTheServerLacksAreWaitedFor(t *testing.T) {
	needsRollcall(t, "kube-scheduler has no gangs by label")
	w := newWorld(t, false, cluster.Options{WithoutCRD: true})
	w.start(w.options())
	w.create(w.pod("single", "", "1"))
	w.waitFor("single", 1, bound)
	w.create(w.pod("g-0", "g", "1"), w.pod("g-1", "g", "1"))
	if err := w.c.InstallCRD(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.group("g", 2)
	w.waitFor("g-", 2, bound)
	w.audit(3)
}

// TestASchedulerThatIsTerminatedLeavesAWholeLog ends the scheduler with SIGTERM while gangs are bound, verifies its log
// to the last byte, and starts it again on it.
func TestASchedulerThatIsTerminatedLeavesAWholeLog(t *testing.T) {
	needsRollcall(t, "kube-scheduler has no log")
	w := newWorld(t, false, cluster.Options{})
	w.start(w.options())
	pods := w.full(20)
	w.waitFor("g", pods/4, bound)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.scheduler.Terminate(ctx); err != nil {
		t.Errorf("after SIGTERM: %v; its output:\n%s", err, w.scheduler.Tail(20))
	}
	if out, err := w.scheduler.Rollcall(ctx, "log", "verify", w.scheduler.Log); err != nil {
		t.Errorf("log verify: %v\n%s", err, out)
	}
	if err := w.scheduler.Start(ctx); err != nil {
		t.Fatal(err)
	}
	w.waitFor("g", pods, bound)
	w.audit(pods)
}

// TestExplainAnswersBesideARunningScheduler asks why a gang is not placed, of the log that is being written.
func TestExplainAnswersBesideARunningScheduler(t *testing.T) {
	needsRollcall(t, "kube-scheduler has no log")
	w := newWorld(t, false, cluster.Options{})
	w.start(w.options())
	w.gang("large", 5, "3")
	w.waitFor("large-", 5, unschedulable)
	for _, about := range [][]string{{"pod", "default/large-0"}, {"group", "default/large"}} {
		out, err := w.scheduler.Rollcall(t.Context(), append([]string{"explain", w.scheduler.Log}, about...)...)
		if err != nil || !strings.Contains(string(out), "Insufficient cpu") {
			t.Errorf("explain %v: %v\n%s", about, err, out)
		}
	}
	w.audit(0)
}

// TestASchedulerThatStartsWithoutAServerWaitsForIt starts the scheduler while the API server is down.
func TestASchedulerThatStartsWithoutAServerWaitsForIt(t *testing.T) {
	w := newWorld(t, true, cluster.Options{})
	w.gang("g", 4, "1")
	w.c.APIServer.Kill()
	w.start(w.options())
	time.Sleep(time.Second)
	if err := w.c.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.waitFor("g-", 4, bound)
	w.audit(4)
}

// TestALeaderThatWasSuspendedEndsAndAnotherBinds suspends the scheduler that holds the lease for longer than the lease
// lasts. Another one, with a log of its own, takes over; the first one ends when it continues. It is started again,
// and they change places.
func TestALeaderThatWasSuspendedEndsAndAnotherBinds(t *testing.T) {
	needsRollcall(t, "kube-scheduler takes no lease from its flags beside a configuration")
	w := newWorld(t, false, cluster.Options{})
	o := w.options()
	o.Args = []string{
		"--leader-elect=true", "--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms",
		"--leader-elect-retry-period=200ms",
	}
	w.start(o)
	w.gang("before", 4, "1m")
	w.waitFor("before-", 4, bound)
	leader := w.scheduler
	o.User = "second"
	w.start(o)
	standby := w.scheduler
	for i := range times() {
		if err := leader.Suspend(); err != nil {
			t.Fatal(err)
		}
		w.scheduler = standby
		name := fmt.Sprintf("g%03d", i)
		w.gang(name, 4, "1m")
		w.waitFor(name+"-", 4, bound)
		if err := leader.Resume(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var exit *exec.ExitError
		if err := leader.Wait(ctx); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("the suspended one ended with %v, wanted exit code 1; its output:\n%s", err, leader.Tail(20))
		}
		cancel()
		if err := leader.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		leader, standby = standby, leader
	}
	w.gang("after", 4, "1m")
	w.waitFor("after-", 4, bound)
	a := accountant.Audit(t, w.c, leader)
	b := accountant.Audit(t, w.c, standby)
	if n := a.Bound(leader.User) + b.Bound(standby.User); n != 4*(times()+2) {
		t.Errorf("the schedulers have bound %d pods, wanted %d", n, 4*(times()+2))
	}
}
