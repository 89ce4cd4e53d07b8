package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requesting is a workload of one pod that requests one of each of the resources.
func requesting(names ...string) *Workload {
	requests := corev1.ResourceList{}
	for _, name := range names {
		requests[corev1.ResourceName(name)] = resource.MustParse("1")
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
	return &Workload{Pods: []PodPlan{{Namespace: "default", Name: "p", Template: pod}}}
}

func TestNotesNameTheFirstResourcesThatNoNodeOffers(t *testing.T) {
	for _, c := range []struct {
		resources int
		last      string
	}{
		{maxUnoffered, "no node offers example.com/r019, which pod default/p requests"},
		{maxUnoffered + 1, "and 1 more resource that pods request and no node offers"},
		{maxUnoffered + 1000, "and 1000 more resources that pods request and no node offers"},
	} {
		var names []string
		for i := range c.resources {
			names = append(names, fmt.Sprintf("example.com/r%03d", i))
		}
		notes := requesting(names...).Unoffered(nil)
		if len(notes) != min(c.resources, maxUnoffered+1) || notes[len(notes)-1] != c.last ||
			!strings.Contains(notes[0], "example.com/r000") {
			t.Errorf("%d resources: the notes are %q", c.resources, notes)
		}
	}
}

func TestANoteSuggestsAResourceThatANodeOffers(t *testing.T) {
	nodes := []NodePlan{{Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"example.com/gpus": resource.MustParse("8"), "example.com/gpu": resource.MustParse("0")}},
	}}}
	notes := requesting("example.com/gpu").Unoffered(nodes)
	want := []string{"no node offers example.com/gpu, which pod default/p requests: is example.com/gpus meant?"}
	if !slices.Equal(notes, want) {
		t.Errorf("the notes are %q, want %q", notes, want)
	}
}
