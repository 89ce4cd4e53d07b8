package replay

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// ReasonsAlong reads a log once and tells, after each entry, the reasons of all gangs seen so far: those that
// ExplainGroup would give at that entry, but for what takes running a cycle again.
func ReasonsAlong(read Reader, registry runtime.Registry, tell func(m *scheduler.Machine, e eventlog.Entry, group types.NamespacedName, x *Reason)) error {
	m := scheduler.New(registry)
	var histories []*groupHistory
	known := map[types.NamespacedName]bool{}
	for e, err := range read(1) {
		if err != nil {
			return err
		}
		if up, ok := e.Payload.(*eventlog.Upserted); ok {
			if gang, ok := gangOf(up); ok && !known[gang] {
				known[gang] = true
				first := pointOf(e)
				histories = append(histories, &groupHistory{group: gang, first: &first})
			}
		}
		for _, h := range histories {
			h.before(m, e)
		}
		if err := m.Apply(e); err != nil {
			return err
		}
		at := &rerun{machine: m, at: pointOf(e), done: map[uint64]*DecisionExplanation{}}
		for _, h := range histories {
			h.after(m, e)
			var q *QueueStanding
			if entity := h.entityIn(m); entity != nil {
				standing := h.standing(m, entity)
				q = &standing
			}
			tell(m, e, h.group, h.reason(at, q))
		}
	}
	return nil
}
