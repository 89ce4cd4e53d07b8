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
)

// TestACallDecidesNoMoreThanItMay gives a backlog of five pods to an engine that makes two decisions a call. The
// effects of the first two come while the others wait, and inputs are taken in between. The log replays like any other.
func TestACallDecidesNoMoreThanItMay(t *testing.T) {
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	log := eventlog.NewMemory()
	e, err := engine.Open(context.Background(), log, start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", Decisions: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	now := start
	step := func(inputs ...eventlog.Payload) (bound []string, busy bool) {
		t.Helper()
		now = now.Add(10 * time.Second)
		ready, err := e.Step(context.Background(), now, inputs)
		effects, err := effectsOf(ready, err)
		if err != nil {
			t.Fatal(err)
		}
		return names(effects), ready.Busy
	}
	for i, call := range []struct {
		inputs []eventlog.Payload
		want   []string
		busy   bool
	}{
		{[]eventlog.Payload{node("n1", "4"), pod("a", "1", ""), pod("b", "1", ""), pod("c", "1", "")},
			[]string{"a", "b"}, true},
		{[]eventlog.Payload{pod("d", "1", ""), pod("e", "1", "")}, []string{"c", "d"}, true},
		{nil, nil, false}, // e does not fit
		{nil, nil, false},
		{[]eventlog.Payload{node("n2", "4")}, []string{"e"}, false},
	} {
		if got, busy := step(call.inputs...); !slices.Equal(got, call.want) || busy != call.busy {
			t.Errorf("call %d: effects %v, busy %t, want %v, %t", i+1, got, busy, call.want, call.busy)
		}
	}
	verify(t, log, false)
}

// TestWhatIsNotedIsInTheLogAndDecidedByTheNextEpoch notes room for a pod that waits: nothing is decided before the next
// epoch, and no decision is missing from the log.
func TestWhatIsNotedIsInTheLogAndDecidedByTheNextEpoch(t *testing.T) {
	e, log := held(t, engine.WhenDurable)
	log.held = false
	if effects := mustAdvance(t, e, pod("wide", "16", "")); len(effects) > 0 {
		t.Fatalf("effects %v of a pod that fits nowhere", names(effects))
	}
	cycle := e.Machine().Cycle()
	for range 2 { // of which the second comes unsettled
		if _, err := e.Note(context.Background(), start, []eventlog.Payload{node("n2", "32")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.Machine().Cycle(); got != cycle {
		t.Errorf("%d decisions were made of what was only to be noted", got-cycle)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	next := openReleasing(t, log, engine.WhenDurable, nil)
	effects, err := effectsOf(next.Step(context.Background(), start.Add(10*time.Second), nil))
	if err != nil || !slices.Equal(names(effects), []string{"wide"}) {
		t.Errorf("the next epoch's effects are %v, %v, want the bind of wide", names(effects), err)
	}
	verify(t, log.Memory, false)
}
