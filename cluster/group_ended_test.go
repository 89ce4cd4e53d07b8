package cluster

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// controlledMember is a pod of a gang of three that annotations declare. A controller made it.
func controlledMember(uid, gang, controller string) *v1.Pod {
	yes := true
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ml", Name: uid, UID: types.UID(uid), Annotations: map[string]string{
			"gang.scheduling.koordinator.sh/name": gang, "gang.scheduling.koordinator.sh/min-available": "3"},
	}}
	if controller != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(controller), Controller: &yes}}
	}
	pod.Spec.NodeName = "n"
	return pod
}

// leaveOne makes a gang of three of which two end well and one is lost.
func leaveOne(t *testing.T, s *State, gang, controller string) {
	t.Helper()
	for i := range 3 {
		if _, err := s.UpsertPod(controlledMember(fmt.Sprint(gang, "-", i), gang, controller)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		uid := types.UID(fmt.Sprint(gang, "-", i))
		if i < 2 {
			s.Succeeded(uid)
		}
		s.DeletePod(uid)
	}
}

// TestAGangWithoutAPodGroupIsContinuedByItsController: the members that ended well count for the next pod of the same
// controller, also in a restored state, and for no other pod.
func TestAGangWithoutAPodGroupIsContinuedByItsController(t *testing.T) {
	for _, c := range []struct {
		name, made, next string
		succeeded        int
	}{
		{"the same controller", "c1", "c1", 2},
		{"another controller", "c1", "c2", 0},
		{"no controller", "", "", 0},
		{"then no controller", "c1", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New()
			if _, err := s.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
				t.Fatal(err)
			}
			leaveOne(t, s, "g", c.made)
			state, err := s.AppendState(nil)
			if err != nil {
				t.Fatal(err)
			}
			again := New()
			if err := again.Restore(canonical.NewReader(state)); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*State{s, again} {
				next := controlledMember("next", "g", c.next)
				next.Spec.NodeName = ""
				if _, err := s.UpsertPod(next); err != nil {
					t.Fatal(err)
				}
				g := s.Gangs().Named("ml", "g")
				if g.Succeeded() != c.succeeded || g.Met() != (c.succeeded > 0) {
					t.Errorf("%d ended well, met %t, want %d", g.Succeeded(), g.Met(), c.succeeded)
				}
			}
		})
	}
}

// TestEndedGangsAreBounded: the gangs that were left first are forgotten first.
func TestEndedGangsAreBounded(t *testing.T) {
	s := New()
	if _, err := s.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	for i := range maxEndedGangs + 2 {
		leaveOne(t, s, fmt.Sprint("g", i), "c")
	}
	if n := len(s.gangs.ended); n != maxEndedGangs {
		t.Errorf("%d gangs are remembered, want %d", n, maxEndedGangs)
	}
	if first := s.gangs.ended[0].name.Name; first != "g2" {
		t.Errorf("the first is %s, want g2", first)
	}
}
