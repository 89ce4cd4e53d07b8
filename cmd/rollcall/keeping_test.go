package main

import (
	"context"
	"errors"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim"
)

// brokenDisk is a log whose second append takes until the simulation has run, and then fails.
type brokenDisk struct {
	discardLog
	ran chan struct{}
}

var errBroken = errors.New("the disk is broken")

func (l *brokenDisk) Append(expectedLast uint64, entries []eventlog.Entry) error {
	if expectedLast == 0 {
		return l.discardLog.Append(expectedLast, entries)
	}
	<-l.ran
	return errBroken
}

// TestASimulationHasNotEndedBeforeItsLogIsOnTheDisk has the cluster run to its end while nothing becomes durable.
func TestASimulationHasNotEndedBeforeItsLogIsOnTheDisk(t *testing.T) {
	nodes, work, err := sim.Demo()
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
	log := &brokenDisk{ran: make(chan struct{})}
	w := &writing{config: config, log: log}
	sched, err := w.scheduler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Run(context.Background(), sched, nil); err != nil {
		t.Fatal(err)
	}
	close(log.ran)
	err = w.finished()
	var failed *engine.AppendError
	if !errors.As(err, &failed) || !errors.Is(err, errBroken) || failed.First != 2 {
		t.Errorf("a simulation of which the log has one entry has ended well: %v", err)
	}
}
