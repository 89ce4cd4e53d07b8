package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Plan makes the entity active, and makes its next attempt begin with these members, in this order. It is called after
// an attempt has failed, with a placement of all members that the usual order did not find. The plan ends with that
// attempt.
func (q *Queue) Plan(key Key, order []types.UID) {
	e := q.entities[key]
	if e == nil || e.state == InFlight {
		return
	}
	e.endPlan()
	for _, uid := range order {
		if m := q.byUID[uid]; m != nil && m.entity == e && m.turn == 0 {
			e.planned = append(e.planned, m)
			m.turn = len(e.planned)
		}
	}
	e.plans++
	q.Activate(key)
}

// Plans returns how many attempts in a row began with a plan, the one that comes next included.
func (e *Entity) Plans() int { return e.plans }

// endPlan drops the plan, if there is one.
func (e *Entity) endPlan() {
	for _, m := range e.planned {
		m.turn = 0
	}
	e.planned = nil
}

// beginPlan notes at the beginning of an attempt whether it has a plan.
func (e *Entity) beginPlan() {
	if len(e.planned) == 0 {
		e.plans = 0
	}
}

// restorePlan makes the plan from the members' turns. It returns false if two members have the same turn.
func (e *Entity) restorePlan() bool {
	for _, m := range e.members {
		if m.turn > 0 {
			e.planned = append(e.planned, m)
		}
	}
	slices.SortFunc(e.planned, func(a, b *member) int { return a.turn - b.turn })
	for i, m := range e.planned {
		if i > 0 && e.planned[i-1].turn == m.turn {
			return false
		}
	}
	return true
}
