package room

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestPlacesAreRememberedAsTheyAre has nodes, pods and gangs come, change and go. It compares the remembered places for
// a few needs and priorities with a count from nothing.
func TestPlacesAreRememberedAsTheyAre(t *testing.T) {
	const steps = 1500
	g := rand.New(rand.NewPCG(4, 5))
	s := cluster.New()
	table := NewTable(s)
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
			shape := needing(map[v1.ResourceName]int64{"pods": g.Int64N(3), "cpu": 1000 * g.Int64N(3),
				"example.com/gpu": g.Int64N(2)})
			rule := []Rule{Empty, Below(int32(g.IntN(4))), Evicted(int32(g.IntN(4)))}[g.IntN(3)]
			k := g.IntN(12)
			before := table.Counted(rule)
			got := table.Take(shape, rule, k)
			counted += table.Counted(rule) - before
			if want := placesOneByOne(s, shape, rule) >= int64(k); got != want {
				t.Fatalf("step %d: places for %d that need %s by rule %v: %v, counted from nothing %v", step, k,
					shape.key, rule, got, want)
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
	s := cluster.New()
	table := NewTable(s)
	for i := range 20 {
		n := &v1.Node{}
		n.Name = fmt.Sprintf("n%02d", i)
		n.Status.Allocatable = v1.ResourceList{"cpu": *resource.NewQuantity(1000, resource.DecimalSI)}
		if _, err := s.UpsertNode(n); err != nil {
			t.Fatal(err)
		}
	}
	most := mostPlaces[less]
	kinds, rounds := most+44, 6
	ask := func(kind int) {
		if !table.Take(needing(map[v1.ResourceName]int64{"cpu": int64(kind + 1)}), Below(0), 1) {
			t.Fatalf("no place for kind %d", kind)
		}
	}
	for range rounds {
		for kind := range kinds {
			ask(kind)
		}
	}
	// All nodes count once for a remembered shape, and one node for another.
	if got, want := table.Counted(Below(0)), most*20+rounds*(kinds-most); got != want {
		t.Errorf("%d nodes were counted, want %d", got, want)
	}
	for range 4 * most { // the others are not asked for any more
		ask(0)
	}
	before := table.Counted(Below(0))
	ask(kinds - 1)
	ask(kinds - 1)
	if got := table.Counted(Below(0)) - before; got != 20 {
		t.Errorf("%d nodes were counted for what has come into use, want all 20 once", got)
	}
}

// needing is the shape of pods that need so much of each resource at the least.
func needing(least map[v1.ResourceName]int64) *Shape {
	s := &Shape{}
	for _, name := range slices.Sorted(maps.Keys(least)) {
		if least[name] > 0 {
			s.resources, s.needs = append(s.resources, name), append(s.needs, least[name])
		}
	}
	s.key = s.amounts()
	return s
}

// placesOneByOne puts pods of a shape on each node, one after the other, until one does not fit.
func placesOneByOne(s *cluster.State, shape *Shape, rule Rule) (places int64) {
	nodes, _ := s.Nodes().List()
	offered := func(name v1.ResourceName) bool {
		_, yes := s.Free(name)
		return yes
	}
	for _, info := range nodes {
		room := map[v1.ResourceName]int64{}
		for _, name := range shape.resources {
			allocatable, requested := cluster.AmountOn(info, name)
			room[name] = allocatable - requested
			for _, each := range info.GetPods() {
				p := s.Pods().Get(each.GetPod().UID)
				deleted := p.Object.DeletionTimestamp != nil
				if rule == Empty || p.CountedPriority() < rule.priority || rule.gone == lessOrDeleted && deleted {
					room[name] += p.Amount(name)
				}
			}
		}
		fits := func() bool {
			for k, name := range shape.resources {
				if offered(name) {
					if room[name] < shape.needs[k] {
						return false
					}
					room[name] -= shape.needs[k]
				}
			}
			return true
		}
		for n := 0; n < 20 && fits(); n++ {
			places++
		}
	}
	return places
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
	if g.IntN(4) == 0 {
		p.DeletionTimestamp = &metav1.Time{}
	}
	p.Spec.NodeName, p.Spec.Priority = fmt.Sprintf("n%02d", node), &priority
	if group := fmt.Sprintf("g%d", i%4); i%4 < 3 {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		"cpu": *resource.NewQuantity(g.Int64N(4), resource.DecimalSI)}}}}
	return p
}
