package explain

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// ReasonsAlong reads a log once and calls tell after each entry, with the reasons of all gangs seen so far. They are
// the reasons of ExplainGroup at that entry, except for parts that need another cycle.
func ReasonsAlong(log eventlog.Reader, registry framework.Registry, tell func(m *scheduler.Machine, e eventlog.Entry,
	group types.NamespacedName, x *answer.Reason)) error {
	m := scheduler.New(registry)
	var histories []*gangHistory
	known := map[types.NamespacedName]bool{}
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			return err
		}
		if up, ok := e.Payload.(*eventlog.Upserted); ok {
			if gang, ok := gangOf(up); ok && !known[gang] {
				known[gang] = true
				first := pointOf(e)
				histories = append(histories, &gangHistory{group: gang, first: &first})
			}
		}
		for _, h := range histories {
			h.before(m, e)
		}
		if err := m.Apply(e); err != nil {
			return err
		}
		at := &rerun{reading: &reading{}, machine: m, at: pointOf(e), done: map[uint64]*answer.Decision{}}
		for _, h := range histories {
			h.after(m, e)
			var q *answer.QueuePlace
			if entity := h.entityIn(m); entity != nil {
				place := h.place(m, entity)
				q = &place
			}
			tell(m, e, h.group, h.reason(at, q))
		}
	}
	return nil
}

// LeftFor returns, by node, whether all that a pod needs is free there and not kept from it.
func LeftFor(m *scheduler.Machine, p *cluster.Pod) map[string]bool {
	left := map[string]bool{}
	nodes, _ := m.Cluster().Nodes().List()
	kept := keptFrom(m, p)
	for _, n := range nodes {
		enough := true
		for _, need := range podNeeds(p) {
			allocatable, requested := cluster.AmountOn(n, need.Resource)
			free := max(0, allocatable-requested)
			enough = enough && (need.Amount == 0 || need.Amount <= free-kept.on(n, need.Resource, free, holders{}))
		}
		left[n.Node().Name] = enough
	}
	return left
}

// LookBack sets how many entries are searched for names like a missing one.
func LookBack(opts *Options, entries uint64) { opts.recent = entries }
