package replay

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxAttempts is how many attempts a history keeps.
const maxAttempts = 100

// groupHistory collects, in the second reading, what happened to a gang.
type groupHistory struct {
	group            types.NamespacedName
	first            *Point
	complete, placed *Point
	attempts         []GroupAttempt
	omitted          int

	entity *queue.Entity // of the last attempt, and which of the entity's it is
	number int
}

// begun looks at the state before the first entry that is taken: what it shows already came about somewhere
// before, which is said as entry 0.
func (h *groupHistory) begun(m *scheduler.Machine) {
	if m.Seq() == 0 {
		return
	}
	h.reached(m, Point{})
	if h.entity = m.GangEntity(h.group.Namespace, h.group.Name); h.entity != nil {
		h.number, h.omitted = h.entity.Attempts(), h.entity.Attempts()
	}
}

// take looks at what an entry, just applied, meant for the gang.
func (h *groupHistory) take(m *scheduler.Machine, e eventlog.Entry) {
	h.reached(m, pointOf(e))
	if d, ok := e.Payload.(*eventlog.Decision); ok && d.Namespace == h.group.Namespace && d.Group == h.group.Name {
		h.decided(m, pointOf(e), d)
	}
}

// reached notes that the gang is complete or placed, if it is, as of at.
func (h *groupHistory) reached(m *scheduler.Machine, at Point) {
	g := m.Cluster().Group(h.group.Namespace, h.group.Name)
	if g == nil || !g.Declared() {
		return
	}
	if h.complete == nil && g.Ready()+g.Waiting()+g.Assigned() >= g.Min() {
		h.complete = &at
	}
	if h.placed == nil && g.Assigned() >= g.Min() {
		h.placed = &at
	}
}

func (h *groupHistory) decided(m *scheduler.Machine, at Point, d *eventlog.Decision) {
	entity := m.GangEntity(h.group.Namespace, h.group.Name)
	if len(h.attempts) == 0 || entity != h.entity || entity != nil && entity.Attempts() != h.number {
		h.begin(at, d.Cycle)
	}
	if h.entity = entity; entity != nil {
		h.number = entity.Attempts()
	}
	a := &h.attempts[len(h.attempts)-1]
	a.Last, a.LastCycle = at, d.Cycle
	a.Allowed += len(d.Allowed)
	a.Released += len(d.Rejected)
	switch d.Outcome {
	case eventlog.Waiting:
		a.Placed++
	case eventlog.Scheduled:
		a.Placed++
		a.Outcome = "Placed"
	default:
		if a.Outcome != "Placed" {
			a.Outcome = "Failed"
		}
		a.FailedMember, a.Rejections = podOf(d), refusalsOf(d.Rejections)
	}
}

func (h *groupHistory) begin(at Point, cycle uint64) {
	if len(h.attempts) == maxAttempts {
		h.attempts = append(h.attempts[:0], h.attempts[1:]...)
		h.omitted++
	}
	h.attempts = append(h.attempts, GroupAttempt{First: at, FirstCycle: cycle, Outcome: "Running"})
}

// groupExplanation puts together what both readings of the log have brought.
func groupExplanation(s *groupScan, r *rerun, h *groupHistory) *GroupExplanation {
	m := r.machine
	x := &GroupExplanation{
		Group: s.name.String(), At: r.at, KnownFrom: r.opts.knownFrom(), Stage: "Gone", Members: []GroupMember{},
		Counts:      GroupCounts{Gone: s.gone()},
		History:     GroupHistory{FirstSeen: *h.first, Complete: h.complete, Placed: h.placed, Attempts: h.attempts, Omitted: h.omitted},
		LastFailure: r.explained(s.stop),
	}
	g := m.Cluster().Group(s.name.Namespace, s.name.Name)
	if g == nil {
		return x
	}
	x.Stage, x.Declared, x.Min = groupStage(g), g.Declared(), g.Min()
	x.Counts.Ready, x.Counts.Waiting, x.Counts.Assigned = g.Ready(), g.Waiting(), g.Placed()
	x.Refusal = g.Refusal()
	for _, p := range g.Members() {
		member := GroupMember{Pod: p.Object.Namespace + "/" + p.Object.Name, UID: p.Object.UID, Stage: p.Stage.String(), Node: p.Node}
		if e := m.Queue().Find(p.Object.UID); e != nil {
			var gated bool
			if member.GatingPlugin, member.GatingMessage, gated = e.Gate(p.Object.UID); gated {
				x.Counts.Gated++
			}
		}
		x.Members = append(x.Members, member)
	}
	e := m.GangEntity(s.name.Namespace, s.name.Name)
	if e == nil {
		return x
	}
	standing := queueStanding(m, e)
	x.Queue = &standing
	switch {
	case x.Stage != "Pending":
	case x.LastFailure != nil && e.Failed() && x.LastFailure.Gang != nil:
		x.Needs = x.LastFailure.Gang
	default:
		x.Needs = gangNeeds(m.Cluster(), g, unusable(nil))
	}
	return x
}

func groupStage(g *cluster.Group) string {
	switch {
	case !g.Declared():
		return "Undeclared"
	case g.Refusal() != "" && g.Placed() == 0:
		return "Refused"
	case g.Assigned() >= g.Min():
		return "Placed"
	case g.Ready()+g.Waiting()+g.Assigned() < g.Min():
		return "Incomplete"
	}
	return "Pending"
}

// gangNumbersOf are how far g has come, nil for no gang.
func gangNumbersOf(g *cluster.Group) *gangNumbers {
	if g == nil {
		return nil
	}
	return &gangNumbers{declared: g.Declared(), min: g.Min(), ready: g.Ready(), waiting: g.Waiting(), assigned: g.Assigned()}
}
