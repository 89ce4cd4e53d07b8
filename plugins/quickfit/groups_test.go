package quickfit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
)

// groupedNodes is a world whose nodes are in groups.
type groupedNodes struct {
	t      *testing.T
	g      *rand.Rand
	plugin fwk.Plugin
	groups framework.GroupSurveyor
	nodes  []fwk.NodeInfo
	places []int32
	size   int
	loose  []bool // by place: the node has changed since it was grouped

	passed, mixed, bounded int // groups
	exact, single          int // nodes that are a group, and nodes among them whose bound is their score
	above, below           int64
}

func newGroupedNodes(t *testing.T, seed uint64, args runtime.Object, node func(*rand.Rand, int) fwk.NodeInfo,
) *groupedNodes {
	w := &groupedNodes{t: t, g: rand.New(rand.NewPCG(seed, 11))}
	w.plugin, _ = both(t, args)
	w.groups = w.plugin.(framework.GroupSurveyor)
	for i := range 120 {
		w.nodes = append(w.nodes, node(w.g, i))
		w.places = append(w.places, int32(i))
	}
	w.loose = make([]bool, len(w.nodes))
	w.groups.ReadNodes(w.nodes, w.places)
	w.ask(pod(w.g, "first", 1)) // so that what is kept for all pods is there
	return w
}

// group groups the nodes again.
func (w *groupedNodes) group() {
	clear(w.loose)
	w.size = 1 + w.g.IntN(4)*w.g.IntN(4) // often 1
	w.g.Shuffle(len(w.places), func(i, k int) { w.places[i], w.places[k] = w.places[k], w.places[i] })
	if a, ok := w.groups.(framework.Arranger); ok && w.g.IntN(2) == 0 {
		a.ArrangeNodes(w.places, w.size)
		sorted := slices.Sorted(slices.Values(w.places))
		for i, at := range sorted {
			if int(at) != i {
				w.t.Fatalf("arranged places are %v", w.places)
			}
		}
	}
	w.groups.GroupNodes(w.places, w.size)
}

// change adds and removes pods on some nodes, and changes the size of nodes.
func (w *groupedNodes) change(step int, node func(*rand.Rand, int) fwk.NodeInfo) {
	var changed []int32
	for range w.g.IntN(5) {
		at := w.g.IntN(len(w.nodes))
		if w.g.IntN(2) == 0 {
			w.nodes[at] = node(w.g, at)
		} else {
			other, err := upstream.NewPodInfo(pod(w.g, fmt.Sprint("other-", step), 6))
			if err != nil {
				w.t.Fatal(err)
			}
			w.nodes[at].(*upstream.NodeInfo).AddPodInfo(other)
		}
		w.loose[at] = true
		changed = append(changed, int32(at))
	}
	w.groups.ReadNodes(w.nodes, changed)
}

// ask returns the plugin's answer for each node. It returns no scores if the plugin does not score the pod.
func (w *groupedNodes) ask(p *v1.Pod) (state fwk.CycleState, pass []bool, scores []int64) {
	state = upstream.NewCycleState()
	if filter, ok := w.plugin.(fwk.PreFilterPlugin); ok {
		filter.PreFilter(w.t.Context(), state, p, w.nodes)
		pass = make([]bool, len(w.nodes))
		if !w.groups.SurveyFilterAt(state, w.nodes, w.every(), pass) {
			w.t.Fatal("there is no survey")
		}
	}
	if w.plugin.(fwk.PreScorePlugin).PreScore(w.t.Context(), state, p, w.nodes).IsSkip() {
		return state, pass, nil
	}
	w.groups.SurveyScoreAt(state, w.nodes, w.every(), make([]int64, len(w.nodes)))
	for _, node := range w.nodes {
		score, status := w.plugin.(fwk.ScorePlugin).Score(w.t.Context(), state, p, node)
		if !status.IsSuccess() {
			w.t.Fatal(status.Message())
		}
		scores = append(scores, score)
	}
	return state, pass, scores
}

func (w *groupedNodes) every() []int32 { return slices.Sorted(slices.Values(w.places)) }

// compare checks the answers about groups for the pod against the answers about each node.
func (w *groupedNodes) compare(p *v1.Pod) {
	state, pass, scores := w.ask(p)
	groups := (len(w.places) + w.size - 1) / w.size
	passed, most := make([]bool, groups), make([]int64, groups)
	if pass != nil {
		if !w.groups.GroupFilter(state, passed) {
			w.t.Fatal("nothing is said of groups")
		}
		w.compareFilter(p, pass, passed)
	}
	if scores == nil || !w.groups.GroupScore(state, most) {
		return
	}
	w.bounded++
	for i := range most {
		group := w.of(i)
		for _, at := range group {
			if w.loose[at] {
				continue
			}
			if scores[at] > most[i] {
				w.t.Fatalf("node %d has score %d, and the bound is %d; pod %+v, node %+v, group %v", at, scores[at],
					most[i], p.Spec, w.nodes[at], group)
			}
			w.above, w.below = w.above+most[i], w.below+scores[at]
			if len(group) == 1 && most[i] < fwk.MaxScore {
				w.single++
				if most[i] == scores[at] {
					w.exact++
				}
			}
		}
	}
}

func (w *groupedNodes) of(group int) []int32 {
	return w.places[group*w.size : min((group+1)*w.size, len(w.places))]
}

func (w *groupedNodes) compareFilter(p *v1.Pod, pass, passed []bool) {
	for i := range passed {
		all, loose := true, false
		for _, at := range w.of(i) {
			loose = loose || w.loose[at]
			all = all && (pass[at] || w.loose[at])
		}
		switch {
		case passed[i] && !all:
			w.t.Fatalf("group %v is said to have room for the pod %+v, and has not", w.of(i), p.Spec)
		case !passed[i] && all && !loose:
			w.t.Fatalf("group %v is said not to have room for the pod %+v, and has", w.of(i), p.Spec)
		case passed[i]:
			w.passed++
		default:
			w.mixed++
		}
	}
}

// anyNode returns a node with any amounts and with pods, sometimes with less of a resource than they use.
func anyNode(g *rand.Rand, i int) fwk.NodeInfo {
	node := &v1.Node{}
	node.Name = fmt.Sprint("n", i)
	node.Status.Allocatable = amounts(g, 60)
	node.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(g.Int64N(8), resource.DecimalSI)
	return withPods(g, node, func(name string) *v1.Pod { return pod(g, name, 8) })
}

// likeNode returns a typical node: it has much of everything and is more or less full.
func likeNode(g *rand.Rand, i int) fwk.NodeInfo {
	node := &v1.Node{}
	node.Name = fmt.Sprint("n", i)
	node.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(30_000+g.Int64N(2)*10_000, resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourceEphemeralStorage: resource.MustParse("80Gi"),
		v1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	return withPods(g, node, func(name string) *v1.Pod { return likePod(g, name) })
}

// likePod returns a pod for such nodes, with distinct requests of at most a quarter of a node.
func likePod(g *rand.Rand, name string) *v1.Pod {
	p := pod(g, name, 1)
	p.Spec.Overhead, p.Spec.Containers = nil, p.Spec.Containers[:1]
	requests := v1.ResourceList{}
	if g.IntN(8) > 0 {
		requests[v1.ResourceCPU] = *resource.NewMilliQuantity(g.Int64N(8000), resource.DecimalSI)
	}
	if g.IntN(8) > 0 {
		requests[v1.ResourceMemory] = *resource.NewQuantity(g.Int64N(16<<30), resource.BinarySI)
	}
	if g.IntN(2) > 0 {
		requests["nvidia.com/gpu"] = *resource.NewQuantity(1+g.Int64N(4), resource.DecimalSI)
	}
	p.Spec.Containers[0].Resources.Requests = requests
	return p
}

func withPods(g *rand.Rand, node *v1.Node, pod func(name string) *v1.Pod) fwk.NodeInfo {
	info := upstream.NewNodeInfo()
	info.SetNode(node)
	for i := range g.IntN(4) {
		other, err := upstream.NewPodInfo(pod(fmt.Sprint(node.Name, "-", i)))
		if err != nil {
			panic(err)
		}
		info.AddPodInfo(other)
	}
	return info
}

// No node of a group has a score above the group's bound. GroupFilter passes a group exactly if all of its nodes have
// room. Nodes that have changed since grouping do not count.
func TestGroupsBoundTheirNodes(t *testing.T) {
	for _, test := range scoredBy {
		for name, node := range map[string]func(*rand.Rand, int) fwk.NodeInfo{"any": anyNode, "alike": likeNode} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				w := newGroupedNodes(t, 1, test.args, node)
				const pods = 240
				for i := range pods {
					if i%12 == 0 {
						w.group()
					} else {
						w.change(i, node)
					}
					if name == "alike" {
						w.compare(likePod(w.g, fmt.Sprint("p", i)))
					} else {
						w.compare(pod(w.g, fmt.Sprint("p", i), 1+w.g.Int64N(8)))
					}
				}
				w.checkVariety(test.name, name == "alike", pods)
			})
		}
	}
}

func (w *groupedNodes) checkVariety(test string, alike bool, pods int) {
	switch known := test == "least allocated" || test == "balanced"; {
	case known && w.bounded < pods/2:
		w.t.Errorf("of %d pods only %d were bounded", pods, w.bounded)
	case test == "most allocated" && w.bounded > 0:
		w.t.Errorf("%d pods were bounded by a rule that is not theirs", w.bounded)
	case known && alike && w.single < 100:
		w.t.Errorf("only %d nodes were a group", w.single)
	case known && alike && w.exact < w.single*98/100:
		w.t.Errorf("of %d nodes that are a group only %d have their score for a bound", w.single, w.exact)
	case known && alike && w.above > w.below*115/100:
		w.t.Errorf("bounds add up to %d, and scores to %d: they bound nothing", w.above, w.below)
	}
	if _, filters := w.plugin.(fwk.FilterPlugin); filters && (w.passed < pods || w.mixed < pods) {
		w.t.Errorf("%d groups had room, and %d had not", w.passed, w.mixed)
	}
}

// A score out of range must be reported. An amount that is not exact as a float64 has no bounds.
func TestGroupsWithStrangeAmountsAreNotBounded(t *testing.T) {
	for _, args := range []runtime.Object{
		fitArgs(config.LeastAllocated, "cpu", "memory"), balancedArgs("cpu", "memory"),
	} {
		for _, strange := range []int64{-1, 1<<53 + 1, 40} {
			node := func(g *rand.Rand, i int) fwk.NodeInfo {
				info := likeNode(g, i).(*upstream.NodeInfo)
				if i == 77 {
					info.Allocatable.Memory = strange
				}
				return info
			}
			w := newGroupedNodes(t, 2, args, node)
			w.group()
			p := pod(w.g, "p", 3)
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
			state, _, _ := w.ask(p)
			most := make([]int64, (len(w.places)+w.size-1)/w.size)
			if known := w.groups.GroupScore(state, most); known != (strange == 40) {
				t.Errorf("%T: with a node of %d bytes of memory groups are bounded: %v", args, strange, known)
			}
			requests := p.Spec.Containers[0].Resources.Requests
			requests[v1.ResourceMemory] = *resource.NewQuantity(strange, resource.BinarySI)
			state, _, _ = w.ask(p)
			if known := w.groups.GroupScore(state, most); known != (strange == 40) {
				t.Errorf("%T: for a pod of %d bytes of memory groups are bounded: %v", args, strange, known)
			}
		}
	}
}
