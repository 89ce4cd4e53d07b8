package scheduler_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/report"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestBackfillLooksForRoomOnlyWhenItMayHaveChanged bounds the work of finding reservations, and room beside them, on a
// workload that is the same each time. If a bound is reached, look for questions that are asked more often than their
// answers can have changed. Raise a bound only with a reason.
func TestBackfillLooksForRoomOnlyWhenItMayHaveChanged(t *testing.T) {
	const jobs = 300
	m, summary := simulated(t, "16x16cpu", gangsInABusyCluster(jobs), "Backfill")
	if summary.Gangs.Placed != jobs {
		t.Fatalf("%d of %d gangs are placed", summary.Gangs.Placed, jobs)
	}
	outlooks, trials, counts := m.Work()
	if outlooks > 0 || trials > 0 {
		t.Errorf("%d outlooks and %d trials for gangs of pods that are alike: want none", outlooks, trials)
	}
	for _, c := range []struct {
		what      string
		got, most int
	}{
		{"looks at nodes for when there is room", m.Walked(), 15000},
		{"counts of what is left on a node", counts, 5000},
	} {
		if c.got > c.most || c.got < c.most/2 {
			t.Errorf(
				"%d %s for %d gangs of %d pods: want at most %d, and at least half as many",
				c.got,
				c.what,
				jobs,
				summary.Pods.Total,
				c.most,
			)
		}
	}
}

// TestWhatOvertakesIsFoundAmongTheNominatedAlone has a lane that lets nothing pass, with many entities and some
// nominated pods. Each search checks the nominated pods once, and not once for each entity.
func TestWhatOvertakesIsFoundAmongTheNominatedAlone(t *testing.T) {
	const nominated, waiting, times = 20, 100, 50
	p := transcripts.New(t)
	p.Configure(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: Backfill, backfillHoldSeconds: 10}
`)
	for i := range nominated {
		p.Step(fmt.Sprintf("node n%02d cpu=4; pod ml/low-%02d cpu=4 priority=1 node=n%02d", i, i, i))
	}
	p.Step("pod ml/first cpu=4 priority=5 preemptionPolicy=Never")
	for i := range nominated {
		p.Step("advance 10ms")
		p.Step(fmt.Sprintf("pod ml/preemptor-%02d cpu=4 priority=5", i))
	}
	p.Step(fmt.Sprintf("pod ml/waiting cpu=4 priority=1 count=%d", waiting))
	p.Step("advance 30s; pod ml/last cpu=4 priority=1")
	if blocked := p.Machine().BlockedLanes(); len(blocked) != 1 || blocked[0].Key.Name != "first" {
		t.Fatalf("blocked are %v", blocked)
	}
	before := p.Machine().Looked()
	for i := range times {
		p.Step(fmt.Sprintf("pod ml/late-%02d cpu=4 priority=1", i))
	}
	looked := p.Machine().Looked() - before
	if most := 8 * times * nominated; looked < times*nominated || looked > most {
		t.Errorf("%d nominations of %d pods were looked at for %d entries, want at most %d", looked, nominated, times,
			most)
	}
}

// gangsInABusyCluster is a workload in the Standard Workload Format. Gangs of up to 128 pods come every few minutes and
// ask for somewhat more than 256 processors have, so that a queue builds up.
func gangsInABusyCluster(jobs int) []byte {
	var out bytes.Buffer
	seed, arrival := uint32(1), 0
	random := func(n uint32) int {
		seed = seed*1664525 + 1013904223
		return int((seed >> 8) % n)
	}
	for i := range jobs {
		arrival += 1 + random(600)
		run := 60 + random(7200)
		fmt.Fprintf(
			&out,
			"%d %d -1 %d %d -1 -1 -1 %d -1 1 -1 -1 -1 0 -1 -1 -1\n",
			i+1,
			arrival,
			run,
			1<<random(8),
			run*(1+random(3)),
		)
	}
	return out.Bytes()
}

// simulated runs a workload under a queue policy.
func simulated(t *testing.T, nodes string, jobs []byte, policy string) (*scheduler.Machine, report.Summary) {
	t.Helper()
	plans, err := workload.ParseNodeSpec(nodes)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jobs.swf")
	if err := os.WriteFile(path, jobs, 0o600); err != nil {
		t.Fatal(err)
	}
	work, err := workload.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(plans, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := framework.LoadConfig([]byte(fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: %s}
`, policy)), "the test")
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.Open(
		t.Context(),
		eventlog.NewMemory(),
		workload.Start,
		engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"},
	)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := cluster.Run(t.Context(), sim.Stepping(eng), nil)
	if err != nil {
		t.Fatal(err)
	}
	return eng.Machine(), summary
}
