package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/simulate"
)

// brokenDisk is a log whose second append does not return before until is closed, and then fails.
type brokenDisk struct {
	engine.Log
	until <-chan struct{}
}

var errBroken = errors.New("the disk is broken")

func (l *brokenDisk) Close() error { return nil }

func (l *brokenDisk) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if expectedLast == 0 {
		return l.Log.Append(ctx, expectedLast, entries)
	}
	<-l.until
	return errBroken
}

// asked is a context that does something when it is asked for its error the nth time, from 1: a simulation asks before
// each instant, and before each decision.
type asked struct {
	context.Context
	n, times int
	then     func()
	canceled bool // from then on
}

func (c *asked) Err() error {
	if c.times++; c.times == c.n {
		c.then()
	}
	if c.canceled && c.times >= c.n {
		return context.Canceled
	}
	return nil
}

// demonstrated returns a simulation, how it is kept, and its configuration.
func demonstrated(t *testing.T) (*sim.Cluster, keeping, []byte) {
	t.Helper()
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := readConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	return cluster, keeping{log: filepath.Join(t.TempDir(), "log")}, config
}

// TestAnInterruptedSimulationSaysThatItsDiskFailed has the append fail that is under way when the interrupt comes,
// between steps and in the middle of them.
func TestAnInterruptedSimulationSaysThatItsDiskFailed(t *testing.T) {
	for n := 2; n < 30; n++ { // when it is asked the first time nothing is under way
		interrupted := make(chan struct{})
		cluster, keep, config := demonstrated(t)
		log := &brokenDisk{Log: simulate.NoLog(), until: interrupted}
		_, err := keep.simulateOn(
			&asked{Context: t.Context(), n: n, then: func() { close(interrupted) }, canceled: true},
			cluster, config, log)
		var failed *engine.AppendError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) {
			t.Fatalf("interrupted when it asks the time %d, with an append under way that fails, it says only: %v", n,
				err)
		}
		for _, want := range []string{errBroken.Error(),
			"Nothing that was decided in entries 2 and on has left this process"} {
			if strings.Count(err.Error(), want) != 1 {
				t.Errorf("interrupted when it asks the time %d it does not say once %q: %v", n, want, err)
			}
		}
	}
}
