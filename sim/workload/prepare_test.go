package workload

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsAreAsTheAPIServerStoresThem reads fields that the API server fills in from others on create.
func TestPodsAreAsTheAPIServerStoresThem(t *testing.T) {
	in, err := readText(`apiVersion: v1
kind: Pod
metadata: {name: keys, labels: {app: web, rev: v2, tenant: a}}
spec:
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev], mismatchLabelKeys: [tenant]}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}},
     matchLabelKeys: [rev]}
  containers: [{name: c}]
---
apiVersion: v1
kind: Pod
metadata: {name: limits}
spec:
  resources: {limits: {cpu: 2, memory: 1Gi}}
  containers: [{name: c}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: zone, labelSelector: {matchLabels: {app: d}}, matchLabelKeys: [pod-template-hash]}
      containers: [{name: c}]
`)
	if err != nil {
		t.Fatal(err)
	}
	terms := func(p *corev1.Pod) []metav1.LabelSelectorRequirement {
		required := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		return required[0].LabelSelector.MatchExpressions
	}
	want := []metav1.LabelSelectorRequirement{{Key: "rev", Operator: "In", Values: []string{"v2"}},
		{Key: "tenant", Operator: "NotIn", Values: []string{"a"}}}
	equal := func(a, b metav1.LabelSelectorRequirement) bool {
		return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
	}
	keys := in.workload.Pods[0].Template
	if got := terms(keys); !slices.EqualFunc(got, want, equal) {
		t.Errorf("the selector of the anti-affinity is %v, want %v", got, want)
	}
	limits := in.workload.Pods[1].Template.Spec.Resources
	if limits == nil || limits.Requests.Cpu().Value() != 2 || limits.Requests.Memory().Value() != 1<<30 {
		t.Errorf("the pod's resources are %v, want the limits as requests", limits)
	}
	for _, p := range in.workload.Pods[2:] {
		if got := terms(p.Template); len(got) != 1 || len(got[0].Values) != 1 ||
			got[0].Values[0] != p.Template.Labels["pod-template-hash"] {
			t.Errorf("the selector of %s is %v, its hash %q", p.Name, got, p.Template.Labels["pod-template-hash"])
		}
	}
}
