package cluster

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestObjectsAreAsTheirLastEntriesSaid has decisions change data beside the objects: a pod is assumed on a node, and a
// volume is assumed to be a claim's. Some pods name a node that does not exist.
func TestObjectsAreAsTheirLastEntriesSaid(t *testing.T) {
	s := newState(t)
	mustUpsert(t, s.Informers(), &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}},
		&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "data"}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	s.node("n2", 8)
	s.node("n1", 8)
	s.pod(podOf("b", 1))
	s.pod(podOf("c", 1, standsOn("gone")))
	a := s.pod(podOf("a", 1))
	s.must(s.Assume(a, "n1", Binding, nil))
	x := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "x"}}
	s.must(s.Volumes().Assume(x, "n1", []eventlog.VolumeClaim{{Claim: "data", Volume: "pv"}}))
	list := func() (lines []string) {
		for res, obj := range s.Objects() {
			line := fmt.Sprintf("%s %s", res, obj.GetName())
			switch obj := obj.(type) {
			case *v1.Pod:
				line += " on " + obj.Spec.NodeName
			case *v1.PersistentVolume:
				line += fmt.Sprint(" of ", obj.Spec.ClaimRef)
			}
			lines = append(lines, line)
		}
		return lines
	}
	want := []string{"namespaces ns", "nodes n1", "nodes n2", "persistentvolumeclaims data",
		"persistentvolumes pv of nil", "pods a on ", "pods b on ", "pods c on gone"}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
	s.must(s.Confirm(a))
	want[5] = "pods a on n1"
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("after the bind objects are %q, want %q", got, want)
	}
	for range s.Objects() {
		break // and nothing is asked for any more
	}
}
