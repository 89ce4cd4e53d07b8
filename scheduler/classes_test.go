package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	intree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Classes, rankings and all other data kept from cycle to cycle are memos. The second Machine keeps none, and has
// kube-scheduler's own plugins for affinity and spread, which count again for every pod. Both decide the same, entry
// for entry, and agree on when there is nothing to decide.
func TestClassesChangeNoEntry(t *testing.T) {
	decisions, placed := 0, 0
	for seed := range uint64(8) {
		w := newRichWorld(t, 100+seed)
		registry := plugins.NewRegistry()
		registry.NoClasses = true
		for _, name := range []string{names.InterPodAffinity, names.PodTopologySpread} {
			registry.Factories[name] = intree.NewInTreeRegistry()[name]
		}
		without := scheduler.New(registry)
		for _, e := range w.entries {
			if err := without.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		w.before = func(e eventlog.Entry) {
			d, ok := without.Decide(nil)
			if with, decided := e.Payload.(*eventlog.Decision); decided {
				decisions++
				if with.Node != "" {
					placed++
				}
				if !ok {
					t.Fatalf(
						"seed %d, entry %d: without classes there is nothing to decide, with them:\n%+v",
						seed,
						e.Seq,
						with,
					)
				}
				if diff := cmp.Diff(d, *with); diff != "" {
					t.Fatalf(
						"seed %d, entry %d: the decisions differ (- without classes, + with):\n%s",
						seed,
						e.Seq,
						diff,
					)
				}
			}
			if err := without.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		w.affine, w.together, w.spread = []int{0, 1, 0, 20}[seed%4], []int{0, 0, 0, 10}[seed%4], seed%4 != 0
		for range 70 {
			w.node()
		}
		w.run(500)
		if _, ok := w.m.Decide(nil); !ok {
			if d, ok := without.Decide(nil); ok {
				t.Fatalf("seed %d: with classes there is nothing to decide, without them:\n%+v", seed, d)
			}
		}
	}
	if placed < 1000 || decisions < placed+100 {
		t.Errorf("%d decisions, %d of which give a pod a node: too few to tell", decisions, placed)
	}
}
