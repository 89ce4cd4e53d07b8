package room_test

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// ask is a pod's demand on a node, and whether the nodes fast and tainted fulfil it. Pods with the same nodes are alike
// to an Outlook.
type ask struct {
	name          string
	spec          func(s *v1.PodSpec)
	fast, tainted bool // only on fast nodes; on tainted ones too
	says          bool // the pod has rules about nodes, or about other pods
	group         int  // pods with the same demand have the same
}

// as reports whether two ask the same of nodes.
func (a ask) as(b ask) bool { return a.group == b.group }

var asks = []ask{
	{name: "a preference", spec: func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
				{Weight: 1, Preference: fastDisk},
			},
		}}
	}, says: true},
	{name: "a selector", spec: func(s *v1.PodSpec) {
		s.NodeSelector = map[string]string{"disk": "fast"}
	}, fast: true, says: true, group: 1},
	{name: "nothing", spec: func(*v1.PodSpec) {}},
	{name: "a toleration", spec: func(s *v1.PodSpec) {
		s.Tolerations = []v1.Toleration{{Key: "t", Operator: v1.TolerationOpExists}}
	}, tainted: true, says: true, group: 2},
	{name: "an affinity", spec: func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{fastDisk},
			},
		}}
	}, fast: true, says: true, group: 3},
	{name: "no pods like it beside it", spec: func(s *v1.PodSpec) {
		s.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{},
			}},
		}}
	}, says: true},
	{name: "a host port", spec: func(s *v1.PodSpec) {
		s.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}},
	{name: "a volume", spec: func(s *v1.PodSpec) {
		claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}
		s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}}
	}},
}

var fastDisk = v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
	Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"fast"},
}}}

// naiveNode is a node as somebody sees it who tries each pod on each node.
type naiveNode struct {
	fast, tainted bool
	free          int64
	ends          map[int]int64 // by hour: what comes free then
	running       int           // pods
	ending        map[int]int64 // by hour: how many of them end then
}

// naivePart is a part of a demand, with the demands of its pods.
type naivePart struct {
	room.Part
	what []int
}

// TestAnOutlookAnswersAsTryingEachPodAtEachTimeWould compares the Outlook of one gang to three, some of whose members
// are alike, with trying each member on each node, at each time.
func TestAnOutlookAnswersAsTryingEachPodAtEachTimeWould(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 0)
		parts := make([]naivePart, rapid.IntRange(1, 3).Draw(rt, "parts"))
		maxNodes, maxCPU, most, kinds := 4, int64(6), 6-len(parts), len(asks)
		if len(parts) > 1 && rapid.Bool().Draw(rt, "little room") {
			maxNodes, maxCPU, most, kinds = 2, 3, 2, 2 // the parts take the room of each other
		}
		nodes := make([]naiveNode, rapid.IntRange(1, maxNodes).Draw(rt, "nodes"))
		for i := range nodes {
			nodes[i] = w.naive(rt, i, maxCPU)
		}
		demand := room.Demand{Enough: len(parts), Passing: true}
		if rapid.Bool().Draw(rt, "passes over a part") {
			demand.Enough = rapid.IntRange(1, len(parts)).Draw(rt, "enough")
		}
		for i := range parts {
			parts[i] = w.naivePart(rt, i, most, kinds)
			demand.Parts = append(demand.Parts, parts[i].Part)
		}
		at, places, _, ok := room.NewTable(w.State).Outlook(start, demand, nil).Earliest()
		times := hoursOf(nodes)
		var placed []eventlog.Place
		fits := func(i int) bool {
			found := naively(nodes, parts, demand.Enough, times[i])
			if found != nil {
				placed = found
			}
			return found != nil
		}
		i := 0
		if byHalves(parts, demand.Enough) {
			i = sort.Search(len(times), fits)
		} else {
			for i < len(times) && !fits(i) {
				i++
			}
		}
		if found := i < len(times); found != ok ||
			found && (at != start.Add(time.Duration(times[i])*time.Hour) || !slices.Equal(places, placed)) {
			rt.Errorf("%d of %+v on %+v: %v at %v, %t; want %v, the time %d of %v", demand.Enough, parts, nodes, places,
				at, ok, placed, i, times)
		}
	})
}

// byHalves reports whether the time is searched by halves. It is if there must be room for all parts, and for all their
// pods. Parts with more pods than needed count as if they had none more if their pods are alike, and either there is no
// other part, or no pod of them has rules about nodes.
func byHalves(parts []naivePart, enough int) bool {
	for _, p := range parts {
		for i, pod := range p.Pods {
			first, ask := p.Pods[0], asks[p.what[i]]
			switch {
			case len(p.Pods) == p.Wanted:
			case pod.Amount("cpu") != first.Amount("cpu") || !ask.as(asks[p.what[0]]):
				return false
			case len(parts) > 1 && ask.says:
				return false
			}
		}
	}
	return enough == len(parts)
}

// naivePart adds the members of a gang, most of whom are like the one before, of the first kinds of asks.
func (w world) naivePart(rt *rapid.T, part, most, kinds int) (n naivePart) {
	for i := range rapid.IntRange(1, most).Draw(rt, "members") {
		cpu := rapid.Int64Range(1, 3).Draw(rt, "member's cpu")
		n.what = append(n.what, rapid.IntRange(0, kinds-1).Draw(rt, "asks"))
		if i > 0 && rapid.IntRange(0, 3).Draw(rt, "unlike the one before") < 3 {
			cpu, n.what[i] = n.Pods[i-1].Amount("cpu")/1000, n.what[i-1]
		}
		p := w.pod(fmt.Sprintf("m%d-%d", part, i), fmt.Sprint(cpu), 0)
		asking := p.Object.DeepCopy()
		asks[n.what[i]].spec(&asking.Spec)
		if _, err := w.UpsertPod(asking); err != nil {
			rt.Fatal(err)
		}
		n.Pods = append(n.Pods, w.Pods().Get(p.Object.UID))
	}
	n.Wanted = rapid.IntRange(1, len(n.Pods)).Draw(rt, "wanted")
	return n
}

// hoursOf returns now, and the hours at which pods end.
func hoursOf(nodes []naiveNode) []int {
	hours := []int{0}
	for hour := 1; hour <= maxHours; hour++ {
		if slices.ContainsFunc(nodes, func(n naiveNode) bool { return n.ending[hour] > 0 }) {
			hours = append(hours, hour)
		}
	}
	return hours
}

// maxHours is after how many hours all pods have ended that end.
const maxHours = 3

// naive adds a node, with pods that run there.
func (w world) naive(rt *rapid.T, i int, maxCPU int64) naiveNode {
	n := naiveNode{
		fast: rapid.Bool().Draw(rt, "fast"), tainted: rapid.Bool().Draw(rt, "tainted"), ends: map[int]int64{},
		ending: map[int]int64{},
		free:   rapid.Int64Range(1, maxCPU).Draw(rt, "cpu"),
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

// naively places members of enough parts, one after the other. Each goes to the first node with room for it among the
// amounts that came free, or else among all free amounts. Parts that find room for too few are skipped. It returns nil
// for no room.
func naively(nodes []naiveNode, parts []naivePart, enough, hour int) (places []eventlog.Place) {
	now, coming := make([]amount, len(nodes)), make([]amount, len(nodes))
	for i, n := range nodes {
		now[i] = amount{n.free, int64(9 - n.running)}
		for at := range hour + 1 {
			coming[i] = amount{coming[i][0] + n.ends[at], coming[i][1] + n.ending[at]}
		}
	}
	for _, p := range parts {
		nowBefore, comingBefore := slices.Clone(now), slices.Clone(coming)
		placed := naivelyPart(nodes, p, now, coming)
		if len(placed) < p.Wanted {
			now, coming = nowBefore, comingBefore
			continue
		}
		places = append(places, placed...)
		if enough--; enough == 0 {
			return places
		}
	}
	return nil
}

// naivelyPart places as many members of a part as it wants, or as there is room for.
func naivelyPart(nodes []naiveNode, part naivePart, now, coming []amount) (places []eventlog.Place) {
	for m, p := range part.Pods {
		need, ask := amount{p.Amount("cpu") / 1000, 1}, asks[part.what[m]]
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
		if at < 0 || len(places) == part.Wanted {
			continue
		}
		for k := range need {
			took := min(need[k], coming[at][k])
			coming[at][k], now[at][k] = coming[at][k]-took, now[at][k]-(need[k]-took)
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
			pods = append(pods, w.Pods().Get(types.UID(fmt.Sprint("m", i))))
		}
		demand := room.Demand{Parts: []room.Part{{Pods: pods, Wanted: members - 1}}, Enough: 1, Passing: true}
		p := room.NewTable(w.State)
		at, _, _, ok := p.Outlook(start, demand, nil).Earliest()
		if _, trials := p.Work(); !ok || at != start.Add((members-1)*time.Hour) || trials > 10 {
			t.Errorf("%s: at %v, %t, by %d trials", ask.name, at, ok, trials)
		}
	}
}
