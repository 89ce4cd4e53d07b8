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
// pod is repelled does not depend on earlier decisions, and equals the answer of kube-scheduler's plugin.
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

// decideBesideNominated returns the decisions on a pod beside one that is nominated for the only node and repels
// tier=red. Another pod may have been placed there before.
func decideBesideNominated(t *testing.T, registry framework.Registry, before, tier string) (decided []string) {
	w := newNominatedWorldOf(t, registry)
	if before != "" {
		w.upsert(eventlog.Pods, repellingPod("before", before, "app", "db"))
		w.decide()
	}
	w.upsert(eventlog.Pods, repellingPod("asking", tier, "app", "db"))
	nominated := repellingPod("nominated", "", "tier", "red")
	nominated.Status.NominatedNodeName = "n1"
	w.upsert(eventlog.Pods, nominated)
	w.decide()
	return w.decided
}

// nominatedWorld is a Machine with one node.
type nominatedWorld struct {
	t                *testing.T
	m                *scheduler.Machine
	epoch            uint64
	decided, victims []string
}

func newNominatedWorld(t *testing.T) *nominatedWorld {
	return newNominatedWorldOf(t, plugins.NewRegistry())
}

func newNominatedWorldOf(t *testing.T, registry framework.Registry) *nominatedWorld {
	w := &nominatedWorld{t: t, m: scheduler.New(registry)}
	w.begin()
	w.upsert(eventlog.Nodes, &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1", Labels: map[string]string{v1.LabelHostname: "n1"}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"),
			v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("20")}}})
	return w
}

// begin starts an epoch.
func (w *nominatedWorld) begin() {
	w.t.Helper()
	w.epoch++
	w.take(&eventlog.EpochStarted{ID: fmt.Sprintf("epoch-%d", w.epoch), Version: "test",
		Format: eventlog.FormatVersion, Behaviour: scheduler.Behaviour, Config: defaultConfig(w.t)})
}

func (w *nominatedWorld) take(p eventlog.Payload) {
	w.t.Helper()
	now := eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err := w.m.Apply(eventlog.Entry{Seq: w.m.Seq() + 1, Epoch: w.epoch, Time: now, Payload: p}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *nominatedWorld) upsert(res eventlog.Resource, object eventlog.Object) {
	w.t.Helper()
	object, err := eventlog.Canonical(res, eventlog.Trim(res, object))
	if err != nil {
		w.t.Fatal(err)
	}
	w.take(&eventlog.Upserted{Resource: res, Object: object})
}

// pod has a pod of a priority come, or change.
func (w *nominatedWorld) pod(name string, priority int32, change func(p *v1.Pod)) {
	w.t.Helper()
	p := repellingPod(name, "", "", "")
	p.Spec.Affinity, p.Spec.Priority = nil, &priority
	change(p)
	w.upsert(eventlog.Pods, p)
}

func (w *nominatedWorld) decide() {
	w.t.Helper()
	for d, ok := w.m.Decide(nil); ok; d, ok = w.m.Decide(nil) {
		w.decided = append(w.decided, fmt.Sprintf("%s %s %s", d.UID, d.Node, d.Outcome))
		for _, v := range d.Victims {
			w.victims = append(w.victims, fmt.Sprint(v))
		}
		w.take(&d)
	}
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

// The object of a pod that a Decision has nominated comes to have anti-affinity. From then on it keeps others away, as
// if it had had it when it was nominated.
func TestANominatedPodKeepsOthersAwayAsItsObjectNowSays(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, later *v1.Affinity
		placed       bool
	}{
		{"none, then some", nil, repellingPod("", "", "tier", "red").Spec.Affinity, false},
		{"some, then none", repellingPod("", "", "tier", "red").Spec.Affinity, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNominatedWorld(t)
			w.pod("victim", 0, func(p *v1.Pod) {
				p.Spec.NodeName, p.Status.Phase = "n1", v1.PodRunning
				p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			})
			preemptor := func(affinity *v1.Affinity) func(p *v1.Pod) {
				return func(p *v1.Pod) {
					p.Spec.Affinity = affinity
					p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
				}
			}
			w.pod("preemptor", 100, preemptor(c.first))
			w.decide()
			if len(w.victims) != 1 {
				t.Fatalf("decided %q with victims %q, so that nothing is nominated", w.decided, w.victims)
			}
			w.pod("preemptor", 100, preemptor(c.later))
			w.pod("asking", 0, func(p *v1.Pod) { p.Labels["tier"] = "red" })
			w.decide()
			placed := slices.Contains(w.decided, fmt.Sprintf("asking n1 %s", eventlog.Scheduled))
			if placed != c.placed {
				t.Errorf("the pod that asks is placed: %t, want %t; decided %q", placed, c.placed, w.decided)
			}
		})
	}
}
