package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

func TestADecisionThatThisProgramWouldNotMakeIsExplainedAsRecordedAndSaysSo(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=4")
	s.Step("node n2 cpu=8")
	s.Step("pod ml/a cpu=1")
	source := stopped(s.Log(), 4+1)
	source.Change = func(d *eventlog.Decision) { d.Node, d.Score = "n1", 1 }
	x, err := explain.Pod(context.Background(), source.Log(), "ml", "a", explain.Options{})
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

// stopped is a log of the first n entries of another one.
func stopped(log *eventlog.Memory, n uint64) *replaytest.Source {
	s := storySource(log)
	s.End = n
	return s
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
	said := func(log *history.Log, at uint64) string {
		opts := explain.Options{AtSeq: at}
		pod, podErr := explain.Pod(context.Background(), log, "ml", "a", opts)
		group, groupErr := explain.Group(context.Background(), log, "ml", "g", opts)
		b, err := json.Marshal([]any{pod, group})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %t %t", b, errors.Is(podErr, explain.ErrNotFound),
			errors.Is(groupErr, explain.ErrNotFound))
	}
	for at := uint64(1); at <= last; at++ {
		if whole, cut := said(wholeLog(s.Log()), at), said(stopped(s.Log(), at).Log(), at); whole != cut {
			t.Errorf("at entry %d the whole log gives\n%s\nthe log up to there\n%s", at, whole, cut)
		}
	}
}

func TestACancelledExplanationEndsWithTheContextsError(t *testing.T) {
	s := transcripts.New(t)
	s.Step("pod ml/a cpu=1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := explain.Pod(ctx, wholeLog(s.Log()), "ml", "a", explain.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
