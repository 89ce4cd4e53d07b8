package explain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestATraceIsThatOfTheRecordedCycle asks for the trace of every decision of a small world, from the log's beginning
// and from the state right before it. The trace adds up to the recorded decision, and has every node.
func TestATraceIsThatOfTheRecordedCycle(t *testing.T) {
	s := transcripts.New(t)
	for _, line := range []string{
		"node n1 cpu=4", "node n2 cpu=8 label=rack:a", "node n3 cpu=8 taint=maintenance", "node n4 cpu=2 label=rack:a",
		"pod ml/a cpu=1", "pod ml/b cpu=7", "pod ml/c cpu=1 selector=rack:a", "pod ml/d cpu=9",
		"pod ml/low cpu=3 priority=1",
		"group ml/g min=2 topology=rack", "pod ml/g-0 cpu=1 group=g", "pod ml/g-1 cpu=1 group=g",
		"pod ml/e cpu=4 priority=5", "advance 5s", "delete pods ml/b", "advance 20s",
	} {
		s.Step(line)
	}
	traced := map[string]int{}
	for e, err := range s.Log().Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		d, ok := e.Payload.(*eventlog.Decision)
		if !ok {
			continue
		}
		opts := explain.Options{AtSeq: e.Seq, Trace: true}
		whole := tracedDecision(t, wholeLog(s.Log()), d, opts)
		later := storySource(s.Log())
		later.Known = e.Seq - 1
		later.State = func(uint64) (*scheduler.Machine, error) { return wholeLog(s.Log()).At(t.Context(), e.Seq-1) }
		if cut := tracedDecision(t, later.Log(), d, opts); !cmp.Equal(whole.Trace, cut.Trace) {
			t.Errorf("entry %d: from the state before it another trace is told:\n%s", e.Seq,
				cmp.Diff(whole.Trace, cut.Trace))
		}
		checkTrace(t, d, whole)
		traced[d.Outcome.String()]++
	}
	for _, outcome := range []string{"Scheduled", "Waiting", "Unschedulable"} {
		if traced[outcome] == 0 {
			t.Errorf("no decision is %s: %v", outcome, traced)
		}
	}
}

// tracedDecision explains the pod of a decision at its entry.
func tracedDecision(t *testing.T, log *history.Log, d *eventlog.Decision, opts explain.Options) *answer.Decision {
	t.Helper()
	x, err := explain.Pod(context.Background(), log, d.Namespace, d.Name, opts)
	if err != nil {
		t.Fatal(err)
	}
	if x.Decision == nil || x.Decision.Trace == nil || x.Untraced != "" {
		t.Fatalf("entry %d: no trace of %s: %q", opts.AtSeq, d.Name, x.Untraced)
	}
	return x.Decision
}

func checkTrace(t *testing.T, d *eventlog.Decision, x *answer.Decision) {
	t.Helper()
	if len(x.Trace.Scored) > 0 != (d.Feasible > 0) || d.Node != "" && (x.Trace.Scored[0].Node != d.Node ||
		x.Trace.Scored[0].Total != d.Score) {
		t.Errorf("entry %d: placed on %s with %d, the trace begins with %+v", x.Seq, d.Node, d.Score, x.Trace.Scored)
	}
	for _, n := range x.Trace.Scored {
		var sum int64
		for _, p := range n.Plugins {
			sum += p.Weighted
		}
		if sum != n.Total {
			t.Errorf("entry %d: the scores of %s are %d together, not %d", x.Seq, n.Node, sum, n.Total)
		}
	}
	type reason struct{ Plugin, Code, Words string }
	counted, recorded := map[reason]int64{}, map[reason]int64{}
	nodes := len(x.Trace.Scored) + len(x.Trace.Refused) + len(x.Trace.Unscored) + len(x.Trace.NotTried)
	for _, n := range x.Trace.Refused {
		for _, words := range n.Words {
			counted[reason{n.Plugin, n.Code, words}]++
		}
	}
	for _, r := range d.Rejections {
		if r.Nodes > 0 {
			recorded[reason{r.Plugin, r.Code, r.Reason}] = r.Nodes
		}
	}
	if diff := cmp.Diff(recorded, counted); diff != "" {
		t.Errorf("entry %d: the refusals differ (- recorded, + in the trace):\n%s", x.Seq, diff)
	}
	if nodes != x.Nodes {
		t.Errorf("entry %d: the trace has %d nodes, and there were %d", x.Seq, nodes, x.Nodes)
	}
}

// TestWhatCannotBeTracedIsSaid explains a decision on another pod than this program would decide on.
func TestWhatCannotBeTracedIsSaid(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=4")
	s.Step("pod ml/a cpu=1; pod ml/b cpu=1")
	var b *eventlog.Decision
	for e, err := range s.Log().Read(context.Background(), 1) {
		if d, ok := e.Payload.(*eventlog.Decision); ok && err == nil && d.Name == "b" {
			b = d
		}
	}
	source := stopped(s.Log(), 5) // the epoch, the node, two pods, and the decision on a
	source.Change = func(d *eventlog.Decision) {
		if d.Name == "a" {
			*d = *b
			d.Cycle = 1
		}
	}
	x, err := explain.Pod(context.Background(), source.Log(), "ml", "b", explain.Options{Trace: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Decision; d == nil || d.Trace != nil || d.Diverged == nil ||
		!strings.HasPrefix(d.Untraced, "this program decides something else at this entry") {
		t.Errorf("the decision is %+v", x.Decision)
	}
}
