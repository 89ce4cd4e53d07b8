package explain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// gangOfFour is a gang of four members on n1 and n2, two on each.
func gangOfFour(t *testing.T) *transcripts.Player {
	s := transcripts.New(t)
	s.Step("node n1 cpu=4 gpu=2")
	s.Step("node n2 cpu=4 gpu=2")
	s.Step("group ml/train min=4")
	s.Step("pod ml/train- cpu=1 gpu=1 group=train count=4")
	s.Step("advance 10s")
	return s
}

func groupOf(t *testing.T, s *transcripts.Player, name string) *answer.Group {
	t.Helper()
	x, err := explain.Group(context.Background(), wholeLog(s.Log()), "ml", name, explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func podOf(t *testing.T, s *transcripts.Player, name string) *answer.Pod {
	t.Helper()
	x, err := explain.Pod(context.Background(), wholeLog(s.Log()), "ml", name, explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// disrupted applies a pod as it is while it is deleted for a reason.
func disrupted(t *testing.T, s *transcripts.Player, name, reason string) {
	t.Helper()
	p := s.Machine().Cluster().Pods().Named("ml", name)
	if p == nil {
		t.Fatalf("there is no pod %s", name)
	}
	obj := p.Object.DeepCopy()
	now := metav1.NewTime(s.Machine().Now().Std())
	obj.Spec.NodeName, obj.DeletionTimestamp = p.Node, &now
	if reason != "" {
		obj.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
	}
	transcripts.PlayInputs(s, &eventlog.Upserted{Resource: eventlog.Pods, Object: obj})
}

// upsertNode applies a node, in trouble of a kind.
func upsertNode(s *transcripts.Player, node *v1.Node, kind string) {
	node = node.DeepCopy()
	taint := func(key string) {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute})
	}
	switch kind {
	case "unreachable":
		taint(v1.TaintNodeUnreachable)
	case "not-ready":
		taint(v1.TaintNodeNotReady)
	case "other":
		taint("example.com/broken")
	case "cordoned":
		node.Spec.Unschedulable = true
	}
	transcripts.PlayInputs(s, &eventlog.Upserted{Resource: eventlog.Nodes, Object: node})
}

func TestADeletedNodeIsNamedAsTheCause(t *testing.T) {
	s := gangOfFour(t)
	before := groupOf(t, s, "train")
	if len(before.History.NodeLosses) != 0 {
		t.Fatalf("nothing is lost yet: %+v", before.History.NodeLosses)
	}
	node := before.Members[0].Node
	s.Step("delete nodes " + node)
	x := groupOf(t, s, "train")
	if len(x.History.NodeLosses) != 1 {
		t.Fatalf("lost nodes: %+v", x.History.NodeLosses)
	}
	loss := x.History.NodeLosses[0]
	want := fmt.Sprintf("node %s lost (its Node object was deleted): 2 pods of ml/train lost, "+
		"gang below its minimum", node)
	if loss.Node != node || loss.How != "Deleted" || loss.Pods != 2 || !loss.BelowMinimum || loss.Message != want ||
		loss.Seq != x.At.Seq {
		t.Errorf("the loss is %+v at %s, want %q", loss, x.At, want)
	}
	own := podOf(t, s, strings.TrimPrefix(loss.Names[0], "ml/")).NodeLost
	if own == nil || own.Node != node || own.Seq != loss.Seq || own.OnNode != 2 || !own.BelowMinimum {
		t.Errorf("the pod's loss is %+v", own)
	}
	other := x.Members[slices.IndexFunc(x.Members, func(m answer.GroupMember) bool { return m.Node != node })]
	if kept := podOf(t, s, strings.TrimPrefix(other.Pod, "ml/")); kept.NodeLost != nil {
		t.Errorf("%s is on another node, and has lost %+v", other.Pod, kept.NodeLost)
	}
}

func TestATaintOrADrainThatEvictsMembersIsNamedAsTheCause(t *testing.T) {
	for _, c := range []struct{ node, reason, how, taint string }{
		{"unreachable", "DeletionByTaintManager", "Unreachable", "node.kubernetes.io/unreachable"},
		{"not-ready", "DeletionByTaintManager", "NotReady", "node.kubernetes.io/not-ready"},
		{"other", "DeletionByTaintManager", "Tainted", "example.com/broken"},
		{"cordoned", "EvictionByEvictionAPI", "Drained", ""},
		{"", "EvictionByEvictionAPI", "", ""},
		{"cordoned", "PreemptionByScheduler", "", ""},
		{"unreachable", "", "", ""},
	} {
		t.Run(c.node+" "+c.reason, func(t *testing.T) {
			s := gangOfFour(t)
			on := s.Machine().Cluster().Pods().Named("ml", "train-0").Node
			upsertNode(s, s.Machine().Cluster().Nodes().Object(on), c.node)
			var names []string
			for _, p := range s.Machine().Cluster().PodsOn(on) {
				names = append(names, p.Object.Name)
			}
			for _, name := range names {
				disrupted(t, s, name, c.reason)
			}
			lost := groupOf(t, s, "train").History.NodeLosses
			if c.how == "" {
				if len(lost) != 0 || podOf(t, s, names[0]).NodeLost != nil {
					t.Errorf("no node was lost, and it says %+v", lost)
				}
				return
			}
			if len(lost) != 1 || lost[0].How != c.how || lost[0].Taint != c.taint || lost[0].Pods != 2 ||
				lost[0].Last == nil || !lost[0].BelowMinimum {
				t.Fatalf("lost nodes: %+v", lost)
			}
			for _, name := range names {
				if own := podOf(t, s, name).NodeLost; own == nil || own.How != c.how || own.OnNode != 2 {
					t.Errorf("the loss of %s is %+v", name, own)
				}
			}
		})
	}
}

// A node that is lost again after it recovered is another loss.
func TestANodeThatRecoversIsLostAgain(t *testing.T) {
	s := gangOfFour(t)
	on := s.Machine().Cluster().Pods().Named("ml", "train-0").Node
	for _, p := range s.Machine().Cluster().PodsOn(on) {
		node := s.Machine().Cluster().Nodes().Object(on)
		upsertNode(s, node, "unreachable")
		disrupted(t, s, p.Object.Name, "DeletionByTaintManager")
		upsertNode(s, node, "")
	}
	if lost := groupOf(t, s, "train").History.NodeLosses; len(lost) != 2 || lost[0].Pods != 1 || lost[1].Pods != 1 {
		t.Errorf("lost nodes: %+v", lost)
	}
}

// However much happens after it, a lost node has a line of its own.
func TestALostNodeIsNeverFolded(t *testing.T) {
	s := gangOfFour(t)
	s.Step("delete nodes " + s.Machine().Cluster().Pods().Named("ml", "train-0").Node)
	for range 4 {
		s.Step("group ml/train min=2")
		s.Step("group ml/train min=4")
	}
	x := groupOf(t, s, "train")
	var written strings.Builder
	if err := render.Group(&written, x); err != nil {
		t.Fatal(err)
	}
	text := written.String()
	if !strings.Contains(text, "changes more") || !strings.Contains(text, "\nnode lost ") ||
		!strings.Contains(text, x.History.NodeLosses[0].Message) {
		t.Errorf("the loss is not told:\n%s", text)
	}
}

// The answer about a pod names the node that an earlier pod of its name lost.
func TestTheLossOfAnEarlierPodOfTheNameIsTold(t *testing.T) {
	s := transcripts.New(t)
	s.Step("node n1 cpu=4")
	s.Step("pod ml/db-0 cpu=1")
	s.Step("delete nodes n1")
	s.Step("delete pods ml/db-0")
	s.Step("pod ml/db-0 cpu=1")
	x := podOf(t, s, "db-0")
	if x.NodeLost != nil || x.EarlierNodeLost == nil || x.EarlierNodeLost.Node != "n1" {
		t.Errorf("lost are %+v and before %+v", x.NodeLost, x.EarlierNodeLost)
	}
}
