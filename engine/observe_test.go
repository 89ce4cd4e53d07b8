package engine_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// feed is an observer that keeps what it is told, and holds the contract of engine.Commit against it.
type feed struct {
	t       testing.TB
	log     engine.Log
	entries []eventlog.Entry
	effects []scheduler.Effect
	commits int
	fails   int // the commit, from 1, that it refuses; 0 for none
	calling bool
}

var errObserver = errors.New("the observer said no")

func (f *feed) observe(c engine.Commit) error {
	if f.calling {
		f.t.Error("Observe is called while it runs")
	}
	f.calling = true
	defer func() { f.calling = false }()
	durable, err := f.log.Last()
	if err != nil {
		f.t.Fatal(err)
	}
	if len(c.Entries) == 0 {
		f.t.Error("a commit without entries")
	}
	if c.At.IsZero() {
		f.t.Error("a commit has no time, and there is a clock")
	}
	for _, e := range c.Entries {
		if e.Seq > durable {
			f.t.Errorf("entry %d is observed, and the last durable one is %d", e.Seq, durable)
		}
		if n := len(f.entries); n > 0 && e.Seq != f.entries[n-1].Seq+1 {
			f.t.Errorf("entry %d is observed after entry %d", e.Seq, f.entries[n-1].Seq)
		}
		f.entries = append(f.entries, e)
	}
	for _, x := range c.Effects {
		if x.Seq > c.Last() {
			f.t.Errorf("an effect of entry %d comes with a commit that ends with entry %d", x.Seq, c.Last())
		}
	}
	f.effects = append(f.effects, c.Effects...)
	if f.commits++; f.commits == f.fails {
		return errObserver
	}
	return nil
}

// last is the last entry that was observed, 0 for none.
func (f *feed) last() uint64 {
	if len(f.entries) == 0 {
		return 0
	}
	return f.entries[len(f.entries)-1].Seq
}

func openObserved(t testing.TB, log engine.Log, release engine.Release, store snapshot.Store) (*engine.Engine,
	*feed) {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{t: t, log: log}
	e, err := engine.Open(context.Background(), log, start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
		Release: release, Observe: f.observe, Clock: time.Now,
		Snapshots: store, SnapshotEvery: 3, Report: func(message string) { t.Log(message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.commits > 0 {
		t.Error("Open calls Observe")
	}
	return e, f
}

// TestTheFeedHasEveryEntryOfTheEpochOnceAndInOrder tells the story to engines of every kind, each in two epochs.
func TestTheFeedHasEveryEntryOfTheEpochOnceAndInOrder(t *testing.T) {
	type call func(*engine.Engine, time.Time, []eventlog.Payload) ([]scheduler.Effect, error)
	step := func(e *engine.Engine, now time.Time, in []eventlog.Payload) ([]scheduler.Effect, error) {
		return e.Step(context.Background(), now, in)
	}
	advance := func(e *engine.Engine, now time.Time, in []eventlog.Payload) ([]scheduler.Effect, error) {
		return e.Advance(context.Background(), now, in)
	}
	for _, tc := range []struct {
		name    string
		call    call
		release engine.Release
		store   snapshot.Store
	}{
		{"Step", step, engine.WhenDurable, nil},
		{"Advance", advance, engine.WhenDurable, nil},
		{"Advance, effects when decided", advance, engine.WhenDecided, nil},
		{"Step, with snapshots", step, engine.WhenDurable, &memoryStore{kept: map[uint64][]byte{}}},
		{"Advance, with snapshots", advance, engine.WhenDurable, &memoryStore{kept: map[uint64][]byte{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := eventlog.NewMemory()
			now, moments := start, gangStory()
			for _, part := range [][]moment{moments[:6], moments[6:]} {
				before, _ := log.Last()
				e, f := openObserved(t, log, tc.release, tc.store)
				var answers []eventlog.Payload
				var released []scheduler.Effect
				for _, m := range part {
					now = now.Add(m.after)
					effects, err := tc.call(e, now, append(answers, m.inputs...))
					if err != nil {
						t.Fatal(err)
					}
					released, answers = append(released, effects...), binds(effects)
					if durable, _ := log.Last(); reflect.ValueOf(tc.call).Pointer() == reflect.ValueOf(
						step).Pointer() && f.last() != durable {
						t.Errorf("after a step the feed ends with entry %d, the log with %d", f.last(), durable)
					}
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				want := entries(t, log)[before:]
				if len(f.entries) != len(want) {
					t.Fatalf("%d entries are observed, the epoch has %d", len(f.entries), len(want))
				}
				for i, got := range f.entries {
					if got.Seq != want[i].Seq || got.Time != want[i].Time || got.Kind() != want[i].Kind() ||
						got.Settled != want[i].Settled {
						t.Fatalf("observed is entry %+v, logged %+v", got, want[i])
					}
				}
				if f.entries[0].Kind() != eventlog.KindEpochStarted {
					t.Errorf("the feed starts with a %s", f.entries[0].Kind())
				}
				if tc.release == engine.WhenDecided {
					released = nil
				}
				if !slices.EqualFunc(f.effects, released,
					func(a, b scheduler.Effect) bool { return reflect.DeepEqual(a, b) }) {
					t.Errorf("the feed has the effects %v, given out were %v", names(f.effects), names(released))
				}
			}
		})
	}
}

func binds(effects []scheduler.Effect) (answers []eventlog.Payload) {
	for _, x := range effects {
		if x.Kind == scheduler.Bind {
			answers = append(answers, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
		}
	}
	return answers
}

// heldObserved is held with an observer.
func heldObserved(t testing.TB) (*engine.Engine, *heldLog, *feed) {
	t.Helper()
	log := newHeldLog()
	e, f := openObserved(t, log, engine.WhenDurable, nil)
	if _, err := e.Step(context.Background(), start, []eventlog.Payload{node("n1", "4")}); err != nil {
		t.Fatal(err)
	}
	<-e.Appended()
	log.held = true
	return e, log, f
}

func TestNothingIsObservedBeforeItIsDurable(t *testing.T) {
	e, log, f := heldObserved(t)
	before := f.last()
	mustAdvance(t, e, pod("a", "1", ""))
	<-log.entered
	mustAdvance(t, e, pod("b", "1", ""))
	if f.last() != before {
		t.Fatalf("entry %d is observed while its append is under way", f.last())
	}
	log.goOn <- nil
	<-e.Appended()
	if f.last() != before {
		t.Fatal("Observe is called outside of the engine's calls")
	}
	if effects := mustAdvance(t, e); !slices.Equal(names(effects), []string{"a"}) || f.last() != before+2 ||
		!slices.Equal(names(f.effects), []string{"a"}) {
		t.Errorf("after the first append entry %d is observed, want %d; effects %v, given out %v", f.last(), before+2,
			names(f.effects), names(effects))
	}
	log.let(nil)
	if err := e.Close(); err != nil || f.last() != before+4 {
		t.Errorf("after Close (%v) the feed ends with entry %d, want %d", err, f.last(), before+4)
	}
}

func TestNothingOfAFailedAppendIsObserved(t *testing.T) {
	for _, how := range []error{errDisk, errKept} { // whether the log has it is not known
		e, log, f := heldObserved(t)
		before := f.last()
		mustAdvance(t, e, pod("a", "1", ""))
		<-log.entered
		mustAdvance(t, e, pod("b", "1", ""))
		log.goOn <- nil
		if n := log.let(how); n != 2 {
			t.Fatalf("%d entries in the second append", n)
		}
		var failed *engine.AppendError
		_, err := e.Sync()
		if !errors.As(err, &failed) || failed.First != before+3 {
			t.Fatalf("the error is %v", err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if f.last() != before+2 {
			t.Errorf("the feed ends with entry %d, want %d, the last one before the append that failed", f.last(),
				before+2)
		}
		if len(f.effects) > 0 {
			t.Errorf("effects %v are observed, and none is given out", names(f.effects))
		}
	}
}

func TestAStepThatIsBrokenOffIsObservedAsFarAsItIsDurable(t *testing.T) {
	log := eventlog.NewMemory()
	e, f := openObserved(t, log, engine.WhenDurable, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Step(ctx, start, []eventlog.Payload{node("n1", "4"), pod("a", "1", "")}); !errors.Is(err,
		context.Canceled) {
		t.Fatal(err)
	}
	if last, _ := log.Last(); last != 3 || f.last() != last {
		t.Errorf("the log ends with entry %d, the feed with %d", last, f.last())
	}
}

func TestAnObserverThatFailsStopsTheEngine(t *testing.T) {
	log := eventlog.NewMemory()
	e, f := openObserved(t, log, engine.WhenDurable, nil)
	if _, err := e.Step(context.Background(), start, []eventlog.Payload{node("n1", "4")}); err != nil {
		t.Fatal(err)
	}
	f.fails = f.commits + 1
	effects, err := e.Step(context.Background(), start, []eventlog.Payload{pod("a", "1", "")})
	if err != errObserver || len(effects) > 0 { //nolint:errorlint // it is returned as it is
		t.Fatalf("effects %v, error %v", names(effects), err)
	}
	commits := f.commits
	if _, err := e.Step(context.Background(), start, []eventlog.Payload{pod("b", "1", "")}); !errors.Is(err,
		errObserver) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("the next step: %v", err)
	}
	if err := e.Close(); err != nil || f.commits != commits {
		t.Errorf("Close: %v; %d commits more", err, f.commits-commits)
	}
	if last, _ := log.Last(); last != f.last() {
		t.Errorf("the log ends with entry %d, observed was %d", last, f.last())
	}
}

func TestWithoutAnObserverNothingIsKept(t *testing.T) {
	e, log := held(t, engine.WhenDurable)
	log.held = false
	mustAdvance(t, e, pod("a", "1", ""))
	<-e.Appended()
	if n := e.Uncollected(); n > 0 {
		t.Errorf("%d commits are kept", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
