package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// brokenDisk is a log whose second append does not return before until is closed, and then fails.
type brokenDisk struct {
	engine.Log
	until <-chan struct{}
}

var errBroken = errors.New("the disk is broken")

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
}

func (c *asked) Err() error {
	if c.times++; c.times == c.n {
		c.then()
	}
	return nil
}

// demonstrated returns the bundled simulation, and options to run it with.
func demonstrated(t *testing.T) (*sim.Cluster, Options) {
	t.Helper()
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return cluster, Options{Engine: engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
	}}
}

// TestASimulationHasNotEndedBeforeItsLogIsOnTheDisk has the cluster run to its end while nothing becomes durable: the
// disk fails when the simulation asks for the last time whether it is to continue.
func TestASimulationHasNotEndedBeforeItsLogIsOnTheDisk(t *testing.T) {
	all := &asked{Context: t.Context()}
	cluster, opts := demonstrated(t)
	if _, err := Run(all, cluster, opts); err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	cluster, opts = demonstrated(t)
	opts.Log, opts.Open = &brokenDisk{Log: NoLog(), until: ran}, engine.Open
	r := &run{Options: opts}
	_, err := r.run(&asked{Context: t.Context(), n: all.times, then: func() { close(ran) }}, cluster)
	var failed *engine.AppendError
	if !errors.As(err, &failed) || !errors.Is(err, errBroken) || failed.First != 2 {
		t.Errorf("a simulation of which the log has one entry has ended well: %v", err)
	}
}

// TestARunWithEffectsIsTheSameAndWritesALineForEach compares the log with the log of a run that does not wait for the
// disk.
func TestARunWithEffectsIsTheSameAndWritesALineForEach(t *testing.T) {
	ahead, waiting := eventlog.NewMemory(), eventlog.NewMemory()
	cluster, opts := demonstrated(t)
	opts.Log = ahead
	want, err := Run(t.Context(), cluster, opts)
	if err != nil {
		t.Fatal(err)
	}
	cluster, opts = demonstrated(t)
	var lines bytes.Buffer
	opts.Log, opts.Effects = waiting, &lines
	live := 0
	opts.Progress = func(p Progress) {
		if p.Live {
			live++
		}
	}
	got, err := Run(t.Context(), cluster, opts)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := all(t, ahead), all(t, waiting); !bytes.Equal(a, b) {
		t.Error("the logs differ")
	}
	if got.Pods != want.Pods || got.Decisions != want.Decisions || got.Decisions == 0 || live == 0 {
		t.Errorf("got %+v, want %+v; %d steps were told of", got, want, live)
	}
	decisions := map[uint64]bool{}
	for e, err := range waiting.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		decisions[e.Seq] = e.Kind() == eventlog.KindDecision
	}
	binds, before := 0, uint64(0)
	for dec := json.NewDecoder(&lines); dec.More(); {
		var line EffectLine
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if !decisions[line.Seq] || line.Seq < before || line.Pod == "" || line.Node == "" {
			t.Errorf("line %+v after one of entry %d", line, before)
		}
		before = line.Seq
		if line.Kind == "Bind" {
			binds++
		}
	}
	if binds != got.Pods.Placed {
		t.Errorf("%d binds are told of, %d pods were placed", binds, got.Pods.Placed)
	}
}

// TestARunGoesOnBehindItsLog cuts a log and lets the same simulation continue.
func TestARunGoesOnBehindItsLog(t *testing.T) {
	whole := eventlog.NewMemory()
	cluster, opts := demonstrated(t)
	opts.Log = whole
	want, err := Run(t.Context(), cluster, opts)
	if err != nil {
		t.Fatal(err)
	}
	part := eventlog.NewMemory()
	for e, err := range whole.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq > 40 {
			break
		}
		if err := part.Append(context.Background(), e.Seq-1, []eventlog.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	cluster, opts = demonstrated(t)
	opts.Log, opts.Resume = part, true
	behind := uint64(0)
	opts.Resumed = func(seq uint64, now time.Time) { behind = seq }
	got, err := Run(t.Context(), cluster, opts)
	if err != nil {
		t.Fatal(err)
	}
	if behind != 40 || got.Pods != want.Pods || got.End != want.End {
		t.Errorf("it went on behind entry %d; got %+v, want %+v", behind, got, want)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errBroken }

func TestARunWhoseEffectsCannotBeWrittenEnds(t *testing.T) {
	cluster, opts := demonstrated(t)
	opts.Effects = fullDisk{}
	if _, err := Run(t.Context(), cluster, opts); !errors.Is(err, errBroken) {
		t.Errorf("the error is %v", err)
	}
}

// all is the log's entries in their public form.
func all(t *testing.T, log engine.Log) (text []byte) {
	t.Helper()
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if text, err = eventlog.AppendJSON(text, e); err != nil {
			t.Fatal(err)
		}
	}
	return text
}
