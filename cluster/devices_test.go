package cluster

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A resource that is a name for devices is not lacking if the allocatable does not have it. Free amounts of it in the
// allocatable of other nodes are no reason to wait.
func TestResourcesOfDevicesAreNeverLacking(t *testing.T) {
	const gpu = v1.ResourceName("example.com/gpu")
	s := New()
	stands := string(gpu)
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.ExtendedResourceName = &stands
	version := s.Changed(RoomFreed)
	if _, err := s.Upsert(eventlog.DeviceClasses, class); err != nil {
		t.Fatal(err)
	}
	if s.Changed(RoomFreed) == version {
		t.Error("the shortfall is not computed again when a class comes")
	}
	for name, amount := range map[string]string{"plugin": "1", "zero": "0", "none": ""} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("9")}
		if amount != "" {
			n.Status.Allocatable[gpu] = resource.MustParse(amount)
		}
		s.UpsertNode(n)
	}
	var members []*Pod
	for _, name := range []string{"a", "b", "c"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{gpu: resource.MustParse("1")}}}}
		if _, err := s.UpsertPod(pod); err != nil {
			t.Fatal(err)
		}
		members = append(members, s.Pods().Get(pod.UID))
	}
	if _, lacks := s.free.lacks(needsOf(members), 3); lacks {
		t.Error("three devices are lacking")
	}
	if _, offered := s.Free(gpu); offered {
		t.Error("it is offered")
	}
	for name, want := range map[string]bool{"plugin": false, "zero": true, "none": true} {
		info, err := s.Nodes().Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if allocatable, requested := s.AmountOn(info, gpu); (allocatable-requested > 1<<60) != want {
			t.Errorf("node %s has %d of %d free", name, allocatable-requested, allocatable)
		}
	}
	if err := s.Assume(members[0], "none", Binding, nil); err != nil {
		t.Fatal(err)
	}
	if s.Overcommitted(members[0]) {
		t.Error("a node without the resource is overcommitted by a pod")
	}
}
