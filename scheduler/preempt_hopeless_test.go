package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
)

// wide is a gang whose members want several GPUs of one node each.
type wide struct {
	members, gpus int
	priority      int32
}

// inputs has the gang come under a name.
func (g wide) inputs(name string) (inputs []eventlog.Payload) {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("group-" + name)}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(g.members)}
	group.Spec.Priority = &g.priority
	inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: group})
	gpus := v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(g.gpus), resource.DecimalSI)}
	for m := range g.members {
		pod := &v1.Pod{}
		pod.Namespace, pod.Name = "ml", fmt.Sprintf("%s-%d", name, m)
		pod.UID = types.UID("pod-" + pod.Name)
		pod.Spec.SchedulerName, pod.Spec.Priority = v1.DefaultSchedulerName, &g.priority
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To(name)}
		pod.Spec.Containers = []v1.Container{{Name: "main",
			Resources: v1.ResourceRequirements{Requests: gpus, Limits: gpus}}}
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	}
	return inputs
}

// guarded returns the inputs of a full cluster. The first runner on each node has a higher priority than all others.
func guarded(spec workload.Spec) []eventlog.Payload {
	inputs := full(spec)
	for i := range spec.Nodes {
		first := spec.Runner(i * workload.NodeGPUs)
		first.Spec.Priority = ptr.To[int32](900)
		inputs[len(inputs)-spec.Runners()+i*workload.NodeGPUs] = &eventlog.Upserted{Resource: eventlog.Pods,
			Object: first}
	}
	return inputs
}

// runnerEnds has the i-th runner be gone.
func runnerEnds(spec workload.Spec, i int) eventlog.Payload {
	pod := spec.Runner(i)
	return &eventlog.Deleted{Resource: eventlog.Pods, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// TestForGangsThatMoreImportantPodsKeepOutOnePlanIsMade has gangs of one shape come one after the other. All pods of
// lower priority together hold enough for a gang, but on no node do they hold enough for a member. In between, runners
// end on nodes that still have not enough. At last enough nodes have room for one gang, which is placed. Under the tag
// invariants each decision is made twice.
func TestForGangsThatMoreImportantPodsKeepOutOnePlanIsMade(t *testing.T) {
	const gangs = 30
	spec := workload.Spec{Nodes: 20, Pods: 8, Shapes: 1, Gang: 8, Preempt: true}
	hopeless := wide{members: 2, gpus: 8, priority: 500}
	steps := [][]eventlog.Payload{guarded(spec)}
	for g := range gangs {
		steps = append(steps, hopeless.inputs(fmt.Sprintf("hopeless-%02d", g)))
		if g%10 == 5 {
			steps = append(steps, []eventlog.Payload{runnerEnds(spec, workload.NodeGPUs*(g%spec.Nodes)+1)})
		}
	}
	r := carriedOut(t, steps, plugins.NewRegistry(), 1)
	planned, cleared := r.machine.Planned(), r.machine.CountedCleared()
	t.Logf("%+v, %d nodes counted", planned, cleared)
	if planned.Plans == 0 || planned.Plans > 2 || r.bound > 0 || len(r.decisions) < gangs {
		t.Errorf("%d plans for %d gangs that find no room, %d pods bound", planned.Plans, gangs, r.bound)
	}
	if most := 2 * (spec.Nodes + gangs/10); cleared < most/2 || cleared > most {
		t.Errorf("it was counted %d times what a node takes, want %d to %d", cleared, most/2, most)
	}
	ends := []eventlog.Payload{runnerEnds(spec, 0), runnerEnds(spec, workload.NodeGPUs)}
	if r := carriedOut(t, append(steps, ends), plugins.NewRegistry(), 1); r.bound != hopeless.members {
		t.Errorf("%d pods are bound once there is room for %d", r.bound, hopeless.members)
	}
}

// largeEnough is a number of nodes, full of runners, with which the checked build does not forget memos before each
// decision, as it does where the state is small.
const largeEnough = 20

// carriedOutTwice is carriedOut with memos and without. The decisions and the states must be the same.
func carriedOutTwice(t failer, steps [][]eventlog.Payload, atOnce int) (with, without preempted) {
	t.Helper()
	plain := plugins.NewRegistry()
	plain.NoClasses = true
	with = carriedOut(t, slices.Clone(steps), plugins.NewRegistry(), atOnce)
	without = carriedOut(t, slices.Clone(steps), plain, atOnce)
	for i, d := range with.decisions {
		if i >= len(without.decisions) || d != without.decisions[i] {
			t.Fatal(fmt.Sprintf("decision %d is\n%s\nand without memos\n%s", i, d,
				without.decisions[min(i, len(without.decisions)-1)]))
		}
	}
	if len(with.decisions) != len(without.decisions) || with.machine.Hash() != without.machine.Hash() {
		t.Fatal(fmt.Sprintf("%d decisions, and %d without memos", len(with.decisions), len(without.decisions)))
	}
	return with, without
}

// TestGangsThatWereKeptOutFindWhatRoomComes has a gang kept out, so that the reason is remembered. Then a change lets
// the next gang of its shape and priority evict.
func TestGangsThatWereKeptOutFindWhatRoomComes(t *testing.T) {
	spec := workload.Spec{Nodes: largeEnough, Pods: 2, Shapes: 1, Gang: 2, Preempt: true}
	d := &hopelessDraw{spec: spec}
	var important []eventlog.Payload // the gangs of runners, which are on all nodes
	for g := range spec.RunnerGroups() {
		important = append(important, d.runnerGroup(g, 900))
	}
	leaving := spec.Runner(0)
	leaving.Spec.Priority = ptr.To[int32](900)
	leaving.DeletionTimestamp = &metav1.Time{Time: leaving.CreationTimestamp.Add(time.Hour)}
	for name, c := range map[string]struct {
		gang    wide
		changes []eventlog.Payload
	}{
		"a runner ends": {wide{1, 4, 500}, []eventlog.Payload{runnerEnds(spec, 0)}},
		"a runner is being deleted": {wide{1, 4, 500}, []eventlog.Payload{
			&eventlog.Upserted{Resource: eventlog.Pods, Object: leaving}}},
		"a gang gets less important":                      {wide{1, 4, 500}, []eventlog.Payload{d.runnerGroup(0, 499)}},
		"all are as important, and one gang gets less so": {wide{1, 4, 900}, []eventlog.Payload{d.runnerGroup(0, 899)}},
		"a node comes, and something runs there":          {wide{1, 8, 500}, otherNode(spec)},
	} {
		t.Run(name, func(t *testing.T) {
			steps := [][]eventlog.Payload{append(guarded(spec), important...), c.gang.inputs("first"), nil,
				c.changes, c.gang.inputs("second")}
			with, without := carriedOutTwice(t, steps, 100)
			if before, _ := carriedOutTwice(t, steps[:3], 100); before.bound+before.evicted > 0 {
				t.Fatalf("%d pods bound and %d evicted before there is room", before.bound, before.evicted)
			}
			if with.machine.CountedCleared() == 0 || with.evicted == 0 || without.evicted != with.evicted {
				t.Errorf("%d pods evicted, without memos %d; a node was counted %d times", with.evicted,
					without.evicted, with.machine.CountedCleared())
			}
		})
	}
}

// TestGangsThatWereKeptOutFindWhatIsBeingEvicted has a more important gang ask for the pods that keep others out, and
// go before these have gone. They leave nonetheless, so the next gang is nominated there.
func TestGangsThatWereKeptOutFindWhatIsBeingEvicted(t *testing.T) {
	spec := workload.Spec{Nodes: largeEnough, Pods: 2, Shapes: 1, Gang: 2, Preempt: true}
	keptOut, important := wide{1, 8, 500}, wide{1, 8, 1000}
	d := &hopelessDraw{spec: spec, gangs: []wide{important}}
	steps := [][]eventlog.Payload{guarded(spec), keptOut.inputs("first"), nil, important.inputs("wide-0"),
		append(d.goes(0), keptOut.inputs("second")...)}
	with, _ := carriedOutTwice(t, steps, 0) // nothing is carried out
	if before, _ := carriedOutTwice(t, steps[:3], 0); slices.ContainsFunc(before.decisions, nominates) {
		t.Fatalf("nominated before: %s", before.decisions)
	}
	if last := with.decisions[len(with.decisions)-1]; with.machine.CountedCleared() == 0 || !nominates(last) {
		t.Errorf("the last decision is %s, and a node was counted %d times", last, with.machine.CountedCleared())
	}
}

// nominates reports whether a decision, as text, nominates its pod.
func nominates(decision string) bool { return !strings.Contains(decision, " Nominated: ") }

// otherNode has a node come that sorts before all others, and a pod without priority there.
func otherNode(spec workload.Spec) []eventlog.Payload {
	node := spec.Node(0)
	node.Name, node.UID = "a-"+node.Name, "a-node"
	node.Labels = nil
	runs := spec.Runner(1)
	runs.Name, runs.UID, runs.Spec.NodeName, runs.Spec.Priority = "runs", "runs", node.Name, ptr.To[int32](1)
	return []eventlog.Payload{&eventlog.Upserted{Resource: eventlog.Nodes, Object: node},
		&eventlog.Upserted{Resource: eventlog.Pods, Object: runs}}
}

// TestWhatKeepsGangsOutIsRememberedAsItIs has gangs of a few shapes and priorities come among others. Meanwhile runners
// end or are about to, gangs of runners get lower priorities, gangs go, and nodes come and go. A Machine without memos
// makes the same decisions and has the same state.
func TestWhatKeepsGangsOutIsRememberedAsItIs(t *testing.T) {
	saved, preempted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		spec := workload.Spec{Nodes: largeEnough, Pods: 2, Shapes: 1, Gang: 2, Preempt: true}
		d := &hopelessDraw{T: t, spec: spec, ended: map[int]bool{}, nodes: spec.Nodes}
		first := guarded(spec)
		for g := range spec.RunnerGroups() {
			first = append(first, d.runnerGroup(g, 900))
		}
		steps := [][]eventlog.Payload{first}
		for range rapid.IntRange(2, 14).Draw(t, "steps") {
			steps = append(steps, d.step())
		}
		a, b := carriedOutTwice(t, steps, rapid.IntRange(1, 20).Draw(t, "effects at a time"))
		saved += b.machine.Planned().Plans - a.machine.Planned().Plans
		preempted += a.evicted
	})
	if saved == 0 || preempted == 0 {
		t.Errorf("%d plans were saved, %d pods asked to go", saved, preempted)
	}
}

// BenchmarkGangsThatMoreImportantPodsKeepOut has 1,000 gangs come one at a time to a full cluster of 5,000 nodes. On no
// node do the pods of lower priority hold enough for a member. It reports the cost of each gang after the first.
func BenchmarkGangsThatMoreImportantPodsKeepOut(b *testing.B) {
	const gangs = 1000
	spec := workload.Spec{Nodes: 5000, Pods: 8, Shapes: 1, Gang: 8, Preempt: true}
	hopeless := wide{members: 2, gpus: 8, priority: 500}
	inputs := func(from, to int) (steps [][]eventlog.Payload) {
		for g := from; g < to; g++ {
			steps = append(steps, hopeless.inputs(fmt.Sprintf("hopeless-%04d", g)))
		}
		return steps
	}
	first := append([][]eventlog.Payload{guarded(spec)}, inputs(0, 1)...)
	all := append(slices.Clone(first), inputs(1, gangs)...)
	for range b.N {
		begin := time.Now()
		carriedOut(b, first, plugins.NewRegistry(), 1)
		between := time.Now()
		carriedOut(b, all, plugins.NewRegistry(), 1)
		b.ReportMetric(float64(time.Since(between)-between.Sub(begin))/1e6/(gangs-1), "ms/gang")
	}
}

// hopelessDraw draws what comes to pass beside the gangs that are kept out.
type hopelessDraw struct {
	*rapid.T
	spec  workload.Spec
	ended map[int]bool // runners that are gone
	gangs []wide       // by number; gangs that are gone have no members
	nodes int          // how many have come, nodes that are gone included
}

// step draws the inputs of one.
func (d *hopelessDraw) step() (inputs []eventlog.Payload) {
	for range rapid.IntRange(0, 3).Draw(d.T, "beside") {
		switch rapid.IntRange(0, 6).Draw(d.T, "what") {
		case 0, 1:
			if k := d.runner(); k >= 0 {
				d.ended[k] = true
				inputs = append(inputs, runnerEnds(d.spec, k))
			}
		case 2: // its pod is being deleted
			if k := d.runner(); k >= 0 {
				leaves := d.spec.Runner(k)
				if k%workload.NodeGPUs == 0 {
					leaves.Spec.Priority = ptr.To[int32](900)
				}
				leaves.DeletionTimestamp = &metav1.Time{Time: leaves.CreationTimestamp.Add(time.Hour)}
				inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: leaves})
			}
		case 3:
			if groups := d.spec.RunnerGroups(); groups > 0 {
				inputs = append(inputs, d.runnerGroup(rapid.IntRange(0, groups-1).Draw(d.T, "runners"),
					rapid.SampledFrom([]int32{0, 500, 900}).Draw(d.T, "of priority")))
			}
		case 4:
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Nodes, Object: d.spec.Node(d.nodes)})
			d.nodes++
		case 5:
			node := d.spec.Node(rapid.IntRange(0, d.nodes-1).Draw(d.T, "node that goes"))
			inputs = append(inputs, &eventlog.Deleted{Resource: eventlog.Nodes, Name: node.Name, UID: node.UID})
		case 6:
			inputs = append(inputs, d.gangGoes()...)
		}
	}
	g := wide{
		members:  rapid.IntRange(1, 3).Draw(d.T, "members"),
		gpus:     rapid.SampledFrom([]int{1, 5, 8}).Draw(d.T, "gpus"),
		priority: rapid.SampledFrom([]int32{500, 900, 901}).Draw(d.T, "priority"),
	}
	d.gangs = append(d.gangs, g)
	return append(inputs, g.inputs(fmt.Sprintf("wide-%d", len(d.gangs)-1))...)
}

// runner draws one that has not ended, -1 if the one that is drawn has.
func (d *hopelessDraw) runner() int {
	k := rapid.IntRange(0, d.spec.Runners()-1).Draw(d.T, "runner")
	if d.ended[k] {
		return -1
	}
	return k
}

// gangGoes has all pods of a gang that has come go, wherever they are.
func (d *hopelessDraw) gangGoes() (inputs []eventlog.Payload) {
	if len(d.gangs) == 0 {
		return nil
	}
	return d.goes(rapid.IntRange(0, len(d.gangs)-1).Draw(d.T, "gang that goes"))
}

// goes is gangGoes for one of them.
func (d *hopelessDraw) goes(i int) (inputs []eventlog.Payload) {
	for m := range d.gangs[i].members {
		name := fmt.Sprintf("wide-%d-%d", i, m)
		inputs = append(inputs, &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: name,
			UID: types.UID("pod-" + name)})
	}
	d.gangs[i].members = 0
	return inputs
}

// runnerGroup has a gang of runners be so important.
func (d *hopelessDraw) runnerGroup(g int, priority int32) eventlog.Payload {
	group := d.spec.RunnerGroup(g)
	group.Spec.Priority = &priority
	return &eventlog.Upserted{Resource: eventlog.PodGroups, Object: group}
}

// TestMoreKindsOfHopelessGangsThanAreRememberedArePlannedOnce has more priorities take turns than are remembered. For a
// priority that is not remembered, a plan would be made at each event that may have made room.
func TestMoreKindsOfHopelessGangsThanAreRememberedArePlannedOnce(t *testing.T) {
	const kinds, rounds = 300, 3
	spec := workload.Spec{Nodes: largeEnough, Pods: 8, Shapes: 1, Gang: 8, Preempt: true}
	steps := [][]eventlog.Payload{guarded(spec)}
	for round := range rounds {
		for k := range kinds {
			hopeless := wide{members: 2, gpus: 8, priority: int32(500 + k)}
			steps = append(steps, hopeless.inputs(fmt.Sprintf("hopeless-%d-%03d", round, k)))
		}
	}
	r := carriedOut(t, steps, plugins.NewRegistry(), 1)
	planned := r.machine.Planned()
	t.Logf("%+v, %d nodes counted", planned, r.machine.CountedCleared())
	if planned.Plans == 0 || planned.Plans > 2*kinds || r.bound > 0 || len(r.decisions) < rounds*kinds {
		t.Errorf("%d plans for %d gangs of %d kinds that find no room, %d pods bound", planned.Plans, rounds*kinds,
			kinds, r.bound)
	}
}
