package kubesched_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestAffinityAndSoftSpreadAreUpstreams compares decisions on pods with affinity to other pods, in all its fields, and
// with soft spread. The feasible nodes, the reasons, the scores and the node must be kube-scheduler's, and so must the
// victims where the pods preempt others.
func TestAffinityAndSoftSpreadAreUpstreams(t *testing.T) {
	for name, s := range map[string]shape{"alone": {affinity: true}, "preempting": {affinity: true, preemption: true}} {
		t.Run(name, func(t *testing.T) {
			seen := run(t, s, worldsOf(40))
			check(t, seen, 5, "scheduled", "Score InterPodAffinity", "Score PodTopologySpread",
				"Filter InterPodAffinity: node(s) didn't match pod affinity rules",
				"Filter InterPodAffinity: node(s) didn't match pod anti-affinity rules",
				"Filter InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules")
			if s.preemption {
				check(t, seen, 5, "preempts")
			}
		})
	}
}

// labelNamespace creates the pods' namespace, or changes its labels.
func (d *duel) labelNamespace() {
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if !d.oneIn(3) {
		n.Labels = map[string]string{"team": one(d, "red", "blue")}
	}
	d.put(n)
}

// addAffinity gives the pod terms of every kind, and soft spread constraints.
func (d *duel) addAffinity(p *v1.Pod) {
	p.Labels["version"] = one(d, "1", "2")
	if !d.oneIn(3) {
		p.Spec.Affinity = &v1.Affinity{}
		if d.oneIn(2) {
			p.Spec.Affinity.PodAffinity = &v1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: d.weighted(p)}
			if d.oneIn(3) {
				p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = d.terms(p)
			}
		}
		if d.oneIn(2) {
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: d.weighted(p)}
			if d.oneIn(3) {
				p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = d.terms(p)
			}
		}
	}
	for _, key := range []string{v1.LabelTopologyZone, v1.LabelHostname} {
		if !d.oneIn(3) {
			continue
		}
		c := v1.TopologySpreadConstraint{MaxSkew: int32(d.n(1, 2)), TopologyKey: key,
			WhenUnsatisfiable: v1.ScheduleAnyway,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}}
		if d.oneIn(3) {
			c.MatchLabelKeys = []string{"version"}
		}
		if d.oneIn(3) {
			c.NodeTaintsPolicy = ptr.To(v1.NodeInclusionPolicyHonor)
			c.NodeAffinityPolicy = ptr.To(one(d, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore))
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

func (d *duel) weighted(p *v1.Pod) (out []v1.WeightedPodAffinityTerm) {
	for range d.n(0, 2) {
		out = append(out, v1.WeightedPodAffinityTerm{Weight: int32(d.n(1, 100)), PodAffinityTerm: d.term(p)})
	}
	return out
}

func (d *duel) terms(p *v1.Pod) (out []v1.PodAffinityTerm) {
	for range d.n(1, 2) {
		out = append(out, d.term(p))
	}
	return out
}

// term returns a term of the pod, with the labels that the API server adds for matchLabelKeys and mismatchLabelKeys.
func (d *duel) term(p *v1.Pod) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{
		TopologyKey:   one(d, v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelTopologyRegion),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": one(d, "a", "b", "c")}},
	}
	switch d.n(0, 6) {
	case 0:
		t.Namespaces = []string{one(d, namespace, "elsewhere")}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": one(d, "red", "blue")}}
	case 3:
		t.Namespaces = []string{"elsewhere"}
		t.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team",
			Operator: metav1.LabelSelectorOpExists}}}
	}
	if d.oneIn(3) {
		operator := metav1.LabelSelectorOpIn
		if d.oneIn(2) {
			operator, t.MismatchLabelKeys = metav1.LabelSelectorOpNotIn, []string{"version"}
		} else {
			t.MatchLabelKeys = []string{"version"}
		}
		t.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "version", Operator: operator,
			Values: []string{p.Labels["version"]}}}
	}
	return t
}
