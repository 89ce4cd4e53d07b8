package quickspread

import (
	"encoding/binary"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// question is the constraints of a pod. Pods with the same key share counts.
type question struct {
	pod         *v1.Pod
	gates       gates
	constraints []v1.TopologySpreadConstraint // the hard ones, or the soft ones
	soft        bool                          // which of them
	selector    labels.Selector               // of default constraints; nil: each constraint has its own
}

// thatAre returns those of the constraints of which the action is to be taken.
func thatAre(action v1.UnsatisfiableConstraintAction,
	constraints []v1.TopologySpreadConstraint) []v1.TopologySpreadConstraint {
	isOther := func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != action }
	if !slices.ContainsFunc(constraints, isOther) {
		return constraints
	}
	return slices.DeleteFunc(slices.Clone(constraints), isOther)
}

// policies returns what the constraint says of nodes that the pod cannot go to; by default their affinity counts and
// their taints do not.
func policies(c *v1.TopologySpreadConstraint) (affinity, taints bool) {
	affinity = c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor
	taints = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	return affinity, taints
}

// rules returns a rule for each constraint. It fails if a selector is not valid.
func (q *question) rules() ([]rule, error) {
	rules := make([]rule, len(q.constraints))
	for i := range q.constraints {
		c := &q.constraints[i]
		r := &rules[i]
		r.topology.Label, r.selector = c.TopologyKey, q.selector
		// The pods on the node itself say what a soft constraint on host names is worth.
		r.topology.EachNode = q.soft && c.TopologyKey == v1.LabelHostname
		r.affinity, r.taints = policies(c)
		if r.selector == nil {
			var err error
			if r.selector, err = q.ownSelector(c); err != nil {
				return nil, fmt.Errorf("selector for %s: %w", c.TopologyKey, err)
			}
		}
	}
	return rules, nil
}

// ownSelector is the constraint's own selector, with what matchLabelKeys make of it.
func (q *question) ownSelector(c *v1.TopologySpreadConstraint) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, err
	}
	same := labels.Set{}
	for _, key := range q.matchLabelKeys(c) {
		if value, ok := q.pod.Labels[key]; ok {
			same[key] = value
		}
	}
	// A selector without requirements to add to is one that matches nothing, and goes on to.
	if requirements, ok := selector.Requirements(); ok && len(same) > 0 {
		return labels.SelectorFromSet(same).Add(requirements...), nil
	}
	return selector, nil
}

func (q *question) matchLabelKeys(c *v1.TopologySpreadConstraint) []string {
	if !q.gates.matchLabelKeys {
		return nil
	}
	return c.MatchLabelKeys
}

// appendKey appends everything that counts depend on besides the nodes and their pods. They do not depend on maxSkew,
// minDomains, or whether the pod itself matches, and on the pod's node affinity and tolerations only if a policy asks
// for them.
func (q *question) appendKey(b []byte) ([]byte, error) {
	b = appendBytes(append(b, 's', flag(q.soft)), q.pod.Namespace)
	var err error
	affinity, taints := false, false
	for i := range q.constraints {
		c := &q.constraints[i]
		a, t := policies(c)
		affinity, taints = affinity || a, taints || t
		b = append(b, 'c', flag(a), flag(t))
		b = appendBytes(b, c.TopologyKey)
		if q.selector != nil {
			b = appendSelector(b, q.selector)
			continue
		}
		if b, err = appendMessage(b, c.LabelSelector, c.LabelSelector == nil); err != nil {
			return nil, err
		}
		for _, key := range q.matchLabelKeys(c) {
			if value, ok := q.pod.Labels[key]; ok {
				b = appendBytes(appendBytes(append(b, 'l'), key), value)
			}
		}
	}
	if affinity {
		if b, err = appendAffinity(append(b, 'a'), q.pod); err != nil {
			return nil, err
		}
	}
	if taints {
		for i := range q.pod.Spec.Tolerations {
			if b, err = appendMessage(append(b, 't'), &q.pod.Spec.Tolerations[i], false); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// appendAffinity appends what of the pod says to which nodes it may go.
func appendAffinity(b []byte, pod *v1.Pod) ([]byte, error) {
	// A label selector's bytes are those of its labels by name.
	b, err := appendMessage(b, &metav1.LabelSelector{MatchLabels: pod.Spec.NodeSelector}, false)
	if err != nil {
		return nil, err
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		return appendMessage(append(b, 'r'), required, required == nil)
	}
	return b, nil
}

// appendSelector appends a parsed selector. Its String would not do: nobody has checked that labels of services have no
// commas.
func appendSelector(b []byte, selector labels.Selector) []byte {
	requirements, ok := selector.Requirements()
	b = append(b, 's', flag(ok))
	b = binary.AppendUvarint(b, uint64(len(requirements)))
	for i := range requirements {
		r := &requirements[i]
		b = appendBytes(appendBytes(b, r.Key()), string(r.Operator()))
		values := r.Values().List()
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, value := range values {
			b = appendBytes(b, value)
		}
	}
	return b
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
