package cluster

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// The counts of a gang equal a count of all its members after any change of the members and their nodes. A restored
// state has the same counts.
func TestTheCountsOfAGangAreThoseOfCountingAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			changeGang(t, s)
			checkNeeded(t, s)
		}
		state, err := s.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		again := New()
		if err := again.Restore(canonical.NewReader(state)); err != nil {
			t.Fatal(err)
		}
		checkNeeded(t, again)
		was, is := s.Gangs().Named("ml", "a"), again.Gangs().Named("ml", "a")
		if was != nil && (is.away != was.away || is.onlyAsked != was.onlyAsked ||
			is.counts.Missing != was.counts.Missing || len(again.gangs.fallen) != len(s.gangs.fallen)) {
			t.Fatalf("restored: %d away, %d only asked, %d missing, %d fallen; before: %d, %d, %d, %d",
				is.away, is.onlyAsked, is.counts.Missing, len(again.gangs.fallen),
				was.away, was.onlyAsked, was.counts.Missing, len(s.gangs.fallen))
		}
	})
}

// changeGang lets one thing happen.
func changeGang(t *rapid.T, s *State) {
	must := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	node := fmt.Sprintf("n%d", rapid.IntRange(0, 2).Draw(t, "node"))
	uid := types.UID(fmt.Sprintf("a-%d", rapid.IntRange(0, 5).Draw(t, "pod")))
	p := s.Pods().Get(uid)
	switch rapid.SampledFrom(
		[]string{
			"group",
			"node",
			"node",
			"no node",
			"pod",
			"pod",
			"pod",
			"assume",
			"assume",
			"fail",
			"terminate",
			"evict",
			"stay",
			"end",
		},
	).Draw(
		t,
		"what",
	) {
	case "group":
		g := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "a", Annotations: map[string]string{
				belowMinimum: rapid.SampledFrom([]string{"Keep", "Evict"}).Draw(t, "below")}},
		}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{
			MinCount: rapid.Int32Range(1, 3).Draw(t, "min"),
		}
		must(s.Upsert(eventlog.PodGroups, g))
	case "node":
		must(s.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	case "no node":
		s.DeleteNode(node)
	case "pod":
		if p == nil {
			group := "a"
			obj := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: string(uid), UID: uid}}
			obj.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
			if rapid.Bool().Draw(t, "bound") {
				obj.Spec.NodeName = node
			}
			must(s.UpsertPod(obj))
		}
	case "assume":
		if p != nil && p.Stage == Pending && s.Nodes().Object(node) != nil {
			must(nil, s.Assume(p, node, Binding, nil))
		}
	case "fail":
		if p != nil && p.Stage == Binding {
			must(nil, s.Release(p))
		}
	case "terminate":
		if p != nil {
			obj := p.Object.DeepCopy()
			obj.DeletionTimestamp = &metav1.Time{}
			must(s.UpsertPod(obj))
		}
	case "evict":
		if p != nil {
			s.Evicting(p)
		}
	case "stay":
		if p != nil {
			s.Staying(p)
		}
	case "end":
		if rapid.Bool().Draw(t, "well") {
			s.Succeeded(uid)
		}
		must(s.DeletePod(uid))
	}
}

// checkNeeded counts again.
func checkNeeded(t *rapid.T, s *State) {
	g := s.Gangs().Named("ml", "a")
	if g == nil {
		return
	}
	placed, away, missing, asked := 0, 0, 0, 0
	for _, p := range g.Members() {
		onNode := p.Stage == Binding || p.Stage == Bound
		goes := p.Object.DeletionTimestamp != nil || p.evicted || onNode && s.Nodes().Object(p.Node) == nil
		if onNode && p.evicted && p.Object.DeletionTimestamp == nil && s.Nodes().Object(p.Node) != nil {
			asked++
		}
		if onNode && !goes {
			placed++
		}
		if g.counts.Met && onNode && !goes && !p.needed {
			t.Fatalf("%s has its node, and its gang, which had its minimum, does not need it", p.Object.Name)
		}
		if p.needed && (!onNode || goes) {
			away++
		}
		if p.needed && goes {
			missing++
		}
	}
	if g.Placed() != placed || g.away != away || g.counts.Missing != missing {
		t.Fatalf(
			"%d placed, %d away, %d missing; counted anew: %d, %d, %d",
			g.Placed(),
			g.away,
			g.counts.Missing,
			placed,
			away,
			missing,
		)
	}
	if g.onlyAsked != asked {
		t.Fatalf("%d only asked to go; counted anew: %d", g.onlyAsked, asked)
	}
	fallen := g.counts.Met && g.counts.Lost+missing > 0 && g.Evicts() && placed+g.counts.Succeeded < g.Min()
	if s.gangs.fallen[g] != fallen {
		t.Fatalf("fallen: %v; should be %v", s.gangs.fallen[g], fallen)
	}
}

// TestAGangThatWasOnlyAskedToGoIsNotForgotten has one of three members end well and the others be asked to go, of which
// one goes and the other one stays.
func TestAGangThatWasOnlyAskedToGoIsNotForgotten(t *testing.T) {
	s := New()
	must := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	group := "a"
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: group,
		Annotations: map[string]string{belowMinimum: "Evict"}}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	must(s.Upsert(eventlog.PodGroups, g))
	must(s.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	for _, uid := range []types.UID{"a-0", "a-1", "a-2"} {
		obj := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: string(uid), UID: uid}}
		obj.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		obj.Spec.NodeName = "n"
		must(s.UpsertPod(obj))
	}
	s.Succeeded("a-0")
	must(s.DeletePod("a-0"))
	s.Evicting(s.Pods().Get("a-1"))
	s.Evicting(s.Pods().Get("a-2"))
	s.Staying(s.Pods().Get("a-2"))
	if n, guarded := s.Gangs().Named("ml", group).CanLose(); !guarded || n != 0 {
		t.Errorf("%d can be spared, guarded: %t", n, guarded)
	}
	s.Evicting(s.Pods().Get("a-2"))
	must(s.DeletePod("a-1"))
	if !s.Gangs().Named("ml", group).Met() {
		t.Error("the gang is not known to have had its minimum")
	}
	s.DeleteNode("n")
	if !s.Gangs().Named("ml", group).Met() {
		t.Error("the gang is over with its node, although one member ended well and the PodGroup exists")
	}
	s.Delete(eventlog.PodGroups, "ml", group)
	if s.Gangs().Named("ml", group).Met() {
		t.Error("the gang is not over with its PodGroup")
	}
}
