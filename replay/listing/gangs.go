package listing

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Gang is a gang with the numbers of its members.
type Gang struct {
	// Name is namespace/name. Declared says that its minimum is known: Min.
	Name     string `json:"name"`
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	// The members are counted as answer.GroupCounts counts them.
	Ready     int `json:"ready"`
	Waiting   int `json:"waiting"`
	Assigned  int `json:"assigned"`
	Leaving   int `json:"leaving"`
	EndedWell int `json:"endedWell"`
	// Stage is as answer.Group has it. Preempted and Evicted are BelowMinimum, because the state does not have the
	// cause.
	Stage string `json:"stage"`
	// Reason is the reason why it, or a member beyond its minimum, is pending; nil if none is.
	Reason *answer.Standing `json:"reason,omitempty"`
	// Composite is the CompositePodGroup (namespace/name) that it is admitted in, "" for none.
	Composite string `json:"composite,omitempty"`
	Priority  int32  `json:"priority"`
}

// gangs lists the gangs by name.
func gangs(q *question) (*List, error) {
	var rows []Gang
	for _, name := range q.m.Cluster().Gangs().Names() {
		if !q.wants(name) {
			continue
		}
		g := q.m.Cluster().Gangs().Named(name.Namespace, name.Name)
		rows = append(rows, q.gang(g))
	}
	type row = Gang
	return newList(rows, "gang", "gangs", []column[row]{
		{title: "NAME", text: func(x *row) string { return x.Name }},
		{title: "MINIMUM", text: func(x *row) string { return minimumOf(x) }},
		{title: "READY", text: func(x *row) string { return fmt.Sprint(x.Ready) }},
		{title: "HELD", text: func(x *row) string { return fmt.Sprint(x.Waiting) }},
		{title: "PLACED", text: func(x *row) string { return fmt.Sprint(x.Assigned) }},
		{title: "DONE", text: func(x *row) string { return fmt.Sprint(x.EndedWell) }},
		{title: "PHASE", text: func(x *row) string { return x.Stage }},
		{title: "REASON", text: func(x *row) string { return reasonOf(x.Reason) }},
		{title: "LEAVING", wide: true, text: func(x *row) string { return fmt.Sprint(x.Leaving) }},
		{title: "PRIORITY", wide: true, text: func(x *row) string { return fmt.Sprint(x.Priority) }},
		{title: "COMPOSITE", wide: true, text: func(x *row) string { return x.Composite }},
		{title: "WHY", wide: true, text: func(x *row) string {
			if x.Reason == nil {
				return ""
			}
			return x.Reason.Why
		}},
	}), q.survey.Err()
}

// gang returns the row of a gang.
func (q *question) gang(g *cluster.Group) Gang {
	_, ending, _ := q.m.Cluster().Gangs().KeptBack(g)
	x := Gang{Name: g.String(), Declared: g.Declared(), Min: g.Min(), Ready: g.Ready(), Waiting: g.Waiting(),
		Assigned: g.Placed(), Leaving: g.Leaving() + ending, EndedWell: g.Succeeded()}
	x.Stage, x.Reason = q.survey.Gang(g)
	if c := g.Composite(); c != nil && c.Namespace != "" {
		x.Composite = c.String()
	}
	x.Priority, _ = g.Priority()
	if members := g.Members(); len(members) > 0 {
		x.Priority = q.m.Cluster().Gangs().PriorityOf(members[0].Object)
	}
	return x
}

func minimumOf(x *Gang) string {
	if !x.Declared {
		return "-"
	}
	return fmt.Sprint(x.Min)
}

func reasonOf(x *answer.Standing) string {
	if x == nil {
		return ""
	}
	return string(x.Code)
}
