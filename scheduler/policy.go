package scheduler

import (
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Who may pass whom in the queue: the gang plugin's queuePolicy.

// queuePolicy is that of the profile's gang plugin; BestEffort without one.
func queuePolicy(p *framework.Profile) coscheduling.QueuePolicy {
	if plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling); ok {
		return plugin.QueuePolicy()
	}
	return coscheduling.BestEffort
}

// letsPass is the queue's Passes: what comes behind an entity may go first if the entity has all that it must have.
func (m *Machine) letsPass(e *queue.Entity) bool { return m.hasEnough(e) }

// hasEnough says whether an entity waits only for members beyond what it needs.
func (m *Machine) hasEnough(e *queue.Entity) bool {
	return slices.ContainsFunc(m.gangsOf(e.Key()), func(g *cluster.Group) bool { return g.Placed() > 0 && g.Assigned() >= g.Min() })
}
