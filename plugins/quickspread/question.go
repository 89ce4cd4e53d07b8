package quickspread

import (
	"encoding/binary"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Two pods share a memo if the answer to "how many pods count, on which node, in which domain" is the same for both. The
// question's bytes are all that the answer depends on besides the nodes and their pods: the namespace; of every hard
// constraint the topology key, the selector with what matchLabelKeys make of it, and the policies; and, if a policy asks for
// them, the pod's node affinity and its tolerations. Not maxSkew, not minDomains, and not whether the pod itself matches.

// rule is a hard constraint as far as counts depend on it.
type rule struct {
	topologyKey string
	selector    labels.Selector
	// affinity and taints: only nodes count that the pod's node affinity matches, and whose taints it tolerates.
	affinity, taints bool
}

func isHard(c *v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule }

// hasHardConstraint says whether the pod has one of its own. One without any constraints gets the plugin's default ones.
func hasHardConstraint(pod *v1.Pod) bool {
	for i := range pod.Spec.TopologySpreadConstraints {
		if isHard(&pod.Spec.TopologySpreadConstraints[i]) {
			return true
		}
	}
	return false
}

// policies returns what the constraint says of nodes that the pod cannot go to; by default their affinity counts and their
// taints do not.
func policies(c *v1.TopologySpreadConstraint) (affinity, taints bool) {
	affinity = c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor
	taints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	return affinity, taints
}

// newRule returns the hard constraint's rule for a pod with those labels. It fails if the selector is not valid.
func newRule(c *v1.TopologySpreadConstraint, podLabels map[string]string) (rule, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return rule{}, fmt.Errorf("selector for %s: %w", c.TopologyKey, err)
	}
	same := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := podLabels[key]; ok {
			same[key] = value
		}
	}
	// A selector without requirements to add to is one that matches nothing, and goes on to.
	if requirements, ok := selector.Requirements(); ok && len(same) > 0 {
		selector = labels.SelectorFromSet(same).Add(requirements...)
	}
	r := rule{topologyKey: c.TopologyKey, selector: selector}
	r.affinity, r.taints = policies(c)
	return r, nil
}

// appendQuestion appends the bytes of the pod's question to b.
func appendQuestion(b []byte, pod *v1.Pod) ([]byte, error) {
	b = appendBytes(b, pod.Namespace)
	affinity, taints := false, false
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if !isHard(c) {
			continue
		}
		a, t := policies(c)
		affinity, taints = affinity || a, taints || t
		b = append(b, 'c', flag(a), flag(t))
		b = appendBytes(b, c.TopologyKey)
		var err error
		if b, err = appendMessage(b, c.LabelSelector, c.LabelSelector == nil); err != nil {
			return nil, err
		}
		for _, key := range c.MatchLabelKeys {
			if value, ok := pod.Labels[key]; ok {
				b = appendBytes(appendBytes(append(b, 'l'), key), value)
			}
		}
	}
	var err error
	if affinity {
		// A label selector's bytes are those of its labels by name.
		if b, err = appendMessage(append(b, 'a'), &metav1.LabelSelector{MatchLabels: pod.Spec.NodeSelector}, false); err != nil {
			return nil, err
		}
		if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			if b, err = appendMessage(append(b, 'r'), required, required == nil); err != nil {
				return nil, err
			}
		}
	}
	if taints {
		for i := range pod.Spec.Tolerations {
			if b, err = appendMessage(append(b, 't'), &pod.Spec.Tolerations[i], false); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// appendBytes appends a string so that none can be taken for another with what follows it.
func appendBytes[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendMessage appends an object, or that there is none.
func appendMessage(b []byte, m interface{ Marshal() ([]byte, error) }, absent bool) ([]byte, error) {
	if absent {
		return append(b, 0), nil
	}
	data, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a %T: %w", m, err)
	}
	return appendBytes(append(b, 1), data), nil
}
