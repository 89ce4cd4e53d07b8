package cluster

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestAppendStateDependsOnlyOnTheObjects: the same objects that came in another order, or were there before and came
// again, are the same state. (The order of the pods of one node is state: plugins see it.)
func TestAppendStateDependsOnlyOnTheObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		build := func(label string) []byte {
			s := New()
			must := func(_ any, err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			image := []v1.ContainerImage{{Names: []string{"x"}, SizeBytes: 10}}
			steps := []func(){
				func() {
					must(
						s.UpsertNode(
							&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.NodeStatus{Images: image}},
						),
					)
				},
				func() {
					must(
						s.UpsertNode(
							&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1.NodeStatus{Images: image}},
						),
					)
				},
				func() { must(s.UpsertPod(podOf("p", 1, memberOf("g"), standsOn("a")))) },
				func() { must(s.UpsertPod(podOf("q", 1, memberOf("g"), standsOn("b")))) },
				func() { must(s.UpsertPod(podOf("r", 1))) },
				func() {
					must(
						s.Upsert(
							eventlog.XPodGroups,
							&xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}},
						),
					)
				},
				func() {
					must(
						s.Upsert(
							eventlog.PersistentVolumes,
							&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}},
						),
					)
				},
			}
			undo := []func(){
				func() { s.DeleteNode("a") },
				func() { s.DeleteNode("b") },
				func() { must(s.DeletePod("p")) },
				func() { must(s.DeletePod("q")) },
				func() { must(s.DeletePod("r")) },
				func() { s.Delete(eventlog.XPodGroups, "default", "g") },
				func() { s.Delete(eventlog.PersistentVolumes, "", "pv") },
			}
			order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6}).Draw(t, label)
			for _, i := range order {
				steps[i]()
				if rapid.Bool().Draw(t, "again") {
					undo[i]()
					steps[i]()
				}
			}
			if rapid.Bool().Draw(t, "assumed") {
				must(nil, s.Assume(s.Pods().Get("r"), "b", Waiting, nil))
				must(nil, s.Release(s.Pods().Get("r")))
			}
			state, err := s.AppendState(nil)
			must(nil, err)
			return state
		}
		if !bytes.Equal(build("order"), build("other order")) {
			t.Fatal("the same state has two forms")
		}
	})
}

func TestAppendStateTellsStatesApart(t *testing.T) {
	states := map[string]func(s testState){
		"base":              func(testState) {},
		"another node":      func(s testState) { s.node("b", 4) },
		"a node changed":    func(s testState) { s.node("a", 5) },
		"a node gone":       func(s testState) { s.DeleteNode("a") },
		"a pod changed":     func(s testState) { s.pod(podOf("p", 2, memberOf("g"))) },
		"a pod held":        func(s testState) { s.must(s.Assume(s.Pods().Get("p"), "a", Waiting, nil)) },
		"a pod being bound": func(s testState) { s.must(s.Assume(s.Pods().Get("p"), "a", Binding, nil)) },
		"a pod bound": func(s testState) {
			s.must(s.Assume(s.Pods().Get("p"), "a", Binding, nil))
			s.must(s.Confirm(s.Pods().Get("p")))
		},
		"a pod held elsewhere": func(s testState) { s.must(s.Assume(s.Pods().Get("p"), "elsewhere", Waiting, nil)) },
		"relabelled":           func(s testState) { s.pod(podOf("p", 1, memberOf("h"))) },
		"of another group": func(s testState) {
			_, err := s.DeletePod("p")
			s.must(err)
			s.pod(podOf("p", 1, memberOf("h")))
		},
		"declared":                  func(s testState) { s.gang("g", 1) },
		"declared otherwise":        func(s testState) { s.gang("g", 2) },
		"declared by the other API": func(s testState) { s.xgang("g", 1, 0) },
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := newState(t)
		s.node("a", 4)
		s.pod(podOf("p", 1, memberOf("g")))
		states[name](s)
		state, err := s.AppendState(nil)
		s.must(err)
		if other, ok := seen[string(state)]; ok {
			t.Errorf("%q has the form of %q", name, other)
		}
		seen[string(state)] = name
	}
}
