package admission

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podOf(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}},
	}
}

func TestAQuotaCountsWhatComesAndGoes(t *testing.T) {
	q := NewQuotas([]*corev1.ResourceQuota{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "compute"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceRequestsCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("2")}},
	}})
	first, err := q.Admit(podOf("a", "3"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Admit(podOf("b", "1500m"))
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Plugin != "ResourceQuota" ||
		!strings.Contains(err.Error(), "used: requests.cpu=3, limited: requests.cpu=4") {
		t.Fatalf("the second pod: %v", err)
	}
	if _, err := q.Admit(podOf("c", "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Admit(podOf("d", "0")); err == nil || !strings.Contains(err.Error(), "used: pods=2") {
		t.Fatalf("the third pod: %v", err)
	}
	q.Release("team", first)
	if _, err := q.Admit(podOf("b", "1500m")); err != nil {
		t.Fatal(err)
	}
	if q.Limits("other") {
		t.Error("a namespace without a quota is limited")
	}
}
