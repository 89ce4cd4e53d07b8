package room

import (
	"slices"

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

// asksNothing reports whether a pod asks nothing of a node but resources: the nodes for one such pod are those for all.
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

// MayRunOn reports whether a pod could run on a node if it were empty, as far as selectors, required node affinity and
// taints say.
func (t *Table) MayRunOn(pod *cluster.Pod, node *v1.Node) bool {
	return mayRunOn(pod.Object, node, t.comparisons)
}

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
