package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// explainedTwice explains a pod or a gang by an index and from the whole log, which must be the same.
func explainedTwice(t *testing.T, s *transcripts.Player, name string,
	explained func(*history.Log, string, explain.Options) string,
) string {
	t.Helper()
	want := explained(wholeLog(s.Log()), name, explain.Options{})
	if got := explained(indexed(t, s, 8, nil).Log(), name, explain.Options{}); got != want {
		t.Errorf("by the index:\n%s\nfrom the whole log:\n%s", got, want)
	}
	return want
}

// TestWhatBecameOfVictimsIsToldOfAPodThatIsGone: a pod that had another one evicted goes before that one does. The
// answer has the number of its victims left at the point in question, and not at the pod's end.
func TestWhatBecameOfVictimsIsToldOfAPodThatIsGone(t *testing.T) {
	victimsAreTold(t, "ml/high", explainPod, "node n0 cpu=4", "pod ml/low cpu=4", "pod ml/high cpu=4 priority=9",
		"delete pods ml/high")
}

// TestWhatBecameOfVictimsIsToldOfAGangThatIsGone is the same of a gang.
func TestWhatBecameOfVictimsIsToldOfAGangThatIsGone(t *testing.T) {
	victimsAreTold(t, "ml/g", explainGroup, "node n0 cpu=4", "pod ml/low cpu=4", "group ml/g min=1",
		"pod ml/g-0 group=g cpu=4 priority=9", "node n1 cpu=4", "advance 40s", "delete pods ml/g-0",
		"delete podgroups.scheduling.k8s.io ml/g")
}

// victimsAreTold has steps be taken in which what is explained evicts ml/low and goes, and that one go much later.
func victimsAreTold(t *testing.T, name string, explained func(*history.Log, string, explain.Options) string,
	steps ...string,
) {
	t.Helper()
	s := transcripts.New(t)
	for _, step := range steps {
		s.Step(step)
	}
	for i := range 20 {
		s.Step(fmt.Sprintf("pod ml/other-%d cpu=9", i))
	}
	if x := explainedTwice(t, s, name, explained); !strings.Contains(x, `"remaining": 1`) {
		t.Fatalf("no victim is left:\n%s", x)
	}
	s.Step("delete pods ml/low")
	if x := explainedTwice(t, s, name, explained); strings.Contains(x, `"remaining": 1`) {
		t.Errorf("a victim is left:\n%s", x)
	}
}

// TestHowManyOfItsGangAreThereIsToldOfABoundPod: members go, and another comes, after the last entry that names it.
func TestHowManyOfItsGangAreThereIsToldOfABoundPod(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n0 cpu=4")
	s.Step("node n1 cpu=4")
	s.Step("group ml/g min=2")
	s.Step("pod ml/g- group=g count=3 cpu=2")
	for i, step := range []string{"pod ml/other cpu=9", "delete pods ml/g-1", "delete nodes n1", "delete nodes n0",
		"node n0 cpu=8", "pod ml/late group=g cpu=1"} {
		s.Step(step)
		for j := range 10 {
			s.Step(fmt.Sprintf("pod ml/other-%d-%d cpu=9", i, j))
		}
		x := explainedTwice(t, s, "ml/g-0", explainPod)
		if placed := 3 - i; i < 2 && !strings.Contains(x, fmt.Sprintf("ml/g: minimum 2; %d placed", placed)) {
			t.Errorf("after %s %d are not told to be placed:\n%s", step, placed, x)
		}
	}
}
