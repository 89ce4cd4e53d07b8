package outlook_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/outlook"
)

// asks are what pods may ask of a node, and whether the nodes fast and tainted have it. Those that differ in nothing
// that says on which nodes a pod may run are alike to an Outlook.
var asks = []struct {
	name          string
	spec          func(s *v1.PodSpec)
	fast, tainted bool // only on fast nodes; on tainted ones too
}{
	{"nothing", func(*v1.PodSpec) {}, false, false},
	{"a selector", func(s *v1.PodSpec) { s.NodeSelector = map[string]string{"disk": "fast"} }, true, false},
	{"a toleration", func(s *v1.PodSpec) {
		s.Tolerations = []v1.Toleration{{Key: "t", Operator: v1.TolerationOpExists}}
	}, false, true},
	{"an affinity", func(s *v1.PodSpec) {
		term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"fast"},
		}}}
		s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{term},
			},
		}}
	}, true, false},
	{"a host port", func(s *v1.PodSpec) {
		s.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}, false, false},
	{"a volume", func(s *v1.PodSpec) {
		claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}
		s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}}
	}, false, false},
}

// naiveNode is a node as somebody sees it who tries each pod on each node.
type naiveNode struct {
	fast, tainted bool
	free          int64
	ends          map[int]int64 // by hour: what comes free then
	running       int           // pods
	ending        map[int]int64 // by hour: how many of them end then
}

// TestAnOutlookAnswersAsTryingEachPodAtEachTimeWould compares the Outlook of a gang, some of whose members are alike,
// with trying each member on each node, at each time.
func TestAnOutlookAnswersAsTryingEachPodAtEachTimeWould(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 0)
		nodes := make([]naiveNode, rapid.IntRange(1, 4).Draw(rt, "nodes"))
		for i := range nodes {
			nodes[i] = w.naive(rt, i)
		}
		var members []*cluster.Pod
		var what []int
		for i := range rapid.IntRange(1, 5).Draw(rt, "members") {
			cpu := rapid.Int64Range(1, 3).Draw(rt, "member's cpu")
			what = append(what, rapid.IntRange(0, len(asks)-1).Draw(rt, "asks"))
			if i > 0 && rapid.Bool().Draw(rt, "like the one before") {
				cpu, what[i] = members[i-1].Amount("cpu")/1000, what[i-1]
			}
			p := w.pod(fmt.Sprint("m", i), fmt.Sprint(cpu), 0)
			asking := p.Object.DeepCopy()
			asks[what[i]].spec(&asking.Spec)
			if _, err := w.UpsertPod(asking); err != nil {
				rt.Fatal(err)
			}
			members = append(members, w.Pod(p.Object.UID))
		}
		wanted := rapid.IntRange(1, len(members)).Draw(rt, "wanted")
		demand := outlook.Demand{
			Parts: []outlook.Part{{Pods: members, Wanted: wanted}}, Enough: 1, Passing: true,
		}
		at, places, _, ok := outlook.NewProjector(w).Outlook(start, demand, nil).Earliest()
		hour := 0
		var placed []eventlog.Place
		for ; hour <= maxHours && len(placed) < wanted; hour++ {
			placed = naively(nodes, members, what, wanted, hour)
		}
		if found := len(placed) == wanted; found != ok ||
			found && (at != start.Add(time.Duration(hour-1)*time.Hour) || !slices.Equal(places, placed)) {
			rt.Errorf("%d of %v on %+v: %v at %v, %t; want %v in hour %d", wanted, what, nodes, places, at, ok, placed,
				hour-1)
		}
	})
}

// maxHours is after how many hours all pods have ended that end.
const maxHours = 3

// naive adds a node, with pods that run there.
func (w world) naive(rt *rapid.T, i int) naiveNode {
	n := naiveNode{
		fast: rapid.Bool().Draw(rt, "fast"), tainted: rapid.Bool().Draw(rt, "tainted"), ends: map[int]int64{},
		ending: map[int]int64{},
		free:   rapid.Int64Range(1, 6).Draw(rt, "cpu"),
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
	if n.fast {
		node.Labels["disk"] = "fast"
	}
	if n.tainted {
		node.Spec.Taints = []v1.Taint{{Key: "t", Effect: v1.TaintEffectNoSchedule}}
	}
	cpu := *resource.NewQuantity(n.free, resource.DecimalSI)
	node.Status.Allocatable = v1.ResourceList{"cpu": cpu, "pods": resource.MustParse("9")}
	if _, err := w.UpsertNode(node); err != nil {
		rt.Fatal(err)
	}
	for k := range rapid.IntRange(0, 2).Draw(rt, "running") {
		if n.free == 0 {
			break
		}
		takes := rapid.Int64Range(1, n.free).Draw(rt, "takes")
		hours := rapid.IntRange(0, maxHours).Draw(rt, "hours")
		w.runs(fmt.Sprintf("runs-%d-%d", i, k), fmt.Sprint(takes), time.Duration(hours)*time.Hour, node.Name)
		n.free -= takes
		n.running++
		if hours > 0 {
			n.ends[hours] += takes
			n.ending[hours]++
		}
	}
	return n
}

// amount is cpus and pods.
type amount [2]int64

func (a amount) covers(b amount) bool { return a[0] >= b[0] && a[1] >= b[1] }

// naively places members, one after the other, each on the first node that has room for it of what has come free, or
// else of all that is free.
func naively(nodes []naiveNode, members []*cluster.Pod, what []int, wanted, hour int) (places []eventlog.Place) {
	now, coming := make([]amount, len(nodes)), make([]amount, len(nodes))
	for i, n := range nodes {
		now[i] = amount{n.free, int64(9 - n.running)}
		for at := range hour + 1 {
			coming[i] = amount{coming[i][0] + n.ends[at], coming[i][1] + n.ending[at]}
		}
	}
	for m, p := range members {
		need, ask := amount{p.Amount("cpu") / 1000, 1}, asks[what[m]]
		fits := func(has func(i int) amount) int {
			for i, n := range nodes {
				if (n.fast || !ask.fast) && (!n.tainted || ask.tainted) && has(i).covers(need) {
					return i
				}
			}
			return -1
		}
		at := fits(func(i int) amount { return coming[i] })
		if at < 0 {
			at = fits(func(i int) amount { return amount{now[i][0] + coming[i][0], now[i][1] + coming[i][1]} })
		}
		if at < 0 || len(places) == wanted {
			continue
		}
		for k := range need {
			part := min(need[k], coming[at][k])
			coming[at][k], now[at][k] = coming[at][k]-part, now[at][k]-(need[k]-part)
		}
		places = append(places, eventlog.Place{UID: p.Object.UID, Node: fmt.Sprintf("n%d", at)})
	}
	return places
}

// TestMembersThatAskTheSameCostNoMoreThanThoseThatAskNothing has gangs whose members are alike, in a cluster where the
// room for them comes late: the time is searched for, and not tried one by one.
func TestMembersThatAskTheSameCostNoMoreThanThoseThatAskNothing(t *testing.T) {
	const running, members = 60, 40
	for _, ask := range asks {
		w := newWorld(t, 0)
		for i := range running {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("n%02d", i), Labels: map[string]string{"disk": "fast"},
			}}
			node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("9")}
			if _, err := w.UpsertNode(node); err != nil {
				t.Fatal(err)
			}
			w.runs(fmt.Sprint("runs-", i), "4", time.Duration(i+1)*time.Hour, node.Name)
		}
		var pods []*cluster.Pod
		for i := range members {
			pod := w.pod(fmt.Sprint("m", i), "4", 0).Object.DeepCopy()
			ask.spec(&pod.Spec)
			if _, err := w.UpsertPod(pod); err != nil {
				t.Fatal(err)
			}
			pods = append(pods, w.Pod(types.UID(fmt.Sprint("m", i))))
		}
		demand := outlook.Demand{Parts: []outlook.Part{{Pods: pods, Wanted: members - 1}}, Enough: 1, Passing: true}
		p := outlook.NewProjector(w)
		at, _, _, ok := p.Outlook(start, demand, nil).Earliest()
		if _, trials := p.Work(); !ok || at != start.Add((members-1)*time.Hour) || trials > 10 {
			t.Errorf("%s: at %v, %t, by %d trials", ask.name, at, ok, trials)
		}
	}
}
