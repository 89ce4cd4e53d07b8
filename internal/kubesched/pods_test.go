package kubesched_test

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func amounts(of map[v1.ResourceName]int) v1.ResourceList {
	list := v1.ResourceList{}
	for name, n := range of {
		list[name] = resource.MustParse(fmt.Sprint(n))
	}
	return list
}

// podUID is the UID that put gives a pod.
func podUID(name string) types.UID { return types.UID("pod-" + name) }

func (d *duel) makeNodes() {
	for i := range d.n(2, 6) {
		name := fmt.Sprintf("n%d", i)
		list := amounts(map[v1.ResourceName]int{
			v1.ResourceCPU: d.n(2, 6), v1.ResourceMemory: d.n(1, 4) << 30, v1.ResourcePods: d.n(3, 9)})
		if d.shape.extended && d.oneIn(3) {
			list[extendedGPU] = resource.MustParse(fmt.Sprint(d.n(0, 2)))
		}
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				v1.LabelHostname: name, v1.LabelTopologyZone: zone(i % 3), v1.LabelTopologyRegion: "r"}},
			Status: v1.NodeStatus{Allocatable: list, Capacity: list},
		}
		if d.oneIn(8) {
			node.Spec.Taints = []v1.Taint{{Key: "t", Effect: one(d, v1.TaintEffectNoSchedule,
				v1.TaintEffectPreferNoSchedule)}}
		}
		d.put(node)
		for range d.n(0, 3) * map[bool]int{true: 1}[d.shape.preemption] {
			p := d.plainPod("old")
			p.Spec.NodeName = name
			d.now = d.now.Add(time.Second)
			p.Status.StartTime = &metav1.Time{Time: d.now.Truncate(time.Second)}
			d.put(p)
		}
	}
}

func zone(i int) string { return fmt.Sprintf("z%d", i) }

func (d *duel) plainPod(prefix string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.name(prefix),
		Labels: map[string]string{"app": one(d, "a", "b", "c")}}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Priority = ptr.To(int32(0))
	most := 1
	if d.shape.preemption {
		p.Spec.Priority, most = ptr.To(int32(d.n(0, 4))), 3
	}
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{
		Requests: amounts(map[v1.ResourceName]int{v1.ResourceCPU: d.n(0, most), v1.ResourceMemory: d.n(0, 1) << 29})}}}
	return p
}

func (d *duel) newPod() *v1.Pod {
	p := d.plainPod("pod")
	if d.oneIn(6) {
		p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone(d.n(0, 2))}
	}
	if d.oneIn(8) {
		p.Spec.Tolerations = []v1.Toleration{{Key: "t", Operator: v1.TolerationOpExists}}
	}
	if d.shape.preemption && d.oneIn(8) {
		p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	}
	if d.oneIn(10) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(d, "a", "b", "c")}},
				TopologyKey:   one(d, v1.LabelHostname, v1.LabelTopologyZone)}}}}
	}
	if d.shape.affinity {
		d.addAffinity(p)
	}
	if d.shape.volumes && !d.oneIn(5) {
		d.addVolumes(p)
	}
	switch {
	case d.shape.extended && !d.oneIn(4):
		d.addExtended(p)
		if d.oneIn(4) && !d.offersGPU() { // kube-scheduler 1.37 fails to bind if a device plugin has it all
			d.addClaims(p)
		}
	case d.shape.devices && !d.oneIn(5) && !(d.shape.preemption && d.oneIn(2)):
		d.addClaims(p)
	}
	return p
}

// offersGPU reports whether a node has the extended resource of a device plugin.
func (d *duel) offersGPU() bool {
	return slices.ContainsFunc(all[*v1.Node](d), func(n *v1.Node) bool {
		amount := n.Status.Allocatable[extendedGPU]
		return !amount.IsZero()
	})
}

func (d *duel) makeBudgets() {
	for i := range d.n(0, 2) {
		d.put(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("budget-%d", i)},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(d, "a", "b", "c")}}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(d.n(0, 1))},
		})
	}
}
