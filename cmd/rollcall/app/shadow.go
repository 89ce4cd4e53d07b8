package app

import (
	"log/slog"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/metrics"
	"github.com/rollcall-sched/rollcall/replay/choices"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// shadow compares the binds of the present scheduler with the nodes that Rollcall would have chosen, while they are
// recorded. It applies no choice of its own: the state has the binds of the other scheduler alone.
type shadow struct {
	reader *choices.Reader
	counts *metrics.Shadow
}

func newShadow() *shadow {
	return &shadow{choices.NewReader(choices.Options{}), metrics.NewShadow()}
}

// before is engine.Options.Before.
func (s *shadow) before(m *scheduler.Machine, e eventlog.Entry) {
	began := time.Now()
	x, err := s.reader.Before(m, e)
	if err != nil {
		slog.Error("A bind could not be compared", "entry", e.Seq, "err", err)
		return
	}
	if x == nil {
		return
	}
	s.counts.Observe(x, time.Since(began))
	if x.Verdict == answer.Same && (x.Gang == nil || x.Gang.Waits == "") {
		return
	}
	slog.Info("The scheduler and Rollcall differ", shadowFacts(x)...)
}

// shadowFacts are the facts about a bind for the output of the process.
func shadowFacts(x *answer.Choice) []any {
	facts := []any{"entry", x.Seq, "pod", x.Pod, "scheduler", x.Scheduler, "node", x.Node, "verdict", string(x.Verdict),
		"feasible", x.Feasible, "nodes", x.Nodes}
	if x.Rank > 0 {
		facts = append(facts, "rank", x.Rank, "points", x.Chosen.Total)
	}
	if x.Ours != nil {
		facts = append(facts, "rollcallNode", x.Ours.Node, "rollcallPoints", x.Ours.Total)
	}
	if len(x.Refusals) > 0 {
		facts = append(facts, "refusedBy", x.Refusals[0].Plugin, "reason", x.Refusals[0].Reason)
	}
	if x.Unrated != "" {
		facts = append(facts, "unrated", x.Unrated)
	}
	if x.Gang != nil && x.Gang.Waits != "" {
		facts = append(facts, "gang", x.Gang.Group, "gangWaits", x.Gang.Waits)
	}
	return facts
}

// asShadow makes a run a shadow: it records, takes no lease unless asked to, and is never the scheduler of that lease.
func (r *running) asShadow() {
	r.records, r.grace = true, time.Second
	changed := r.flags.Flags().Changed
	if !changed("leader-elect") {
		r.election.LeaderElect = false
	}
	if !changed("leader-elect-resource-name") {
		r.election.ResourceName = recorderLease
	}
}
