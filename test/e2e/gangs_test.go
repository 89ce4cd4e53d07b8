package e2e_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

func TestAGangIsBoundWhole(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		w.gang("g", 8, "1")
		w.waitFor("g-", 8, bound)
		w.audit(8)
	})
}

// TestAGangThatDoesNotFitBindsNothing has a gang of five that each want a node, and four nodes. Then a node comes.
func TestAGangThatDoesNotFitBindsNothing(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		w.gang("large", 5, "3")
		w.waitFor("large-", 5, unschedulable)
		if err := accountant.Look(w.Context(), w.c); err != nil {
			w.Fatal(err)
		}
		w.none("large-", bound)
		w.gang("small", 4, "4")
		w.waitFor("small-", 4, bound)
		w.none("large-", bound)

		for i := range 4 {
			w.remove(fmt.Sprintf("small-%d", i))
		}
		node, err := w.client.CoreV1().Nodes().Get(w.Context(), "node-00000", metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		more := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}, Status: node.Status}
		if _, err := w.client.CoreV1().Nodes().Create(w.Context(), more, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.waitFor("large-", 5, bound)
		w.audit(9)
	})
}

// TestAGangWaitsForItsPodGroupAndItsMembers creates the pods first, and one of them last.
func TestAGangWaitsForItsPodGroupAndItsMembers(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		w.create(w.pod("g-0", "g", "1"), w.pod("g-1", "g", "1"))
		w.create(w.pod("single", "", "1"))
		w.waitFor("single", 1, bound)
		w.none("g-", bound)
		w.group("g", 3)
		w.create(w.pod("other", "", "1"))
		w.waitFor("other", 1, bound)
		w.none("g-", bound)
		if err := accountant.Look(w.Context(), w.c); err != nil {
			w.Fatal(err)
		}
		w.create(w.pod("g-2", "g", "1"))
		w.waitFor("g-", 3, bound)
		w.audit(5)
	})
}

// TestPodsOfOtherSchedulersAreCounted fills three of four nodes with pods that another scheduler binds.
func TestPodsOfOtherSchedulersAreCounted(t *testing.T) {
	w := newWorld(t, false, cluster.Options{})
	w.start(w.options())
	for i := range 3 {
		p := w.pod(fmt.Sprintf("theirs-%d", i), "", "4")
		p.Spec.SchedulerName = "another"
		w.create(p)
		if err := w.bind(p.Name, w.nodes.Names()[i]); err != nil {
			w.Fatal(err)
		}
	}
	// Later events on the watches show that these binds were seen.
	waiting := w.pod("waiting", "", "3")
	waiting.Spec.SchedulerName = "another"
	w.create(waiting)
	for i := range 5 {
		w.create(w.pod(fmt.Sprintf("ours-%d", i), "", "1"))
	}
	w.waitFor("ours-", 4, bound)
	w.waitFor("ours-", 1, unschedulable)
	w.none("waiting", bound)
	w.audit(4)
}
