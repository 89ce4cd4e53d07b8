package framework_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/framework"
)

// TestGroupsFindWhatAllNodesDo places pods without a common template in clusters that are large enough for groups and
// change in between. One profile keeps memos and one does not, and all results are equal. In one world of three most
// nodes are full.
func TestGroupsFindWhatAllNodesDo(t *testing.T) {
	for name, config := range map[string]string{
		"default": comparedConfigs["default"],
		"tuned":   comparedConfigs["tuned"], // no bounds are known for its strategy
		"heavy": `profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}],
			enabled: [{name: NodeResourcesFit, weight: 3}, {name: NodeResourcesBalancedAllocation, weight: 20},
			{name: TaintToleration, weight: 7}]}}, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {
			type: LeastAllocated, resources: [{name: memory, weight: 5}, {name: ephemeral-storage, weight: 2}]}}}]}]`,
		"without filters": `profiles: [{plugins: {
			multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}]},
			filter: {disabled: [{name: NodeResourcesFit}]}}}]`,
		// Fit gives the reason before the class if both refuse a node.
		"fit first": `profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}]},
			filter: {enabled: [{name: NodeResourcesFit}]}}}]`,
		"full first": `profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: DefaultPreemption}],
			enabled: [{name: NodeResourcesFit, weight: -3}]}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			worlds, steps := 12, 300
			if name != "default" {
				worlds = 4
			}
			grouped, evaluated, nowhere := 0, 0, 0
			for seed := range uint64(worlds) {
				w := newGroupWorld(t, &generator{rand.New(rand.NewPCG(seed, 17))}, config, seed%3 == 2)
				for step := range steps {
					with := w.placeBoth(seed, step)
					evaluated += int(with.Evaluated)
					if with.Feasible == 0 {
						nowhere++
					}
				}
				grouped += w.with.Grouped()
			}
			searches, never := worlds*steps, name == "tuned" || name == "full first"
			switch {
			case never && grouped > 0:
				t.Errorf("%d searches were made by groups that nothing is known of", grouped)
			case !never && name != "fit first" && grouped < searches/3:
				t.Errorf("of %d searches only %d were made by groups", searches, grouped)
			case nowhere < searches/20 && name != "without filters":
				t.Errorf("of %d pods only %d fit nowhere", searches, nowhere)
			case evaluated < searches*200:
				t.Errorf("in %d searches only %d nodes were evaluated: the worlds are too small", searches, evaluated)
			}
		})
	}
}

// placeBoth places the next pod with both profiles.
func (w *memoWorld) placeBoth(world uint64, step int) framework.Placement {
	if step%100 > 70 {
		w.nominate(step)
	}
	switch {
	case step%70 == 69:
		w.change(step) // mostly one for which all memos are dropped
	case step%5 == 1:
		w.relabel()
	case step%5 == 3 && len(w.placed) > 0:
		if _, err := w.state.DeletePod(w.placed[0]); err != nil {
			w.t.Fatal(err)
		}
		w.placed = w.placed[1:]
	}
	if step%29 == 28 {
		if diff := w.rehearse(step); diff != "" {
			w.t.Fatalf("world %d, step %d: in a rehearsal, with and without groups differ in %s", world, step, diff)
		}
	}
	w.reserving = reservingNone
	if step%60 > 57 {
		w.reserving = []reserving{reservingThird, reservingFew}[step/60%2]
	}
	pod := w.pod(step)
	before := w.with.Grouped()
	with, without := w.placePair(pod, step)
	if diff := comparePlacements(with, without); diff != "" {
		w.t.Fatalf("world %d, step %d, pod %s, by groups: %v: with and without groups differ in %s", world, step,
			pod.Name, w.with.Grouped() > before, diff)
	}
	return with
}

// placePair places the pod with both profiles, and adds it to the node that the first one found.
func (w *memoWorld) placePair(pod *v1.Pod, start int) (with, without framework.Placement) {
	with = w.with.Place(w.ctx, framework.NewCycleState(), pod, start, nil)
	without = w.without.Place(w.ctx, framework.NewCycleState(), pod, start, nil)
	if with.Node != "" {
		w.assume(pod, with.Node)
	}
	return with, without
}

// newGroupWorld returns a world of 300 similar nodes.
func newGroupWorld(t *testing.T, g *generator, config string, full bool) *memoWorld {
	w := &memoWorld{t: t, g: g, config: config, nodes: 300, node: g.usualNode}
	w.pod = func(step int) *v1.Pod { return g.podLikeNoOther(step) }
	w.begin()
	for at := range w.nodes {
		if full && !g.oneIn(20) {
			pod := g.podLikeNoOther(1000 + at)
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("31500m")}
			w.assume(pod, fmt.Sprintf("node-%02d", at))
		}
	}
	return w
}

// usualNode returns a node of one of a few sizes, and sometimes one with its own images, taints and labels.
func (g *generator) usualNode(name string) *v1.Node {
	if g.oneIn(15) {
		return g.node(name)
	}
	node := &v1.Node{}
	node.Name, node.Labels = name, map[string]string{v1.LabelHostname: name, "zone": pick(g, zones)}
	node.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("32"),
		v1.ResourceMemory:           resource.MustParse(pick(g, []string{"32Gi", "48Gi"})),
		v1.ResourceEphemeralStorage: resource.MustParse("40Gi"),
		v1.ResourcePods:             resource.MustParse(pick(g, []string{"110", "110", "110", "3"})),
	}
	if g.oneIn(2) {
		node.Status.Allocatable["example.com/gpu"] = resource.MustParse("8")
	}
	return node
}

// podLikeNoOther returns a pod with its own requests. In all other fields it equals one of a few pods, and one pod in
// twenty fits nowhere.
func (g *generator) podLikeNoOther(step int) *v1.Pod {
	pod := &v1.Pod{}
	if g.oneIn(10) {
		pod = g.pod("odd")
		pod.Spec.TopologySpreadConstraints, pod.Spec.NodeName = nil, ""
		pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity = nil, nil
	} else {
		pod.Namespace, pod.Spec.SchedulerName = pick(g, namespaces), "default-scheduler"
		pod.Spec.Containers = []v1.Container{g.container("c")}
		c := &pod.Spec.Containers[0]
		c.Ports, c.Image = nil, pick(g, []string{"", "", images[0]})
		delete(c.Resources.Requests, "example.com/rare")
		if _, ok := c.Resources.Requests[v1.ResourceCPU]; ok {
			c.Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(g.Int64N(9000), resource.DecimalSI)
		}
		if g.oneIn(6) {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: g.wishes()}
		}
		if g.oneIn(6) {
			pod.Spec.Tolerations = []v1.Toleration{{Key: taintKeys[0], Operator: v1.TolerationOpExists}}
		}
	}
	if g.oneIn(12) {
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1k")
	}
	pod.Name, pod.UID = fmt.Sprintf("pod-%d", step), types.UID(fmt.Sprintf("pod-%d", step))
	return pod
}

// TestAPodLikeNoOtherIsComparedWithFewNodes counts the nodes that are filtered and scored for pods with distinct
// requests, in a cluster of equal nodes, and in one without free capacity.
func TestAPodLikeNoOtherIsComparedWithFewNodes(t *testing.T) {
	const nodes, pods = 1000, 400
	for name, c := range map[string]struct{ cpu, each, nowhere int }{
		"room": {64, nodes / 4, 0},
		"full": {1, nodes, pods},
	} {
		t.Run(name, func(t *testing.T) {
			g := &generator{rand.New(rand.NewPCG(8, 8))}
			w := &memoWorld{t: t, g: g, config: comparedConfigs["default"], nodes: nodes}
			w.node = func(name string) *v1.Node {
				node := &v1.Node{}
				node.Name = name
				node.Status.Allocatable = v1.ResourceList{
					v1.ResourceCPU:    *resource.NewQuantity(int64(c.cpu), resource.DecimalSI),
					v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
				}
				return node
			}
			w.begin()
			nowhere, first := 0, 0
			for i := range pods {
				pod := &v1.Pod{}
				pod.Namespace, pod.Name, pod.UID = "ns", fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("p%d", i))
				pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					"cpu":    *resource.NewMilliQuantity(1001+g.Int64N(15000), resource.DecimalSI),
					"memory": *resource.NewQuantity(1<<20+g.Int64N(16<<30), resource.BinarySI)}}}}
				if p := w.with.Place(w.ctx, framework.NewCycleState(), pod, 0, nil); p.Node != "" {
					w.assume(pod, p.Node)
				} else {
					nowhere++
				}
				if i == pods/4 {
					first = w.with.Ranked()
				}
			}
			if n, most := (w.with.Ranked()-first)/(pods-pods/4), c.each; n > most {
				t.Errorf("%d nodes a pod were filtered and scored, want %d at the most", n, most)
			}
			if n := w.with.Grouped(); n < pods-8 || nowhere != c.nowhere {
				t.Errorf("of %d pods %d were placed by groups, and %d fit nowhere", pods, n, nowhere)
			}
		})
	}
}

// TestGroupsOfOtherNodesAreForgotten makes so many changes between two pods that the cluster has forgotten the first of
// them. It also replaces a node, so that each node gets the place of another one.
func TestGroupsOfOtherNodesAreForgotten(t *testing.T) {
	put := func(w *memoWorld, name string, cpu int64) {
		node := &v1.Node{}
		node.Name = name
		node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI),
			v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110")}
		if _, err := w.state.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	like := func(step int, cpu int64) *v1.Pod {
		pod := &v1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "ns", fmt.Sprintf("p%d", step), types.UID(fmt.Sprintf("p%d", step))
		pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": resource.MustParse("1Gi")}}}}
		return pod
	}
	for name, change := range map[string]func(w *memoWorld){
		"missed": func(w *memoWorld) {
			for at := 390; at < 400; at++ { // in the last groups of the search
				put(w, fmt.Sprintf("node-%d", at), 400)
			}
			for i := range int64(3000) {
				put(w, "node-100", 31+i%2)
			}
		},
		"others": func(w *memoWorld) {
			w.state.DeleteNode("node-100")
			put(w, "node-999", 32)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &memoWorld{t: t, g: &generator{rand.New(rand.NewPCG(9, 9))}, config: comparedConfigs["default"]}
			w.begin()
			for at := range 300 {
				put(w, fmt.Sprintf("node-%d", 100+at), 32)
				if at%2 == 0 {
					w.assume(like(1000+at, 16000), fmt.Sprintf("node-%d", 100+at))
				}
			}
			for step := range 20 {
				if step == 10 {
					change(w)
				}
				with, without := w.placePair(like(step, 1000+int64(step)), 0)
				if diff := comparePlacements(with, without); diff != "" {
					t.Fatalf("step %d: with and without groups differ in %s", step, diff)
				}
			}
			if n := w.with.Grouped(); n < 8 {
				t.Errorf("only %d pods were placed by groups", n)
			}
		})
	}
}
