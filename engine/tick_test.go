package engine_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestATickIsLoggedOnlyIfTimeMakesWork(t *testing.T) {
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4"), pod("wide", "16", "")}})
	w.mustStep(moment{inputs: []eventlog.Payload{node("n2", "16")}}) // wide backs off
	wake, ok := w.engine.Machine().Wake()
	if !ok || !wake.After(w.now) {
		t.Fatalf("the engine wakes at %v %v", wake, ok)
	}
	last, appends := w.engine.Machine().Seq(), len(w.log.appends)
	for _, now := range []time.Time{w.now, w.now.AddDate(-1, 0, 0), wake.Add(-1)} {
		if effects, err := effectsOf(w.engine.Step(context.Background(), now, nil)); err != nil || effects != nil {
			t.Fatalf("a step before there is work gives %v, %v", effects, err)
		}
	}
	if w.engine.Machine().Seq() != last || len(w.log.appends) != appends {
		t.Fatalf("time that makes no work is logged")
	}
	effects, err := effectsOf(w.engine.Step(context.Background(), wake, nil))
	if err != nil || len(effects) != 1 {
		t.Fatalf("when the backoff ends there are the effects %v, %v", effects, err)
	}
	all := w.entries()
	if tick := all[last]; tick.Kind() != eventlog.KindTick || tick.Time != eventlog.TimeOf(wake) || !tick.Settled {
		t.Errorf("entry %d is %+v, want a tick of %s", last+1, tick, wake)
	}
	ticks := 0
	for _, e := range all {
		if e.Kind() == eventlog.KindTick {
			ticks++
		}
	}
	if ticks != 1 {
		t.Errorf("the log has %d ticks, want 1", ticks)
	}
}

// TestNoSecondTickForATimeThatTheLogHasReached ends a log between the Tick of a deadline and the Decision that releases
// the member which waited.
func TestNoSecondTickForATimeThatTheLogHasReached(t *testing.T) {
	member := func(name, cpu string) eventlog.Payload {
		p := pod(name, cpu, "").(*eventlog.Upserted)
		p.Object.(*v1.Pod).Annotations = map[string]string{"gang.scheduling.koordinator.sh/name": "g",
			"gang.scheduling.koordinator.sh/min-available": "2", "gang.scheduling.koordinator.sh/mode": "NonStrict"}
		return p
	}
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n", "4"), member("fits", "1"), member("wide", "16")}})
	waiting := w.entries()[w.engine.Machine().Seq()-2].Payload.(*eventlog.Decision)
	if waiting.Outcome != eventlog.Waiting {
		t.Fatalf("the outcome of %s is %s, want Waiting", waiting.UID, waiting.Outcome)
	}
	deadline := waiting.WaitUntil.Std()
	tick := eventlog.Entry{Seq: w.engine.Machine().Seq() + 1, Epoch: 1, Time: waiting.WaitUntil,
		Payload: &eventlog.Tick{}}
	if err := w.log.kept.Append(context.Background(), tick.Seq-1, []eventlog.Entry{tick}); err != nil {
		t.Fatal(err)
	}
	w.now = deadline
	w.reopen()
	w.mustStep(moment{})
	for _, e := range w.entries()[tick.Seq:] {
		if e.Kind() == eventlog.KindTick {
			t.Errorf("entry %d is another Tick of %s", e.Seq, e.Time)
		}
	}
	if d, ok := w.entries()[tick.Seq+1].Payload.(*eventlog.Decision); !ok || len(d.Rejected) != 1 {
		t.Errorf("the Decision behind the Tick is %+v, want the release of the waiting member", d)
	}
}
