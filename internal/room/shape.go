package room

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/rollcall-sched/rollcall/cluster"
)

// eligible reports, pod by pod, whether the pod could run on the node if the node were empty, as far as selectors,
// required node affinity and taints say. comparisons says whether a toleration may compare numbers.
func eligible(pods []*cluster.Pod, node *v1.Node, comparisons bool) []bool {
	out := make([]bool, len(pods))
	wasPlain := false
	for i, p := range pods {
		plain := asksNothing(p.Object)
		if plain && wasPlain {
			out[i] = out[i-1]
			continue
		}
		out[i] = mayRunOn(p.Object, node, comparisons)
		wasPlain = plain
	}
	return out
}

// asksNothing reports whether a pod requires only resources of a node: then all pods like it may use the same nodes.
func asksNothing(p *v1.Pod) bool {
	return len(p.Spec.NodeSelector) == 0 && requiredAffinity(p) == nil && len(p.Spec.Tolerations) == 0
}

// saysNothing reports whether a pod says nothing at all about nodes: no preference and no affinity to pods either,
// which change no answer of this package.
func saysNothing(p *v1.Pod) bool { return asksNothing(p) && p.Spec.Affinity == nil }

// sameNodes reports whether two pods ask the same of a node, so that mayRunOn has one answer for both. It compares all
// that mayRunOn looks at, and nothing else: host ports, volumes, spreading and the affinity to other pods change no
// answer of this package.
func sameNodes(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		equality.Semantic.DeepEqual(requiredAffinity(a), requiredAffinity(b)) &&
		equality.Semantic.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations)
}

// requiredAffinity returns which nodes a pod requires, nil for any.
func requiredAffinity(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// mayRunOn reports whether a pod could run on a node if it were empty, as far as selectors, required node affinity and
// taints say.
func mayRunOn(pod *v1.Pod, node *v1.Node, comparisons bool) bool {
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	tolerations := pod.Spec.Tolerations
	if node.Spec.Unschedulable &&
		!corev1helpers.TolerationsTolerateTaint(logr.Discard(), tolerations, &cordon, comparisons) {
		return false
	}
	hinders := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(
		logr.Discard(), node.Spec.Taints, tolerations, hinders, comparisons)
	if untolerated {
		return false
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && match
}

// Shape is the part of some pods that matters for room: how much of which resources they request, and which nodes they
// may run on.
type Shape struct {
	key       string
	like      *v1.Pod // says on which nodes the pods may run; nil if they need the amounts at the least, on any node
	resources []v1.ResourceName
	needs     []int64
}

// ShapeOf returns the shape of pods that are alike; ok is false for others.
func ShapeOf(pods []*cluster.Pod) (_ *Shape, ok bool) {
	if len(pods) == 0 || !interchangeable(pods) {
		return nil, false
	}
	s := &Shape{like: pods[0].Object, resources: ResourcesOf(pods[:1])}
	for _, name := range s.resources {
		s.needs = append(s.needs, pods[0].Amount(name))
	}
	spec := &s.like.Spec
	asks, err := json.Marshal([]any{spec.NodeSelector, requiredAffinity(s.like), spec.Tolerations})
	if err != nil {
		return nil, false
	}
	s.key = s.amounts() + string(asks)
	return s, true
}

// leastShape is the shape of pods that need so much of each resource at the least.
func leastShape(requests []cluster.Requests) *Shape {
	s := &Shape{}
	for i := range requests {
		if least := requests[i].Smallest(1); least > 0 {
			s.resources, s.needs = append(s.resources, requests[i].Resource), append(s.needs, least)
		}
	}
	s.key = s.amounts()
	return s
}

// amounts returns the needs as text.
func (s *Shape) amounts() string {
	var text strings.Builder
	for k, name := range s.resources {
		text.WriteString(string(name) + "=" + strconv.FormatInt(s.needs[k], 10) + " ")
	}
	return text.String()
}

// Key returns text that only equal shapes share.
func (s *Shape) Key() string { return s.key }

// StandsForDevices reports whether nodes may have one of the shape's resources as devices. How many of these are free
// is not counted.
func (t *Table) StandsForDevices(s *Shape) bool {
	return slices.ContainsFunc(s.resources, t.cluster.Devices().Stands)
}

// ComparesTaints reports whether one of the pods has a toleration that is neither for a value nor for any: whether it
// counts depends on a feature gate.
func ComparesTaints(pods []*cluster.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *cluster.Pod) bool {
		return slices.ContainsFunc(pod.Object.Spec.Tolerations, func(t v1.Toleration) bool {
			return t.Operator != "" && t.Operator != v1.TolerationOpEqual && t.Operator != v1.TolerationOpExists
		})
	})
}

// ResourcesOf returns the resources that the pods request any of, sorted. The number of pods that a node takes is one
// of them.
func ResourcesOf(pods []*cluster.Pod) []v1.ResourceName {
	names := []v1.ResourceName{v1.ResourcePods}
	add := func(name v1.ResourceName, amount int64) {
		if amount > 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, p := range pods {
		r := p.Requests()
		add(v1.ResourceCPU, r.GetMilliCPU())
		add(v1.ResourceMemory, r.GetMemory())
		add(v1.ResourceEphemeralStorage, r.GetEphemeralStorage())
		// any order: sorted below
		for name, amount := range r.GetScalarResources() {
			add(name, amount)
		}
	}
	slices.Sort(names)
	return names
}
