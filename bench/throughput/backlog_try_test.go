package throughput

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"testing"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

func TestTryBacklog(t *testing.T) {
	env := func(k string, d int) int {
		if v, err := strconv.Atoi(os.Getenv(k)); err == nil {
			return v
		}
		return d
	}
	if os.Getenv("TRY") == "" {
		t.Skip()
	}
	o := BacklogOptions{Backlog: workload.Backlog{Nodes: env("N", 500), Waiting: env("G", 100), Hopeless: env("H", 0)}, Policy: coscheduling.QueuePolicy(os.Getenv("TRY")), Events: env("E", 200), Dir: "/tmp"}
	if p := os.Getenv("PROF"); p != "" {
		f, _ := os.Create(p)
		o.Started = func() error { return pprof.StartCPUProfile(f) }
		o.Stopped = func() error { pprof.StopCPUProfile(); return f.Close() }
	}
	r, err := RunBacklog(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s W=%d H=%d placed=%d dec=%d first=%.2fs cpu=%.2fs perEvent=%.3fms\n", r.Policy, r.Waiting, r.Hopeless, r.Placed, r.Decisions, r.FirstSeconds, r.CPUSeconds, r.PerEvent*1000)
}
