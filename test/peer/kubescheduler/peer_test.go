package kubescheduler

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
)

// Both get the same workload, and package yardstick checks the room of all placements. Kube-scheduler chooses randomly
// among equally good nodes, so the scores are close and not equal.
func TestBothSchedulersPlaceTheWholeWorkload(t *testing.T) {
	for _, c := range []struct {
		name string
		spec workload.Spec
	}{ // those with gangs are the last: they open a feature gate permanently
		{"shapes", workload.Spec{Nodes: 50, Pods: 100, Shapes: 5}},
		{"spread", workload.Spec{Nodes: 50, Pods: 100, Shapes: 1, Spread: true}},
		{"devices", workload.Spec{Nodes: 10, Pods: 300, Shapes: 1, DRA: true}},
		{"gangs with devices", workload.Spec{Nodes: 10, Pods: 320, Shapes: 1, Gang: 16, DRA: true}},
		{"gangs", workload.Spec{Nodes: 50, Pods: 100, Shapes: 1, Gang: 25}},
		{"preempt", workload.Spec{Nodes: 20, Pods: 32, Shapes: 1, Gang: 8, Preempt: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours, err := throughput.Run(context.Background(),
				throughput.Options{Spec: c.spec, Batch: 1000, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := Run(context.Background(), Options{Spec: c.spec, Percentage: 100, Limit: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if ours.Placed != c.spec.Pods || theirs.Placed != c.spec.Pods {
				t.Errorf("Rollcall placed %d pods, kube-scheduler %d, of %d", ours.Placed, theirs.Placed, c.spec.Pods)
			}
			if theirs.DevicesTwice > 0 {
				t.Logf("kube-scheduler gave %d pods a device that another pod had", theirs.DevicesTwice)
			}
			if c.spec.Preempt && (ours.Evicted < c.spec.Pods || theirs.Evicted < c.spec.Pods ||
				ours.Evictors != c.spec.Groups()) {
				t.Errorf("Rollcall evicted %d pods for %d gangs, kube-scheduler %d, want at least %d, for %d gangs",
					ours.Evicted, ours.Evictors, theirs.Evicted, c.spec.Pods, c.spec.Groups())
			}
			// Pods with devices end while kube-scheduler still places earlier ones, and finds emptier nodes. Gangs
			// that preempt take the places of evicted ones, and the two schedulers choose the victims differently.
			if !c.spec.DRA && !c.spec.Preempt && math.Abs(ours.MeanScore-theirs.MeanScore) > 1 {
				t.Errorf("all nodes are scored, and yet Rollcall's mean score is %v, kube-scheduler's %v",
					ours.MeanScore, theirs.MeanScore)
			}
		})
	}
}

func TestAWorkloadThatDoesNotFitIsRefused(t *testing.T) {
	if _, err := Run(context.Background(),
		Options{Spec: workload.Spec{Nodes: 1, Pods: 9, Shapes: 1}, Limit: time.Second}); err == nil {
		t.Error("no error: without a limit it would wait for ever")
	}
}

// A run that reaches its limit ends while pods still come and claims are still written.
func TestARunWithDevicesEndsAtItsLimit(t *testing.T) {
	spec := workload.Spec{Nodes: 10, Pods: 100_000, Shapes: 1, DRA: true}
	for range 3 {
		r, err := Run(context.Background(), Options{Spec: spec, Percentage: 100, Limit: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if r.Complete || r.Placed >= spec.Pods {
			t.Errorf("%d pods were placed, all of them: %v", r.Placed, r.Complete)
		}
	}
}
