package cluster

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Members of a NonStrict gang that wait stay on their nodes, so that room is to be made for the others only. Of a gang
// that needs 3 two wait, on a node for 3; a pod of lower priority has the rest of it.
func TestRoomIsToBeMadeOnceForMembersThatStayWhereTheyWait(t *testing.T) {
	s := New()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("3"), v1.ResourcePods: resource.MustParse("9"),
	}
	if _, err := s.UpsertNode(node); err != nil {
		t.Fatal(err)
	}
	add := func(name, node string, annotations map[string]string) *Pod {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: name, UID: types.UID(name), Annotations: annotations,
		}}
		pod.Spec.NodeName = node
		pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")},
		}}}
		if _, err := s.UpsertPod(pod); err != nil {
			t.Fatal(err)
		}
		return s.Pod(pod.UID)
	}
	add("low", "n", nil)
	for i := range 3 {
		p := add(fmt.Sprintf("a-%d", i), "", map[string]string{
			koordinatorName: "a", koordinatorMin: "3", koordinatorMode: "NonStrict",
		})
		if i < 2 {
			if err := s.Hold(p, "n", nil, Wait{Seq: uint64(i + 1), Until: 100, Plugins: []string{"x"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !s.MayMakeRoom(s.Group("ml", "a"), 5) {
		t.Error("there is no room for the third member, whatever is evicted")
	}
}
