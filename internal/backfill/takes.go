package backfill

import (
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/room"
)

// TakesEmpty reports whether all nodes together might take so many of the pods if nothing ran there. False is certain,
// as far as requests, selectors, required affinity and taints say. For pods that are not alike the answer is true.
func (p *Planner) TakesEmpty(pods []*cluster.Pod, wanted int) bool {
	s, ok := shapeOf(pods)
	return !ok || p.table.Take(s, room.Empty, wanted)
}

// TakesCleared reports whether all nodes together might take so many of the pods, without all pods of lower priority
// and without pods that are being deleted. That is the most room that preemption can make. False is certain, as far as
// requests, selectors, required affinity and taints say.
//
// The answer is true for pods that are not alike, and for pods with devices. If count is not set, it is also true for
// pods that have not been counted yet.
func (p *Planner) TakesCleared(pods []*cluster.Pod, wanted int, priority int32, count bool) bool {
	s, ok := shapeOf(pods)
	if !ok || p.table.StandsForDevices(s) {
		return true // free devices are not counted
	}
	rule := room.Evicted(priority)
	return !count && !p.table.Knows(s, rule) || p.table.Take(s, rule, wanted)
}

// shapeOf returns the shape of pods that are alike. ok is false for others, and for pods with a toleration that counts
// only under a feature gate.
func shapeOf(pods []*cluster.Pod) (_ *room.Shape, ok bool) {
	if room.ComparesTaints(pods) {
		return nil, false
	}
	return room.ShapeOf(pods)
}

// passedOver is a memo: a shape of which too few pods fit on empty nodes, so that entities with such pods were skipped.
type passedOver struct {
	shape  *room.Shape
	wanted int // the fewest that one of them wants
}

// maxPassed bounds the number of shapes whose entities were skipped.
const maxPassed = 4096

// notePassed notes that an entity that wants so many pods of a shape was skipped.
func (p *Planner) notePassed(s *room.Shape, wanted int) {
	over := p.passed[s.Key()]
	if over == nil {
		over = &passedOver{s, wanted}
		p.passed[s.Key()] = over
	}
	over.wanted = min(over.wanted, wanted)
}

// recallPassed makes the queue examine skipped entities again, if there may be room for some of them now.
func (p *Planner) recallPassed() {
	version := p.view.Changed(cluster.ObjectChanged)
	if p.recalled == version {
		return
	}
	p.recalled = version
	again := len(p.passed) >= maxPassed // most of them may be of entities that are gone
	// any order: each by itself
	for _, over := range p.passed {
		again = again || p.table.Take(over.shape, room.Empty, over.wanted)
	}
	if again {
		p.forgetPassed()
	}
}

// forgetPassed makes the queue examine all skipped entities again.
func (p *Planner) forgetPassed() {
	clear(p.passed)
	// any order: each by itself
	for lane := range p.lanes {
		p.view.ForgetPassed(lane)
	}
}
