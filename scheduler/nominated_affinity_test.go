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
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A pod that somebody else nominated for a node repels others there by a label that nobody asked for before. Whether a
// pod is repelled does not depend on which pods were decided before it, and is what kube-scheduler's plugin says.
func TestANominatedPodsAntiAffinityDoesNotDependOnWhoAskedBefore(t *testing.T) {
	for _, c := range []struct{ before, tier string }{
		{"", "blue"}, {"", "red"}, {"red", "blue"}, {"blue", "red"},
	} {
		t.Run(fmt.Sprintf("%s before, then %s", c.before, c.tier), func(t *testing.T) {
			registry := plugins.NewRegistry()
			ours := decideBesideNominated(t, registry, c.before, c.tier)
			registry = plugins.NewRegistry()
			registry.Factories[names.InterPodAffinity] = intree.NewInTreeRegistry()[names.InterPodAffinity]
			theirs := decideBesideNominated(t, registry, c.before, c.tier)
			if !slices.Equal(ours, theirs) {
				t.Errorf("decided %q, and with kube-scheduler's plugin %q", ours, theirs)
			}
			placed := fmt.Sprintf("asking n1 %s", eventlog.Scheduled)
			if got := slices.Contains(ours, placed); got != (c.tier == "blue") {
				t.Errorf("the pod is placed: %t; decided %q", got, ours)
			}
		})
	}
}

// decideBesideNominated returns what is decided of a pod beside one that is nominated for the only node and repels
// tier=red. Another pod may have been placed there before.
func decideBesideNominated(t *testing.T, registry framework.Registry, before, tier string) (decided []string) {
	m := scheduler.New(registry)
	now := eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	take := func(p eventlog.Payload) {
		t.Helper()
		if up, ok := p.(*eventlog.Upserted); ok {
			obj, err := eventlog.Canonical(up.Resource, eventlog.Trim(up.Resource, up.Object))
			if err != nil {
				t.Fatal(err)
			}
			up.Object = obj
		}
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1, Time: now, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	decide := func() {
		for d, ok := m.Decide(nil); ok; d, ok = m.Decide(nil) {
			decided = append(decided, fmt.Sprintf("%s %s %s", d.UID, d.Node, d.Outcome))
			take(&d)
		}
	}
	take(&eventlog.EpochStarted{ID: "epoch-1", Version: "test", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: defaultConfig(t)})
	take(&eventlog.Upserted{Resource: eventlog.Nodes, Object: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1", Labels: map[string]string{v1.LabelHostname: "n1"}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"),
			v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("20")}}}})
	if before != "" {
		take(&eventlog.Upserted{Resource: eventlog.Pods, Object: repellingPod("before", before, "app", "db")})
		decide()
	}
	take(&eventlog.Upserted{Resource: eventlog.Pods, Object: repellingPod("asking", tier, "app", "db")})
	nominated := repellingPod("nominated", "", "tier", "red")
	nominated.Status.NominatedNodeName = "n1"
	take(&eventlog.Upserted{Resource: eventlog.Pods, Object: nominated})
	decide()
	return decided
}

// repellingPod is a pod of a tier that is to be apart, by node, from pods that have the label.
func repellingPod(name, tier, key, value string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name),
			Labels: map[string]string{"app": "web", "tier": tier}},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c"}},
			Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}
