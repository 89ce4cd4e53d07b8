package explain

import (
	"slices"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// How long the lists of a reason are at most.
const (
	maxRefusedRows = 20
	maxKeptOutRows = 20
	maxWaitedFor   = 5
)

// refusedRows collects members that were refused alike.
type refusedRows struct {
	rows []answer.RefusedMembers
	more int // members that no row has
}

// add counts a member in. Rows are alike if the same plugins gave the same messages, for however many nodes. The gang
// plugin's addition to the refusal of a member for which nodes were refused is about the gang.
func (r *refusedRows) add(member string, refusals []answer.Refusal) {
	refusals = ownRefusals(refusals)
	for i := range r.rows {
		if row := &r.rows[i]; alike(row.Refusals, refusals) {
			row.Count++
			if len(row.Examples) < answer.MaxExamples {
				row.Examples = append(row.Examples, member)
			}
			for k, refusal := range refusals {
				row.Refusals[k].Nodes = max(row.Refusals[k].Nodes, refusal.Nodes)
			}
			return
		}
	}
	if len(r.rows) == maxRefusedRows {
		r.more++
		return
	}
	r.rows = append(r.rows, answer.RefusedMembers{Count: 1, Examples: []string{member},
		Refusals: slices.Clone(refusals)})
}

// total is the number of refused members.
func (r *refusedRows) total() int {
	n := r.more
	for _, row := range r.rows {
		n += row.Count
	}
	return n
}

func alike(a, b []answer.Refusal) bool {
	return slices.EqualFunc(a, b, func(a, b answer.Refusal) bool {
		return a.Plugin == b.Plugin && a.Code == b.Code && a.Reason == b.Reason && (a.Nodes > 0) == (b.Nodes > 0)
	})
}

// ownRefusals returns the refusals about the member and not about its gang, if there are any. Refusals without a
// message are left out.
func ownRefusals(refusals []answer.Refusal) []answer.Refusal {
	var own, all []answer.Refusal
	for _, r := range refusals {
		if r.Nodes == 0 && r.Reason == "" && r.Code != "Error" {
			continue // a plugin that an event must concern, and that refused no node itself
		}
		all = append(all, r)
		if r.Plugin != gangPlugin || r.Nodes > 0 {
			own = append(own, r)
		}
	}
	switch {
	case len(own) > 0:
		return own
	case len(all) > 0:
		return all
	}
	return refusals
}
