package replay

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// code returns why the gang, or a member of it, is pending in the state as it stands; "" if nothing is; and the failure
// that it is by, if it is by a known one. It is asked whenever something about the gang has changed, so that it looks at
// members one by one only where it has to.
func (h *groupHistory) code(m *scheduler.Machine) (Code, *failure) {
	g := h.gang(m)
	if g == nil {
		return "", nil
	}
	var gated, foreign int
	if g.Pending() > g.Ready() {
		gated, _, foreign = m.Cluster().KeptBack(g)
	}
	if (g.Placed() > 0 || h.placed != nil) && g.Ready()+g.Waiting()+gated+foreign == 0 {
		return "", nil // all that there were have come to something
	}
	if code := h.codeOfTerms(g); code != "" {
		return code, nil
	}
	if e := h.entityIn(m); e != nil && e.State() == queue.InFlight {
		return InFlight, nil
	}
	if code := h.codeOfMembers(m, g, gated, foreign); code != "" {
		return code, nil
	}
	return h.codeInQueue(m, g)
}

// codeOfTerms says what keeps the gang from being scheduled as one at all.
func (h *groupHistory) codeOfTerms(g *cluster.Group) Code {
	c := g.Composite()
	switch {
	case !g.Declared():
		return Undeclared
	case g.Refusal() != "":
		return Refused
	case c == nil:
		return ""
	case c.Refusal() != "":
		return Refused
	case !c.Declared():
		return Undeclared
	}
	return ""
}

// codeOfMembers compares the members, and those of the gangs that it is admitted with, with what is needed.
func (h *groupHistory) codeOfMembers(m *scheduler.Machine, g *cluster.Group, gated, foreign int) Code {
	beyond, present := g.Assigned() >= g.Min(), presentIn(g)
	e := h.entityIn(m)
	switch {
	case e == nil && foreign > 0:
		return NoProfile
	case g.Waiting() > 0 && withNode(g) >= g.Min() && (!beyond || g.Ready() == 0):
		if g.Suffices(withNode) {
			return HeldByPermit
		}
		return WaitsForOthers
	case !beyond && present < g.Min() && present+gated >= g.Min():
		return Gated
	case !beyond && present < g.Min():
		return Incomplete
	case e == nil:
		return NoProfile
	}
	if c := g.Composite(); c != nil && g.Placed() == 0 && g.Mode() != cluster.NonStrict {
		if lacking, _, _ := c.Lacking(presentIn); lacking > 0 {
			return WaitsForOthers
		}
	}
	return ""
}

// codeInQueue says why a gang that could be placed is not.
func (h *groupHistory) codeInQueue(m *scheduler.Machine, g *cluster.Group) (Code, *failure) {
	e := h.entityIn(m)
	ready := e.NumReady()
	if g.Composite() != nil {
		ready = e.NumUntriedOf(g.String()) // all that are ready: it is not in flight
	}
	switch {
	case ready == 0:
		return Gated, nil
	case e.Failed():
		return h.failureOf(g)
	case e.State() == queue.Backoff:
		return Backoff, nil
	}
	return InTurn, nil
}

// failedBeforeItJoined is the failure of gangs that are admitted together which failed when this one was not yet one of
// them.
var failedBeforeItJoined = &failure{code: WaitsForOthers}

// failureOf says how the last attempt failed, of which it is known that it did.
func (h *groupHistory) failureOf(g *cluster.Group) (Code, *failure) {
	f := h.relevant(g)
	switch {
	case f == nil && g.Composite() != nil && (!h.blind || len(h.attempts) > 0):
		return WaitsForOthers, failedBeforeItJoined
	case f == nil:
		return FailedBefore, nil
	case f.gang != h.group && !f.together:
		return WaitsForOthers, f
	}
	return f.code, f
}

// relevant is the failure that counts for the gang: that of one of its own members if the gang failed by that, and else
// that of the gangs that are admitted together; nil if it is not known.
func (h *groupHistory) relevant(g *cluster.Group) *failure {
	own := &h.ownFail
	switch {
	case h.fail.known() && h.fail.together:
		return &h.fail
	case own.known() && (own.decision == nil || g.Composite() == nil || blames(own.decision, gangPlugin) || g.Assigned() >= g.Min()):
		return own
	case h.fail.known():
		return &h.fail
	}
	return nil
}

// stopped says of an entry that is to be applied next whether it is the last decision by which an attempt of one of the
// gangs failed that stand in the queue as one with this one.
func (h *groupHistory) stopped(m *scheduler.Machine, e eventlog.Entry, last func(gang types.NamespacedName) uint64) bool {
	d, ok := e.Payload.(*eventlog.Decision)
	if !ok || d.Group == "" || last(types.NamespacedName{Namespace: d.Namespace, Name: d.Group}) != e.Seq {
		return false
	}
	return h.concerns(m, m.Cluster().Pod(d.UID))
}

// presentIn counts the members that have a node or could get one.
func presentIn(g *cluster.Group) int { return g.Ready() + g.Waiting() + g.Assigned() }

// withNode counts the members that have a node.
func withNode(g *cluster.Group) int { return g.Waiting() + g.Assigned() }
