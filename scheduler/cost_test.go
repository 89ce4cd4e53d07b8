package scheduler_test

import (
	"cmp"
	"runtime"
	"testing"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	simworkload "github.com/rollcall-sched/rollcall/sim/workload"
)

// TestFiltersAndAllocationsOfAPodStayBelowTheirBounds bounds the work of placing pods, from the input to the result of
// the bind. It counts the runs of filters on a node, the questions about a node to filters that stand apart from
// classes, and the allocations. The workloads are always the same. If a bound is reached, look for work that is done
// twice. Raise a bound only with a reason. Under the tag invariants each decision is made more than once.
func TestFiltersAndAllocationsOfAPodStayBelowTheirBounds(t *testing.T) {
	const nodes, pods = 200, 1000
	for _, c := range []struct {
		name                   string
		spec                   workload.Spec
		filters, apart, allocs int // at the most, the last one by pod
	}{
		{"one shape", workload.Spec{Shapes: 1}, 1199, 0, 200},
		{"20 shapes", workload.Spec{Shapes: 20}, 1199, 0, 180},
		{"gangs of 50", workload.Spec{Shapes: 1, Gang: 50}, 1199, 0, 230},
		{"all different", workload.Spec{Shapes: pods}, 1199, 0, 420},
		{"spread", workload.Spec{Shapes: 1, Spread: true}, 1199, 67200, 220},
		{"affinity", workload.Spec{Shapes: 1, Affinity: true}, 1199, 9600, 400},
		{"soft spread", workload.Spec{Shapes: 1, SoftSpread: true}, 1199, 0, 400},
		{"zone affinity", workload.Spec{Pods: 400, Shapes: 1, ZoneAffinity: true}, 1300, 52200, 400},
		{"namespace affinity", workload.Spec{Pods: 400, Shapes: 1, NamespaceAffinity: true}, 3050, 52200, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Nodes, c.spec.Pods = nodes, cmp.Or(c.spec.Pods, pods)
			filters, apart, allocs := costOf(t, c.spec)
			t.Logf("filters %d, apart %d, allocations %d", filters, apart, allocs)
			for _, m := range []struct {
				what      string
				got, most int
			}{
				{"runs of the filters on a node", filters, c.filters},
				{"questions to one that stands apart", apart, c.apart},
				{"allocations a pod", allocs, c.allocs},
			} {
				if m.got > m.most || m.got < m.most/2 {
					t.Errorf("%d %s: want at most %d, and at least half as many", m.got, m.what, m.most)
				}
			}
		})
	}
}

// costOf places all pods of a workload, in batches, and returns the work of that.
func costOf(t *testing.T, spec workload.Spec) (filters, apart, allocsPerPod int) {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(
		t.Context(),
		eventlog.NewMemory(),
		simworkload.Start,
		engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"},
	)
	if err != nil {
		t.Fatal(err)
	}
	step := func(inputs ...eventlog.Payload) []engine.Effect {
		ready, err := e.Step(t.Context(), simworkload.Start, inputs)
		if err != nil {
			t.Fatal(err)
		}
		return ready.Effects
	}
	for _, n := range spec.Namespaces() {
		step(&eventlog.Upserted{Resource: eventlog.Namespaces, Object: n})
	}
	for i := range spec.Nodes {
		step(&eventlog.Upserted{Resource: eventlog.Nodes, Object: spec.Node(i)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const batch = 100
	bound := 0
	for first := 0; first < spec.Pods; first += batch {
		var inputs []eventlog.Payload
		for i := first; i < first+batch; i++ {
			if spec.Gang > 0 && i%spec.Gang == 0 {
				inputs = append(
					inputs,
					&eventlog.Upserted{Resource: eventlog.PodGroups, Object: spec.Group(i / spec.Gang)},
				)
			}
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: spec.Pod(i)})
		}
		var answers []eventlog.Payload
		for _, x := range step(inputs...) {
			answers = append(answers, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
			bound++
		}
		step(answers...)
	}
	runtime.ReadMemStats(&after)
	if bound != spec.Pods {
		t.Fatalf("%d of %d pods are bound", bound, spec.Pods)
	}
	filters, apart = e.Machine().Evaluations()
	return filters, apart, int(after.Mallocs-before.Mallocs) / spec.Pods
}
