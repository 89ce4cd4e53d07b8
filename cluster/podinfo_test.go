package cluster

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"
)

// TestAPodInfoIsThatOfThePodAlone takes pods in one after the other. It compares the data about each with the data that
// it would have if it were the first.
func TestAPodInfoIsThatOfThePodAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		for range 12 {
			pod := drawPod(t)
			got, err := s.pods.newInfo(pod)
			want, werr := framework.NewPodInfo(pod)
			if err != nil || werr != nil {
				t.Fatal(err, werr)
			}
			if g, w := got.CalculateResource(), want.CalculateResource(); !reflect.DeepEqual(g, w) {
				t.Fatalf("resources %+v %+v, want %+v %+v of %+v", g, g.Resource, w, w.Resource, pod.Spec)
			}
			if got.Pod != pod || !reflect.DeepEqual(got.RequiredAffinityTerms, want.RequiredAffinityTerms) {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	})
}

func drawPod(t *rapid.T) *v1.Pod {
	amount := func(label string) resource.Quantity {
		return resource.MustParse(rapid.SampledFrom([]string{"1", "1000m", "2", "0"}).Draw(t, label))
	}
	list := func() v1.ResourceList {
		l := v1.ResourceList{}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "nvidia.com/gpu"} {
			if rapid.Bool().Draw(t, "has") {
				l[name] = amount(string(name))
			}
		}
		return l
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "a", UID: "a"}}
	for range rapid.IntRange(1, 2).Draw(t, "containers") {
		p.Spec.Containers = append(
			p.Spec.Containers,
			v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: list()}},
		)
	}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		p.Spec.InitContainers = []v1.Container{{Name: "i", Resources: v1.ResourceRequirements{Requests: list()}}}
	case 1:
		p.Spec.Overhead = list()
	case 2:
		p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: amount("pod's")}}
	case 3:
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}},
		}
	case 4:
		p.Status.ContainerStatuses = []v1.ContainerStatus{
			{Name: "c", Resources: &v1.ResourceRequirements{Requests: list()}, AllocatedResources: list()},
		}
	}
	return p
}
