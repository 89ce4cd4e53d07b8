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

// thatAre returns the constraints with the action.
func thatAre(action v1.UnsatisfiableConstraintAction,
	constraints []v1.TopologySpreadConstraint) []v1.TopologySpreadConstraint {
	isOther := func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != action }
	if !slices.ContainsFunc(constraints, isOther) {
		return constraints
	}
	return slices.DeleteFunc(slices.Clone(constraints), isOther)
}

// policies reports whether the pod's node affinity, and the nodes' taints, exclude nodes from the count. By default the
// affinity does and taints do not.
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

// ownSelector is the constraint's own selector, with the labels of matchLabelKeys added.
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
	// A selector without requirements matches nothing, and adding to it must not change that.
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
	var spec v1.PodSpec
	for _, c := range q.constraints {
		affinity, taints := policies(&c)
		if affinity {
			spec.NodeSelector, spec.Affinity = q.pod.Spec.NodeSelector, requiredNodeAffinity(q.pod)
		}
		if taints {
			spec.Tolerations = q.pod.Spec.Tolerations
		}
		c.MaxSkew, c.MinDomains = 0, nil
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, c)
	}
	size := spec.Size()
	b = binary.AppendUvarint(append(b, 's'), uint64(size))
	at := len(b)
	b = slices.Grow(b, size)[:at+size]
	if _, err := spec.MarshalToSizedBuffer(b[at:]); err != nil {
		return nil, fmt.Errorf("encode constraints: %w", err)
	}
	b = appendString(b, q.pod.Namespace)
	for i := range q.constraints {
		for _, key := range q.matchLabelKeys(&q.constraints[i]) {
			value, ok := q.pod.Labels[key]
			b = appendString(append(b, flag(ok)), value)
		}
	}
	if q.selector != nil {
		b = appendSelector(b, q.selector)
	}
	return b, nil
}

// requiredNodeAffinity returns the part of the pod's affinity that says to which nodes it may go.
func requiredNodeAffinity(pod *v1.Pod) *v1.Affinity {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	return nil
}

// appendSelector appends a parsed selector. Its String would not do: nobody has checked that labels of services have no
// commas.
func appendSelector(b []byte, selector labels.Selector) []byte {
	requirements, ok := selector.Requirements()
	b = append(b, flag(ok))
	for i := range requirements {
		r := &requirements[i]
		b = appendString(appendString(b, r.Key()), string(r.Operator()))
		values := r.Values().List()
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, value := range values {
			b = appendString(b, value)
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

// appendString appends the string's length and the string.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
