package room_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/room"
)

const start = eventlog.Time(1_000_000_000_000_000_000)

// world is a cluster of nodes with 4 cpu each.
type world struct {
	*testing.T
	*cluster.State
}

func newWorld(t *testing.T, nodes int) world {
	t.Helper()
	w := world{t, cluster.New()}
	for i := range nodes {
		allocatable := v1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}
		node.Status.Allocatable = allocatable
		if _, err := w.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// pod adds a pod that asks for cpu, and, with a life, declares how long it runs.
func (w world) pod(name, cpu string, life time.Duration) *cluster.Pod {
	w.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if life > 0 {
		seconds := int64(life / time.Second)
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}
	requests := v1.ResourceList{"cpu": resource.MustParse(cpu)}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}
	if _, err := w.UpsertPod(pod); err != nil {
		w.Fatal(err)
	}
	return w.Pods().Get(pod.UID)
}

// runs has a pod run on a node since start.
func (w world) runs(name, cpu string, life time.Duration, node string) {
	w.Helper()
	p := w.pod(name, cpu, life)
	if err := w.Assume(p, node, cluster.Binding, nil); err != nil {
		w.Fatal(err)
	}
	p.Since = start
}

func TestEarliestIsWhenEnoughOfTheRunningPodsHaveEnded(t *testing.T) {
	w := newWorld(t, 2)
	w.runs("long", "4", 2*time.Hour, "n0")
	w.runs("short", "3", time.Hour, "n1")
	now := start.Add(15 * time.Minute)
	p := room.NewTable(w.State)
	for _, c := range []struct {
		name, cpu string
		at        eventlog.Time
		node      string
	}{
		{"a pod that fits now", "1", now, "n1"},
		{"a pod that fits when the short one has ended", "2", start.Add(time.Hour), "n1"},
	} {
		at, places, until, ok := p.Outlook(now, room.DemandOf(w.pod(c.name, c.cpu, 0)), nil).Earliest()
		if !ok || at != c.at || len(places) != 1 || places[0].Node != c.node || until != start.Add(time.Hour) {
			t.Errorf("%s: at %v on %v until %v, %t", c.name, at, places, until, ok)
		}
	}
	two := room.DemandOf(w.pod("big-0", "4", 0), w.pod("big-1", "4", 0))
	if at, places, _, ok := p.Outlook(
		now,
		two,
		nil,
	).Earliest(); !ok || at != start.Add(2*time.Hour) ||
		len(places) != 2 {
		t.Errorf("two pods of a node each: at %v on %v, %t", at, places, ok)
	}
	if at, _, _, ok := p.Outlook(now, two, []string{"n1"}).Earliest(); ok {
		t.Errorf("two pods of a node each within one node: at %v", at)
	}
}

func TestWhatDeclaresNothingNeverEnds(t *testing.T) {
	w := newWorld(t, 1)
	w.runs("endless", "3", 0, "n0")
	o := room.NewTable(w.State).Outlook(start, room.DemandOf(w.pod("a", "2", 0)), nil)
	if at, _, _, ok := o.Earliest(); ok {
		t.Errorf("room at %v", at)
	}
	if o.FitsNow() || !o.FitsEver() {
		t.Errorf("fits now %t, ever %t", o.FitsNow(), o.FitsEver())
	}
	if o := room.NewTable(w.State).Outlook(start, room.DemandOf(w.pod("b", "5", 0)), nil); o.FitsEver() {
		t.Error("a pod larger than every node fits ever")
	}
}

func TestPlacesTakeWhatComesFreeBeforeWhatIsFreeNow(t *testing.T) {
	w := newWorld(t, 2)
	w.runs("ends", "4", time.Hour, "n1")
	both := []*cluster.Pod{w.pod("a", "4", 0), w.pod("b", "4", 0)}
	at, places, _, ok := room.NewTable(w.State).Outlook(start, room.DemandOf(both...), nil).Earliest()
	want := []eventlog.Place{{UID: "a", Node: "n1"}, {UID: "b", Node: "n0"}}
	if !ok || at != start.Add(time.Hour) || fmt.Sprint(places) != fmt.Sprint(want) {
		t.Errorf("at %v on %v, want %v", at, places, want)
	}
}

// TestTheEarliestTimeIsFoundThoughThereIsNoRoomLater has a gang whose two small members fit now. Once the large one
// fits, which comes first, it takes their room.
func TestTheEarliestTimeIsFoundThoughThereIsNoRoomLater(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 3 {
		w.runs(fmt.Sprint("runs-", i), "1", time.Duration(i+1)*time.Hour, "n0")
	}
	pods := []*cluster.Pod{w.pod("large", "3", 0), w.pod("a", "1", 0), w.pod("b", "1", 0)}
	demand := room.Demand{Parts: []room.Part{{Pods: pods, Wanted: 2}}, Enough: 1, Passing: true}
	at, places, _, ok := room.NewTable(w.State).Outlook(start, demand, nil).Earliest()
	if got := fmt.Sprint(places); !ok || at != start.Add(time.Hour) || got != "[{a n0} {b n0}]" {
		t.Errorf("%s at %v, %t", got, at, ok)
	}
}

// TestTheEarliestTimeIsFoundThoughAnotherPartTakesTheRoomLater has two gangs that fit now: the first on n1, and the
// second on n0, which alone has a GPU. Once n0 is free, the first goes there and leaves the second no room. The first
// has a member beyond its minimum. Its members have preferences, which exclude no node.
func TestTheEarliestTimeIsFoundThoughAnotherPartTakesTheRoomLater(t *testing.T) {
	for name, affinities := range map[string][]*v1.Affinity{
		"anti-affinity":      {{PodAntiAffinity: &v1.PodAntiAffinity{}}, {PodAntiAffinity: &v1.PodAntiAffinity{}}},
		"that of the second": {nil, {PodAntiAffinity: &v1.PodAntiAffinity{}}},
		"preferred nodes":    {{NodeAffinity: &v1.NodeAffinity{}}, {NodeAffinity: &v1.NodeAffinity{}}},
	} {
		w := newWorld(t, 0)
		three, nine := resource.MustParse("3"), resource.MustParse("9")
		for name, amounts := range map[string]v1.ResourceList{
			"n0": {"cpu": three, "pods": nine, "x.com/gpu": resource.MustParse("1")},
			"n1": {"cpu": three, "pods": nine},
		} {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: amounts}}
			if _, err := w.UpsertNode(node); err != nil {
				t.Fatal(err)
			}
		}
		w.runs("runs", "1", time.Hour, "n0")
		member := func(name, cpu string, change func(*v1.PodSpec)) *cluster.Pod {
			pod := w.pod(name, cpu, 0).Object.DeepCopy()
			change(&pod.Spec)
			if _, err := w.UpsertPod(pod); err != nil {
				t.Fatal(err)
			}
			return w.Pods().Get(pod.UID)
		}
		demand := room.Demand{Parts: []room.Part{
			{Pods: []*cluster.Pod{
				member("a0", "3", func(s *v1.PodSpec) { s.Affinity = affinities[0] }),
				member("a1", "3", func(s *v1.PodSpec) { s.Affinity = affinities[1] }),
			}, Wanted: 1},
			{Pods: []*cluster.Pod{member("b0", "2", func(s *v1.PodSpec) {
				s.Containers[0].Resources.Requests["x.com/gpu"] = resource.MustParse("1")
			})}, Wanted: 1},
		}, Enough: 2, Passing: true}
		at, places, _, ok := room.NewTable(w.State).Outlook(start, demand, nil).Earliest()
		if got := fmt.Sprint(places); !ok || at != start || got != "[{a0 n1} {b0 n0}]" {
			t.Errorf("%s: %s at %v, %t", name, got, at, ok)
		}
	}
}

// TestADemandPassesOverWhatFindsNoRoom has gangs of which some members, or one whole gang, fit nowhere.
func TestADemandPassesOverWhatFindsNoRoom(t *testing.T) {
	w := newWorld(t, 2)
	w.runs("half", "2", time.Hour, "n0")
	big, small := w.pod("big", "9", 0), w.pod("small", "4", 0)
	other, last := w.pod("other", "3", 0), w.pod("last", "1", 0)
	part := func(wanted int, pods ...*cluster.Pod) room.Part { return room.Part{Pods: pods, Wanted: wanted} }
	now, later := start, start.Add(time.Hour)
	for _, c := range []struct {
		name   string
		demand room.Demand
		at     eventlog.Time // 0 for never
		places string
	}{
		{"without Passing", room.Demand{Parts: []room.Part{part(2, big, small)}, Enough: 1}, 0, "[]"},
		{"the first fits nowhere", room.Demand{Parts: []room.Part{part(1, big, small)}, Enough: 1, Passing: true},
			now, "[{small n1}]"},
		{"too few fit", room.Demand{Parts: []room.Part{part(2, big, small)}, Enough: 1, Passing: true}, 0, "[]"},
		{"they fit later", room.Demand{Parts: []room.Part{part(2, big, small, other)}, Enough: 1, Passing: true},
			later, "[{small n0} {other n1}]"},
		{"one gang is enough", room.Demand{Parts: []room.Part{part(2, small, big), part(1, other)}, Enough: 1,
			Passing: true}, now, "[{other n1}]"},
		{"two gangs of three", room.Demand{Parts: []room.Part{part(1, last), part(2, small, big), part(1, other)},
			Enough: 2, Passing: true}, now, "[{last n0} {other n1}]"},
	} {
		at, places, _, ok := room.NewTable(w.State).Outlook(start, c.demand, nil).Earliest()
		if got := fmt.Sprint(places); ok != (c.at != 0) || at != c.at || got != c.places {
			t.Errorf("%s: %s at %v, %t; want %s at %v", c.name, got, at, ok, c.places, c.at)
		}
	}
}
