package scheduler

import (
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Who may pass whom in the queue: the gang plugin's queuePolicy.

// addLane notes the rules of a profile in whose line not everybody may pass.
func (m *Machine) addLane(p *framework.Profile) {
	plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling)
	if !ok || plugin.QueuePolicy() == coscheduling.BestEffort {
		return
	}
	m.lanes[p.Name()] = &laneRules{profile: p.Name(), policy: plugin.QueuePolicy(), hold: plugin.BackfillHold()}
	if plugin.QueuePolicy() == coscheduling.Backfill {
		m.backfilled = append(m.backfilled, p.Name())
	}
}

// hasEnough says whether an entity waits only for members beyond what it needs.
func (m *Machine) hasEnough(e *queue.Entity) bool {
	gangs := m.gangsOf(e.Key())
	need := min(1, len(gangs))
	if c := m.compositeOf(e); c != nil {
		need = c.Min()
	}
	for _, g := range gangs {
		if g.Met() && g.Assigned() >= g.Min() {
			need--
		}
	}
	return len(gangs) > 0 && need <= 0
}
