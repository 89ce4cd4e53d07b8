package throughput

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// measured runs a measurement, and checks that it leaves no files behind.
func measured(t *testing.T, o Options) *Result {
	t.Helper()
	o.Dir = t.TempDir()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return r
}

// Mean refuses nodes with more pods than fit, so these placements are possible.
func TestAllPodsOfEveryWorkloadArePlaced(t *testing.T) {
	for name, o := range map[string]Options{
		"singles":               {Spec: workload.Spec{Nodes: 70, Pods: 200, Shapes: 3}, Batch: 64},
		"gangs":                 {Spec: workload.Spec{Nodes: 70, Pods: 200, Shapes: 1, Gang: 32}, Batch: 50},
		"all different":         {Spec: workload.Spec{Nodes: 20, Pods: 60, Shapes: 60}, Batch: 1000},
		"spread":                {Spec: workload.Spec{Nodes: 20, Pods: 60, Shapes: 1, Spread: true}, Batch: 1000},
		"more than fit":         {Spec: workload.Spec{Nodes: 10, Pods: 500, Shapes: 2}, Batch: 30},
		"more gangs than fit":   {Spec: workload.Spec{Nodes: 10, Pods: 500, Shapes: 2, Gang: 16}, Batch: 30},
		"spread, more than fit": {Spec: workload.Spec{Nodes: 7, Pods: 200, Shapes: 1, Spread: true}, Batch: 10},
		"devices":               {Spec: workload.Spec{Nodes: 70, Pods: 200, Shapes: 2, DRA: true}, Batch: 50},
		"devices, more than there are": {Batch: 50,
			Spec: workload.Spec{Nodes: 10, Pods: 500, Shapes: 1, Gang: 16, DRA: true}},
		"a sample": {Spec: workload.Spec{Nodes: 150, Pods: 100, Shapes: 1}, Batch: 10, Percentage: 50},
	} {
		t.Run(name, func(t *testing.T) {
			r := measured(t, o)
			if !r.Complete || r.Placed != o.Pods || r.Decisions != o.Pods {
				t.Errorf("%d of %d pods placed by %d decisions, want one for each", r.Placed, o.Pods, r.Decisions)
			}
			if r.MeanScore <= 0 || r.MeanScore > float64(r.MaxScore) {
				t.Errorf("mean score %v of %d", r.MeanScore, r.MaxScore)
			}
			for what, v := range map[string]float64{"wall": r.WallSeconds, "load": r.LoadSeconds,
				"rate": r.PodsPerSecond, "p50": r.LatencyP50, "p99": r.LatencyP99,
				"bytes a pod": r.BytesPerPod} {
				if v <= 0 {
					t.Errorf("%s is %v", what, v)
				}
			}
		})
	}
}

func TestWithAndWithoutClassesTheSameIsLogged(t *testing.T) {
	o := Options{Spec: workload.Spec{Nodes: 80, Pods: 150, Shapes: 4}, Batch: 40}
	with := measured(t, o)
	o.WithoutClasses = true
	without := measured(t, o)
	if with.BytesPerPod != without.BytesPerPod || with.MeanScore != without.MeanScore {
		t.Errorf("%v bytes a pod and score %v with classes, %v and %v without", with.BytesPerPod, with.MeanScore,
			without.BytesPerPod, without.MeanScore)
	}
}

func TestIdlePodsComeBehindTheOthers(t *testing.T) {
	r := measured(t, Options{Spec: workload.Spec{Nodes: 20, Pods: 40, Shapes: 1, Gang: 8}, Batch: 10, Idle: 7})
	if r.IdlePods != 7 || r.IdleP50 <= 0 || r.IdleP99 < r.IdleP50 {
		t.Errorf("%d idle pods, p50 %v, p99 %v", r.IdlePods, r.IdleP50, r.IdleP99)
	}
	if r.Placed != 40 || r.Decisions != 40 {
		t.Errorf("%d placed by %d decisions: the idle pods are not part of that", r.Placed, r.Decisions)
	}
}

func TestWhenTheLimitIsOverWhatIsPlacedCounts(t *testing.T) {
	r := measured(t,
		Options{Spec: workload.Spec{Nodes: 50, Pods: 300, Shapes: 1}, Batch: 10, Limit: time.Nanosecond, Idle: 5})
	if r.Complete || r.Placed >= 300 || r.IdlePods != 0 {
		t.Errorf("complete %v, %d placed, %d idle pods", r.Complete, r.Placed, r.IdlePods)
	}
}

func TestABrokenOffRunIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Spec: workload.Spec{Nodes: 5, Pods: 10, Shapes: 1}, Batch: 10, Dir: t.TempDir()}
	o.Started = func() error { cancel(); return nil }
	if _, err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestWhatCannotBeBookedIsToldBesideWhatEndedTheRun gives the engine the end of a pod that never existed, and breaks
// off the run.
func TestWhatCannotBeBookedIsToldBesideWhatEndedTheRun(t *testing.T) {
	o := Options{Spec: workload.Spec{Nodes: 2, Pods: 4, Shapes: 1}, Batch: 2}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	log, err := boltlog.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d := newDrive(o, log)
	if d.engine, err = o.open(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	defer d.engine.Close()
	d.answers = append(d.answers, &eventlog.Deleted{Resource: eventlog.Pods, UID: "nobody"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.pods(ctx, time.Now()); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("the error is %v, want that it was broken off, and what cannot be booked", err)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	good := Options{Spec: workload.Spec{Nodes: 2, Pods: 20, Shapes: 1}, Batch: 1}
	for name, change := range map[string]func(*Options){
		"workload": func(o *Options) { o.Nodes = 0 }, "batch": func(o *Options) { o.Batch = 0 },
		"percentage": func(o *Options) { o.Percentage = 101 },
		"stay":       func(o *Options) { o.Stay = -1 }, "idle pods": func(o *Options) { o.Idle = 16 },
		"a gang and idle pods": func(o *Options) { o.Gang, o.Idle = 8, 1 },
	} {
		bad := good
		if change(&bad); bad.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := good.check(); err != nil || good.Stay < 1 || good.Stay >= good.Room() {
		t.Errorf("%v, %d pods stay on nodes for %d", err, good.Stay, good.Room())
	}
}

func TestPercentiles(t *testing.T) {
	var d []time.Duration
	for i := range 101 {
		d = append(d, time.Duration(100-i)*time.Second)
	}
	if p50, p99 := Percentiles(d); p50 != 50 || p99 != 99 {
		t.Errorf("p50 %v, p99 %v of 0 to 100", p50, p99)
	}
	if p50, p99 := Percentiles(nil); p50 != 0 || p99 != 0 {
		t.Errorf("p50 %v, p99 %v of nothing", p50, p99)
	}
}
