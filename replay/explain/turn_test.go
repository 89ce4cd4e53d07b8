package explain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// A gang that does not fit waits: an entity of higher priority goes first, and others overtake it.
func TestLetPastSeparatesWhoWasAheadFromWhoOvertook(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=16 gpu=4")
	s.Step("group ml/train min=2")
	s.Step("pod ml/train- cpu=1 gpu=3 group=train count=2")
	s.Step("advance 10s")
	s.Step("pod ml/high cpu=1 gpu=1 priority=9")
	s.Step("pod ml/cpu cpu=1")
	s.Step("pod ml/gpu cpu=1 gpu=1")
	past := groupOf(t, s, "train").History.LetPast
	if past == nil || past.Ahead == nil || past.Overtook == nil {
		t.Fatalf("let past: %+v", past)
	}
	if by := past.Ahead.By; past.Ahead.Entities != 1 || len(by) != 1 || by[0].Name != "ml/high" ||
		by[0].Overtook != "" || by[0].Why != "priority 9 is above 0" {
		t.Errorf("ahead were %+v", past.Ahead)
	}
	rules := map[string]answer.Overtook{}
	for _, by := range past.Overtook.By {
		rules[by.Name] = by.Overtook
		if by.Why == "" {
			t.Errorf("%s has no reason", by.Name)
		}
	}
	if len(rules) != 2 || rules["ml/cpu"] != answer.OtherResources || rules["ml/gpu"] != answer.BestEffort {
		t.Errorf("overtook: %v", rules)
	}
	if past.Pods != past.Ahead.Pods+past.Overtook.Pods {
		t.Errorf("%d pods passed, %d ahead and %d behind", past.Pods, past.Ahead.Pods, past.Overtook.Pods)
	}
}

// Backfill lets short jobs pass a gang for which room is reserved.
func TestWhoPassedByBackfillIsSaid(t *testing.T) {
	s := transcripts.New(t)
	s.Configure(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: Backfill}
`)
	s.Step("node n1 cpu=4 gpu=4")
	s.Step("pod ml/first cpu=1 gpu=2 lasts=3600s")
	s.Step("group ml/train min=2")
	s.Step("pod ml/train- cpu=1 gpu=2 group=train count=2 lasts=3600s")
	s.Step("advance 10s")
	s.Step("pod ml/short cpu=1 gpu=1 lasts=60s")
	past := groupOf(t, s, "train").History.LetPast
	if past == nil || past.Ahead != nil || past.Overtook == nil || past.Overtook.By[0].Overtook != answer.Backfill {
		t.Fatalf("let past: %+v", past)
	}
}

func explainedAt(t *testing.T, s *transcripts.Player, name string, at uint64) *answer.Pod {
	t.Helper()
	x, err := explain.Pod(context.Background(), wholeLog(s.Log()), "ml", name, explain.Options{AtSeq: at})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// An answer that counts the entities ahead names them.
func TestTheEntitiesAheadAreNamed(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=1000 pods=1000")
	before, err := s.Log().Last()
	if err != nil {
		t.Fatal(err)
	}
	const others = answer.MaxAhead + 5
	line := []string{"pod ml/last cpu=1"}
	for i := range others {
		line = append(line, fmt.Sprintf("pod ml/o%03d cpu=1 priority=%d", i, 1+i))
	}
	s.Step(strings.Join(line, "; "))
	x := explainedAt(t, s, "last", before+uint64(len(line)))
	if x.Queue == nil || x.Queue.Ahead != others || len(x.Queue.AheadOf) != answer.MaxAhead || x.Queue.MoreAhead != 5 {
		t.Fatalf("the place is %+v", x.Queue)
	}
	first := x.Queue.AheadOf[0]
	if first.Name != fmt.Sprintf("ml/o%03d", others-1) || first.Priority != others || first.State != "Active" ||
		first.Why != fmt.Sprintf("priority %d is above 0", others) {
		t.Errorf("the first is %+v", first)
	}
	want := fmt.Sprintf("in its turn: %d entities before it: pod ml/o%03d (priority %d: priority %d is above 0), ",
		others, others-1, others, others)
	if !strings.HasPrefix(x.Queue.NextRetry, want) || !strings.HasSuffix(x.Queue.NextRetry, ", and 102 more") {
		t.Errorf("it is told as %q", x.Queue.NextRetry)
	}
}
