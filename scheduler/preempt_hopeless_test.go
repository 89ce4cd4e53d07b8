package scheduler_test

import (
	"fmt"
	"slices"
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

// guarded is a cluster with what runs in it: on each node the first runner is more important than all others.
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

// TestForGangsThatMoreImportantPodsKeepOutOnePlanIsMade has gangs come one after the other, all of one shape, for which
// the less important pods together hold enough, and those of no node do. Runners end in between on nodes that still
// have not enough, and at last on enough nodes for one gang, which is placed. Under the tag invariants each decision is
// made twice.
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

// TestWhatKeepsGangsOutIsRememberedAsItIs has gangs of few shapes and priorities come while runners end, of which some
// find room, some victims, and some neither. The same is decided without memos.
func TestWhatKeepsGangsOutIsRememberedAsItIs(t *testing.T) {
	saved, preempted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		spec := workload.Spec{Nodes: rapid.IntRange(3, 12).Draw(t, "nodes"), Pods: 2, Shapes: 1, Gang: 2, Preempt: true}
		steps := [][]eventlog.Payload{guarded(spec)}
		ended := map[int]bool{}
		for i := range rapid.IntRange(2, 10).Draw(t, "gangs") {
			g := wide{
				members:  rapid.IntRange(1, 3).Draw(t, "members"),
				gpus:     rapid.SampledFrom([]int{1, 4, 7, 8}).Draw(t, "gpus"),
				priority: rapid.SampledFrom([]int32{100, 500, 1000}).Draw(t, "priority"),
			}
			inputs := g.inputs(fmt.Sprintf("wide-%d", i))
			for range rapid.IntRange(0, 6).Draw(t, "end") {
				if k := rapid.IntRange(0, spec.Runners()-1).Draw(t, "runner"); !ended[k] {
					ended[k] = true
					inputs = append(inputs, runnerEnds(spec, k))
				}
			}
			steps = append(steps, inputs)
		}
		without := plugins.NewRegistry()
		without.NoClasses = true
		atOnce := rapid.IntRange(1, 20).Draw(t, "effects at a time")
		again := make([][]eventlog.Payload, len(steps))
		copy(again, steps)
		a, b := carriedOut(t, steps, plugins.NewRegistry(), atOnce), carriedOut(t, again, without, atOnce)
		for i, d := range a.decisions {
			if i >= len(b.decisions) || d != b.decisions[i] {
				t.Fatalf("decision %d is\n%s\nand without memos\n%s", i, d, b.decisions[min(i, len(b.decisions)-1)])
			}
		}
		if len(a.decisions) != len(b.decisions) || a.machine.Hash() != b.machine.Hash() {
			t.Fatalf("%d decisions, and %d without memos", len(a.decisions), len(b.decisions))
		}
		saved += b.machine.Planned().Plans - a.machine.Planned().Plans
		preempted += a.evicted
	})
	if saved == 0 || preempted == 0 {
		t.Errorf("%d plans were saved, %d pods asked to go", saved, preempted)
	}
}

// BenchmarkGangsThatMoreImportantPodsKeepOut has 1,000 gangs come one at a step to a full cluster of 5,000 nodes, in
// which the less important pods of no node hold enough for a member, and says what each one costs after the first.
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
