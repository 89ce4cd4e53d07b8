package framework_test

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

var (
	namespaces = []string{"blue", "red"}
	zones      = []string{"z1", "z2", "z3"}
	disks      = []string{"ssd", "hdd"}
	apps       = []string{"web", "db", "job"}
	images     = []string{"registry.example.com/a:1", "registry.example.com/b:1", "registry.example.com/c:2"}
	taintKeys  = []string{"dedicated", "flaky", "gpu"}
	effects    = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
)

// generator makes small crowded worlds in which every plugin matters.
type generator struct{ *rand.Rand }

func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// world returns nodes and the pods on them.
func (g *generator) world() (nodes []*v1.Node, pods []*v1.Pod) {
	for i := range 2 + g.IntN(10) {
		node := g.node(fmt.Sprintf("node-%02d", i))
		nodes = append(nodes, node)
		for j := range g.IntN(5) {
			pod := g.pod(fmt.Sprintf("old-%02d-%d", i, j))
			pod.Spec.NodeName = node.Name
			if g.oneIn(10) {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			pods = append(pods, pod)
		}
	}
	return nodes, pods
}

// nominations returns pods nominated to some of the nodes, in one world out of three.
func (g *generator) nominations(nodes []*v1.Node) map[string][]fwk.PodInfo {
	out := map[string][]fwk.PodInfo{}
	if !g.oneIn(3) {
		return out
	}
	for i, node := range nodes {
		if !g.oneIn(3) {
			continue
		}
		info, err := upstream.NewPodInfo(g.pod(fmt.Sprintf("nominated-%d", i)))
		if err != nil {
			panic(err)
		}
		out[node.Name] = append(out[node.Name], info)
	}
	return out
}

func (g *generator) node(name string) *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname: name, "disk": pick(g, disks), "cores": fmt.Sprint(g.IntN(4)),
		}},
		Spec: v1.NodeSpec{Unschedulable: g.oneIn(10)},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU:              resource.MustParse(fmt.Sprint(4 + g.IntN(8))),
			v1.ResourceMemory:           resource.MustParse(fmt.Sprintf("%dGi", 4+g.IntN(16))),
			v1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
			v1.ResourcePods:             resource.MustParse(fmt.Sprint(3 + g.IntN(8))),
		}},
	}
	if !g.oneIn(6) {
		node.Labels["zone"] = pick(g, zones)
	}
	if g.oneIn(2) {
		node.Status.Allocatable["example.com/gpu"] = *resource.NewQuantity(int64(1+g.IntN(8)), resource.DecimalSI)
	}
	for range g.IntN(3) - 1 + g.IntN(2) {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: pick(g, taintKeys), Value: pick(g, disks),
			Effect: pick(g, effects)})
	}
	for _, image := range images {
		if g.oneIn(2) {
			node.Status.Images = append(node.Status.Images, v1.ContainerImage{
				Names: []string{image}, SizeBytes: (20 + g.Int64N(900)) << 20,
			})
		}
	}
	return node
}

func (g *generator) pod(name string) *v1.Pod {
	ns := pick(g, namespaces)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, UID: types.UID(ns + "/" + name),
			Labels: map[string]string{"app": pick(g, apps), "rev": fmt.Sprint(g.IntN(2))},
		},
		Spec: v1.PodSpec{
			SchedulerName: "default-scheduler",
			Priority:      ptr.To(int32(g.IntN(3))),
			Affinity:      &v1.Affinity{},
		},
	}
	for i := range 1 + g.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container(fmt.Sprintf("c%d", i)))
	}
	if g.oneIn(6) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, g.container("init"))
	}
	if g.oneIn(8) {
		pod.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}
	}
	g.constrainNodes(pod)
	g.constrainPods(pod)
	return pod
}

func (g *generator) container(name string) v1.Container {
	c := v1.Container{Name: name, Image: pick(g, images),
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
	if !g.oneIn(5) {
		c.Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(100*g.IntN(20)), resource.DecimalSI)
	}
	if !g.oneIn(5) {
		c.Resources.Requests[v1.ResourceMemory] = *resource.NewQuantity(g.Int64N(2<<30), resource.BinarySI)
	}
	if g.oneIn(5) {
		c.Resources.Requests["example.com/gpu"] = *resource.NewQuantity(int64(g.IntN(3)), resource.DecimalSI)
	}
	if g.oneIn(10) {
		c.Resources.Requests["example.com/rare"] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if g.oneIn(10) {
		c.Resources.Requests[v1.ResourceEphemeralStorage] = *resource.NewQuantity(g.Int64N(12<<30), resource.BinarySI)
	}
	if g.oneIn(6) {
		c.Ports = append(c.Ports, v1.ContainerPort{
			HostPort: int32(8080 + g.IntN(2)), ContainerPort: 80,
			Protocol: pick(g, []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP}),
			HostIP:   pick(g, []string{"", "127.0.0.1"}),
		})
	}
	return c
}

// constrainNodes gives the pod constraints about nodes: selector, affinity, tolerations, a name.
func (g *generator) constrainNodes(pod *v1.Pod) {
	if g.oneIn(6) {
		pod.Spec.NodeSelector = map[string]string{"disk": pick(g, disks)}
	}
	if g.oneIn(4) {
		affinity := &v1.NodeAffinity{}
		if g.oneIn(2) {
			affinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{g.nodeTerm(), g.nodeTerm()},
			}
		}
		for range g.IntN(3) {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: int32(1 + g.IntN(100)), Preference: g.nodeTerm()},
			)
		}
		pod.Spec.Affinity.NodeAffinity = affinity
	}
	for range g.IntN(4) {
		t := v1.Toleration{Key: pick(g, taintKeys), Operator: v1.TolerationOpExists}
		if g.oneIn(2) {
			t.Operator, t.Value = v1.TolerationOpEqual, pick(g, disks)
		}
		if g.oneIn(2) {
			t.Effect = pick(g, effects)
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
	}
	if g.oneIn(15) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists})
	}
	if g.oneIn(40) {
		pod.Spec.NodeName = fmt.Sprintf("node-%02d", g.IntN(4))
	}
}

// wishes returns a node affinity that prefers some nodes and requires none.
func (g *generator) wishes() *v1.NodeAffinity {
	out := &v1.NodeAffinity{}
	for range 3 {
		out.PreferredDuringSchedulingIgnoredDuringExecution = append(
			out.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: int32(1 + g.IntN(100)), Preference: g.nodeTerm()},
		)
	}
	return out
}

func (g *generator) nodeTerm() v1.NodeSelectorTerm {
	if g.oneIn(12) { // PreFilter turns this one into a list of nodes
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn,
				Values: []string{fmt.Sprintf("node-%02d", g.IntN(6))}},
		}}
	}
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{pick(g, []v1.NodeSelectorRequirement{
		{Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{pick(g, disks)}},
		{Key: "zone", Operator: v1.NodeSelectorOpNotIn, Values: []string{pick(g, zones)}},
		{Key: "zone", Operator: v1.NodeSelectorOpExists},
		{Key: "zone", Operator: v1.NodeSelectorOpDoesNotExist},
		{Key: "cores", Operator: v1.NodeSelectorOpGt, Values: []string{"1"}},
		{Key: "cores", Operator: v1.NodeSelectorOpLt, Values: []string{"2"}},
	})}}
}

// constrainPods gives the pod constraints about other pods: spread and affinity.
func (g *generator) constrainPods(pod *v1.Pod) {
	keys := []string{"zone", v1.LabelHostname}
	if g.oneIn(4) {
		for i, key := range keys {
			if g.oneIn(2) {
				continue
			}
			c := v1.TopologySpreadConstraint{
				MaxSkew: int32(1 + g.IntN(2)), TopologyKey: key, LabelSelector: g.selector(),
				WhenUnsatisfiable: pick(g, []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}),
			}
			if g.oneIn(4) {
				c.MatchLabelKeys = []string{"rev"}
			}
			if g.oneIn(4) && c.WhenUnsatisfiable == v1.DoNotSchedule {
				c.MinDomains = ptr.To(int32(1 + i + g.IntN(3)))
			}
			if g.oneIn(3) {
				c.NodeTaintsPolicy = ptr.To(pick(g, []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor,
					v1.NodeInclusionPolicyIgnore}))
				c.NodeAffinityPolicy = ptr.To(pick(g, []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor,
					v1.NodeInclusionPolicyIgnore}))
			}
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
		}
	}
	if g.oneIn(4) {
		required, preferred := g.podTerms()
		pod.Spec.Affinity.PodAffinity = &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  required,
			PreferredDuringSchedulingIgnoredDuringExecution: preferred,
		}
	}
	if g.oneIn(4) {
		required, preferred := g.podTerms()
		pod.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  required,
			PreferredDuringSchedulingIgnoredDuringExecution: preferred,
		}
	}
}

func (g *generator) podTerms() (required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	if g.oneIn(2) {
		required = append(required, g.podTerm())
	}
	for range g.IntN(3) {
		preferred = append(preferred, v1.WeightedPodAffinityTerm{Weight: int32(1 + g.IntN(100)),
			PodAffinityTerm: g.podTerm()})
	}
	return required, preferred
}

func (g *generator) podTerm() v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{LabelSelector: g.selector(), TopologyKey: pick(g, []string{"zone", v1.LabelHostname})}
	switch g.IntN(4) {
	case 0:
		term.Namespaces = []string{pick(g, namespaces)}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(g, namespaces)}}
	case 2:
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	return term
}

func (g *generator) selector() *metav1.LabelSelector {
	if g.oneIn(4) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, apps)}},
		}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, apps)}}
}
