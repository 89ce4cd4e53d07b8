package framework_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// TestClassesAreOnlyAMemo places pods in worlds that change in between, with a profile that keeps classes and with one
// that does not. All results are equal.
func TestClassesAreOnlyAMemo(t *testing.T) {
	for name, profile := range comparedConfigs {
		t.Run(name, func(t *testing.T) { classesAreOnlyAMemo(t, profile) })
	}
}

func classesAreOnlyAMemo(t *testing.T, profile string) {
	const worlds, steps = 12, 150
	evaluated, saved := 0, 0
	for seed := range uint64(worlds) {
		g := &generator{rand.New(rand.NewPCG(seed, 7))}
		w := newMemoWorldOf(t, g, profile)
		for step := range steps {
			w.nominate(step)
			w.change(step)
			if step%7 == 6 {
				if diff := w.rehearse(step); diff != "" {
					t.Fatalf("world %d, step %d: in a rehearsal, with and without classes differ in %s", seed, step,
						diff)
				}
			}
			w.reserving = reserving(max(0, step%13-8))
			pod := w.podOfFewShapes(step)
			with := w.with.Place(w.ctx, framework.NewCycleState(), pod, step, nil)
			without := w.without.Place(w.ctx, framework.NewCycleState(), pod, step, nil)
			if diff := comparePlacements(with, without); diff != "" {
				t.Fatalf("world %d, step %d, pod %s: with and without classes differ in %s", seed, step, pod.Name, diff)
			}
			evaluated += int(with.Evaluated)
			if with.Node != "" {
				w.assume(pod, with.Node)
			}
		}
		saved += evaluations(w.without) - evaluations(w.with)
	}
	if evaluated < worlds*steps*60 {
		t.Fatalf("only %d nodes were evaluated: the worlds are too small to have classes", evaluated)
	}
	if saved < evaluated/4 {
		t.Errorf("of %d evaluations only %d were saved: the pods have too few classes", evaluated, saved)
	}
}

func evaluations(p *framework.Profile) int {
	filters, _ := p.Evaluations()
	return filters
}

// TestClassesSaveWork counts plugin calls: a class is evaluated in full once, then one node for each placement.
func TestClassesSaveWork(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
	w.plain = true
	for i := range 20 {
		pod := w.podOfFewShapes(0)
		pod.Name, pod.UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("p%d", i))
		if p := w.with.Place(w.ctx, framework.NewCycleState(), pod, 0, nil); p.Node != "" {
			w.assume(pod, p.Node)
		}
	}
	if got, most := evaluations(w.with), 80+20; got > most {
		t.Errorf("20 pods of one class on 80 nodes took %d evaluations of a node, want at most %d", got, most)
	}
}

// TestOnlyNodesWithRoomAreAskedWhetherTheyAreReserved counts, for pods of one shape that fill the nodes, the calls of a
// filter and of Reserved.Why. Why is never called for a full node. For the others it is called only for the nodes that
// Reserved names.
func TestOnlyNodesWithRoomAreAskedWhetherTheyAreReserved(t *testing.T) {
	for _, reserving := range []reserving{reservingThird, reservingSome, reservingMost, reservingFew} {
		w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
		w.plain, w.reserving = true, reserving
		pods, refused := 0, 0
		for refused < 5 && pods < 500 {
			pod := w.podOfFewShapes(0)
			pod.Name, pod.UID = fmt.Sprintf("p%d", pods), types.UID(fmt.Sprintf("p%d", pods))
			pods++
			asked := w.with.ReservedAsked()
			p := w.with.Place(w.ctx, framework.NewCycleState(), pod, 0, nil)
			asked = w.with.ReservedAsked() - asked
			without := w.without.Place(w.ctx, framework.NewCycleState(), pod, 0, nil)
			if diff := comparePlacements(p, without); diff != "" {
				t.Fatalf("reserving %d, pod %d: with and without classes differ in %s", reserving, pods, diff)
			}
			room := int(p.Feasible) // and nodes that have room and are reserved
			for _, r := range p.Rejections {
				if r.Plugin == "others" {
					room += int(r.Nodes)
				}
			}
			if r := w.reserved(pod); r.Limited {
				room = min(room, len(r.Nodes))
			}
			if asked > room {
				t.Fatalf("reserving %d, pod %d: asked whether %d nodes are reserved, want at most %d", reserving, pods,
					asked, room)
			}
			if p.Node == "" {
				refused++
				continue
			}
			w.assume(pod, p.Node)
		}
		if got, most := evaluations(w.with), w.nodes+pods; got > most || refused < 5 {
			t.Errorf("reserving %d: %d pods, %d of them refused, on %d nodes took %d evaluations of a node, "+
				"want at most %d", reserving, pods, refused, w.nodes, got, most)
		}
	}
}

// TestManyShapesThatTakeTurnsAreRemembered counts the nodes that are filtered and scored for 40 shapes that take turns.
// The first pod of a shape visits all nodes, and so does the second, which builds a ranking. Later pods visit only the
// nodes where pods were placed since. If the memory bound allows fewer rankings, every pod visits all nodes, and the
// decisions are the same.
func TestManyShapesThatTakeTurnsAreRemembered(t *testing.T) {
	const nodes, shapes, pods = 80, 40, 280
	for name, c := range map[string]struct{ bound, least, most int }{
		"room for all":  {0, pods, 2*nodes*shapes + (pods-2*shapes)*shapes},
		"room for some": {20 * 17 * nodes, nodes * pods, nodes * pods},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(2, 2))})
			w.plain = true
			w.with.BoundMemos(c.bound)
			for i := range pods {
				pod := w.podOfFewShapes(0)
				pod.Name, pod.UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("p%d", i))
				pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					"cpu": *resource.NewMilliQuantity(int64(1+i%shapes), resource.DecimalSI)}}}}
				with := w.with.Place(w.ctx, framework.NewCycleState(), pod, i, nil)
				without := w.without.Place(w.ctx, framework.NewCycleState(), pod, i, nil)
				if diff := comparePlacements(with, without); diff != "" {
					t.Fatalf("pod %d: with and without classes differ in %s", i, diff)
				}
				if with.Node != "" {
					w.assume(pod, with.Node)
				}
				if n := w.with.RankedBytes(); c.bound > 0 && n > c.bound {
					t.Fatalf("pod %d: the rankings take %d bytes, want at most %d", i, n, c.bound)
				}
			}
			if n := w.with.Ranked(); n < c.least || n > c.most {
				t.Errorf("nodes were filtered and scored %d times, want %d to %d", n, c.least, c.most)
			}
			filters, asked := w.with.Evaluations()
			// Filter runs for the reason of a refused node, and a few nodes refuse pods.
			if filters > nodes+pods || asked > w.with.Ranked()/10 {
				t.Errorf("the class filtered %d nodes, want at most %d; %d times a plugin was asked that surveys nodes",
					filters, nodes+pods, asked)
			}
		})
	}
}

// TestAMemoThatHasMissedChangesLooksAtAllNodes makes so many changes between two pods that the cluster has forgotten
// the first of them.
func TestAMemoThatHasMissedChangesLooksAtAllNodes(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(6, 6))})
	change := func(at int) { // memos stay, unlike after a change of images
		node := &v1.Node{}
		node.Name, node.Spec.Unschedulable = fmt.Sprintf("node-%02d", at), w.g.oneIn(2)
		node.Status.Allocatable = v1.ResourceList{
			"pods": resource.MustParse("110"), "memory": resource.MustParse("64Gi"),
			"cpu": *resource.NewQuantity(1+w.g.Int64N(64), resource.DecimalSI),
		}
		if _, err := w.state.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	for at := range w.nodes {
		change(at)
	}
	for i := range 6 {
		pod := &v1.Pod{}
		pod.Name, pod.Namespace, pod.UID = fmt.Sprintf("p%d", i), "ns", types.UID(fmt.Sprintf("p%d", i))
		pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100+i/5), resource.DecimalSI)}}}}
		with := w.with.Place(w.ctx, framework.NewCycleState(), pod, i, nil)
		without := w.without.Place(w.ctx, framework.NewCycleState(), pod, i, nil)
		if diff := comparePlacements(with, without); diff != "" {
			t.Fatalf("pod %d: with and without classes differ in %s", i, diff)
		}
		for at := range 70 {
			change(at)
		}
		for range 3000 {
			change(79)
		}
	}
}

// TestPodsThatNoTermConcernsHaveRankings, also if other pods have affinity.
func TestPodsThatNoTermConcernsHaveRankings(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
	plain := &v1.Pod{}
	plain.Namespace, plain.Labels = "blue", map[string]string{"app": "web"}
	place := func(name string, of *v1.Pod) {
		pod := of.DeepCopy()
		pod.Name, pod.UID = name, types.UID(name)
		with := w.with.Place(w.ctx, framework.NewCycleState(), pod, 0, nil)
		without := w.without.Place(w.ctx, framework.NewCycleState(), pod, 0, nil)
		if diff := comparePlacements(with, without); diff != "" || with.Node == "" {
			t.Fatalf("pod %s: with and without rankings differ in %s", name, diff)
		}
		w.assume(pod, with.Node)
	}
	stranger := plain.DeepCopy()
	stranger.Labels["app"] = "dns"
	stranger.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "zone",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "dns"}}}}}}
	place("stranger", stranger)
	for i := range 3 {
		place(fmt.Sprint("plain-", i), plain)
	}
	if n := w.with.Rankings(); n != 1 {
		t.Fatalf("there are %d rankings, not 1", n)
	}
	// From now on terms concern them, and each keeps them off one more zone.
	stranger.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector =
		&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for i, zone := range zones {
		hostile := stranger.DeepCopy()
		hostile.Name, hostile.UID = fmt.Sprint("hostile-", i), types.UID(fmt.Sprint("hostile-", i))
		for at := range w.nodes {
			if name := fmt.Sprintf("node-%02d", at); w.state.Nodes().Object(name).Labels["zone"] == zone {
				w.assume(hostile, name)
				break
			}
		}
		for k := range 3 {
			place(fmt.Sprint("avoiding-", i, "-", k), plain)
		}
	}
}

// TestARankingFollowsTheHighestScore moves the highest score for normalizing up and down. In between, the class learns
// nodes that a rehearsal has changed.
func TestARankingFollowsTheHighestScore(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(5, 5))})
	w.plain = true
	taint := func(at, taints int) {
		node := &v1.Node{}
		node.Name = fmt.Sprintf("node-%02d", at)
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi"),
			"pods": resource.MustParse("110")}
		for i := range taints {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: fmt.Sprintf("t%d", i),
				Effect: v1.TaintEffectPreferNoSchedule})
		}
		if _, err := w.state.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	for at := range w.nodes {
		taint(at, 1)
	}
	pod := &v1.Pod{}
	pod.Namespace, pod.Spec.SchedulerName = "ns", "with"
	pod.Spec.Containers = []v1.Container{
		{
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{"cpu": resource.MustParse("3"), "memory": resource.MustParse("1Gi")},
			},
		},
	}
	scores := map[int64]bool{}
	for step := range 60 {
		taint(79, step*7%4)
		w.rehearseOn(pod, step%10)
		taint(78, step*5%4)
		next := pod.DeepCopy()
		next.Name = fmt.Sprintf("pod-%d", step)
		next.UID = types.UID(next.Name)
		with := w.with.Place(w.ctx, framework.NewCycleState(), next, step, nil)
		without := w.without.Place(w.ctx, framework.NewCycleState(), next, step, nil)
		if diff := comparePlacements(with, without); diff != "" {
			t.Fatalf("step %d: with and without classes differ in %s", step, diff)
		}
		scores[with.Score] = true
		w.assume(next, with.Node)
	}
	if len(scores) < 5 {
		t.Errorf("the scores are %v: nothing moved", scores)
	}
}

// TestARankingFollowsTwoHighestScores changes the highest score of one of two normalizing plugins at a time.
func TestARankingFollowsTwoHighestScores(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(6, 6))})
	put := func(at, taints, disks int) {
		node := &v1.Node{}
		node.Name = fmt.Sprintf("node-%02d", at)
		node.Labels = map[string]string{"disks": fmt.Sprint(disks)}
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi"),
			"pods": resource.MustParse("110")}
		for i := range taints {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: fmt.Sprintf("t%d", i),
				Effect: v1.TaintEffectPreferNoSchedule})
		}
		if _, err := w.state.UpsertNode(node); err != nil {
			t.Fatal(err)
		}
	}
	for at := range w.nodes {
		put(at, 1+at%2, 1+at%3)
	}
	pod := &v1.Pod{}
	pod.Namespace = "ns"
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		"cpu": resource.MustParse("1")}}}}
	affinity := &v1.NodeAffinity{}
	for i := range 5 {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			affinity.PreferredDuringSchedulingIgnoredDuringExecution, v1.PreferredSchedulingTerm{Weight: 10,
				Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "disks", Operator: v1.NodeSelectorOpGt, Values: []string{fmt.Sprint(i)}}}}})
	}
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: affinity}
	ranked := w.with.Ranked()
	for step := range 60 {
		if step%2 == 0 {
			put(79, 1+step/2%4, 0)
		} else {
			put(78, 0, 1+step/2%5)
		}
		w.reserving = []reserving{reservingNone, reservingFew, reservingSome, reservingMost}[step/3%4]
		next := pod.DeepCopy()
		next.Name = fmt.Sprintf("pod-%d", step)
		next.UID = types.UID(next.Name)
		with := w.with.Place(w.ctx, framework.NewCycleState(), next, step, nil)
		without := w.without.Place(w.ctx, framework.NewCycleState(), next, step, nil)
		if diff := comparePlacements(with, without); diff != "" {
			t.Fatalf("step %d: with and without classes differ in %s", step, diff)
		}
		w.assume(next, with.Node)
	}
	if n := w.with.Ranked() - ranked; n < 2*80 || n > 2*80+3*60 {
		t.Errorf("nodes were ranked %d times: the ranking did not last", n)
	}
}

// rehearseOn places another pod of the class while the first few nodes have many pods.
func (w *memoWorld) rehearseOn(pod *v1.Pod, nodes int) {
	r := w.with.Handle().Rehearse("", nil)
	defer r.End()
	for at := range nodes {
		big := pod.DeepCopy()
		big.Name, big.Spec.NodeName = fmt.Sprintf("big-%d", at), fmt.Sprintf("node-%02d", at)
		big.UID = types.UID(big.Name)
		big.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("30")
		info, err := upstream.NewPodInfo(big)
		if err == nil {
			err = r.AddPod(info)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	r.Place(w.ctx, pod)
}

// TestScoresNormalizedByTheHighest normalizes a score within a list, and together with the highest score alone. Both
// results are equal.
func TestScoresNormalizedByTheHighest(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 3))
	w := newMemoWorld(t, &generator{g})
	for _, name := range framework.NormalizedByHighest {
		plugin := w.with.Plugin(name).(fwk.ScorePlugin).ScoreExtensions()
		for range 300 {
			list := make(fwk.NodeScoreList, 1+g.IntN(20))
			highest := int64(0)
			for i := range list {
				list[i].Score = g.Int64N(1 + g.Int64N(300))
				highest = max(highest, list[i].Score)
			}
			alone := make([]fwk.NodeScoreList, len(list))
			for i := range list {
				alone[i] = fwk.NodeScoreList{list[i], {Score: highest}}
				plugin.NormalizeScore(t.Context(), nil, nil, alone[i])
			}
			plugin.NormalizeScore(t.Context(), nil, nil, list)
			for i := range list {
				if alone[i][0].Score != list[i].Score {
					t.Fatalf("%s: %d in the list, %d beside the highest", name, list[i].Score, alone[i][0].Score)
				}
			}
		}
	}
}

// TestWithoutClassesEveryNodeIsEvaluatedForEachPod counts plugin calls of a profile whose registry turns classes off.
func TestWithoutClassesEveryNodeIsEvaluatedForEachPod(t *testing.T) {
	w := newMemoWorld(t, &generator{rand.New(rand.NewPCG(1, 1))})
	w.plain = true
	registry := plugins.NewRegistry()
	registry.NoClasses = true
	off := w.profile("plain", registry, w.inputs)
	for range 5 {
		off.Place(w.ctx, framework.NewCycleState(), w.podOfFewShapes(0), 0, nil)
	}
	if got, want := evaluations(off), 5*80; got != want {
		t.Errorf("5 pods of one class on 80 nodes took %d evaluations of a node, want %d", got, want)
	}
}

func comparePlacements(a, b framework.Placement) string {
	statuses := func(p framework.Placement) (out []string) {
		if p.Statuses == nil {
			return nil
		}
		for i := range 330 {
			s := p.Statuses.Get(fmt.Sprintf("node-%02d", i))
			out = append(out, fmt.Sprintf("%s %s %d", s.Plugin(), s.Code(), len(s.Reasons())))
		}
		return out
	}
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"node", a.Node, b.Node}, {"score", a.Score, b.Score}, {"evaluated", a.Evaluated, b.Evaluated},
		{"feasible", a.Feasible, b.Feasible}, {"next", a.Next, b.Next}, {"status", a.Status.Code(), b.Status.Code()},
		{"rejections", a.Rejections, b.Rejections}, {"plugins", a.Plugins, b.Plugins},
		{"pending plugins", a.PendingPlugins, b.PendingPlugins}, {"statuses", statuses(a), statuses(b)},
	} {
		if !reflect.DeepEqual(f.a, f.b) {
			return fmt.Sprintf("%s: %v and %v", f.name, f.a, f.b)
		}
	}
	return ""
}
