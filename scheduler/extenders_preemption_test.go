package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// running makes a pod of two CPUs that runs on a node of two.
func (a *questioned) running(name, node string) {
	a.t.Helper()
	a.urgent(name, node, 0)
}

// urgent makes a pod of two CPUs and a priority, on a node or with "" on none.
func (a *questioned) urgent(name, node string, priority int32) {
	a.t.Helper()
	a.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Priority: &priority, NodeName: node,
			Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}}}}}}})
}

func (a *questioned) gone(name string) {
	a.t.Helper()
	a.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: name, UID: types.UID(name)})
}

// leaves answers the question about preemption: these nodes are left, with the pods of these names.
func (a *questioned) leaves(name string, decision uint64, nodes ...string) {
	a.t.Helper()
	answer := eventlog.ExtenderAnswer{}
	for _, node := range nodes {
		answer.Candidates = append(answer.Candidates,
			eventlog.Candidate{Node: node, Victims: []types.UID{types.UID("low-" + node)}})
	}
	a.apply(&eventlog.ExtenderResult{UID: types.UID(name), Decision: decision,
		Answers: []eventlog.ExtenderAnswer{answer}})
}

// victims are the victims of the last decision.
func (a *questioned) decideOnce() eventlog.Decision {
	a.t.Helper()
	d, ok := a.m.Decide(nil)
	if !ok {
		a.t.Fatal("nothing is decided")
	}
	a.apply(&d)
	return d
}

// newCrowded is a world of three nodes that are full, and a pod that extenders are asked for which pods to evict.
func newCrowded(t *testing.T) (a *questioned, asked uint64) {
	t.Helper()
	a = newQuestioned(t, ", preemptVerb: v")
	for _, node := range []string{"n1", "n2", "n3"} {
		a.running("low-"+node, node)
	}
	a.urgent("high", "", 9)
	a.expect("high Asked")
	return a, a.m.Seq()
}

// TestPreemptionIsAQuestion has an extender leave one of three nodes. The question is an effect, also after a restart;
// an answer to another question, and a second one, change nothing.
func TestPreemptionIsAQuestion(t *testing.T) {
	a, asked := newCrowded(t)
	for name, m := range map[string]*scheduler.Machine{"the Machine": a.m, "the restored one": a.restored} {
		effects := m.Effects()
		if len(effects) != 1 || effects[0].Kind != scheduler.Ask || len(effects[0].Candidates) != 3 ||
			effects[0].Candidates[1].Victims[0] != "low-n2" || len(effects[0].Nodes) > 0 {
			t.Fatalf("%s asks %+v", name, effects)
		}
		lists := map[string][]*v1.Pod{}
		pods := m.PodsAt(effects[0].Candidates, lists)
		if len(pods) != 3 || pods["n3"][0].Name != "low-n3" {
			t.Errorf("%s knows these pods: %+v", name, pods)
		}
		elsewhere := eventlog.Candidate{Node: "n3", Victims: []types.UID{"low-n3", "low-n1"}}
		more := m.PodsAt([]eventlog.Candidate{elsewhere}, lists)
		again := m.PodsAt(effects[0].Candidates, lists)
		if &again["n3"][0] != &pods["n3"][0] || len(again["n3"]) != 1 {
			t.Errorf("%s lists the pods of a node anew for each question: %+v", name, again)
		}
		if len(more["n3"]) != 2 || more["n3"][1].Name != "low-n1" {
			t.Errorf("%s knows of a victim elsewhere %+v", name, more)
		}
	}
	a.leaves("high", asked-1, "n1")
	if state := a.state("high"); state != queue.Asking {
		t.Fatalf("after an answer to another question it is %s", state)
	}
	a.leaves("high", asked, "n2")
	a.leaves("high", asked, "n3")
	d := a.decideOnce()
	if d.Outcome != eventlog.Unschedulable || d.Nominated != "n2" || !slices.Equal(d.Victims, []types.UID{"low-n2"}) {
		t.Fatalf("decided is %+v", d)
	}
	a.expect("")
	a.gone("low-n2")
	a.now = a.now.Add(2 * time.Second)
	a.apply(&eventlog.Tick{})
	a.expect("high Asked")
	a.apply(&eventlog.ExtenderResult{UID: "high", Decision: a.m.Seq()})
	a.expect("high Scheduled n2")
}

// TestCandidatesThatHaveChangedAreLeftOut has the pods on a node be others by the time of the answer. If an extender
// left that node alone, it is asked again after the backoff, without any other event.
func TestCandidatesThatHaveChangedAreLeftOut(t *testing.T) {
	for _, row := range []struct {
		name string
		left []string
		want string
	}{
		{"one of two", []string{"n1", "n2"}, "n2"}, {"the only one", []string{"n1"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, asked := newCrowded(t)
			a.gone("low-n1")
			a.running("other", "n1")
			a.leaves("high", asked, row.left...)
			d := a.decideOnce()
			evicts := len(d.Victims) > 0
			if d.Outcome != eventlog.Unschedulable || d.Nominated != row.want || evicts != (row.want != "") {
				t.Fatalf("decided is %+v", d)
			}
			if row.want != "" {
				return
			}
			if wake, ok := a.m.Wake(); !ok || wake.Sub(a.now) > 10*time.Second {
				t.Fatalf("it is tried again at %s (%t)", wake, ok)
			}
			a.now = a.now.Add(2 * time.Second)
			a.apply(&eventlog.Tick{})
			a.expect("high Asked")
			if candidates := a.m.Effects()[0].Candidates; candidates[0].Victims[0] != "other" {
				t.Errorf("asked is about %+v", candidates)
			}
		})
	}
}

// TestAnOldAnswerAboutPreemptionIsNotUsed has the pod's turn come more than a minute after the answer: another pod is
// held up by a gate meanwhile, so that only the answer is old.
func TestAnOldAnswerAboutPreemptionIsNotUsed(t *testing.T) {
	a, asked := newCrowded(t)
	a.leaves("high", asked, "n2")
	a.now = a.now.Add(61 * time.Second)
	a.expect("high Unschedulable")
	a, asked = newCrowded(t)
	a.leaves("high", asked, "n2")
	a.now = a.now.Add(61 * time.Second)
	a.apply(&eventlog.Tick{})
	a.expect("high Asked")
}

// TestAPodThatGoesTakesItsQuestionAboutPreemptionAlong has nothing be asked any more.
func TestAPodThatGoesTakesItsQuestionAboutPreemptionAlong(t *testing.T) {
	a, asked := newCrowded(t)
	a.gone("high")
	if effects := a.m.Effects(); len(effects) > 0 {
		t.Errorf("still asked is %+v", effects)
	}
	a.leaves("high", asked, "n2")
	a.expect("")
}

// TestANodeThatWasMadeFreeInVainIsNoCandidate has the filter refuse the node from which a pod was evicted, again and
// again. A node that it lets pass later is one again.
func TestANodeThatWasMadeFreeInVainIsNoCandidate(t *testing.T) {
	a, asked := newCrowded(t)
	again := func(node string) { // the pod that went comes again, and a turn of the preemptor
		a.running(fmt.Sprintf("again-%s-%d", node, a.m.Seq()), node)
		a.now = a.now.Add(11 * time.Second)
		a.apply(&eventlog.Tick{})
	}
	refuse := func(node string) {
		a.t.Helper()
		a.gone("low-" + node)
		a.now = a.now.Add(11 * time.Second)
		a.apply(&eventlog.Tick{})
		a.expect("high Asked")
		a.apply(&eventlog.ExtenderResult{UID: "high", Decision: a.m.Seq(), Answers: []eventlog.ExtenderAnswer{{
			Refused: []eventlog.ExtenderRefusal{{Code: "Unschedulable", Reason: "no", Nodes: []string{node}}}}}})
	}
	a.leaves("high", asked, "n1")
	a.expect("high Unschedulable")
	refuse("n1")
	a.expect("high Asked") // about preemption
	if c := a.m.Effects()[len(a.m.Effects())-1].Candidates; len(c) != 2 || c[0].Node != "n2" {
		t.Fatalf("asked is about %+v", c)
	}
	a.leaves("high", a.m.Seq())
	a.expect("high Unschedulable")
	again("n1")
	a.expect("high Asked")
	if c := a.m.Effects()[len(a.m.Effects())-1].Candidates; len(c) != 2 || c[0].Node != "n2" {
		t.Fatalf("when the node is full again, asked is about %+v", c)
	}
}
