package extender_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim"
)

// entries returns the payloads of the log as JSON, without the beginnings of epochs.
func (w *world) entries() (all []eventlog.Entry) {
	w.t.Helper()
	last, err := w.log.Last()
	if err != nil {
		w.t.Fatal(err)
	}
	for e, err := range w.log.Read(context.Background(), 1) {
		if err != nil {
			w.t.Fatal(err)
		}
		if all = append(all, e); e.Seq == last {
			break
		}
	}
	return all
}

// outcomes are the kinds of the entries, with the outcome and the pod of each decision, without the beginnings of
// epochs.
func outcomes(entries []eventlog.Entry) (words []string) {
	for _, e := range entries {
		switch p := e.Payload.(type) {
		case *eventlog.EpochStarted:
		case *eventlog.Decision:
			words = append(words, p.Name+" "+p.Outcome.String()+" "+p.Node+p.Nominated)
		default:
			words = append(words, e.Kind().String())
		}
	}
	return words
}

// TestAResumedSimulationTakesAnswersFromItsLog cuts a log behind each of its entries and resumes the simulation. The
// extender is asked only questions that the log does not answer, and the end is the same.
func TestAResumedSimulationTakesAnswersFromItsLog(t *testing.T) {
	s := serve(t, &server{filter: keeping("machine2", "machine3", "machine4"), preempt: leaving("machine3")})
	manifests := fullWorld() + highYAML("higher")
	options := sim.Options{Until: time.Minute}
	whole := playWith(t, one(s, ", preemptVerb: preempt"), manifests, options)
	entries := whole.entries()
	want := outcomes(entries)
	for cut := 1; cut <= len(entries); cut++ {
		left := 0
		for _, e := range entries[cut:] {
			if e.Kind() == eventlog.KindExtenderResult {
				left++
			}
		}
		again := *whole
		again.t, again.log = t, eventlog.NewMemory()
		if err := again.log.Append(t.Context(), 0, slices.Clone(entries[:cut])); err != nil {
			t.Fatal(err)
		}
		s.calls.Store(0)
		again.run(options, true)
		if calls := int(s.calls.Load()); calls != left {
			t.Errorf("behind entry %d the extender is asked %d times, want %d", cut, calls, left)
		}
		if got := outcomes(again.entries()); !slices.Equal(got, want) {
			t.Fatalf("behind entry %d it goes on as\n%v\nwant\n%v", cut, got, want)
		}
	}
}
