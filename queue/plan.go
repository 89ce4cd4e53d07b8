package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// plan is the order in which an attempt places the members of an entity. It is made after an attempt in the usual order
// has failed, and ends with the next one.
type plan struct {
	members  []*member // with a turn, in that order
	attempts int       // see PlannedAttempts
	search   int       // see NextSearch
}

// Plan makes the entity active, and makes its next attempt begin with these members, in this order. It is called after
// an attempt has failed, with a placement that the usual order did not find. Unknown pods are ignored.
func (q *Queue) Plan(key Key, order []types.UID) {
	e := q.entities[key]
	if e == nil || e.state == InFlight {
		return
	}
	e.plan.end()
	for _, uid := range order {
		if m := q.byUID[uid]; m != nil && m.entity == e && m.turn == 0 {
			e.plan.members = append(e.plan.members, m)
			m.turn = len(e.plan.members)
		}
	}
	e.plan.attempts, e.plan.search = e.plan.attempts+1, 0
	q.Activate(key)
}

// Planned reports whether the next attempt, or the one under way, has a plan for the pod.
func Planned(q *Queue, uid types.UID) bool {
	m := q.byUID[uid]
	return m != nil && m.turn > 0
}

// PlannedAttempts returns how many attempts of the entity in a row began with a plan, the one that comes next included.
func PlannedAttempts(e *Entity) int { return e.plan.attempts }

// NoteSearch notes the number of the search for a plan that the entity's next failed attempt makes, 0 for the first
// one. An unknown entity is ignored.
func NoteSearch(q *Queue, key Key, next int) {
	if e := q.entities[key]; e != nil {
		e.plan.search = next
	}
}

// NextSearch returns the number of that search. The searches after the first one look elsewhere.
func NextSearch(e *Entity) int { return e.plan.search }

// end drops the order.
func (p *plan) end() {
	for _, m := range p.members {
		m.turn = 0
	}
	p.members = nil
}

// begin notes at the beginning of an attempt whether it has a plan.
func (p *plan) begin() {
	if len(p.members) == 0 {
		p.attempts = 0
	}
}

// restore makes the order from the members' turns. It returns false if two members have the same turn.
func (p *plan) restore(members []*member) bool {
	for _, m := range members {
		if m.turn > 0 {
			p.members = append(p.members, m)
		}
	}
	slices.SortFunc(p.members, func(a, b *member) int { return a.turn - b.turn })
	for i, m := range p.members {
		if i > 0 && p.members[i-1].turn == m.turn {
			return false
		}
	}
	return true
}
