package scheduler_test

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestWhatOvertookNothingIsNotRetriedWithoutAnEvent has a gang that is nominated in part fail as the first of its lane,
// and keep its nomination.
func TestWhatOvertookNothingIsNotRetriedWithoutAnEvent(t *testing.T) {
	placed := eventlog.Rejection{Plugin: "Coscheduling", Code: "Unschedulable",
		Reason: "pod group ml/first placed 1 of the 2 members it needs"}
	reserved := eventlog.Rejection{Plugin: "Coscheduling", Code: "Unschedulable", Nodes: 1,
		Reason: "node(s) were reserved for ml/other from 2026-01-01T00:00:00Z on"}
	keptOff := eventlog.Rejection{Plugin: "Coscheduling", Code: "Unschedulable", Nodes: 1,
		Reason: "node(s) are kept for ml/other, which is ahead in the queue"}
	for _, c := range []struct {
		name string
		also []eventlog.Rejection
		want queue.State
	}{
		{"overtook nothing", nil, queue.Unschedulable},
		{"nodes were reserved", []eventlog.Rejection{reserved}, queue.Unschedulable},
		{"was kept off nodes", []eventlog.Rejection{keptOff}, queue.Backoff},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := transcripts.New(t)
			p.Configure(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: StrictFIFO}
`)
			p.Step("node n1 cpu=4; pod ml/low cpu=4 priority=1 node=n1")
			p.Step("group ml/first min=2 priority=5; pod ml/first-0 cpu=2 group=first; " +
				"pod ml/first-1 cpu=2 group=first")
			p.Step("delete pods ml/first-1; pod ml/first-2 cpu=2 group=first")
			m := p.Machine()
			key := fwk.PodGroupKey("ml", "first")
			pod := m.Queue().Get(key).Ready()[0]
			if node := m.NominatedNode(pod.UID); node != "n1" {
				t.Fatalf("%s is nominated to %q", pod.Name, node)
			}
			d := &eventlog.Decision{
				Cycle: m.Cycle() + 1, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Group: "first",
				Outcome: eventlog.Unschedulable, Nominated: "n1", Evaluated: 1,
				Rejections: append([]eventlog.Rejection{placed}, c.also...),
			}
			e := eventlog.Entry{Seq: m.Seq() + 1, Epoch: m.Epoch(), Time: m.Now(), Payload: d}
			if err := m.Apply(e); err != nil {
				t.Fatal(err)
			}
			if got := m.Queue().Get(key).State(); got != c.want {
				t.Errorf("it is %v, want %v", got, c.want)
			}
		})
	}
}
