package workload

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultApps is the number of apps in workloads whose pods have terms about apps.
const DefaultApps = 50

// namespaces is the number of namespaces that hold the pods of a workload with NamespaceAffinity.
const namespaces = 5

// team is the label of these namespaces, and its value.
const team, ofBench = "team", "bench"

// usesApps reports whether pods have terms about the pods of their app, or of another one.
func (s Spec) usesApps() bool {
	return s.Affinity || s.SoftSpread || s.ZoneAffinity || s.NamespaceAffinity
}

// checkTerms returns an error if the terms about other pods are invalid.
func (s Spec) checkTerms() error {
	apps := s.apps()
	switch {
	case s.Apps < 0 || s.Apps > MaxPods:
		return fmt.Errorf("%d apps: want 1 to %d, or 0 for %d", s.Apps, MaxPods, DefaultApps)
	case s.Apps > 0 && !s.usesApps():
		return fmt.Errorf("%d apps: pods do not look at apps; ask for affinity, or for soft spread", s.Apps)
	case s.Affinity && min(s.Pods, s.Room()) > apps*s.Nodes:
		return fmt.Errorf("%d pods of %d apps: of each app one fits on a node, and there are %d nodes", s.Pods, apps,
			s.Nodes)
	}
	return nil
}

func (s Spec) apps() int { return cmp.Or(s.Apps, DefaultApps) }

// appLabels are the labels of an app's pods.
func appLabels(app int) map[string]string { return map[string]string{"app": fmt.Sprint("a", app)} }

// lookAtOthers gives the i-th pod its terms about other pods' places.
func (s Spec) lookAtOthers(pod *corev1.Pod, i int) {
	app := i % s.apps()
	pod.Labels = appLabels(app)
	own := &metav1.LabelSelector{MatchLabels: appLabels(app)}
	if s.SoftSpread {
		for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints,
				corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: own})
		}
	}
	if s.NamespaceAffinity {
		pod.Namespace = namespaceName(app % namespaces)
	}
	var affinity corev1.PodAffinity
	if s.Affinity {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 10,
			PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: own, TopologyKey: corev1.LabelTopologyZone}}}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: own,
				TopologyKey: corev1.LabelHostname}}}}
	}
	if (s.ZoneAffinity || s.NamespaceAffinity) && app > 0 { // the pods of the first app may go anywhere
		term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: appLabels(0)},
			TopologyKey: corev1.LabelTopologyZone}
		if s.NamespaceAffinity {
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{team: ofBench}}
		}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term}
	}
	if s.Affinity || affinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		pod.Spec.Affinity.PodAffinity = &affinity
	}
}

func namespaceName(i int) string { return fmt.Sprintf("%s-%d", namespace, i) }

// Namespaces makes the namespaces that must exist: the ones of pods that select others by namespace.
func (s Spec) Namespaces() (all []*corev1.Namespace) {
	if !s.NamespaceAffinity {
		return nil
	}
	for i := range namespaces {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespaceName(i), UID: uid(kindNamespace, i), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(began.Add(-time.Hour)), Labels: map[string]string{team: ofBench},
		}})
	}
	return all
}
