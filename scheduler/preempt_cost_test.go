package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/scheduler"
	simworkload "github.com/rollcall-sched/rollcall/sim/workload"
)

// preempted counts the results of gangs that preempt.
type preempted struct {
	machine   *scheduler.Machine
	decisions []string
	entries   int
	bound     int
	evicted   int
}

// failer is a test, or a property's.
type failer interface {
	Fatal(...any)
	Helper()
}

// preempt fills a cluster and has gangs come that preempt, until nothing is left to be done: all at once, or one at a
// step.
func preempt(t failer, spec workload.Spec, registry framework.Registry, atOnce int, apart bool) preempted {
	t.Helper()
	steps := [][]eventlog.Payload{full(spec)}
	for i := range spec.Pods {
		inputs := &steps[len(steps)-1]
		if g, ok := spec.Begins(i); ok {
			if apart {
				steps = append(steps, nil)
				inputs = &steps[len(steps)-1]
			}
			*inputs = append(*inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: spec.Group(g)})
		}
		*inputs = append(*inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: spec.Pod(i)})
	}
	return carriedOut(t, steps, registry, atOnce)
}

// full returns the inputs of a full cluster.
func full(spec workload.Spec) (inputs []eventlog.Payload) {
	for i := range spec.Nodes {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Nodes, Object: spec.Node(i)})
	}
	for g := range spec.RunnerGroups() {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: spec.RunnerGroup(g)})
	}
	for i := range spec.Runners() {
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: spec.Runner(i)})
	}
	return inputs
}

// carriedOut gives a scheduler the inputs of each step, and carries out what it decides, at most so many effects at a
// time: a pod that is evicted is gone.
func carriedOut(t failer, steps [][]eventlog.Payload, registry framework.Registry, atOnce int) (out preempted) {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := framework.WithoutLogger(context.Background())
	e, err := engine.Open(ctx, eventlog.NewMemory(), simworkload.Start, engine.Options{Registry: registry,
		Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var effects []engine.Effect
	var inputs []eventlog.Payload
	now := simworkload.Start
	for idle := 0; idle < 20; idle++ { // steps without effects, in which backoffs end
		now = now.Add(time.Second)
		if len(steps) > 0 {
			inputs, steps, idle = append(inputs, steps[0]...), steps[1:], 0
		}
		ready, err := e.Step(ctx, now, inputs)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range ready.Commits {
			for _, entry := range c.Entries {
				if d, ok := entry.Payload.(*eventlog.Decision); ok {
					out.decisions = append(out.decisions, fmt.Sprintf("%+v", *d))
				}
			}
			out.entries += len(c.Entries)
		}
		effects = append(effects, ready.Effects...)
		n := min(atOnce, len(effects))
		if inputs = nil; n > 0 {
			idle = 0
		}
		for _, x := range effects[:n] {
			if x.Kind == scheduler.Bind {
				out.bound++
				inputs = append(inputs, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
				continue
			}
			out.evicted++
			inputs = append(inputs, &eventlog.Deleted{Resource: eventlog.Pods, Namespace: x.Namespace, Name: x.Name,
				UID: x.UID})
		}
		effects = slices.Delete(effects, 0, n)
	}
	out.machine = e.Machine()
	return out
}

// TestWhatPreemptionDoesForAGangStaysBelowItsBounds counts the work when gangs of higher priority come at once to a
// full cluster. If a bound is reached, look for work that is done twice. Raise a bound only with a reason. Under the
// tag invariants each decision is made twice.
func TestWhatPreemptionDoesForAGangStaysBelowItsBounds(t *testing.T) {
	const nodes, gangs, size = 80, 20, 8
	spec := workload.Spec{Nodes: nodes, Pods: gangs * size, Shapes: 3, Gang: size, Preempt: true}
	r := preempt(t, spec, plugins.NewRegistry(), spec.Pods+spec.Runners(), false)
	if r.bound != spec.Pods {
		t.Fatalf("%d of %d pods are bound", r.bound, spec.Pods)
	}
	p := r.machine.Planned()
	t.Logf("%+v, %d nominations looked at in %d entries", p, r.machine.Recounted(), r.entries)
	for _, c := range []struct {
		what      string
		got, most int
	}{
		{"plans", p.Plans, 2 * gangs},
		{"listings of all targets", p.Listings, 1},
		{"times that all members were placed to see whether they fit", p.Trials, 0},
		{"nodes that were looked at", p.Looks, 2 * gangs * (nodes + 4*size)},
		{"nominations that were looked at", r.machine.Recounted(), 4 * spec.Pods},
	} {
		if c.got > c.most || c.got < c.most/4 {
			t.Errorf("%d %s for %d gangs, want at most %d, and at least a quarter of that", c.got, c.what, gangs,
				c.most)
		}
	}
}

// TestForGangsThatNeverFitNoPreemptionIsPlanned has gangs come whose members want more GPUs than a node has, while
// pods of lower priority run.
func TestForGangsThatNeverFitNoPreemptionIsPlanned(t *testing.T) {
	const gangs = 20
	spec := workload.Spec{Nodes: 20, Pods: 8, Shapes: 1, Gang: 8, Preempt: true}
	never := workload.Backlog{Nodes: spec.Nodes, Hopeless: gangs}
	inputs := full(spec)
	for g := range gangs {
		group := never.Group(g)
		group.Spec.Priority = ptr.To[int32](1000)
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: group})
		for m := range never.Members(g) {
			pod := never.Pod(g, m)
			pod.Spec.Priority = group.Spec.Priority
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
		}
	}
	r := carriedOut(t, [][]eventlog.Payload{inputs}, plugins.NewRegistry(), 1)
	if p := r.machine.Planned(); p != (preemption.Planned{}) {
		t.Errorf("%+v for gangs that never fit", p)
	}
	if n := len(r.decisions); n < gangs || r.bound > 0 {
		t.Errorf("%d decisions on %d gangs, %d pods bound", n, gangs, r.bound)
	}
}

// TestPreemptionDecidesTheSameWithoutMemos has gangs of many sizes preempt, all effects carried out at once or a few at
// a time.
func TestPreemptionDecidesTheSameWithoutMemos(t *testing.T) {
	counted := 0
	rapid.Check(t, func(t *rapid.T) {
		s := workload.Spec{Nodes: rapid.IntRange(3, 40).Draw(t, "nodes"), Gang: rapid.IntRange(1, 12).Draw(t, "gang"),
			Preempt: true}
		s.Pods = s.Gang * rapid.IntRange(1, min(6, s.Room()/s.Gang)).Draw(t, "gangs")
		s.Shapes = rapid.SampledFrom([]int{1, 3, s.Pods}).Draw(t, "shapes")
		atOnce := rapid.IntRange(1, 40).Draw(t, "effects at a time")
		without := plugins.NewRegistry()
		without.NoClasses = true
		apart := rapid.Bool().Draw(t, "one gang at a step")
		a, b := preempt(t, s, plugins.NewRegistry(), atOnce, apart), preempt(t, s, without, atOnce, apart)
		counted += a.machine.Planned().Looks
		if n := b.machine.Planned().Looks; n > 0 {
			t.Fatalf("%d nodes are counted without memos", n)
		}
		for i, d := range a.decisions {
			if i >= len(b.decisions) || d != b.decisions[i] {
				t.Fatalf("%s: decision %d is\n%s\nand without memos\n%s", s, i, d,
					b.decisions[min(i, len(b.decisions)-1)])
			}
		}
		if len(a.decisions) != len(b.decisions) || a.bound != s.Pods || a.machine.Hash() != b.machine.Hash() {
			t.Fatalf("%s: %d decisions and %d bound pods, without memos %d and %d", s, len(a.decisions), a.bound,
				len(b.decisions), b.bound)
		}
	})
	if counted == 0 {
		t.Error("no plan was made by counting")
	}
}
