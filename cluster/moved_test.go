package cluster_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/cluster"
)

// A State keeps no moved pods until somebody takes them, however long it lives.
func TestMovesAreKeptOnlyForWhoeverTakesThem(t *testing.T) {
	s := cluster.New()
	upsert := func() {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
		if _, err := s.UpsertPod(pod); err != nil {
			t.Fatal(err)
		}
	}
	upsert()
	if moved := s.TakeChanges().Pods; len(moved) != 0 {
		t.Errorf("%d moves were kept before anybody asked", len(moved))
	}
	upsert()
	if moved := s.TakeChanges().Pods; len(moved) == 0 {
		t.Error("a pod that changed is not told")
	}
}
