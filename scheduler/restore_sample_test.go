package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/restorecheck"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

const samplingProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 10
`

// TestARestoredMachineLooksAtNodesFromWhereTheLastCycleEnded has 300 nodes of which a cycle looks at a hundred, which
// begin where the last one's ended. A Machine that is restored between two cycles must decide as the one that was
// written down.
func TestARestoredMachineLooksAtNodesFromWhereTheLastCycleEnded(t *testing.T) {
	const nodes, pods = 300, 6
	m := scheduler.New(transcripts.Registry())
	var entries []eventlog.Entry
	take := func(p eventlog.Payload) {
		t.Helper()
		e := eventlog.Entry{
			Seq:     m.Seq() + 1,
			Epoch:   1,
			Time:    eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
			Payload: p,
		}
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	take(
		&eventlog.EpochStarted{
			ID:        "epoch-1",
			Version:   "test",
			Format:    eventlog.FormatVersion,
			Behaviour: scheduler.Behaviour,
			Config:    encodedConfig(t, samplingProfile),
		},
	)
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU:    resource.MustParse("8"),
			v1.ResourceMemory: resource.MustParse("16Gi"),
			v1.ResourcePods:   resource.MustParse("12"),
		}
		take(&eventlog.Upserted{Resource: eventlog.Nodes, Object: n})
	}
	for i := range pods {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ml",
				Name:      fmt.Sprintf("pod-%d", i),
				UID:       types.UID(fmt.Sprintf("uid-%d", i)),
			},
		}
		p.Spec.SchedulerName = "default-scheduler"
		p.Spec.Containers = []v1.Container{
			{
				Name:      "main",
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
			},
		}
		take(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	}
	first := len(entries) - 1
	for i := range pods {
		d, ok := m.Decide(nil)
		if want := fmt.Sprintf("node-%03d", i*100%nodes+i*100/nodes); !ok || d.Evaluated != 100 || d.Node != want {
			t.Fatalf(
				"cycle %d looked at %d nodes and chose %q: want 100 of %d, and the first free one of them, %s",
				i+1,
				d.Evaluated,
				d.Node,
				nodes,
				want,
			)
		}
		take(&d)
	}
	s := restorecheck.New(transcripts.Registry(), t.Fatalf)
	for _, e := range entries[:first] {
		s.Apply(e)
	}
	s.Play(entries[first:], 1, 1)
	if s.Kept() != pods+1 {
		t.Fatalf("%d Machines were restored between cycles, want %d", s.Kept(), pods+1)
	}
}
