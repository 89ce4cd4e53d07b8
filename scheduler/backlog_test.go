package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	simworkload "github.com/rollcall-sched/rollcall/sim/workload"
)

// TestAnEventCostsTheSameWhateverTheBacklog counts the work of an event while gangs wait, for backlogs of several
// sizes. The work is the entities searched for one that may have room, the outlooks made, and the nodes counted as
// empty. Each may grow with the logarithm of the backlog only.
func TestAnEventCostsTheSameWhateverTheBacklog(t *testing.T) {
	for _, policy := range []string{"BestEffort", "StrictFIFO", "Backfill"} {
		t.Run(policy, func(t *testing.T) {
			small := backlogOf(t, policy, workload.Backlog{Nodes: 40, Waiting: 50}, 60)
			large := backlogOf(t, policy, workload.Backlog{Nodes: 40, Waiting: 400}, 60)
			compareWork(t, small, large, 2)
		})
	}
	t.Run("hopeless", func(t *testing.T) {
		small := backlogOf(t, "Backfill", workload.Backlog{Nodes: 40, Waiting: 20, Hopeless: 40}, 60)
		large := backlogOf(t, "Backfill", workload.Backlog{Nodes: 40, Waiting: 20, Hopeless: 320}, 60)
		compareWork(t, small, large, 4) // some of them are tried again, and fail
	})
}

// TestAReservationCostsNoLooksAtAllNodes counts the questions to plugins about nodes while gangs wait and there is a
// reservation. Remembered answers serve for all gangs with the same requests, whether nodes are reserved or not.
// Without them every attempt on a later gang asks about each of the 100 nodes.
func TestAReservationCostsNoLooksAtAllNodes(t *testing.T) {
	of := func(policy string, waiting int) work {
		return backlogOf(t, policy, workload.Backlog{Nodes: 100, Waiting: waiting}, 240)
	}
	small, large := of("Backfill", 50), of("Backfill", 400)
	if small.reserved < 120 || large.reserved < 120 {
		t.Fatalf("a reservation stood after %d and %d of 240 events: too few to tell", small.reserved, large.reserved)
	}
	if most := 2 * small.evaluated; large.evaluated > most {
		t.Errorf("%d evaluations of a node with 50 gangs, %d with 400: want at most %d", small.evaluated,
			large.evaluated, most)
	}
	// any order: each by itself
	for waiting, w := range map[int]work{50: small, 400: large} {
		if most := of("BestEffort", waiting).evaluated * 5 / 4; w.evaluated > most {
			t.Errorf("with %d gangs: %d evaluations of a node under Backfill, want at most %d: 5/4 of BestEffort's",
				waiting, w.evaluated, most)
		}
	}
}

// work counts the work of events, and the events after which there was a reservation.
type work struct{ looked, outlooks, walked, counted, evaluated, reserved int }

func compareWork(t *testing.T, small, large work, times int) {
	t.Helper()
	for _, c := range []struct {
		what         string
		small, large int
	}{
		{"entities looked at", small.looked, large.looked},
		{"outlooks", small.outlooks, large.outlooks},
		{"looks at nodes for when there is room", small.walked, large.walked},
		{"looks at an empty node", small.counted, large.counted},
		{"evaluations of a node", small.evaluated, large.evaluated},
	} {
		if most := times*c.small + 100; c.large > most {
			t.Errorf("%d %s with the small backlog, %d with one of eight times the size: want at most %d",
				c.small, c.what, c.large, most)
		}
	}
}

// TestClassesChangeNoEntryWhileNodesAreReserved lets gangs wait under Backfill, and pods come that are kept from nodes
// that are reserved: with and without classes the same is decided.
func TestClassesChangeNoEntryWhileNodesAreReserved(t *testing.T) {
	b := workload.Backlog{Nodes: 100, Waiting: 60, Hopeless: 10}
	var with, without []eventlog.Decision
	for decisions, off := range map[*[]eventlog.Decision]bool{&with: false, &without: true} { // any order: two runs
		registry := plugins.NewRegistry()
		registry.NoClasses = off
		runBacklog(t, "Backfill", b, registry, 800, func(e *eventlog.Entry) {
			if d, ok := e.Payload.(*eventlog.Decision); ok {
				*decisions = append(*decisions, *d)
			}
		})
	}
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("the decisions differ (- without classes, + with):\n%s", diff)
	}
	kept, beside := 0, 0
	for _, d := range with {
		for _, r := range d.Rejections {
			if strings.HasPrefix(r.Reason, "node(s) were reserved for") {
				if kept++; d.Node != "" {
					beside++
				}
			}
		}
	}
	if kept < 20 || beside < 5 {
		t.Errorf("%d pods were kept from nodes that are reserved, %d of them found another: too few to tell", kept,
			beside)
	}
}

// backlogOf returns the work of so many events of a backlog.
func backlogOf(t *testing.T, policy string, b workload.Backlog, events int) work {
	t.Helper()
	return runBacklog(t, policy, b, plugins.NewRegistry(), events, nil)
}

// runBacklog is backlogOf with the plugins given. It calls observe with each entry, unless observe is nil.
func runBacklog(t *testing.T, policy string, b workload.Backlog, registry framework.Registry, events int,
	observe func(e *eventlog.Entry)) work {
	t.Helper()
	cfg, err := framework.LoadConfig([]byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: `+policy+`}
`), "the test")
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), eventlog.NewMemory(), simworkload.Start,
		engine.Options{Registry: registry, Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	step := func(now time.Time, inputs []eventlog.Payload) ([]engine.Effect, error) {
		ready, err := e.Step(t.Context(), now, inputs)
		for _, c := range ready.Commits {
			for i := range c.Entries {
				if observe != nil {
					observe(&c.Entries[i])
				}
			}
		}
		return ready.Effects, err
	}
	turns := throughput.NewTurns(b, simworkload.Start)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(turns.Load(step))
	for range b.Waiting + b.Hopeless {
		check(turns.Queue(step))
	}
	now := func() work {
		outlooks, _, _ := e.Machine().Work()
		filters, apart := e.Machine().Evaluations()
		return work{e.Machine().Queue().Looked(), outlooks, e.Machine().Walked(), e.Machine().CountedEmpty(),
			filters + apart, 0}
	}
	before, placed, reserved := now(), turns.Placed, 0
	for range events {
		check(turns.Event(step))
		reserved += len(e.Machine().Reservations())
	}
	after := now()
	if turns.Placed == placed && policy == "BestEffort" {
		t.Fatal("no gang was placed")
	}
	return work{after.looked - before.looked, after.outlooks - before.outlooks, after.walked - before.walked,
		after.counted - before.counted, after.evaluated - before.evaluated, reserved}
}
