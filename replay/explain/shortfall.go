package explain

import (
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// addShortfall adds what there is too little of: now, if all nodes together have too little at the point in question
// as well, and else when the attempt failed. f is nil if that is not known.
func addShortfall(x *answer.Reason, r *rerun, g *cluster.Group, f *failure) {
	if x.Code == answer.LacksRoom || x.Code == answer.Unplaceable || x.Code == answer.FailedBefore {
		if x.Shortfall = shortNow(r.at, r.machine, g); len(x.Shortfall) > 0 {
			x.ShortfallAt, x.ShortNow = &r.at, true
			return
		}
	}
	if f == nil || f.gang != g.Key() && !f.together {
		return
	}
	d := r.explained(f.recorded)
	if d == nil {
		return
	}
	if x.Shortfall = shortOf(d, f); len(x.Shortfall) > 0 {
		x.ShortfallAt = &d.Point
	}
}

// shortNow lists, as of an entry, what all nodes together have too little of for g, or for all gangs that must be
// admitted with it.
func shortNow(at answer.Point, m *scheduler.Machine, g *cluster.Group) []answer.Shortfall {
	c := m.Cluster()
	short, lacks := c.Lacks(g)
	switch {
	case lacks && short.Asked:
		missing := max(1, g.Lacking(gang.Assigned))
		return shortRows(at, "MinResources", 0, resourceUse(c, needOf(short), heldFor(g), keptFromGang(m, g),
			askingGangs(m, missing, refusal{}, g)))
	case lacks:
		needs := gangNeeds(at, m, g, refusal{})
		if needs == nil {
			return nil
		}
		return shortRows(at, "Gang", needs.Members, needs.Resources)
	}
	unit := g.Composite()
	if unit == nil {
		return nil
	}
	if short, lacks = c.LacksTogether(unit); !lacks {
		return nil
	}
	members := 0
	for _, each := range unit.Gangs() {
		members += max(0, each.Lacking(gang.Assigned))
	}
	kept := keptFromGang(m, unit.Gangs()...)
	return shortRows(at, "Unit", members, resourceUse(c, needOf(short), heldFor(nil), kept,
		askingGangs(m, members, refusal{}, unit.Gangs()...)))
}

func needOf(short cluster.Shortfall) []cluster.Need {
	return []cluster.Need{{Resource: short.Resource, Amount: short.Needed}}
}

// shortOf lists what there was too little of when a decision was made.
func shortOf(d *answer.Decision, f *failure) []answer.Shortfall {
	fits := slices.ContainsFunc(d.Refusals, func(r answer.Refusal) bool {
		return r.Plugin == names.NodeResourcesFit && r.Nodes > 0
	})
	var rows []answer.Shortfall
	switch {
	case f.code == answer.LacksRoom && (f.together || f.short.Asked):
		// The other rows of that moment are not known; this is the check's own result.
		of := "Unit"
		if f.short.Asked {
			of = "MinResources"
		}
		return []answer.Shortfall{{AsOf: d.Point, Of: of, Missing: f.room.Needed - f.room.Free, ResourceUse: f.room}}
	case d.Gang != nil && (fits || f.code == answer.LacksRoom || limited(d)):
		rows = shortRows(d.Point, "Gang", d.Gang.Members, d.Gang.Resources)
	}
	if fits {
		rows = append(rows, shortOfPod(d)...)
	}
	return rows
}

// limited reports whether a gang must stay within a domain, and its cycle was refused before any node was tried.
func limited(d *answer.Decision) bool {
	return d.Evaluated == 0 && slices.ContainsFunc(d.Gang.Resources, func(u answer.ResourceUse) bool {
		return u.Domains != nil
	})
}

// shortOfPod lists what no node had enough of for the decision's pod.
func shortOfPod(d *answer.Decision) (rows []answer.Shortfall) {
	for _, u := range d.Resources {
		if u.Needed > u.LargestFree {
			rows = append(rows, answer.Shortfall{
				AsOf: d.Point, Of: "Pod", Pod: d.Pod, Missing: u.Needed - u.LargestFree, ResourceUse: u,
			})
		}
	}
	sortShort(rows, func(s *answer.Shortfall) int64 { return s.LargestFree })
	return rows
}

// shortRows returns the resources of which less is usable than is needed, the worst first.
func shortRows(at answer.Point, of string, members int, uses []answer.ResourceUse) (rows []answer.Shortfall) {
	for _, u := range uses {
		if u.Needed > u.OnTaking {
			rows = append(rows, answer.Shortfall{AsOf: at, Of: of, Members: members, Missing: u.Needed - u.Usable,
				ResourceUse: u})
		}
	}
	sortShort(rows, func(s *answer.Shortfall) int64 { return s.OnTaking })
	return rows
}

func sortShort(rows []answer.Shortfall, there func(*answer.Shortfall) int64) {
	slices.SortStableFunc(rows, func(a, b answer.Shortfall) int {
		switch {
		case worseThan(there(&a), a.Needed, there(&b), b.Needed):
			return -1
		case worseThan(there(&b), b.Needed, there(&a), a.Needed):
			return 1
		}
		return 0
	})
}
