package backfill

import (
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/queue"
)

// The two lane policies of this package. Under both a lane is the entities of one profile, and the order of the queue
// decides between lanes.

var (
	_ queue.LanePolicy    = (*strictFIFO)(nil)
	_ queue.LaneOvertaker = (*strictFIFO)(nil)
	_ queue.LanePolicy    = (*easyBackfill)(nil)
	_ queue.LaneOvertaker = (*easyBackfill)(nil)
	_ queue.LaneBlocker   = (*easyBackfill)(nil)
)

// StrictFIFO returns the policy under which no entity passes the first that lacks something.
func (p *Planner) StrictFIFO() queue.LanePolicy { return &strictFIFO{lanesByProfile{p}} }

// EASY returns the policy Backfill: others pass the first entity as long as they do not delay it.
func (p *Planner) EASY() queue.LanePolicy { return &easyBackfill{lanesByProfile{p}} }

// laneName returns the name of an entity's lane: the profile. laneOfPod returns the name of the lane of a pod's entity.
func laneName(e *queue.Entity) string { return e.Profile() }

func laneOfPod(pod *cluster.Pod) string { return pod.Object.Spec.SchedulerName }

// laneOf returns the lane of an entity, nil if it is in none.
func (p *Planner) laneOf(e *queue.Entity) *lane { return p.lanes[laneName(e)] }

// lanesByProfile has the methods that both policies share.
type lanesByProfile struct{ p *Planner }

// Lane implements queue.LanePolicy.
func (lanesByProfile) Lane(e *queue.Entity) string { return laneName(e) }

// CompareLanes implements queue.LanePolicy.
func (lanesByProfile) CompareLanes(_, _ string) int { return 0 }

// Overtaking implements queue.LaneOvertaker.
func (l lanesByProfile) Overtaking(first *queue.Entity) []*queue.Entity { return l.p.Overtaking(first) }

type strictFIFO struct{ lanesByProfile }

// Passes implements queue.LanePolicy.
func (s *strictFIFO) Passes(e *queue.Entity) bool { return s.p.view.HasEnough(e) }

type easyBackfill struct{ lanesByProfile }

// Passes implements queue.LanePolicy.
func (b *easyBackfill) Passes(e *queue.Entity) bool {
	return b.p.view.HasEnough(e) || !b.p.blocks(b.p.laneOf(e), e)
}

// Blocking implements queue.LaneBlocker.
func (b *easyBackfill) Blocking(name string) (_ *queue.Entity, known bool) {
	p, l := b.p, b.p.lanes[name]
	e := p.first(name)
	if e == nil || p.view.HasEnough(e) || e.FirstActive().Add(l.Hold) > p.view.Now() {
		return nil, true
	}
	if r := p.reservations[name]; r != nil && r.Key == e.Key() {
		return nil, true
	}
	return e, true
}
