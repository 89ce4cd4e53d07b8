package render

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// The names of gangs may come from annotations, which can have any content, and reasons quote objects. None of it does
// anything to a terminal, and none of it makes a line of its own.
func TestWordsOfOthersAreNoLinesOfAnAnswer(t *testing.T) {
	texts := func(name string) string {
		var b bytes.Buffer
		refused := []answer.Refusal{
			{Plugin: name, Code: "Unschedulable", Reason: name, Nodes: 2, Examples: []string{name}},
		}
		decision := &answer.Decision{Pod: name, Outcome: "Unschedulable", Refusals: refused, Evaluated: 2, Nodes: 2}
		for _, err := range []error{
			Pod(&b, &answer.Pod{Pod: name, Group: name, Stage: "Pending", Gang: &answer.GangNumbers{},
				Decision: decision}),
			Group(&b, &answer.Group{Group: name, Stage: "Pending", LastFailure: decision}),
			Composite(&b, &answer.Composite{Composite: name}),
			Trace(&b, &answer.Pod{Pod: name, PodLimits: answer.PodLimits{Untraced: name}}, TracedNodes{}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	plain := texts("default/x")
	got := texts("default/\x1b[31mx\u202e\a\r\nPod default/y is fine.\tyes")
	if strings.Count(got, "\n") != strings.Count(plain, "\n") {
		t.Errorf("there are %d lines, want %d:\n%s", strings.Count(got, "\n"), strings.Count(plain, "\n"), got)
	}
	if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("the text is %q", got)
	}
	if n := strings.Count(got, `\x1b[31mx`); n < 6 || n != strings.Count(plain, "default/x") {
		t.Errorf("the name stands there %d times:\n%s", n, got)
	}
}
