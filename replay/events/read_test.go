package events_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
)

// read returns the events of a range as JSON, one for each.
func read(t interface{ Fatal(...any) }, s *replaytest.Source, f events.Filter, first, last uint64, cuts ...uint64,
) (lines []string) {
	reading := events.NewReading(events.NewList(f, func(e *events.Event) error {
		line, err := json.Marshal(e)
		lines = append(lines, string(line))
		return err
	}))
	err := reading.Range(context.Background(), s.Log(), first, last)
	for _, cut := range cuts {
		if err == nil {
			err = reading.Follow(context.Background(), s.Log(), cut)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestTheEventsAreTheSameWithAnIndexAndSnapshots asks for ranges and names of the demo, read in each way.
func TestTheEventsAreTheSameWithAnIndexAndSnapshots(t *testing.T) {
	r := replaytest.Record(t, 50)
	plain := replaytest.NewSource(r.Log, plugins.NewRegistry())
	quick := replaytest.NewSource(r.Log, plugins.NewRegistry())
	quick.Keep(r.Snapshots, plugins.NewRegistry())
	quick.Lookup = replaytest.NewIndex(t, r.Log, 32)
	if n := len(read(t, plain, events.Filter{}, 1, r.Last)); n < 20 {
		t.Fatalf("the demo has %d events", n)
	}
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.Uint64Range(1, r.Last).Draw(rt, "first")
		last := rapid.Uint64Range(first, r.Last).Draw(rt, "last")
		var f events.Filter
		switch rapid.IntRange(0, 2).Draw(rt, "names") {
		case 0:
			f.Gang = rapid.SampledFrom(r.Groups).Draw(rt, "gang")
		case 1:
			f.Pod = rapid.SampledFrom(r.Pods).Draw(rt, "pod")
		}
		if a, b := read(rt, plain, f, first, last), read(rt, quick, f, first, last); !slices.Equal(a, b) {
			rt.Fatalf("%+v from %d to %d:\nall entries: %v\nby index:    %v", f, first, last, a, b)
		}
	})
}

// TestARangeThatIsFollowedHasTheEventsOfTheWhole reads a log in steps, as it grows. Nothing is folded across a step, so
// the events are compared by the number of pods of each kind.
func TestARangeThatIsFollowedHasTheEventsOfTheWhole(t *testing.T) {
	r := replaytest.Record(t, 1<<40)
	plain := replaytest.NewSource(r.Log, plugins.NewRegistry())
	count := func(lines []string) map[events.Kind]int {
		pods := map[events.Kind]int{}
		for _, line := range lines {
			var e events.Event
			if err := json.Unmarshal([]byte(line), &struct {
				Kind *events.Kind
				Pods *int
			}{&e.Kind, &e.Pods}); err != nil {
				t.Fatal(err)
			}
			pods[e.Kind] += e.Pods
		}
		return pods
	}
	want := count(read(t, plain, events.Filter{}, 1, r.Last))
	var cuts []uint64
	for at := uint64(40); at < r.Last; at += 40 {
		cuts = append(cuts, at)
	}
	got := count(read(t, plain, events.Filter{}, 1, 10, append(cuts, r.Last)...))
	for _, k := range events.Kinds() {
		if got[k] != want[k] {
			t.Errorf("%d pods of events of kind %s in steps, %d at once", got[k], k, want[k])
		}
	}
}
