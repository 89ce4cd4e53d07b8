package choices_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/choices"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestBindsOfOthersAreRanked has three nodes of different size. The default scores prefer the largest.
func TestBindsOfOthersAreRanked(t *testing.T) {
	r := newRecording(t, "")
	r.add(node("n1", "4"), node("n2", "8"), node("n3", "16"), pod("a", "1"), pod("b", "1"), pod("c", "1"),
		pod("a", "1", on("n3")), pod("b", "1", on("n1")), pod("c", "1", on("n2")))
	all, sum := r.compare(choices.Options{})
	want := []struct {
		pod, ours string
		verdict   answer.Verdict
		rank      int
	}{{"ml/a", "n3", answer.Same, 1}, {"ml/b", "n3", answer.Other, 3}, {"ml/c", "n3", answer.Other, 2}}
	for i, w := range want {
		x := all[i]
		if x.Pod != w.pod || x.Verdict != w.verdict || x.Rank != w.rank || x.Ours.Node != w.ours || x.Feasible != 3 ||
			x.Nodes != 3 || x.Seq != uint64(8+i) || x.Chosen.Node != x.Node || x.MaxPoints < x.Chosen.Total {
			t.Errorf("%+v, want %+v", x, w)
		}
	}
	if sum.Ranks != (choices.Ranks{First: 1, To5: 2}) || sum.Same != 1 || sum.Other != 2 {
		t.Errorf("%+v", sum)
	}
}

// TestANodeThatIsNotFeasibleIsExplained has a node that was cordoned, one that is too small, and one that is not there.
func TestANodeThatIsNotFeasibleIsExplained(t *testing.T) {
	r := newRecording(t, "")
	r.add(node("n1", "4"), node("n2", "8"), pod("a", "1"), pod("b", "6"), pod("c", "1"), pod("d", "64"),
		node("n1", "4", cordoned), pod("a", "1", on("n1")), pod("b", "6", on("n2")), pod("c", "3", on("n2")),
		pod("c", "3"), pod("d", "64", on("n9")))
	// c, which asks for 1, is bound to n2 where 2 are left; its object asks for 3 then.
	all, sum := r.compare(choices.Options{})
	refusals := []string{"NodeUnschedulable", "", "", "NoNode"}
	for i, x := range all {
		plugin := ""
		if len(x.Refusals) > 0 {
			plugin = x.Refusals[0].Plugin
		}
		if plugin != refusals[i] || (x.Verdict == answer.Infeasible) != (plugin != "") {
			t.Errorf("%s: %s, refused by %q, want %q", x.Pod, x.Verdict, plugin, refusals[i])
		}
	}
	if c := all[0].NodeChanged; c == nil || c.Seq != 8 || c.What != "the node changed" {
		t.Errorf("the last change of n1 is %+v, want the cordon at entry 8", c)
	}
	if sum.Infeasible != 2 || len(sum.Refused) != 2 || sum.Ranks.First != 2 {
		t.Errorf("%+v", sum)
	}
}

// TestARaceIsSeen has two schedulers bind to the room of one pod.
func TestARaceIsSeen(t *testing.T) {
	r := newRecording(t, "")
	r.add(node("n1", "4"), pod("a", "3"), pod("b", "3"), pod("a", "3", on("n1")), pod("b", "3", on("n1")))
	all, _ := r.compare(choices.Options{})
	x := all[1]
	if x.Verdict != answer.Infeasible || x.Ours != nil || x.Refusals[0].Reason != "Insufficient cpu" ||
		x.NodeChanged == nil || x.NodeChanged.What != "pod ml/a was bound there" {
		t.Errorf("%+v, refused by %+v, after %+v", x, x.Refusals, x.NodeChanged)
	}
}

// TestOnlyBindsOfTheRecordingAreRated has pods that are bound when the log first has them: one was there before, one is
// the kubelet's own, and one was made while the log was written.
func TestOnlyBindsOfTheRecordingAreRated(t *testing.T) {
	r := newRecording(t, "")
	ofKubelet := func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node-n1"}}
	}
	r.add(node("n1", "4"), pod("old", "1", on("n1"), made(start.Add(-time.Hour))),
		pod("early", "1", on("n1"), made(start)))
	r.add(pod("static", "1", on("n1"), made(r.now()), ofKubelet), pod("new", "1", on("n1"), made(r.now())),
		pod("new", "1", on("n1"), made(r.now())), pod("strange", "1", scheduledBy("other")),
		pod("strange", "1", scheduledBy("other"), on("n1")))
	all, sum := r.compare(choices.Options{})
	if len(all) != 2 || all[0].Pod != "ml/new" || !all[0].Together || all[0].Verdict != answer.Same || sum.Came != 3 ||
		sum.Together != 1 {
		t.Errorf("%d choices, the first %+v; %+v", len(all), all[0], sum)
	}
	if x := all[1]; x.Verdict != answer.Unrated || !strings.Contains(x.Unrated, `no profile for scheduler "other"`) {
		t.Errorf("%+v", x)
	}
}

// TestRollcallWouldHaveWaitedForTheGang has kube-scheduler bind the members of a gang one by one: before all are there,
// and where there is no room for all.
func TestRollcallWouldHaveWaitedForTheGang(t *testing.T) {
	r := newRecording(t, "")
	r.add(node("n1", "4"), pod("g-0", "3", ofGang("g", "2")), pod("g-0", "3", ofGang("g", "2"), on("n1")),
		pod("g-1", "3", ofGang("g", "2")), node("n2", "4"), pod("g-1", "3", ofGang("g", "2"), on("n2")),
		pod("h-0", "1", ofGang("h", "2")), pod("h-1", "1", ofGang("h", "2")),
		pod("h-0", "1", ofGang("h", "2"), on("n1")), pod("h-1", "1", ofGang("h", "2"), on("n2")),
		node("n3", "4"), pod("i-0", "3", ofGang("i", "2")), pod("i-1", "3", ofGang("i", "2")),
		pod("i-0", "3", ofGang("i", "2"), on("n3")))
	all, sum := r.compare(choices.Options{Trials: true})
	held := "it is held until 2 members have nodes; 0 had one"
	waits := []string{"the gang has 1 of the 2 members it needs", "", held, "", held}
	for i, x := range all {
		if x.Gang.Waits != waits[i] {
			t.Errorf("%s: %q, want %q", x.Pod, x.Gang.Waits, waits[i])
		}
	}
	if fits := all[2].Gang.Fits; fits == nil || !*fits {
		t.Errorf("gang h: fits %v", fits)
	}
	if fits := all[4].Gang.Fits; fits == nil || *fits {
		t.Errorf("gang i: fits %v", fits)
	}
	if want := (choices.Gangs{Binds: 5, Waited: 3, Tried: 2, Fit: 1}); sum.Gangs != want {
		t.Errorf("%+v, want %+v", sum.Gangs, want)
	}
}

// TestOwnBindsAreTheSame turns the decisions of a story into binds of others. On the state before each of them,
// Rollcall would have chosen the same node.
func TestOwnBindsAreTheSame(t *testing.T) {
	s := transcripts.New(t)
	for _, line := range []string{
		"node n1 cpu=8 label=zone:a", "node n2 cpu=8 label=zone:b taint=gpu", "node n3 cpu=16 gpu=4 label=zone:a",
		"node n4 cpu=4 label=zone:b", "pod ml/a cpu=3", "pod ml/b cpu=2 selector=zone:b", "pod ml/c- count=6 cpu=1",
		"group ml/g min=3", "pod ml/g- count=3 cpu=2 group=g", "pod ml/gpu cpu=1 gpu=2", "delete pods ml/a",
		"pod ml/d- count=4 cpu=2", "node n5 cpu=32", "pod ml/e- count=5 cpu=3", "group ml/h min=2",
		"pod ml/h- count=2 cpu=4 group=h",
	} {
		s.Step(line)
	}
	r := newRecording(t, "")
	objects := map[string]*v1.Pod{}
	for _, e := range s.Entries() {
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			if pod, ok := p.Object.(*v1.Pod); ok {
				objects[string(pod.UID)] = pod
			}
			r.add(p)
		case *eventlog.Deleted:
			r.add(p)
		case *eventlog.Decision:
			if p.Node != "" {
				bound := objects[string(p.UID)].DeepCopy()
				bound.Spec.NodeName = p.Node
				r.add(upserted(eventlog.Pods, bound))
			}
		}
	}
	all, sum := r.compare(choices.Options{})
	if sum.Binds < 20 || sum.Same != sum.Binds {
		for _, x := range all {
			t.Logf("%s on %s: %s, rank %d, ours %+v, %+v", x.Pod, x.Node, x.Verdict, x.Rank, x.Ours, x.Refusals)
		}
		t.Errorf("%+v: not all are the same", sum)
	}
}

// TestRatingChangesNothing rates a pod between two decisions: the state has the same hash, and the same is decided.
func TestRatingChangesNothing(t *testing.T) {
	play := func(rate bool) (hashes [][32]byte) {
		s := transcripts.New(t)
		for _, line := range []string{"node n1 cpu=8", "node n2 cpu=8", "pod ml/a cpu=3", "group ml/g min=3",
			"pod ml/g- count=2 cpu=2 group=g", "pod ml/b cpu=2", "pod ml/g-2 cpu=2 group=g"} {
			s.Step(line)
		}
		m := scheduler.New(transcripts.Registry())
		reader := choices.NewReader(choices.Options{Trials: true})
		for _, e := range s.Entries() {
			before := m.Hash()
			if rate && m.Seq() > 0 {
				for _, p := range m.Cluster().Pods().All() {
					bound := p.Object.DeepCopy()
					bound.Spec.NodeName = "n1"
					try := eventlog.Entry{Seq: e.Seq, Epoch: 1, Time: e.Time,
						Payload: upserted(eventlog.Pods, bound)}
					if _, err := reader.Before(m, try); err != nil {
						t.Fatal(err)
					}
				}
				if m.Hash() != before {
					t.Fatalf("rating before entry %d changed the state", e.Seq)
				}
			}
			if d, ok := e.Payload.(*eventlog.Decision); ok {
				if again, ok := m.Decide(nil); !ok || again.Node != d.Node || again.Outcome != d.Outcome {
					t.Fatalf("entry %d is decided as %+v, want %+v", e.Seq, again, d)
				}
			}
			if err := m.Apply(e); err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, m.Hash())
		}
		return hashes
	}
	plain, rated := play(false), play(true)
	for i := range plain {
		if plain[i] != rated[i] {
			t.Fatalf("the state after entry %d differs", i+1)
		}
	}
}
