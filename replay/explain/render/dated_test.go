package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
)

// then is the entry of earlier facts, with numbers that occur nowhere else.
const then = 4711

func use(n int64) []answer.ResourceUse {
	return []answer.ResourceUse{{Resource: "example.com/gpu", Needed: n + 1, Free: n + 2, Usable: n + 3,
		Allocatable: n + 4, LargestFree: n + 5, LargestFreeNode: "n1",
		Holders: []answer.Holder{{Kind: "pod", Name: "ml/holder", Pods: 1, Amount: n + 6}}}}
}

// decisionThen is a decision that placed nothing, with numbers from n on.
func decisionThen(n int64) *answer.Decision {
	return &answer.Decision{Point: answer.Point{Seq: then}, Pod: "ml/g-0", Outcome: "Unschedulable", Nodes: int(n + 20),
		Evaluated: n + 20, Refusals: []answer.Refusal{{Plugin: "X", Code: "Unschedulable", Reason: "too small",
			Nodes: n + 21}}, Resources: use(n),
		Gang: &answer.GangNeeds{AsOf: answer.Point{Seq: then}, Members: 3, Resources: use(n)}}
}

// Facts of an earlier entry are printed in a line, or below a heading, that names that entry.
func TestWhatHeldEarlierIsPrintedWithItsEntry(t *testing.T) {
	const n = 880000
	at := answer.Point{Seq: 5000}
	failed := answer.Point{Seq: then}
	reason := &answer.Reason{Code: answer.LacksRoom, Group: "ml/g", Failed: &failed, Member: "ml/g-0",
		Members: []answer.RefusedMembers{{Count: n + 30, Examples: []string{"ml/g-0"},
			Refusals: []answer.Refusal{{Plugin: "X", Reason: "too small", Nodes: n + 31}}}},
		Shortfall: []answer.Shortfall{{AsOf: failed, Of: "Gang", Members: 3, Missing: 1, ResourceUse: use(n)[0]}},
		Predicate: "failed"}
	attempt := answer.GroupAttempt{First: failed, Last: failed, Outcome: "Failed", NoNode: n + 40}
	for name, write := range map[string]func(*strings.Builder) error{
		"a group": func(w *strings.Builder) error {
			return render.Group(w, &answer.Group{Group: "ml/g", At: at, Stage: "Pending", Declared: true, Min: 3,
				Reason: reason, LastFailure: decisionThen(n),
				History: answer.GroupHistory{Attempts: []answer.GroupAttempt{attempt}}})
		},
		"a pod of a gang": func(w *strings.Builder) error {
			return render.Pod(w, &answer.Pod{Pod: "ml/g-1", Group: "ml/g", At: at, Stage: "Pending",
				StoppedBy: decisionThen(n), Queue: &answer.QueuePlace{}})
		},
		"a pod": func(w *strings.Builder) error {
			return render.Pod(w, &answer.Pod{Pod: "ml/p", At: at, Stage: "Pending", Decision: decisionThen(n),
				Queue: &answer.QueuePlace{}})
		},
		"a pod that is gone": func(w *strings.Builder) error {
			return render.Pod(w, &answer.Pod{Pod: "ml/p", At: at, Stage: "Gone", GoneHow: "Deleted", Gone: &at,
				Decision: decisionThen(n)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			told := 0
			for block := range strings.SplitSeq(b.String(), "\n\n") {
				heading := strings.SplitN(block, "\n", 2)[0]
				for line := range strings.Lines(block) {
					if !strings.Contains(line, "8800") {
						continue
					}
					told++
					if !strings.Contains(line, fmt.Sprint(then)) && !strings.Contains(heading, fmt.Sprint(then)) {
						t.Errorf("it does not say at which entry this held: %s", line)
					}
				}
			}
			if told < 2 {
				t.Errorf("only %d lines tell of it:\n%s", told, &b)
			}
		})
	}
	s := &reason.Shortfall[0]
	if text := phrase.Shortfall(s, at); !strings.Contains(text, fmt.Sprint(then)) {
		t.Errorf("a shortfall of before is told as %q", text)
	}
	if text := phrase.Shortfall(s, failed); strings.Contains(text, fmt.Sprint(then)) {
		t.Errorf("a shortfall of now is told as %q", text)
	}
}

// The text of a gang that needs more than all nodes have says so, and the text of one that waits for others does not.
func TestAGangThatCannotFitIsToldSo(t *testing.T) {
	s := &answer.Shortfall{Of: "Gang", Members: 48, ResourceUse: answer.ResourceUse{Resource: "example.com/gpu",
		Needed: 384, Free: 100, Usable: 100, Allocatable: 312}}
	if text := phrase.Shortfall(s, answer.Point{}); text !=
		"cannot fit: it needs 384 example.com/gpu for 48 members, of 312 in the cluster; 100 free" {
		t.Errorf("it is told %q", text)
	}
	s.Allocatable = 400
	if text := phrase.Shortfall(s, answer.Point{}); strings.Contains(text, "cannot fit") {
		t.Errorf("it is told %q", text)
	}
}
