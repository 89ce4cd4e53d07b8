package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestPlacesAreRememberedAsTheyAre has nodes, pods and gangs come, change and go, and compares the places that are
// remembered for a few needs and priorities with those of a count from nothing.
func TestPlacesAreRememberedAsTheyAre(t *testing.T) {
	const steps = 1500
	g := rand.New(rand.NewPCG(4, 5))
	s := New()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	upsertNode := func(i int) {
		n := &v1.Node{}
		n.Name = fmt.Sprintf("n%02d", i)
		n.Status.Allocatable = v1.ResourceList{"pods": *resource.NewQuantity(g.Int64N(6), resource.DecimalSI),
			"cpu": *resource.NewQuantity(g.Int64N(9), resource.DecimalSI)}
		if g.IntN(8) == 0 { // so seldom that sometimes no node offers it
			n.Status.Allocatable["example.com/gpu"] = *resource.NewQuantity(g.Int64N(4), resource.DecimalSI)
		}
		_, err := s.UpsertNode(n)
		must(err)
	}
	counted, found := 0, map[bool]int{}
	for step := range steps {
		switch node := g.IntN(8); g.IntN(8) {
		case 0, 1:
			upsertNode(node)
		case 2:
			s.DeleteNode(fmt.Sprintf("n%02d", node))
		case 3:
			_, err := s.DeletePod(types.UID(fmt.Sprintf("p%d", g.IntN(30))))
			must(err)
		case 4: // the priority of pods that are on nodes
			_, err := s.Upsert(eventlog.PodGroups, newPodGroup(fmt.Sprintf("g%d", g.IntN(3)), int32(g.IntN(4))))
			must(err)
		default:
			_, err := s.UpsertPod(placesPod(g, g.IntN(30), node))
			must(err)
		}
		for range 3 {
			least := []int64{g.Int64N(3), 1000 * g.Int64N(3), g.Int64N(2)}
			var needs []resourceNeed
			for i, name := range []v1.ResourceName{"pods", "cpu", "example.com/gpu"} {
				needs = append(needs, resourceNeed{resource: name, prefix: []int64{0, least[i]}})
			}
			priority, k := int32(g.IntN(4)), g.IntN(12)
			before := s.placesCounted
			got := s.hasPlaces(needs, k, priority)
			counted += s.placesCounted - before
			fresh := *s
			fresh.places = nil
			if want := fresh.findPlaces(needs, k, priority); got != want {
				t.Fatalf("step %d: places for %d that need %v at priority %d: %v, counted from nothing %v", step, k,
					least, priority, got, want)
			}
			found[got]++
		}
	}
	if nodes := 8 * 3 * steps; counted > nodes*3/4 || found[true] < steps/4 || found[false] < steps/4 {
		t.Errorf("%d nodes were counted, from nothing it would be some %d; answers: %v", counted, nodes, found)
	}
}

// TestMoreNeedsThanAreRememberedDoNotTakeEachOthersPlace has more kinds of needs take turns than there is room for.
func TestMoreNeedsThanAreRememberedDoNotTakeEachOthersPlace(t *testing.T) {
	s := New()
	for i := range 20 {
		n := &v1.Node{}
		n.Name = fmt.Sprintf("n%02d", i)
		n.Status.Allocatable = v1.ResourceList{"cpu": *resource.NewQuantity(1000, resource.DecimalSI)}
		if _, err := s.UpsertNode(n); err != nil {
			t.Fatal(err)
		}
	}
	const kinds, rounds = maxNodePlaces + 44, 6
	ask := func(kind int) {
		needs := []resourceNeed{{resource: "cpu", prefix: []int64{0, int64(kind + 1)}}}
		if !s.hasPlaces(needs, 1, 0) {
			t.Fatalf("no place for kind %d", kind)
		}
	}
	for range rounds {
		for kind := range kinds {
			ask(kind)
		}
	}
	// All nodes once for what is remembered, and one node for what is not.
	if got, want := s.PlacesCounted(), maxNodePlaces*20+rounds*(kinds-maxNodePlaces); got != want {
		t.Errorf("%d nodes were counted, want %d", got, want)
	}
	for range 4 * maxNodePlaces { // the others are not asked for any more
		ask(0)
	}
	before := s.PlacesCounted()
	ask(kinds - 1)
	ask(kinds - 1)
	if got := s.PlacesCounted() - before; got != 20 {
		t.Errorf("%d nodes were counted for what has come into use, want all 20 once", got)
	}
}

// newPodGroup is a gang of some priority.
func newPodGroup(name string, priority int32) eventlog.Object {
	o := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	o.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}
	o.Spec.Priority = &priority
	return o
}

// placesPod is a pod on a node, or of a gang.
func placesPod(g *rand.Rand, i, node int) *v1.Pod {
	priority := int32(g.IntN(4))
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID = "ns", fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("p%d", i))
	p.Spec.NodeName, p.Spec.Priority = fmt.Sprintf("n%02d", node), &priority
	if group := fmt.Sprintf("g%d", i%4); i%4 < 3 {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		"cpu": *resource.NewQuantity(g.Int64N(4), resource.DecimalSI)}}}}
	return p
}
