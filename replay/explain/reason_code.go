package explain

import (
	"slices"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// ofAnAttempt reports whether the code tells how an attempt failed.
func ofAnAttempt(c answer.Code) bool {
	return slices.Contains([]answer.Code{answer.LacksRoom, answer.Unplaceable, answer.PluginFailed,
		answer.PermitTimedOut, answer.BrokenOff, answer.BindFailed, answer.FailedBefore}, c)
}

// code returns the reason why the gang, or a member of it, is pending in the present state, "" if none is. It also
// returns the failure, if a known one is the reason. It is called whenever something about the gang has changed. So it
// looks at members one by one only if it has to.
func (h *gangHistory) code(m *scheduler.Machine) (answer.Code, *failure) {
	g := h.gang(m)
	if g == nil {
		return "", nil
	}
	var gated, foreign int
	if g.Pending() > g.Ready() {
		gated, _, foreign = m.Cluster().Gangs().KeptBack(g)
	}
	if (g.Placed() > 0 || h.placed != nil) && g.Ready()+g.Waiting()+gated+foreign == 0 {
		return "", nil // all that there were have come to something
	}
	if code := h.codeOfTerms(g); code != "" {
		return code, nil
	}
	if g.Ready()+g.Waiting()+g.Placed()+gated+foreign == 0 && len(askedToGo(m, g)) > 0 {
		return answer.BeingEvicted, nil // when that was asked is not known, or it would have come to something
	}
	if e := h.entityIn(m); e != nil && e.State() == queue.InFlight {
		return answer.InFlight, nil
	} else if e != nil && e.State() == queue.Asking {
		return answer.AsksExtenders, nil
	}
	if code := h.codeOfMembers(m, g, gated, foreign); code != "" {
		return code, nil
	}
	return h.codeInQueue(m, g)
}

// askedToGo returns the members whose eviction is under way, whether or not they have a node.
func askedToGo(m *scheduler.Machine, g *cluster.Group) (pods []*cluster.Pod) {
	for _, p := range g.Members() {
		evicted := p.Stage == cluster.Pending && p.Object.DeletionTimestamp == nil && !p.MayBePlaced()
		if evicted || m.AskedBy(p.Object.UID, scheduler.Evict) > 0 {
			pods = append(pods, p)
		}
	}
	return pods
}

// codeOfTerms says what keeps the gang from being scheduled as one at all.
func (h *gangHistory) codeOfTerms(g *cluster.Group) answer.Code {
	c := g.Composite()
	switch {
	case !g.Declared():
		return answer.Undeclared
	case g.Refusal() != "":
		return answer.Refused
	case c == nil:
		return ""
	case c.Refusal() != "":
		return answer.Refused
	case !c.Declared():
		return answer.Undeclared
	}
	return ""
}

// codeOfMembers compares the members, and the members of the gangs that it is admitted with, with the needed numbers.
func (h *gangHistory) codeOfMembers(m *scheduler.Machine, g *cluster.Group, gated, foreign int) answer.Code {
	beyond, missing := g.Beyond(), g.Lacking(gang.Present)
	e := h.entityIn(m)
	switch {
	case e == nil && foreign > 0:
		return answer.NoProfile
	case g.Waiting() > 0 && g.Lacking(gang.OnNodes) <= 0 && (!beyond || g.Ready() == 0):
		if g.Suffices(gang.OnNodes) {
			return answer.HeldByPermit
		}
		return answer.WaitsForOthers
	case !beyond && missing > 0 && missing <= gated:
		return answer.Gated
	case !beyond && missing > 0:
		return answer.Incomplete
	case e == nil:
		return answer.NoProfile
	}
	if g.Placed() == 0 && g.Mode() != cluster.NonStrict && lackingAbove(g, gang.Present) != nil {
		return answer.WaitsForOthers
	}
	return ""
}

// codeInQueue says why a gang that could be placed is not.
func (h *gangHistory) codeInQueue(m *scheduler.Machine, g *cluster.Group) (answer.Code, *failure) {
	e := h.entityIn(m)
	ready := e.NumReady()
	if g.Composite() != nil {
		ready = e.NumToTryOf(g.String()) // all that are ready: it is not in flight
	}
	switch {
	case ready == 0:
		return answer.Gated, nil
	case e.Failed():
		return h.failureOf(g)
	case e.State() == queue.Backoff:
		return answer.Backoff, nil
	}
	return answer.InTurn, nil
}

// gangsLacking returns how many of the gangs and composites directly below c more need what they need of the members
// that count.
func gangsLacking(c *cluster.Composite, by gang.Count) int {
	return c.Lacking(func(g *cluster.Group) bool { return g.HasMinimum(by) })
}

// lackingAbove returns the composite above g that g waits for, nil for none. By the members that count, too few of its
// parts have their minimum.
func lackingAbove(g *cluster.Group, by gang.Count) *cluster.Composite {
	return g.LackingAbove(func(each *cluster.Group) bool { return each.HasMinimum(by) })
}

// failedBeforeItJoined is the failure of gangs that are admitted together which failed when this one was not yet one of
// them.
var failedBeforeItJoined = &failure{code: answer.WaitsForOthers}

// failureOf says how the last attempt failed, of which it is known that it did.
func (h *gangHistory) failureOf(g *cluster.Group) (answer.Code, *failure) {
	f := h.relevant(g)
	switch {
	case f == nil && g.Composite() != nil && (!h.blind || len(h.attempts) > 0):
		return answer.WaitsForOthers, failedBeforeItJoined
	case f == nil:
		return answer.FailedBefore, nil
	case f.gang != h.group && !f.together:
		return answer.WaitsForOthers, f
	}
	return f.code, f
}

// relevant returns the failure that counts for the gang, nil if it is not known. It is a failure of one of its own
// members, if the gang failed because of that. Otherwise it is the failure of the gangs that are admitted together.
func (h *gangHistory) relevant(g *cluster.Group) *failure {
	own := &h.ownFail
	switch {
	case h.fail.known() && h.fail.together:
		return &h.fail
	case own.known() && (own.decision == nil || g.Composite() == nil || blames(own.decision, gangPlugin) || g.Beyond()):
		return own
	case h.fail.known():
		return &h.fail
	}
	return nil
}
