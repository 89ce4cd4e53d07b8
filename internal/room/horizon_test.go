package room_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// TestAHorizonAnswersAsAnOutlookDoes changes a cluster in all ways that matter, and asks about gangs of pods that are
// alike. One Table has memos, and one makes an Outlook. Both must agree on when, where and whether there is room, until
// the time at which the answer of the first ends.
func TestAHorizonAnswersAsAnOutlookDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 0)
		c := &changing{world: w, rt: rt, now: start}
		for i := range rapid.IntRange(1, 4).Draw(rt, "nodes") {
			c.node(i)
		}
		for i := range 3 {
			c.gangs = append(c.gangs, w.alike(rt, i))
		}
		remembers, fresh := room.NewTable(w.State), room.NewTable(w.State)
		for range rapid.IntRange(1, 30).Draw(rt, "changes") {
			c.change()
			if rapid.Bool().Draw(rt, "more before the question") {
				continue
			}
			demand := rapid.SampledFrom(c.gangs).Draw(rt, "gang")
			h, ok := remembers.Horizon(c.now, demand)
			if !ok {
				rt.Fatal("no Horizon for pods that are alike")
			}
			o := fresh.Outlook(c.now, demand, nil)
			at, places, until, found := h.Earliest()
			if fits := h.FitsNow(); fits != o.FitsNow() {
				rt.Fatalf("fits now %t, by an Outlook %t", fits, !fits)
			}
			agree := func(o *room.Outlook) {
				wantAt, want, _, wanted := o.Earliest()
				if at != wantAt || found != wanted || !slices.Equal(places, want) {
					rt.Fatalf("%v at %v, %t; by an Outlook %v at %v, %t", places, at, found, want, wantAt, wanted)
				}
			}
			agree(o)
			if later := c.now.Add(time.Hour); later < until && at > c.now {
				agree(fresh.Outlook(later, demand, nil))
			}
		}
	})
}

// alike returns a gang of pods that are alike.
func (w world) alike(rt *rapid.T, i int) room.Demand {
	cpu := rapid.IntRange(1, 3).Draw(rt, "cpu of a member")
	what := rapid.IntRange(0, len(asks)-1).Draw(rt, "asks")
	var pods []*cluster.Pod
	for k := range rapid.IntRange(1, 5).Draw(rt, "members") {
		pod := w.pod(fmt.Sprintf("m%d-%d", i, k), fmt.Sprint(cpu), 0).Object.DeepCopy()
		asks[what].spec(&pod.Spec)
		if _, err := w.UpsertPod(pod); err != nil {
			rt.Fatal(err)
		}
		pods = append(pods, w.Pods().Get(pod.UID))
	}
	if rapid.Bool().Draw(rt, "all, without passing") {
		return room.DemandOf(pods...)
	}
	wanted := rapid.IntRange(1, len(pods)).Draw(rt, "wanted")
	return room.Demand{Parts: []room.Part{{Pods: pods, Wanted: wanted}}, Enough: 1, Passing: true}
}

// changing is a world in which something changes all the time.
type changing struct {
	world
	rt    *rapid.T
	now   eventlog.Time
	gangs []room.Demand
	pods  []*cluster.Pod // that run or wait
	count int
}

// node brings the i-th node, or another object of it.
func (c *changing) node(i int) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
	if rapid.Bool().Draw(c.rt, "fast") {
		node.Labels["disk"] = "fast"
	}
	if rapid.IntRange(0, 3).Draw(c.rt, "tainted") == 0 {
		node.Spec.Taints = []v1.Taint{{Key: "t", Effect: v1.TaintEffectNoSchedule}}
	}
	cpu := *resource.NewQuantity(rapid.Int64Range(0, 8).Draw(c.rt, "cpu"), resource.DecimalSI)
	node.Status.Allocatable = v1.ResourceList{"cpu": cpu, "pods": resource.MustParse("4")}
	if _, err := c.UpsertNode(node); err != nil {
		c.rt.Fatal(err)
	}
}

func (c *changing) change() {
	switch what := rapid.IntRange(0, 9).Draw(c.rt, "change"); {
	case what == 0:
		c.DeleteNode(fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(c.rt, "node")))
	case what <= 2:
		c.node(rapid.IntRange(0, 5).Draw(c.rt, "node"))
	case what == 3:
		c.now = c.now.Add(time.Duration(rapid.IntRange(1, 3).Draw(c.rt, "hours")) * time.Hour)
	case what <= 7 || len(c.pods) == 0:
		c.come()
	default:
		c.goOn(rapid.IntRange(0, len(c.pods)-1).Draw(c.rt, "pod"))
	}
}

// come has a pod come to a node, also one that has too little for it, or is not there.
func (c *changing) come() {
	life := time.Duration(rapid.IntRange(0, 5).Draw(c.rt, "hours")) * time.Hour
	p := c.pod(fmt.Sprint("runs-", c.count), fmt.Sprint(rapid.IntRange(1, 4).Draw(c.rt, "cpu")), life)
	c.count++
	stage := rapid.SampledFrom([]cluster.Stage{cluster.Waiting, cluster.Binding}).Draw(c.rt, "stage")
	if err := c.Assume(p, fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(c.rt, "node")), stage, nil); err != nil {
		c.rt.Fatal(err)
	}
	p.Since = c.now
	c.pods = append(c.pods, p)
}

// goOn has a pod be allowed or confirmed, or go.
func (c *changing) goOn(i int) {
	p := c.pods[i]
	var err error
	switch {
	case p.Stage == cluster.Waiting && rapid.Bool().Draw(c.rt, "allowed"):
		c.Allow(p)
		p.Since = c.now
		return
	case p.Stage == cluster.Binding && rapid.Bool().Draw(c.rt, "bound"):
		err = c.Confirm(p)
	default:
		c.pods = slices.Delete(c.pods, i, i+1)
		_, err = c.DeletePod(p.Object.UID)
	}
	if err != nil {
		c.rt.Fatal(err)
	}
}

// TestAHorizonLooksOnlyAtNodesThatHaveChanged counts how often the pods of a node are gone through.
func TestAHorizonLooksOnlyAtNodesThatHaveChanged(t *testing.T) {
	const nodes, members = 50, 3
	w := newWorld(t, nodes)
	for i := range nodes {
		w.runs(fmt.Sprint("runs-", i), "3", time.Duration(i+1)*time.Hour, fmt.Sprintf("n%d", i))
	}
	var pods []*cluster.Pod
	for i := range members {
		pods = append(pods, w.pod(fmt.Sprint("m", i), "4", 0))
	}
	p, demand := room.NewTable(w.State), room.DemandOf(pods...)
	ask := func() int {
		before := p.Walked()
		h, _ := p.Horizon(start, demand)
		if at, places, _, ok := h.Earliest(); !ok || len(places) != members || at < start.Add(time.Hour) {
			t.Fatalf("room for %v at %v, %t", places, at, ok)
		}
		return p.Walked() - before
	}
	if n := ask(); n != nodes+members {
		t.Errorf("%d looks at nodes at first: want %d, and one for each place", n, nodes)
	}
	if n := ask(); n != members {
		t.Errorf("%d looks at nodes without a change: want one for each of %d places", n, members)
	}
	if _, err := w.DeletePod(types.UID("runs-40")); err != nil {
		t.Fatal(err)
	}
	w.runs("another", "2", time.Hour, "n40")
	if n := ask(); n > 1+members+1 {
		t.Errorf("%d looks at nodes after a change of one: want it, and one for each place", n)
	}
	// Another object that may matter to plugins changes nothing here.
	node := w.Nodes().Object("n7").DeepCopy()
	node.Status.Images = []v1.ContainerImage{{Names: []string{"image"}, SizeBytes: 1}}
	if _, err := w.UpsertNode(node); err != nil {
		t.Fatal(err)
	}
	if n := ask(); n > 1+members+1 {
		t.Errorf("%d looks at nodes after another image on one: want it, and one for each place", n)
	}
}

// TestAHorizonKnowsWhenAPodEndsThatWasHeld has a pod wait on its node, where it may be released at any time, and then
// allows it: from then on the time of its end is known.
func TestAHorizonKnowsWhenAPodEndsThatWasHeld(t *testing.T) {
	w := newWorld(t, 1)
	held := w.pod("held", "4", time.Hour)
	if err := w.Assume(held, "n0", cluster.Waiting, nil); err != nil {
		t.Fatal(err)
	}
	p, demand := room.NewTable(w.State), room.DemandOf(w.pod("a", "2", 0))
	if h, _ := p.Horizon(start, demand); h.FitsNow() {
		t.Fatal("room beside a pod that has the node")
	}
	w.Allow(held)
	held.Since = start
	h, _ := p.Horizon(start, demand)
	if at, _, _, ok := h.Earliest(); !ok || at != start.Add(time.Hour) {
		t.Errorf("room at %v, %t; the pod ends after an hour", at, ok)
	}
}

// A resource is a name for devices at the first question to a Horizon, and a resource of the nodes at the next.
func TestAHorizonKnowsWhenAResourceStandsForDevicesNoMore(t *testing.T) {
	const gpu = "example.com/gpu"
	for _, deleted := range []bool{true, false} {
		w := newWorld(t, 1)
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To(gpu)}}
		if _, err := w.Upsert(eventlog.DeviceClasses, class); err != nil {
			t.Fatal(err)
		}
		pod := w.pod("m", "1", 0).Object.DeepCopy()
		pod.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
		if _, err := w.UpsertPod(pod); err != nil {
			t.Fatal(err)
		}
		p, demand := room.NewTable(w.State), room.DemandOf(w.Pods().Get(pod.UID))
		if h, ok := p.Horizon(start, demand); !ok || !h.FitsNow() {
			t.Fatal("devices are in the way of a pod that may get some")
		}
		if deleted {
			w.Delete(eventlog.DeviceClasses, "", "gpu")
		} else {
			class = class.DeepCopy()
			class.Spec.ExtendedResourceName = nil
			if _, err := w.Upsert(eventlog.DeviceClasses, class); err != nil {
				t.Fatal(err)
			}
		}
		h, _ := p.Horizon(start, demand)
		if now, want := h.FitsNow(), p.Outlook(start, demand, nil).FitsNow(); now != want {
			t.Errorf("the class is deleted: %t: fits now %t, by an Outlook %t", deleted, now, want)
		}
	}
}
