package engine_test

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
)

const year = 365 * 24 * time.Hour

// TestWhateverTheClockSaysTimeNeverGoesBackAndTheReplayIsIdentical has the clock jump by up to ten years, forward or
// back, before each step of the story, and at restarts between them. The entries' times never go back. They are the
// clock's times wherever the clock is not behind them. The log is decided again in the same way. Recovery from it gives
// the state of the engine that wrote it.
func TestWhateverTheClockSaysTimeNeverGoesBackAndTheReplayIsIdentical(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		jump := rapid.Custom(func(r *rapid.T) time.Duration {
			// Most jumps that clocks make are small; all must be right.
			limit := rapid.SampledFrom([]time.Duration{10 * year, 10 * year, time.Hour, 2 * time.Second}).Draw(r,
				"limit")
			return time.Duration(rapid.Int64Range(-int64(limit), int64(limit)).Draw(r, "jump"))
		})
		story := gangStory()
		for _, m := range story {
			if rapid.IntRange(0, 4).Draw(r, "restart") == 0 {
				w.now = w.now.Add(jump.Draw(r, "at the restart"))
				w.reopen()
				w.answers = nil
			}
			w.clockSteps(r, w.now.Add(jump.Draw(r, "at the step")), m.inputs)
		}
		w.clockSteps(r, w.now.Add(jump.Draw(r, "at the end")), nil)
		w.wantTimesInOrder(r)
		w.wantIdentical(r)
	})
}

// clockSteps steps the engine at the clock's time, answers its effects in the next step, and checks the times of the
// new entries.
func (w *world) clockSteps(r *rapid.T, clock time.Time, inputs []eventlog.Payload) {
	before := w.engine.Machine().Now()
	first := w.engine.Machine().Seq() + 1
	effects, err := effectsOf(w.engine.Step(context.Background(), clock, append(w.answers, inputs...)))
	if err != nil {
		r.Fatal(err)
	}
	w.now, w.answers = clock, answersTo(effects)
	for e, err := range w.log.Read(context.Background(), first) {
		if err != nil {
			r.Fatal(err)
		}
		want := before // only inputs let time pass
		if e.Kind() != eventlog.KindDecision {
			want = max(before, eventlog.TimeOf(clock))
		}
		if e.Time != want {
			r.Fatalf("the clock says %s and the entry before is of %s: entry %d is of %s", clock, before, e.Seq, e.Time)
		}
		before = want
	}
}

func (w *world) wantTimesInOrder(r *rapid.T) {
	var last eventlog.Time
	for _, e := range w.entries() {
		if e.Time < last {
			r.Fatalf("entry %d is of %s, the one before it of %s", e.Seq, e.Time, last)
		}
		last = e.Time
	}
}

// wantIdentical decides the log again, and recovers from it.
func (w *world) wantIdentical(r *rapid.T) {
	report, err := replay.Verify(
		context.Background(),
		w.log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()},
	)
	if err != nil || !report.Identical() || report.Undecided {
		r.Fatalf("the replay diverges: %v %+v", err, report)
	}
	recovered := scheduler.New(plugins.NewRegistry())
	for _, e := range w.entries() {
		if err := recovered.Apply(e); err != nil {
			r.Fatal(err)
		}
	}
	if recovered.Hash() != w.engine.Machine().Hash() {
		r.Fatal("the log gives another state than the one of the engine that wrote it")
	}
}

// TestAJumpForwardDoesNoMoreThanEndWhatWasWaitingForTime bounds the effects of a jump of ten years. Everything that
// waits for time (a backoff, a gang's wait, the flush of unschedulable pods) ends at once, and once, as it would have
// ended by itself. Bound pods, and pods that are being bound, keep their nodes.
func TestAJumpForwardDoesNoMoreThanEndWhatWasWaitingForTime(t *testing.T) {
	late, inTime := newWorld(t), newWorld(t)
	for _, w := range []*world{late, inTime} {
		w.mustStep(moment{
			inputs: []eventlog.Payload{node("n1", "4"), node("n2", "4"), pod("small", "3", ""), pod("wide", "16", "")}})
		w.mustStep(moment{
			inputs: []eventlog.Payload{group("red", 2), pod("red-0", "3", "red"), pod("red-1", "3", "red")}})
		w.mustStep(moment{inputs: []eventlog.Payload{node("n3", "2")}})
	}
	before := late.engine.Machine().Seq()
	late.mustStep(moment{after: 10 * year})
	for range 100 { // the other one is woken while there is work at some time
		wake, ok := inTime.engine.Machine().Wake()
		if !ok || wake.Sub(inTime.now) > time.Hour || inTime.now.Sub(start) > time.Hour {
			break
		}
		inTime.mustStep(moment{after: wake.Sub(inTime.now)})
	}
	if got, want := placements(late.engine.Machine()),
		placements(inTime.engine.Machine()); got["small"] != want["small"] ||
		got["wide"] != want["wide"] || got["red-0"] != want["red-0"] || got["red-1"] != want["red-1"] {
		t.Errorf("after the jump: %v; woken in time: %v", got, want)
	}
	decided := map[string]int{}
	for _, e := range late.entries()[before:] {
		if d, ok := e.Payload.(*eventlog.Decision); ok {
			decided[d.Name]++
		}
	}
	if len(decided) == 0 {
		t.Error("the jump ended nothing: nothing was tested")
	}
	for name, n := range decided {
		if n > 1 {
			t.Errorf("the jump makes %d decisions on %s, want one at the most", n, name)
		}
	}
	verify(t, late.log.kept, false)
}

// TestWhileTheClockIsBehindTheLogInputsAreDecidedAndOnlyTimersWait has a clock that jumps forward and back. The log's
// time does not change until the clock has reached it again, and timers wait. Everything else continues.
func TestWhileTheClockIsBehindTheLogInputsAreDecidedAndOnlyTimersWait(t *testing.T) {
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4")}})
	w.mustStep(moment{after: 10 * year, inputs: []eventlog.Payload{node("n2", "2"), pod("wide", "16", "")}})
	ahead := w.engine.Machine().Now()
	w.now = start.Add(time.Minute) // the clock is put right
	for i, cpu := range []string{"1", "1"} {
		if effects := w.mustStep(
			moment{after: time.Second, inputs: []eventlog.Payload{pod([]string{"a", "b"}[i], cpu, "")}}); len(
			effects) != 1 {
			t.Fatalf("with the clock behind the log a pod that fits is not placed: %v", effects)
		}
	}
	w.mustStep(moment{inputs: []eventlog.Payload{node("n3", "16")}})
	if now := w.engine.Machine().Now(); now != ahead {
		t.Errorf("the log's time is %s, want %s as long as the clock is behind that", now, ahead)
	}
	wake, ok := w.engine.Machine().Wake()
	if !ok || !wake.After(ahead.Std()) || wake.After(ahead.Std().Add(time.Minute)) {
		t.Fatalf("wide, which was tried in vain, is to be tried again at %s %v, want within a minute of %s", wake, ok,
			ahead)
	}
	w.now = wake
	w.answers = nil
	if effects := w.mustStep(moment{}); len(effects) != 1 || effects[0].Name != "wide" {
		t.Errorf("once the clock has reached the log's time the effects are %v, want wide's", effects)
	}
	verify(t, w.log.kept, false)
}

// TestAClockBeyondTheLogsRangeStopsNothing are clocks before 1970 and after 2262. Neither stops the engine or
// turns time back.
func TestAClockBeyondTheLogsRangeStopsNothing(t *testing.T) {
	for name, clock := range map[string]time.Time{ // any order: the cases are independent
		"of 1850": time.Date(1850, 1, 1, 0, 0, 0, 0, time.UTC),
		"of 1970": time.Unix(0, 0),
		"of 2400": time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC),
		"of none": {},
		"at last": time.Unix(0, math.MaxInt64),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4"), pod("wide", "16", "")}})
			w.now = clock
			w.mustStep(moment{inputs: []eventlog.Payload{pod("a", "1", "")}})
			w.answers = nil
			w.reopen()
			w.mustStep(moment{})
			w.mustStep(moment{inputs: []eventlog.Payload{node("n2", "1")}})
			if at := w.engine.Machine().Cluster().Pods().Named("ml", "a"); at == nil || at.Object.Spec.NodeName == "" &&
				at.Node == "" {
				t.Errorf("the pod a is not placed")
			}
			if now := w.engine.Machine().Now(); now < eventlog.TimeOf(start) {
				t.Errorf("the log's time is %s", now)
			}
			verify(t, w.log.kept, false)
		})
	}
}
