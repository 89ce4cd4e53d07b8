package engine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestARecordingEpochHasInputsOnly gives an engine that records nodes and pods that fit, and lets time pass. It decides
// nothing, gives nothing out, and asks for no other call. Its log is verified, with nothing left to decide. The next
// epoch decides, and places the pods.
func TestARecordingEpochHasInputsOnly(t *testing.T) {
	cfg := framework.DefaultConfig()
	cfg.Recording = true
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := &faultyLog{kept: eventlog.NewMemory()}
	e, err := engine.Open(context.Background(), log, start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	step := func(after time.Duration, inputs ...eventlog.Payload) {
		t.Helper()
		steps++
		ready, err := e.Step(t.Context(), start.Add(after), inputs)
		if err != nil {
			t.Fatal(err)
		}
		if len(ready.Effects)+len(ready.Withdrawals) > 0 || ready.Busy || !ready.Wake.IsZero() {
			t.Errorf("step %d gives out %+v", steps, ready)
		}
	}
	step(0, node("n1", "4"), pod("a", "1", ""), pod("b", "16", ""))
	step(time.Second)
	step(time.Hour, group("red", 2), pod("red-0", "1", "red"), pod("red-1", "1", "red"))
	step(2 * time.Hour)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	entries := uint64(0)
	for x, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		entries++
		switch x.Payload.(type) {
		case *eventlog.Decision, *eventlog.Tick:
			t.Errorf("entry %d is a %s", x.Seq, x.Kind())
		}
		if x.Settled {
			t.Errorf("entry %d says that nothing was left to decide", x.Seq)
		}
	}
	if entries != 7 {
		t.Errorf("the log has %d entries, want the epoch's beginning and 6 inputs", entries)
	}
	verify(t, log.kept, false)

	next := open(t, log, start.Add(3*time.Hour))
	ready, err := next.Step(t.Context(), start.Add(3*time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(ready.Effects) != 3 {
		t.Errorf("the epoch that decides gives out %d binds, want those of a, red-0 and red-1", len(ready.Effects))
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBeforeSeesEachEntryWithTheStateBeforeIt counts the entries that Options.Before sees. Each comes once, in order,
// when the state does not have it yet. Entries that a recovery reads are not among them.
func TestBeforeSeesEachEntryWithTheStateBeforeIt(t *testing.T) {
	cfg := framework.DefaultConfig()
	cfg.Recording = true
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := &faultyLog{kept: eventlog.NewMemory()}
	for epoch := range uint64(2) {
		var seen []uint64
		e, err := engine.Open(t.Context(), log, start, engine.Options{
			Registry: plugins.NewRegistry(), Config: config, Version: "test",
			Before: func(m *scheduler.Machine, e eventlog.Entry) {
				if m.Seq() != e.Seq-1 {
					t.Errorf("entry %d is seen with the state of entry %d", e.Seq, m.Seq())
				}
				seen = append(seen, e.Seq)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step(t.Context(), start, []eventlog.Payload{node("n1", "4"), pod("a", "1", "")}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		first := 3*epoch + 1
		if want := []uint64{first, first + 1, first + 2}; !slices.Equal(seen, want) {
			t.Errorf("epoch %d: seen are %v, want %v", epoch+1, seen, want)
		}
	}
}
