package room_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// TestAPackingPlacesAsTryingEachNodeWould compares a packing, in which pods of one shape look at each node once, with
// trying all nodes for each pod.
func TestAPackingPlacesAsTryingEachNodeWould(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 0)
		free := make([]int64, rapid.IntRange(1, 5).Draw(rt, "nodes"))
		fast := make([]bool, len(free))
		var nodes []int
		for i := range free {
			cpu := rapid.Int64Range(1, 6).Draw(rt, "cpu")
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
			if fast[i] = rapid.Bool().Draw(rt, "fast"); fast[i] {
				node.Labels["disk"] = "fast"
			}
			amount := *resource.NewQuantity(cpu, resource.DecimalSI)
			node.Status.Allocatable = v1.ResourceList{"cpu": amount, "pods": resource.MustParse("9")}
			if _, err := w.UpsertNode(node); err != nil {
				rt.Fatal(err)
			}
			if free[i] = cpu; rapid.Bool().Draw(rt, "looked at") {
				nodes = append(nodes, i)
			}
		}
		var pods []*cluster.Pod
		var indexes []int
		placed := 0
		for i := range rapid.IntRange(0, 8).Draw(rt, "pods") {
			cpu := rapid.Int64Range(1, 4).Draw(rt, "asks")
			p := w.pod(fmt.Sprintf("p%d", i), fmt.Sprint(cpu), 0)
			picky := rapid.Bool().Draw(rt, "picky")
			if picky {
				p.Object.Spec.NodeSelector = map[string]string{"disk": "fast"}
			}
			pods, indexes = append(pods, p), append(indexes, i)
			at := slices.IndexFunc(nodes, func(n int) bool { return free[n] >= cpu && (fast[n] || !picky) })
			if at >= 0 {
				free[nodes[at]] -= cpu
				placed++
			}
		}
		packing := room.NewTable(w.State).Packing(pods)
		for range 2 { // what is taken back is as if it had not been
			if got := packing.Place(indexes, nodes); got != placed {
				rt.Fatalf("%d of %d pods are placed, by trying all nodes %d", got, len(pods), placed)
			}
			packing.TakeBack(0)
		}
	})
}

// TestAPackingCountsWhatIsRequested is about what domains are compared by.
func TestAPackingCountsWhatIsRequested(t *testing.T) {
	w := newWorld(t, 3)
	w.runs("other", "2", 0, "n1")
	pods := []*cluster.Pod{w.pod("a", "3", 0), w.pod("b", "3", 0)}
	packing := room.NewTable(w.State).Packing(pods)
	if n := packing.Place([]int{0, 1}, []int{0, 1, 2}); n != 2 {
		t.Fatalf("%d pods placed, want 2", n)
	}
	requested, all := packing.Requested(slices.Index(packing.Resources(), v1.ResourceCPU), []int{0, 1})
	if requested != 5_000 || all != 8_000 {
		t.Errorf("%d of %d are requested, want 5000 of 8000", requested, all)
	}
}
