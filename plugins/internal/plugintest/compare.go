package plugintest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/rollcall-sched/rollcall/framework"
)

// Plugin is compared.
type Plugin interface {
	fwk.PreFilterPlugin
	fwk.PreFilterExtensions
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
	fwk.ScoreExtensions
}

// Quick is a Plugin that is also asked about all nodes at once.
type Quick interface {
	Plugin
	framework.Surveyor
	framework.ColumnNormalizer
}

// Pair is a plugin of Rollcall and upstream's, as kube-scheduler would start them, in one world.
type Pair struct {
	*World
	Ours   Quick
	Theirs Plugin
	// Seen counts what the comparison has seen, by name: without some of everything it would show nothing.
	Seen map[string]int
}

// Factory makes a plugin; Wrap makes ours around it.
type (
	Factory = frameworkruntime.PluginFactory
	Wrap    func(Factory) Factory
)

// NewWorld returns a world without nodes. With an even seed, plugins learn which nodes have changed.
func NewWorld(tb testing.TB, seed uint64) *World {
	return &World{Rand: rand.New(rand.NewPCG(seed, 16)), TB: tb, tells: seed%2 == 0}
}

// NewPair makes both plugins. Ours sees the informers that watch returns, if that is not nil.
func NewPair(ctx context.Context, w *World, factory Factory, wrap Wrap, args runtime.Object,
	objects informers.SharedInformerFactory, watch func(fwk.Handle) fwk.Handle) *Pair {
	w.TB.Helper()
	metrics.Register()
	h, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithSnapshotSharedLister(lister{w: w}),
		frameworkruntime.WithInformerFactory(objects), frameworkruntime.WithParallelism(1))
	if err != nil {
		w.TB.Fatal(err)
	}
	theirs, err := factory(ctx, args, h)
	if err != nil {
		w.TB.Fatal(err)
	}
	var mine fwk.Handle = h
	if watch != nil {
		mine = watch(h)
	}
	ours, err := wrap(factory)(ctx, args, handle{mine, w})
	if err != nil {
		w.TB.Fatal(err)
	}
	return &Pair{World: w, Ours: ours.(Quick), Theirs: theirs.(Plugin), Seen: map[string]int{}}
}

// Cycle is one pod's cycle in both plugins.
type Cycle struct {
	*Pair
	pod          *v1.Pod
	ours, theirs fwk.CycleState
	where        string
}

func say(status *fwk.Status) string {
	if status == nil {
		return "passes"
	}
	return fmt.Sprintf("%s %q", status.Code(), slices.Sorted(slices.Values(status.Reasons())))
}

// Same fails unless both say the same.
func (p *Pair) Same(where string, ours, theirs *fwk.Status) {
	p.TB.Helper()
	if say(ours) != say(theirs) {
		p.TB.Fatalf("%s: %s, and upstream %s", where, say(ours), say(theirs))
	}
}

// Ask runs PreFilter in both plugins with the nodes that are shown, and returns their common answer.
func (p *Pair) Ask(where string, pod *v1.Pod) (*Cycle, *fwk.Status) {
	p.TB.Helper()
	c := &Cycle{p, pod, framework.NewCycleState(), framework.NewCycleState(), where}
	ourResult, ours := p.Ours.PreFilter(Context(), c.ours, pod, p.Shown)
	theirResult, theirs := p.Theirs.PreFilter(Context(), c.theirs, pod, p.Shown)
	p.Same(where+": PreFilter", ours, theirs)
	if (ourResult == nil) != (theirResult == nil) {
		p.TB.Fatalf("%s: PreFilter returns %v, and upstream's %v", where, ourResult, theirResult)
	}
	p.Seen["pods"]++
	if ours.IsSkip() {
		p.Seen["skips"]++
	} else if !ours.IsSuccess() {
		p.Seen["errors"]++
	}
	return c, ours
}

// AskTheirs has upstream's plugin count the nodes from the start.
func (c *Cycle) AskTheirs(nodes []fwk.NodeInfo) {
	c.TB.Helper()
	c.theirs = framework.NewCycleState()
	if _, status := c.Theirs.PreFilter(Context(), c.theirs, c.pod, nodes); !status.IsSuccess() {
		c.TB.Fatal(status)
	}
}

// Filter compares the answers about a node.
func (c *Cycle) Filter(when string, node fwk.NodeInfo) (fits bool) {
	c.TB.Helper()
	ours := c.Ours.Filter(Context(), c.ours, c.pod, node)
	theirs := c.Theirs.Filter(Context(), c.theirs, c.pod, node)
	if say(ours) != say(theirs) {
		c.TB.Fatalf("%s%s: node %s: %s, and upstream %s\npod %+v\nspec %+v\nlabels %v", c.where, when, node.Node().Name,
			say(ours), say(theirs), c.pod.Labels, c.pod.Spec, node.Node().Labels)
	}
	if ours.IsSuccess() {
		c.Seen["passes"]++
	} else {
		c.Seen[ours.Message()]++
	}
	return ours.IsSuccess()
}

// AddPod adds a pod to the node for a trial, RemovePod removes it, in both plugins.
func (c *Cycle) AddPod(pod fwk.PodInfo, node fwk.NodeInfo) {
	c.TB.Helper()
	node.AddPodInfo(pod)
	c.Same(c.where, c.Ours.AddPod(Context(), c.ours, c.pod, pod, node),
		c.Theirs.AddPod(Context(), c.theirs, c.pod, pod, node))
}

// RemovePod undoes AddPod.
func (c *Cycle) RemovePod(pod fwk.PodInfo, node fwk.NodeInfo) {
	c.TB.Helper()
	if err := node.RemovePod(klog.FromContext(Context()), pod.GetPod()); err != nil {
		c.TB.Fatal(err)
	}
	c.Same(c.where, c.Ours.RemovePod(Context(), c.ours, c.pod, pod, node),
		c.Theirs.RemovePod(Context(), c.theirs, c.pod, pod, node))
}

// Clone returns the cycle with copies of its states.
func (c *Cycle) Clone() *Cycle {
	return &Cycle{c.Pair, c.pod, c.ours.Clone(), c.theirs.Clone(), c.where}
}

// Compare compares all answers about a pod, about every node for it, and about every node while pods are added and
// removed for a trial. The others are pods that may be asked about in between.
func (p *Pair) Compare(where string, pod *v1.Pod, others []*v1.Pod) {
	p.TB.Helper()
	p.show()
	c, status := p.Ask(where, pod)
	var feasible []fwk.NodeInfo
	if status.IsSuccess() {
		c.Survey()
		if p.Chance(30) {
			c.between(others)
		}
	}
	for _, node := range p.Shown {
		if !status.IsSuccess() || c.Filter("", node) {
			if p.Chance(95) {
				feasible = append(feasible, node)
			}
		}
	}
	if status.IsSuccess() || status.IsSkip() {
		c.score(feasible)
	}
	if !status.IsSuccess() || len(p.Shown) == 0 {
		return
	}
	for range 3 {
		node := p.Shown[p.IntN(len(p.Shown))].Snapshot()
		if p.Chance(10) {
			node.SetNode(p.moved(node.Node().Name))
		}
		c.Clone().try(node)
	}
	if p.Chance(30) {
		c.between(others)
	}
	for _, node := range p.Shown {
		c.Filter(", after trials", node)
	}
}

// between is a rehearsal: other pods' PreFilter in a world that is a little different, during this pod's cycle.
func (c *Cycle) between(others []*v1.Pod) {
	c.TB.Helper()
	shown, other := c.Shown, c.other
	for _, pod := range []*v1.Pod{others[c.IntN(len(others))], others[c.IntN(len(others))], c.pod} {
		c.rehearse()
		c.Ask(c.where+", in between", pod)
	}
	c.Shown, c.other = shown, other
}

// Survey compares the answers about all nodes at once. It returns how many nodes pass, -1 without an answer.
func (c *Cycle) Survey() (passes int) {
	c.TB.Helper()
	pass := make([]bool, len(c.Shown))
	if !c.Ours.SurveyFilter(c.ours, c.Shown, pass) {
		return -1
	}
	c.Seen["surveyed filters"]++
	for i, node := range c.Shown {
		theirs := c.Theirs.Filter(Context(), c.theirs, c.pod, node)
		if pass[i] != theirs.IsSuccess() {
			c.TB.Fatalf("%s: node %s passes a survey: %t, and upstream %s", c.where, node.Node().Name, pass[i],
				say(theirs))
		}
		if pass[i] {
			passes++
		}
	}
	return passes
}

// score compares PreScore, every score, and the normalized scores, node by node and in a survey.
func (c *Cycle) score(feasible []fwk.NodeInfo) {
	c.TB.Helper()
	ours := c.Ours.PreScore(Context(), c.ours, c.pod, feasible)
	c.Same(c.where+": PreScore", ours, c.Theirs.PreScore(Context(), c.theirs, c.pod, feasible))
	if ours.IsSkip() {
		c.Seen["score skips"]++
	}
	if !ours.IsSuccess() || len(feasible) == 0 {
		return
	}
	c.Seen["scored pods"]++
	all := make([]int64, len(c.Shown))
	surveyed := c.Ours.SurveyScore(c.ours, c.Shown, all)
	var column []int64
	var at []int32
	ourList, theirList := fwk.NodeScoreList{}, fwk.NodeScoreList{}
	for _, node := range feasible {
		mine, status := c.Ours.Score(Context(), c.ours, c.pod, node)
		c.Same(c.where, status, nil)
		raw, status := c.Theirs.Score(Context(), c.theirs, c.pod, node)
		c.Same(c.where, status, nil)
		place := slices.Index(c.Shown, node)
		if mine != raw || surveyed && all[place] != raw {
			c.TB.Fatalf("%s: node %s has the score %d, surveyed (%t) %d, and upstream %d", c.where, node.Node().Name,
				mine, surveyed, all[place], raw)
		}
		c.Seen["scores above 0"] += map[bool]int{true: 1}[raw > 0]
		c.Seen["scores below 0"] += map[bool]int{true: 1}[raw < 0]
		ourList = append(ourList, fwk.NodeScore{Name: node.Node().Name, Score: mine})
		theirList = append(theirList, fwk.NodeScore{Name: node.Node().Name, Score: raw})
		column, at = append(column, raw), append(at, int32(place))
	}
	c.Same(c.where, c.Ours.NormalizeScore(Context(), c.ours, c.pod, ourList),
		c.Theirs.NormalizeScore(Context(), c.theirs, c.pod, theirList))
	if surveyed {
		c.Seen["surveyed scores"]++
		if !c.Ours.NormalizeColumn(c.ours, at, column) {
			c.TB.Fatalf("%s: the column is not normalized", c.where)
		}
	}
	for i := range theirList {
		c.Seen["normalized"]++
		c.Seen["normalized to 0"] += map[bool]int{true: 1}[theirList[i].Score == 0]
		if ourList[i] != theirList[i] || surveyed && column[i] != theirList[i].Score {
			c.TB.Fatalf("%s: normalized %v, in a survey (%t) %d, and upstream %v", c.where, ourList[i], surveyed,
				column[i], theirList[i])
		}
	}
}

// try does to a copy of a node what preemption does.
func (c *Cycle) try(node fwk.NodeInfo) {
	c.TB.Helper()
	c.Seen["trials"]++
	var gone []fwk.PodInfo
	for range 1 + c.IntN(5) {
		if pods := node.GetPods(); len(pods) > 0 && c.Chance(60) {
			pod := pods[c.IntN(len(pods))]
			c.RemovePod(pod, node)
			gone = append(gone, pod)
		} else {
			pod := c.Info(c.NewTrial())
			if len(gone) > 0 && c.Chance(70) {
				pod, gone = gone[0], gone[1:]
			}
			c.AddPod(pod, node)
		}
		c.Filter(", in a trial", node)
	}
	for _, other := range c.Shown {
		c.Filter(", elsewhere in a trial", other)
	}
	if c.Chance(20) {
		c.Clone().try(node.Snapshot()) // with a copy of the copy
		c.Filter(", after a trial in a trial", node)
	}
}

// WithoutPreFilter compares the answers about a node in a cycle without PreFilter and PreScore. Both plugins have to
// fail.
func (p *Pair) WithoutPreFilter(pod *v1.Pod) {
	p.TB.Helper()
	c := &Cycle{p, pod, framework.NewCycleState(), framework.NewCycleState(), "without PreFilter"}
	node := p.Nodes[0]
	if c.Filter("", node) {
		p.TB.Error("Filter does not fail")
	}
	info := p.Info(p.NewPod())
	c.AddPod(info, node)
	c.RemovePod(info, node)
	_, ours := p.Ours.Score(Context(), c.ours, pod, node)
	_, theirs := p.Theirs.Score(Context(), c.theirs, pod, node)
	p.Same("Score", ours, theirs)
	p.Same("NormalizeScore", p.Ours.NormalizeScore(Context(), c.ours, pod, nil),
		p.Theirs.NormalizeScore(Context(), c.theirs, pod, nil))
	if ours.Code() != fwk.Error {
		p.TB.Error("Score does not fail")
	}
}
