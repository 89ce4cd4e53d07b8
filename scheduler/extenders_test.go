package scheduler_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// questioned drives a Machine whose configuration has an extender that filters. After each entry it restores the state
// from its bytes, and both Machines continue: a restart anywhere must change nothing.
type questioned struct {
	t        *testing.T
	m        *scheduler.Machine
	restored *scheduler.Machine
	now      time.Time
}

func newQuestioned(t *testing.T, more string) *questioned {
	t.Helper()
	cfg, err := framework.LoadConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\n"+
		"kind: KubeSchedulerConfiguration\nextenders: [{urlPrefix: 'http://x', filterVerb: f, "+
		"prioritizeVerb: p, weight: 2"+more+"}]"), "config")
	if err != nil {
		t.Fatal(err)
	}
	logged, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := &questioned{t: t, m: scheduler.New(plugins.NewRegistry()), now: time.Unix(1_700_000_000, 0)}
	a.apply(&eventlog.EpochStarted{ID: "e", Version: "v", Format: eventlog.FormatVersion, Config: logged,
		Behaviour: scheduler.Behaviour})
	for _, name := range []string{"n1", "n2", "n3"} {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourcePods: resource.MustParse("9")}
		a.apply(&eventlog.Upserted{Resource: eventlog.Nodes, Object: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Status:     v1.NodeStatus{Allocatable: list, Capacity: list}}})
	}
	return a
}

// apply applies a payload to the Machine and to the one that was restored before it, and restores another.
func (a *questioned) apply(p eventlog.Payload) {
	a.t.Helper()
	epoch := a.m.Epoch()
	if _, ok := p.(*eventlog.EpochStarted); ok {
		epoch++
	}
	e := eventlog.Entry{Seq: a.m.Seq() + 1, Epoch: epoch, Time: eventlog.TimeOf(a.now), Payload: p}
	record, err := eventlog.AppendRecord(nil, e, [32]byte{})
	if err != nil {
		a.t.Fatal(err)
	}
	again, _, err := eventlog.DecodeRecord(record)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.m.Apply(e); err != nil {
		a.t.Fatal(err)
	}
	if a.restored != nil {
		if err := a.restored.Apply(again); err != nil {
			a.t.Fatal(err)
		}
		if a.restored.Hash() != a.m.Hash() {
			a.t.Fatalf("after entry %d the Machine that was restored before it has another state", e.Seq)
		}
	}
	state, err := a.m.AppendState(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.restored, err = scheduler.Restore(plugins.NewRegistry(), state); err != nil {
		a.t.Fatal(err)
	}
}

// decide makes all decisions there are, and says what they were.
func (a *questioned) decide() string {
	a.t.Helper()
	var words []string
	for {
		d, ok := a.m.Decide(nil)
		if len(words) > 100 {
			a.t.Fatalf("decisions without end: %s ...", strings.Join(words, ", "))
		}
		if !ok {
			return strings.Join(words, ", ")
		}
		words = append(words, strings.TrimSpace(d.Name+" "+d.Outcome.String()+" "+d.Node))
		a.apply(&d)
	}
}

func (a *questioned) pod(name, cpu string) {
	a.t.Helper()
	a.apply(&eventlog.Upserted{Resource: eventlog.Pods, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}}}})
}

func (a *questioned) expect(want string) {
	a.t.Helper()
	if got := a.decide(); got != want {
		a.t.Fatalf("decided is %q, want %q", got, want)
	}
}

// answer keeps n2 alone, by the Decision of this number.
func (a *questioned) answer(name string, decision uint64) {
	a.t.Helper()
	a.apply(&eventlog.ExtenderResult{UID: types.UID(name), Decision: decision, Answers: []eventlog.ExtenderAnswer{{
		Refused: []eventlog.ExtenderRefusal{{Code: "Unschedulable", Reason: "no", Nodes: []string{"n1", "n3"}}}}}})
}

func (a *questioned) state(name string) queue.State { return a.m.Queue().Find(types.UID(name)).State() }

// TestAnAnswerCountsOnce has an answer come too late, from an earlier question, twice, and after a restart: the
// question that is open is an effect of the restored Machine too.
func TestAnAnswerCountsOnce(t *testing.T) {
	a := newQuestioned(t, "")
	a.pod("a", "1")
	a.expect("a Asked")
	asked := a.m.Seq()
	for name, m := range map[string]*scheduler.Machine{"the Machine": a.m, "the restored one": a.restored} {
		effects := m.Effects()
		if len(effects) != 1 || effects[0].Kind != scheduler.Ask || effects[0].Seq != asked ||
			strings.Join(effects[0].Nodes, " ") != "n1 n2 n3" {
			t.Fatalf("%s asks %+v", name, effects)
		}
	}
	a.answer("a", asked-1)
	a.expect("")
	if state := a.state("a"); state != queue.Asking {
		t.Fatalf("after an answer to another question it is %s", state)
	}
	a.answer("a", asked)
	a.answer("a", asked)
	a.expect("a Scheduled n2")
	a.answer("a", asked)
	a.expect("")
	if effects := a.m.Effects(); len(effects) != 1 || effects[0].Kind != scheduler.Bind {
		t.Errorf("the effects are %+v", effects)
	}
}

// TestOthersAreTriedWhileExtendersAreAsked has a pod for which the extender does not care placed in the meantime, and
// the room gone when the answer comes.
func TestOthersAreTriedWhileExtendersAreAsked(t *testing.T) {
	a := newQuestioned(t, "")
	a.pod("a", "2")
	a.expect("a Asked")
	asked := a.m.Seq()
	a.pod("b", "2")
	a.expect("b Asked")
	a.answer("b", a.m.Seq())
	a.expect("b Scheduled n2")
	a.answer("a", asked)
	a.expect("a Unschedulable") // n2 is taken by now, and the others were refused
	a.now = a.now.Add(time.Second)
	a.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: "b", UID: "b"})
	a.now = a.now.Add(time.Second)
	a.apply(&eventlog.Tick{})
	a.expect("a Asked")
	a.answer("a", a.m.Seq())
	a.expect("a Scheduled n2")
}

// TestANodeThatNobodyWasAskedAboutIsNotUsed has one become free after the question. The pod is tried again after its
// backoff, without any other event, and the extender is asked about the node then.
func TestANodeThatNobodyWasAskedAboutIsNotUsed(t *testing.T) {
	a := newQuestioned(t, "")
	a.pod("big", "2")
	a.expect("big Asked")
	a.answer("big", a.m.Seq())
	a.expect("big Scheduled n2")
	a.pod("a", "2")
	a.expect("a Asked")
	asked := a.m.Seq()
	a.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: "big", UID: "big"})
	a.answer("a", asked)
	a.expect("a Unschedulable")
	if _, ok := a.m.Wake(); !ok {
		t.Fatal("nothing will have it tried again")
	}
	a.now = a.now.Add(2 * time.Second)
	a.apply(&eventlog.Tick{})
	a.expect("a Asked")
	a.answer("a", a.m.Seq())
	a.expect("a Scheduled n2")
}

// TestAPodThatGoesTakesItsQuestionAlong has nothing be asked any more, and an answer change nothing.
func TestAPodThatGoesTakesItsQuestionAlong(t *testing.T) {
	a := newQuestioned(t, "")
	a.pod("a", "1")
	a.expect("a Asked")
	asked := a.m.Seq()
	a.apply(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: "a", UID: "a"})
	if effects := a.m.Effects(); len(effects) > 0 {
		t.Errorf("still asked is %+v", effects)
	}
	a.answer("a", asked)
	a.expect("")
}

// TestHighScoresDoNotOverflow has an extender of the highest weight give the highest score.
func TestHighScoresDoNotOverflow(t *testing.T) {
	a := newQuestioned(t, "")
	a.pod("a", "1")
	a.expect("a Asked")
	a.apply(&eventlog.ExtenderResult{UID: "a", Decision: a.m.Seq(), Answers: []eventlog.ExtenderAnswer{{
		Scores: []eventlog.ExtenderScore{{Node: "n1", Score: -eventlog.MaxExtenderScore},
			{Node: "n3", Score: eventlog.MaxExtenderScore}}}}})
	a.expect("a Scheduled n3")
}
