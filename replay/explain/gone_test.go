package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/transcripts"
)

// TestWhatBecameOfVictimsIsToldOfAPodThatIsGone: a pod that had another one evicted goes before that one does. How many
// of its victims are left is told as of the point in question, and not as of the pod's end.
func TestWhatBecameOfVictimsIsToldOfAPodThatIsGone(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n0 cpu=4")
	s.Step("pod ml/low cpu=4")
	s.Step("pod ml/high cpu=4 priority=9")
	s.Step("delete pods ml/high")
	for i := range 20 {
		s.Step(fmt.Sprintf("pod ml/other-%d cpu=9", i))
	}
	left := func() string {
		opts := explain.Options{Registry: transcripts.Registry()}
		want := explainPod(s.Log().Read, "ml/high", opts)
		opts.Index = newIndex(t, s.Log(), 8)
		opts.Restore = func(uint64) (*scheduler.Machine, error) { return nil, nil }
		if got := explainPod(s.Log().Read, "ml/high", opts); got != want {
			t.Errorf("by the index:\n%s\nfrom the whole log:\n%s", got, want)
		}
		return want
	}
	if x := left(); !strings.Contains(x, `"remaining": 1`) {
		t.Fatalf("no victim is left:\n%s", x)
	}
	s.Step("delete pods ml/low")
	if x := left(); strings.Contains(x, `"remaining": 1`) {
		t.Errorf("a victim is left:\n%s", x)
	}
}
