package auditor

import (
	"fmt"
	"slices"
)

// notBeside is the reason of an unmet required affinity.
const notBeside = "the pods that it wants to be with are not there"

// The rules that depend on pods on other nodes: affinity between pods, and topology spread.

// matches reports whether a term of pod owner's affinity is about pod p.
func (t *affinityTerm) matches(owner, p *pod) bool {
	namespaces := t.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{owner.object.Metadata.Namespace}
	}
	return slices.Contains(namespaces, p.object.Metadata.Namespace) && t.LabelSelector.matches(p.object.Metadata.Labels)
}

// sameDomain reports whether both nodes have the label, with the same value.
func sameDomain(a, b *nodeObject, key string) bool {
	if a == nil || b == nil {
		return false
	}
	x, has := a.Metadata.Labels[key]
	y, also := b.Metadata.Labels[key]
	return has && also && x == y
}

// affinityBroken forbids a node where a required term of affinity or anti-affinity, of the pod or of an existing one,
// would be violated.
func (s *state) affinityBroken(p *pod, node *nodeObject, gone without) string {
	var others []*pod
	for _, other := range s.sortedPods() {
		if other != p && other.onNode() && !gone[other.uid] {
			others = append(others, other)
		}
	}
	for _, other := range others {
		for _, t := range other.object.Spec.Affinity.PodAntiAffinity.Required {
			if t.matches(other, p) && sameDomain(node, s.nodes[other.node], t.TopologyKey) {
				return fmt.Sprintf("pod %s on %s does not want it in the same %s", other.name, other.node,
					t.TopologyKey)
			}
		}
		for _, t := range p.object.Spec.Affinity.PodAntiAffinity.Required {
			if t.matches(p, other) && sameDomain(node, s.nodes[other.node], t.TopologyKey) {
				return fmt.Sprintf("it does not want pod %s on %s in the same %s", other.name, other.node,
					t.TopologyKey)
			}
		}
	}
	return s.companyMissing(p, node, others)
}

// companyMissing forbids a node without the pods that the pod must be with. A pod that matches its own term may be the
// first of them.
func (s *state) companyMissing(p *pod, node *nodeObject, others []*pod) string {
	terms := p.object.Spec.Affinity.PodAffinity.Required
	isCompany := func(other *pod) bool {
		return !slices.ContainsFunc(terms, func(t affinityTerm) bool { return !t.matches(p, other) })
	}
	found := 0
	for _, t := range terms {
		if _, has := node.Metadata.Labels[t.TopologyKey]; !has {
			return fmt.Sprintf("the node has no label %s", t.TopologyKey)
		}
		if slices.ContainsFunc(others, func(other *pod) bool {
			return isCompany(other) && sameDomain(node, s.nodes[other.node], t.TopologyKey)
		}) {
			found++
		}
	}
	if found == len(terms) {
		return ""
	}
	anywhere := slices.ContainsFunc(others, func(other *pod) bool {
		return isCompany(other) && slices.ContainsFunc(terms, func(t affinityTerm) bool {
			return sameDomain(s.nodes[other.node], s.nodes[other.node], t.TopologyKey)
		})
	})
	if isCompany(p) && !anywhere {
		return ""
	}
	return notBeside
}

// spreadBroken forbids a node where the pod would make a spread constraint's skew too large.
func (s *state) spreadBroken(p *pod, node *nodeObject, gone without) string {
	for _, c := range p.object.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != "DoNotSchedule" {
			continue
		}
		value, has := node.Metadata.Labels[c.TopologyKey]
		if !has {
			return fmt.Sprintf("the node has no label %s", c.TopologyKey)
		}
		counts := s.spread(p, &c, gone)
		least := -1
		for _, n := range counts {
			if least < 0 || n < least {
				least = n
			}
		}
		if len(counts) < c.MinDomains || least < 0 {
			least = 0
		}
		there := counts[value]
		if c.LabelSelector.matches(p.object.Metadata.Labels) {
			there++
		}
		if there-least > c.MaxSkew {
			return fmt.Sprintf("%d pods in %s=%s, and %d where there are the fewest: more than %d apart", there,
				c.TopologyKey, value, least, c.MaxSkew)
		}
	}
	return ""
}

// spread counts the pods that a constraint selects, by the value of its label, over the nodes that count for it.
func (s *state) spread(p *pod, c *spreadConstraint, gone without) map[string]int {
	counts := map[string]int{}
	for _, name := range s.sortedNodes() {
		node := s.nodes[name]
		value, has := node.Metadata.Labels[c.TopologyKey]
		if !has || !s.countsForSpread(p, c, node) {
			continue
		}
		counts[value] += 0
		for _, other := range s.on(name) {
			if other != p && !gone[other.uid] && other.object.Metadata.DeletionTimestamp == nil &&
				other.object.Metadata.Namespace == p.object.Metadata.Namespace &&
				c.LabelSelector.matches(other.object.Metadata.Labels) {
				counts[value]++
			}
		}
	}
	return counts
}

// countsForSpread reports whether a node counts: it has the labels of all constraints, its labels match the pod's node
// affinity and, if the constraint says so, the pod tolerates its taints.
func (s *state) countsForSpread(p *pod, c *spreadConstraint, node *nodeObject) bool {
	for _, other := range p.object.Spec.TopologySpreadConstraints {
		if _, has := node.Metadata.Labels[other.TopologyKey]; !has && other.WhenUnsatisfiable == "DoNotSchedule" {
			return false
		}
	}
	if c.NodeAffinityPolicy != "Ignore" && s.nodeDisliked(p, node, nil) != "" {
		return false
	}
	return c.NodeTaintsPolicy != "Honor" || s.tainted(p, node, nil) == ""
}
