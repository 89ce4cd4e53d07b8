package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// longLog is a log with its snapshots, which are 10 entries apart. Many gangs of two come, are placed, and go again,
// except for the last three.
func longLog(t *testing.T, gangs int) (*transcripts.Player, map[uint64][]byte) {
	t.Helper()
	s := transcripts.New(t)
	s.Configure(configurationOfHistories)
	s.Step("node n0 cpu=64")
	for i := range gangs {
		s.Step(fmt.Sprintf("group ml/g%d min=2", i))
		s.Step(fmt.Sprintf("pod ml/g%d- group=g%d count=2 cpu=1", i, i))
		if gone := i - 3; gone >= 0 {
			s.Step(fmt.Sprintf("delete pods ml/g%d-0", gone))
			s.Step(fmt.Sprintf("delete pods ml/g%d-1", gone))
			s.Step(fmt.Sprintf("delete podgroups.scheduling.k8s.io ml/g%d", gone))
		}
	}
	return s, statesOf(t, s, 10)
}

// statesOf returns the snapshots of a log that lie so many entries apart.
func statesOf(t *testing.T, s *transcripts.Player, apart uint64) map[uint64][]byte {
	t.Helper()
	states := map[uint64][]byte{}
	m := scheduler.New(transcripts.Registry())
	for _, e := range s.Entries() {
		err := m.Apply(e)
		if err == nil && e.Seq%apart == 0 {
			states[e.Seq], err = snapshot.Encode(m, [32]byte{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return states
}

// TestWhatExplainReadsDoesNotGrowWithTheLog counts the reads for a pod and a gang that are gone since long, and for a
// bound one. It counts entries by number, entries one after the other, which are applied, and states restored.
func TestWhatExplainReadsDoesNotGrowWithTheLog(t *testing.T) {
	type counts struct{ picked, entries, states int }
	most := map[string]counts{"gone pod": {40, 12, 1}, "gone gang": {40, 16, 2}, "bound pod": {50, 12, 1},
		"bound gang": {50, 25, 1}}
	for _, gangs := range []int{30, 120} {
		s, states := longLog(t, gangs)
		whole, plain := wholeLog(s.Log()), explain.Options{}
		for what, bound := range most {
			source := indexed(t, s, 16, states)
			quick := source.Log()
			var got, want string
			switch what {
			case "gone pod":
				want = explainPod(whole, "ml/g5-1", plain)
				got = explainPod(quick, "ml/g5-1", plain)
			case "gone gang":
				want = explainGroup(whole, "ml/g5", plain)
				got = explainGroup(quick, "ml/g5", plain)
			case "bound gang":
				name := fmt.Sprintf("ml/g%d", gangs-2)
				want, got = explainGroup(whole, name, plain), explainGroup(quick, name, plain)
			case "bound pod":
				name := fmt.Sprintf("ml/g%d-0", gangs-2)
				want, got = explainPod(whole, name, plain), explainPod(quick, name, plain)
			}
			if got != want {
				t.Errorf("%s of %d gangs, by the index:\n%s\nfrom the whole log:\n%s", what, gangs, got, want)
			}
			read := counts{source.Lookup.Picked, source.Entries, source.Restored}
			t.Logf("%s of %d gangs (%d entries): %+v", what, gangs, len(s.Entries()), read)
			if read.picked > bound.picked || read.entries > bound.entries || read.states > bound.states {
				t.Errorf("%s of %d gangs: %+v, want at the most %+v", what, gangs, read, bound)
			}
		}
	}
}

// configurationOfAnother schedules other pods than those whose scheduler has the usual name.
const configurationOfAnother = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
	"profiles:\n- schedulerName: other-scheduler\n"

// TestAPodThatIsGoneBeforeAnEpochBegins: an entry after the pod's end counts, because it begins an epoch in which
// nobody schedules the pod. So the state in which the pod goes is right.
func TestAPodThatIsGoneBeforeAnEpochBegins(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n0 cpu=64")
	s.Step("pod ml/a cpu=1")
	others := func(part string) {
		for i := range 5 {
			s.Step(fmt.Sprintf("pod ml/%s-%d cpu=1", part, i))
			s.Step("advance 10s")
		}
	}
	others("before")
	s.Step("delete pods ml/a")
	others("behind")
	s.Configure(configurationOfAnother)
	s.Step("pod ml/q cpu=1")
	source, plain := indexed(t, s, 8, statesOf(t, s, 3)), explain.Options{}
	want, got := explainPod(wholeLog(s.Log()), "ml/a", plain), explainPod(source.Log(), "ml/a", plain)
	if got != want {
		t.Errorf("by the index:\n%s\nfrom the whole log:\n%s", got, want)
	}
	if !strings.Contains(want, `"ignored": true`) {
		t.Errorf("the epoch means nothing to the pod:\n%s", want)
	}
	if all := len(s.Entries()); source.Restored == 0 || source.Entries >= all {
		t.Errorf("%d of %d entries were read one after the other, and %d states", source.Entries, all, source.Restored)
	}
}

// TestABoundPodOfAGangThatMostEntriesNameIsFoundByTheIndex has a gang of hundreds, of which one pod is asked about. The
// entries of all its members would be too many.
func TestABoundPodOfAGangThatMostEntriesNameIsFoundByTheIndex(t *testing.T) {
	const members = 450
	s := transcripts.New(t)
	for i := range members / 4 {
		s.Step(fmt.Sprintf("node n%d cpu=4", i))
	}
	s.Step("group ml/g min=2")
	s.Step(fmt.Sprintf("pod ml/g- group=g count=%d cpu=1", members-10))
	source, plain := indexed(t, s, 16, statesOf(t, s, 100)), explain.Options{}
	want, got := explainPod(wholeLog(s.Log()), "ml/g-7", plain), explainPod(source.Log(), "ml/g-7", plain)
	if got != want {
		t.Errorf("by the index:\n%s\nfrom the whole log:\n%s", got, want)
	}
	if all := len(s.Entries()); source.Restored == 0 || source.Entries > all/2 {
		t.Errorf("%d of %d entries were read one after the other, and %d states", source.Entries, all, source.Restored)
	}
}

// TestANameThatIsNotThereIsToldOfWithoutTheWholeLog counts the reads for a pod and a gang that come later, and for a
// misspelt name. Suggestions for the latter are names in the state and in the last entries.
func TestANameThatIsNotThereIsToldOfWithoutTheWholeLog(t *testing.T) {
	const gangs, back, comesLater = 120, 5, "first appears at"
	s, states := longLog(t, gangs)
	for _, c := range []struct {
		what, name string
		explained  func(*history.Log, string, explain.Options) string
		at         uint64
		want       string
	}{
		{"pod that comes later", "ml/g100-0", explainPod, 300, comesLater},
		{"gang that comes later", "ml/g100", explainGroup, 300, comesLater},
		{"pod at the first entry", "ml/g100-0", explainPod, 1, comesLater},
		{"pod before the first entry", "ml/g100-0", explainPod, 0, comesLater},
		{"gang before the first entry", "ml/g100", explainGroup, 0, comesLater},
		{"pod that is there by another name", "ml/g117-", explainPod, 0, "did you mean ml/g117-0, ml/g117-1?"},
		{"gang that is like two that are gone since long", "ml/g117-x", explainGroup, 0, "did you mean ml/g117?"},
		{"gang in another namespace", "other/g118", explainGroup, 0, "did you mean ml/g118?"},
	} {
		plain := explain.Options{AtSeq: c.at}
		if c.at == 0 && c.want == comesLater {
			plain.AtTime = s.Entries()[0].Time - 1
		}
		source, quick := indexed(t, s, 16, states), plain
		explain.LookBack(&quick, back)
		got := c.explained(source.Log(), c.name, quick)
		whole := c.explained(wholeLog(s.Log()), c.name, plain)
		whole = strings.Replace(whole, "ml/g1, ml/g11, ml/g117", "ml/g117", 1) // these are not of late
		if got != whole || !strings.Contains(got, c.want) {
			t.Errorf("%s, by the index:\n%s\nfrom the whole log:\n%s\nwant %q", c.what, got, whole, c.want)
		}
		if most := back + 20; source.Entries > most || source.Restored > 1 {
			t.Errorf("%s: %d entries were read one after the other, want at most %d; %d states", c.what, source.Entries,
				most, source.Restored)
		}
	}
}

// TestACompositePodGroupThatOnlyItsGangsNameIsKnownByTheIndex asks about one that a gang names, directly or by another
// CompositePodGroup, and about PodGroups without pods, which are suggested for a name that is like theirs.
func TestACompositePodGroupThatOnlyItsGangsNameIsKnownByTheIndex(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n0 cpu=64")
	s.Step("group ml/g1 min=1 parent=c")
	s.Step("pod ml/g1-0 group=g1 cpu=1")
	s.Step("composite ml/lower min=1 parent=upper")
	s.Step("group ml/g2 min=1 parent=lower")
	s.Step("group ml/train min=4")
	for i := range 20 {
		s.Step(fmt.Sprintf("pod ml/other-%d cpu=1", i))
	}
	last := uint64(len(s.Entries()))
	s.Step("composite ml/c min=1")
	for _, c := range []struct {
		name string
		at   uint64
		want string
	}{
		{"ml/c", last, "ml/c is a CompositePodGroup"},
		{"ml/c", 0, "ml/c is a CompositePodGroup"},
		{"ml/upper", 0, "ml/upper is a CompositePodGroup"},
		{"ml/lower", 0, "ml/lower is a CompositePodGroup"},
		{"ml/train-x", 0, "did you mean ml/train?"},
	} {
		plain := explain.Options{AtSeq: c.at}
		source, quick := indexed(t, s, 8, statesOf(t, s, 5)), plain
		explain.LookBack(&quick, 5)
		want, got := explainGroup(wholeLog(s.Log()), c.name, plain), explainGroup(source.Log(), c.name, quick)
		if got != want || !strings.Contains(got, c.want) {
			t.Errorf("group %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s\nwant %q", c.name, c.at, got,
				want, c.want)
		}
	}
}
