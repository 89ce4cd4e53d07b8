package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The API objects of an exactWorld.

func cpus(n int) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// addNodes puts the nodes and the pods on them.
func (w *exactWorld) addNodes(put func(eventlog.Resource, eventlog.Object)) {
	for i, n := range w.nodes {
		name := fmt.Sprintf("n%d", i)
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Labels = map[string]string{byHost: name, byZone: n.zone}
		if n.rack != "" {
			node.Labels[byRack] = n.rack
		}
		if n.ssd {
			node.Labels["disk"] = "ssd"
		}
		if n.bad {
			node.Spec.Taints = []v1.Taint{{Key: "bad", Effect: v1.TaintEffectNoSchedule}}
		}
		node.Status.Allocatable = cpus(n.cpu)
		node.Status.Allocatable[v1.ResourcePods] = resource.MustParse("99")
		put(eventlog.Nodes, node)
		on := func(name string, cpu, repels int) {
			put(eventlog.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
				Spec: v1.PodSpec{NodeName: node.Name, SchedulerName: "other", Containers: []v1.Container{
					{Name: "c", Resources: v1.ResourceRequirements{Requests: cpus(cpu)}}},
					Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: kindTerms(repels, byHost)}}}})
		}
		rest := n.used
		for j, cpu := range n.pods {
			on(podName(i, j), cpu, -1)
			rest -= cpu
		}
		if rest > 0 || n.repels >= 0 {
			on("on-"+name, rest, n.repels)
		}
	}
}

// declare puts the gangs, and the composite above several.
func (w *exactWorld) declare(put func(eventlog.Resource, eventlog.Object)) {
	w.declareAbove(put)
	if len(w.minima) > 1 && w.above == nil {
		c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all"}}
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(w.needed)}
		put(eventlog.CompositePodGroups, c)
	}
	for i, minimum := range w.minima {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: gangName(i)}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(max(1, minimum))}
		label := ""
		if w.above != nil {
			g.Spec.ParentCompositePodGroupName, label = ptr.To(compositeName(w.under[i])), w.by[i]
		} else if len(w.minima) > 1 {
			g.Spec.ParentCompositePodGroupName = ptr.To("all")
		}
		if w.oneZone {
			label = byZone
		}
		if label != "" {
			g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
				Topology: []schedulingv1beta1.TopologyConstraint{{Key: label}}}
		}
		if w.prefers && !w.oneZone {
			g.Annotations = map[string]string{"rollcall.dev/topology-preferred": byZone}
		}
		put(eventlog.PodGroups, g)
	}
}

func gangName(i int) string { return fmt.Sprintf("g%d", i) }

func (w *exactWorld) pod(i, k int) *v1.Pod {
	kind := w.kinds[k]
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("m%d", i), Labels: map[string]string{
		"kind": fmt.Sprint(k)}}}
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To(gangName(w.gangs[i]))}
	p.Spec.SchedulerName, p.Spec.Priority = "default-scheduler", &w.priority
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: cpus(kind.cpu)}}}
	if kind.port {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
	}
	if kind.ssd {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	if kind.tolerates {
		p.Spec.Tolerations = []v1.Toleration{{Key: "bad", Operator: v1.TolerationOpExists}}
	}
	p.Spec.Affinity = &v1.Affinity{}
	if apart := kindTerms(kind.apart, kind.apartBy); apart != nil {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}
	}
	if near := kindTerms(kind.together, kind.closeBy); near != nil {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}
	}
	return p
}

// kindTerms returns the term that selects the members of a kind, none for -1.
func kindTerms(kind int, by string) []v1.PodAffinityTerm {
	if kind < 0 {
		return nil
	}
	return []v1.PodAffinityTerm{{TopologyKey: by, LabelSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kind": fmt.Sprint(kind)}}}}
}

// TestAGangOfUnequalMembersEvictsNoMoreThanItNeeds has a gang of two come to many full nodes. Only one is large enough
// for the second member. In the usual order the first member would take that one.
func TestAGangOfUnequalMembersEvictsNoMoreThanItNeeds(t *testing.T) {
	w := &exactWorld{kinds: []exactKind{{cpu: 2, apart: -1, together: -1}, {cpu: 8, apart: -1, together: -1}},
		members: []int{0, 1}, gangs: []int{0, 0}, minima: []int{2}, needed: 1, priority: 1}
	for i := range 1000 {
		n := exactNode{cpu: 4, used: 4, zone: "a", repels: -1}
		if i == 0 {
			n.cpu, n.used = 8, 8
		}
		w.nodes = append(w.nodes, n)
	}
	w.schedule(t)
	if w.victims != 2 {
		t.Errorf("%d pods are evicted, want 2", w.victims)
	}
}

// TestAnElasticGangIsPlannedOnce has a gang that needs two of its three members. In the order of the names the third
// one finds no node.
func TestAnElasticGangIsPlannedOnce(t *testing.T) {
	w := &exactWorld{kinds: []exactKind{{cpu: 2, apart: -1, together: -1}, {cpu: 8, apart: -1, together: -1}},
		members: []int{0, 0, 1}, gangs: make([]int, 3), minima: []int{2}, needed: 1}
	for _, cpu := range []int{4, 8} {
		w.nodes = append(w.nodes, exactNode{cpu: cpu, zone: "a", repels: -1})
	}
	if placed, _ := w.schedule(t); !slices.Equal(placed, []int{3}) || w.plans != 1 {
		t.Errorf("placed %v with %d plans, want all three with one", placed, w.plans)
	}
}

// TestNodesThatOnlyLookEqualAreAllTried has a member that may go to two nodes with the same free amounts. One of them
// is the last node of another kind.
func TestNodesThatOnlyLookEqualAreAllTried(t *testing.T) {
	node := func(ssd, bad bool) exactNode { return exactNode{cpu: 4, zone: "a", ssd: ssd, bad: bad, repels: -1} }
	w := &exactWorld{
		nodes: []exactNode{node(true, false), node(false, false), node(true, true), node(true, true)},
		kinds: []exactKind{{cpu: 4, apart: -1, together: -1},
			{cpu: 4, ssd: true, tolerates: true, apart: -1, together: -1}},
		members: []int{0, 1, 1, 1}, gangs: make([]int, 4),
		minima: []int{4}, needed: 1,
	}
	if placed, planned := w.schedule(t); !w.all(placed) || !planned || !w.placeable(w.all) {
		t.Errorf("placed %v, planned %t; an exact search finds a placement: %t", placed, planned, w.placeable(w.all))
	}
}
