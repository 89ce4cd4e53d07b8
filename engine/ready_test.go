package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// feed keeps the contents of every Ready, and checks the contract of engine.Ready.
type feed struct {
	t       testing.TB
	log     engine.Log
	release engine.Release
	entries []eventlog.Entry
	effects []scheduler.Effect
}

func (f *feed) take(r engine.Ready) {
	f.t.Helper()
	durable, err := f.log.Last()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range r.Commits {
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
	}
	for _, x := range r.Effects {
		if x.Seq > f.last() && f.release == engine.WhenDurable {
			f.t.Errorf("an effect of entry %d comes before entry %d", x.Seq, f.last()+1)
		}
		if x.Earlier != (x.Seq < f.entries[0].Seq) {
			f.t.Errorf("the epoch begins with entry %d; earlier is %t of an effect of entry %d", f.entries[0].Seq,
				x.Earlier, x.Seq)
		}
		f.effects = append(f.effects, x.Effect)
	}
}

// last is the last entry that was observed, 0 for none.
func (f *feed) last() uint64 {
	if len(f.entries) == 0 {
		return 0
	}
	return f.entries[len(f.entries)-1].Seq
}

// advance has an engine take inputs in.
func (f *feed) advance(e *engine.Engine, inputs ...eventlog.Payload) []string {
	f.t.Helper()
	r, err := e.Advance(context.Background(), start, inputs)
	if err != nil {
		f.t.Fatal(err)
	}
	f.take(r)
	effects, _ := effectsOf(r, nil)
	return names(effects)
}

func openObserved(t testing.TB, log engine.Log, release engine.Release, store snapshot.Store) (*engine.Engine,
	*feed) {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(context.Background(), log, start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
		Release: release, Clock: time.Now,
		Snapshots: store, SnapshotEvery: 3, Report: func(message string) { t.Log(message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, &feed{t: t, log: log, release: release}
}

// TestTheFeedHasEveryEntryOfTheEpochOnceAndInOrder tells the story to engines of every kind, each in two epochs.
func TestTheFeedHasEveryEntryOfTheEpochOnceAndInOrder(t *testing.T) {
	type call func(*engine.Engine, context.Context, time.Time, []eventlog.Payload) (engine.Ready, error)
	step, advance := (*engine.Engine).Step, (*engine.Engine).Advance
	for _, tc := range []struct {
		name    string
		call    call
		waits   bool
		release engine.Release
		store   snapshot.Store
	}{
		{"Step", step, true, engine.WhenDurable, nil},
		{"Advance", advance, false, engine.WhenDurable, nil},
		{"Advance, effects when decided", advance, false, engine.WhenDecided, nil},
		{"Step, with snapshots", step, true, engine.WhenDurable, &memoryStore{kept: map[uint64][]byte{}}},
		{"Advance, with snapshots", advance, false, engine.WhenDurable, &memoryStore{kept: map[uint64][]byte{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := eventlog.NewMemory()
			now, moments := start, gangStory()
			for _, part := range [][]moment{moments[:6], moments[6:]} {
				before, _ := log.Last()
				e, f := openObserved(t, log, tc.release, tc.store)
				var answers []eventlog.Payload
				for _, m := range part {
					now = now.Add(m.after)
					ready, err := tc.call(e, context.Background(), now, append(answers, m.inputs...))
					if err != nil {
						t.Fatal(err)
					}
					f.take(ready)
					effects, _ := effectsOf(ready, nil)
					answers = binds(effects)
					if durable, _ := log.Last(); tc.waits && f.last() != durable {
						t.Errorf("after a step the feed ends with entry %d, the log with %d", f.last(), durable)
					}
				}
				ready, err := e.Sync()
				if err != nil {
					t.Fatal(err)
				}
				f.take(ready)
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

// heldObserved is held with a feed.
func heldObserved(t testing.TB) (*engine.Engine, *heldLog, *feed) {
	t.Helper()
	log := newHeldLog()
	e, f := openObserved(t, log, engine.WhenDurable, nil)
	f.advance(e, node("n1", "4"))
	ready, err := e.Sync()
	if err != nil {
		t.Fatal(err)
	}
	f.take(ready)
	<-e.Appended()
	log.held = true
	return e, log, f
}

func TestNothingIsObservedBeforeItIsDurable(t *testing.T) {
	e, log, f := heldObserved(t)
	before := f.last()
	f.advance(e, pod("a", "1", ""))
	<-log.entered
	f.advance(e, pod("b", "1", ""))
	if f.last() != before {
		t.Fatalf("entry %d is observed while its append is under way", f.last())
	}
	log.goOn <- nil
	<-e.Appended()
	if effects := f.advance(e); !slices.Equal(effects, []string{"a"}) || f.last() != before+2 {
		t.Errorf("after the first append entry %d is observed, want %d; effects %v", f.last(), before+2, effects)
	}
	log.let(nil)
	ready, err := e.Sync()
	if f.take(ready); err != nil || f.last() != before+4 {
		t.Errorf("after Sync (%v) the feed ends with entry %d, want %d", err, f.last(), before+4)
	}
}

func TestNothingOfAFailedAppendIsObserved(t *testing.T) {
	for _, how := range []error{errDisk, errKept} { // whether the log has it is not known
		e, log, f := heldObserved(t)
		before := f.last()
		f.advance(e, pod("a", "1", ""))
		<-log.entered
		f.advance(e, pod("b", "1", ""))
		log.goOn <- nil
		if n := log.let(how); n != 2 {
			t.Fatalf("%d entries in the second append", n)
		}
		var failed *engine.AppendError
		ready, err := e.Sync()
		if !errors.As(err, &failed) || failed.First != before+3 {
			t.Fatalf("the error is %v", err)
		}
		f.take(ready)
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if f.last() != before+2 {
			t.Errorf("the feed ends with entry %d, want %d, the last one before the append that failed", f.last(),
				before+2)
		}
		if len(f.effects) > 0 {
			t.Errorf("effects %v are given out with an error", names(f.effects))
		}
	}
}

func TestAStepThatIsBrokenOffIsObservedAsFarAsItIsDurable(t *testing.T) {
	log := eventlog.NewMemory()
	e, f := openObserved(t, log, engine.WhenDurable, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ready, err := e.Step(ctx, start, []eventlog.Payload{node("n1", "4"), pod("a", "1", "")})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.take(ready)
	if last, _ := log.Last(); last != 3 || f.last() != last || len(f.effects) > 0 {
		t.Errorf("the log ends with entry %d, the feed with %d; effects %v", last, f.last(), names(f.effects))
	}
}
