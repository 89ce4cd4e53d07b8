package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/bench/natsservers"
	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// followsTheLog is a standby's message once its state is up to date with the log.
const followsTheLog = "follows the log, on standby"

// startNATS starts a NATS server with JetStream in this process, and returns the name of a log in it.
func startNATS(t *testing.T) string {
	t.Helper()
	servers, err := natsservers.Start(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Stop)
	return servers.Name("jobs")
}

// TestAStandbyOfALogInAStreamTakesOver runs two schedulers of one log in a stream. The leader is killed, suspended for
// longer than its lease lasts, and asked to end. Each time the other one continues within the promised time. The first
// one, when it is back, is on standby and later takes over again.
func TestAStandbyOfALogInAStreamTakesOver(t *testing.T) {
	needsRollcall(t, "kube-scheduler has no log")
	w := newWorld(t, true, cluster.Options{})
	o := w.options()
	o.Log = startNATS(t)
	o.Args = append(o.Args, "--leader-elect=true") // with the usual times: 15 s until a lease expires
	w.start(o)
	leader := w.scheduler
	w.gang("first", 4, "1m")
	w.waitFor("first-", 4, bound)
	o.User = "second"
	w.start(o)
	standby := w.scheduler
	awaitOutput(t, standby, followsTheLog, 1)

	terminate := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return leader.Terminate(ctx)
	}
	for _, c := range []struct {
		name      string
		end, back func() error
		most      time.Duration
	}{
		{"killed", func() error { leader.Kill(); return nil }, func() error { return leader.Start(t.Context()) },
			8 * time.Second},
		{"suspended", func() error { return leader.Suspend() }, func() error { return leader.Resume() }, time.Minute},
		{"ended", terminate, func() error { return leader.Start(t.Context()) }, 8 * time.Second},
	} {
		time.Sleep(time.Second) // so that the leader has answered the standby once
		follows := strings.Count(leader.Tail(1000), followsTheLog)
		began := time.Now()
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		w.gang(c.name, 4, "1m")
		w.waitFor(c.name+"-", 4, bound)
		took := time.Since(began)
		t.Logf("%s: the other one has bound a gang %s later", c.name, took)
		if took > c.most {
			t.Errorf("%s: it took %s, more than %s", c.name, took, c.most)
		}
		if err := c.back(); err != nil {
			t.Fatal(err)
		}
		awaitOutput(t, leader, followsTheLog, follows+1)
		leader, standby = standby, leader
	}
	w.gang("last", 4, "1m")
	w.waitFor("last-", 4, bound)
	if err := accountant.Look(t.Context(), w.c); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"log", "verify", o.Log}, {"replay", o.Log}} {
		if out, err := leader.Rollcall(t.Context(), args...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// awaitOutput waits until a scheduler has said something so many times.
func awaitOutput(t *testing.T, s *schedulers.Scheduler, what string, times int) {
	t.Helper()
	for began := time.Now(); strings.Count(s.Tail(1000), what) < times; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("it does not say %q %d times; its output:\n%s", what, times, s.Tail(20))
		}
	}
}
