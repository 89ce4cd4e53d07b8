package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// recorder is a scheduler that keeps a log of another one's inputs, with a decision for every bind.
type recorder struct {
	Scheduler
	entries []eventlog.Entry
}

func (r *recorder) append(now time.Time, p eventlog.Payload) {
	r.entries = append(r.entries,
		eventlog.Entry{Seq: uint64(len(r.entries) + 1), Epoch: 1, Time: eventlog.TimeOf(now), Payload: p})
}

func (r *recorder) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (engine.Ready, error) {
	if len(inputs) == 0 {
		r.append(now, &eventlog.Tick{})
	}
	for _, in := range inputs {
		if up, ok := in.(*eventlog.Upserted); ok {
			in = &eventlog.Upserted{Resource: up.Resource, Object: eventlog.Trim(up.Resource, up.Object)}
		}
		r.append(now, in)
	}
	ready, err := r.Scheduler.Step(ctx, now, inputs)
	for i, e := range ready.Effects {
		r.append(now, &eventlog.Decision{
			Cycle: uint64(len(r.entries)) + uint64(i), Namespace: e.Namespace, Name: e.Name, UID: e.UID,
			Outcome: eventlog.Scheduled, Node: e.Node,
		})
	}
	return ready, err
}

// export writes the log as lines.
func (r *recorder) export(t *testing.T) string {
	var text []byte
	for _, e := range r.entries {
		var err error
		if text, err = eventlog.AppendJSON(text, e); err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
	}
	return string(text)
}

func TestALogOfTheDemoRunsAsTheDemoRan(t *testing.T) {
	nodes, w, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	first := newFirstFit(t)
	r := &recorder{Scheduler: first}
	want := run(t, r, nodes, w, Options{})

	nodes, w, err = workload.Parse("F", strings.NewReader(r.export(t)))
	if err != nil {
		t.Fatal(err)
	}
	again := newFirstFit(t)
	got := run(t, again, nodes, w, Options{})
	if first.text() != again.text() {
		t.Errorf("the first run:\n%s\nthe second:\n%s", first.text(), again.text())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("summaries: got %+v, want %+v", got, want)
	}
}
