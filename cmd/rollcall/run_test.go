package main

import (
	"testing"

	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/live"
	"github.com/rollcall-sched/rollcall/scheduler"
)

func TestABindIsSentOnlyWhileItFits(t *testing.T) {
	for _, c := range []struct {
		name        string
		kind        scheduler.EffectKind
		pod         watch.Pod
		there, node bool
		want        string
	}{
		{"it fits", scheduler.Bind, watch.Pod{}, true, true, ""},
		{"no pod", scheduler.Bind, watch.Pod{}, false, true, "the pod is gone"},
		{"a pod that leaves", scheduler.Bind, watch.Pod{Terminating: true}, true, true, "the pod is being deleted"},
		{"a pod with a node", scheduler.Bind, watch.Pod{NodeName: "n2"}, true, true, "the pod is on node n2"},
		{"no node", scheduler.Bind, watch.Pod{}, true, false, "node n1 is gone"},
		{"a victim", scheduler.Evict, watch.Pod{NodeName: "n1"}, true, true, ""},
		{"no victim", scheduler.Evict, watch.Pod{}, false, true, "the pod is gone"},
	} {
		got := ""
		if err := fits(scheduler.Effect{Kind: c.kind, Node: "n1"}, c.pod, c.there, c.node); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReadinessSaysWhatTheSchedulerIsDoing(t *testing.T) {
	p := &clusterProcess{}
	for _, c := range []struct {
		leads bool
		stage live.Stage
		want  string
	}{
		{false, live.Recovering, "the scheduler is on standby: it waits for the lease"},
		{true, live.Recovering, "the scheduler is recovering"},
		{true, live.Syncing, "the scheduler is syncing"},
		{true, live.Scheduling, ""},
		{true, live.Ended, "the scheduler is ended"},
	} {
		p.leads.Store(c.leads)
		p.stage.Store(int32(c.stage))
		got := ""
		if err := p.readiness(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
