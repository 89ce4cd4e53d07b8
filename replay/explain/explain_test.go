package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// tampered reads a log with every decision passed through change.
func tampered(read explain.Reader, change func(*eventlog.Decision)) explain.Reader {
	return func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
		return func(yield func(eventlog.Entry, error) bool) {
			for e, err := range read(ctx, from) {
				if d, ok := e.Payload.(*eventlog.Decision); ok {
					change(d)
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func TestADecisionThatThisProgramWouldNotMakeIsExplainedAsRecordedAndSaysSo(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=4")
	s.Step("node n2 cpu=8")
	s.Step("pod ml/a cpu=1")
	read := tampered(s.Log().Read, func(d *eventlog.Decision) { d.Node, d.Score = "n1", 1 })
	x, err := explain.Pod(context.Background(), stopAfter(read, 4+1), "ml", "a",
		explain.Options{Registry: transcripts.Registry()})
	if err != nil {
		t.Fatal(err)
	}
	d := x.Decision
	if d.Node != "n1" || d.Winner.Node != "n1" || x.Node != "n1" {
		t.Errorf("explained is %s with the scores of %s, not what was recorded", d.Node, d.Winner.Node)
	}
	if d.Diverged == nil || d.Diverged.Field != "node" {
		t.Errorf("the divergence is %+v, want one in node", d.Diverged)
	}
}

// stopAfter reads only the first n entries.
func stopAfter(read explain.Reader, n uint64) explain.Reader {
	return func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
		return func(yield func(eventlog.Entry, error) bool) {
			for e, err := range read(ctx, from) {
				if e.Seq > n || !yield(e, err) {
					return
				}
			}
		}
	}
}

func TestWhatComesAfterThePointInQuestionDoesNotChangeTheAnswer(t *testing.T) {
	s := transcripts.New(t)
	for _, line := range []string{
		"node n1 cpu=4", "node n2 cpu=2", "pod ml/a cpu=3", "group ml/g min=2", "pod ml/g-0 cpu=2 group=g",
		"pod ml/g-1 cpu=2 group=g", "advance 5s", "delete pods ml/a", "advance 20s", "pod ml/b cpu=1",
		"delete pods ml/g-0", "pod ml/a cpu=1",
	} {
		s.Step(line)
	}
	last, err := s.Log().Last()
	if err != nil {
		t.Fatal(err)
	}
	said := func(read explain.Reader, at uint64) string {
		opts := explain.Options{Registry: transcripts.Registry(), AtSeq: at}
		pod, podErr := explain.Pod(context.Background(), read, "ml", "a", opts)
		group, groupErr := explain.Group(context.Background(), read, "ml", "g", opts)
		b, err := json.Marshal([]any{pod, group})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %t %t", b, errors.Is(podErr, explain.ErrNotFound),
			errors.Is(groupErr, explain.ErrNotFound))
	}
	for at := uint64(1); at <= last; at++ {
		if whole, cut := said(s.Log().Read, at), said(stopAfter(s.Log().Read, at), at); whole != cut {
			t.Errorf("at entry %d the whole log gives\n%s\nthe log up to there\n%s", at, whole, cut)
		}
	}
}

func TestACancelledExplanationEndsWithTheContextsError(t *testing.T) {
	s := transcripts.New(t)
	s.Step("pod ml/a cpu=1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := explain.Pod(ctx, s.Log().Read, "ml", "a",
		explain.Options{Registry: transcripts.Registry()}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
