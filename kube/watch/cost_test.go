package watch

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// alone returns a Watch that knows no object of any resource, and does not run.
func alone(t testing.TB) (*Watch, map[eventlog.Resource]*store) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	w, err := New(Options{Client: kubernetes.NewForConfigOrDie(config), Config: config})
	if err != nil {
		t.Fatal(err)
	}
	stores := map[eventlog.Resource]*store{}
	for place, k := range kinds {
		stores[k.resource] = &store{watch: w, place: place, kind: k}
		if err := stores[k.resource].Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	return w, stores
}

// largeNode is a node as a kubelet reports it: with 50 images.
func largeNode(name string) *corev1.Node {
	n := node(name, name, heartbeat)
	n.Labels = map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z1"}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("96"),
		corev1.ResourceMemory: resource.MustParse("512Gi"), "nvidia.com/gpu": resource.MustParse("8")}
	n.Status.Allocatable = n.Status.Capacity
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: int64(i), Names: []string{
			fmt.Sprintf("registry.example.com/team/image-%d@sha256:0123456789abcdef0123456789abcdef", i),
			fmt.Sprintf("registry.example.com/team/image-%d:v1.2.3", i)}})
	}
	return n
}

// runningPod is a pod as a kubelet reports it.
func runningPod(name string) *corev1.Pod {
	p := pod(name, "01234567-89ab-cdef-0123-"+name, on("n1"))
	p.Labels = map[string]string{"app": "a", "pod-template-hash": "abc"}
	p.Spec.Containers[0].Image = "registry.example.com/team/image:v1.2.3"
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"),
		corev1.ResourceMemory: resource.MustParse("4Gi")}
	p.Status.Phase = corev1.PodRunning
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady, corev1.ContainersReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
	}
	return p
}

// TestAnUnchangedObjectCostsLittle limits the cost of an event without news: trimming copies no object, and its
// encoding is not kept.
func TestAnUnchangedObjectCostsLittle(t *testing.T) {
	w, stores := alone(t)
	for _, c := range []struct {
		object      eventlog.Object
		most, bytes float64 // allocations, and their bytes
	}{
		{largeNode("n1"), 420, 16 << 10},
		{runningPod("000000000001"), 10, 2 << 10},
	} {
		res, _ := eventlog.ResourceOf(c.object)
		if err := stores[res].Update(c.object); err != nil {
			t.Fatal(err)
		}
		w.Take()
		event := func() {
			if err := stores[res].Update(c.object); err != nil {
				t.Fatal(err)
			}
		}
		const times = 200
		allocs := testing.AllocsPerRun(times, event)
		bytes := float64(alloc.Bytes(func() {
			for range times {
				event()
			}
		})) / times
		t.Logf("%s: %.0f allocations of %.0f bytes", res, allocs, bytes)
		if allocs > c.most || bytes > c.bytes {
			t.Errorf("an unchanged one of %s: %.0f allocations of %.0f bytes, at most %.0f of %.0f are expected",
				res, allocs, bytes, c.most, c.bytes)
		}
		if w.Waiting() > 0 {
			t.Errorf("an unchanged one of %s waits to be taken", res)
		}
	}
}
