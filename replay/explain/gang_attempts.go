package explain

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// decidedElsewhere takes in a decision on a pod that has nothing to do with the gang, and says whether it let members
// of the gang go, or took them off their nodes.
func (h *gangHistory) decidedElsewhere(m *scheduler.Machine, at answer.Point, d *eventlog.Decision) bool {
	h.past.decided(m, at, d, h.state, func(p *cluster.Pod) bool { return h.concerns(m, p) })
	allowed, released := h.members(m, d.Allowed), h.members(m, d.Rejected)
	if allowed+released == 0 {
		return false
	}
	if n := len(h.attempts); n > 0 {
		a := &h.attempts[n-1]
		a.Last, a.LastCycle = at, d.Cycle
		a.Allowed += allowed
		a.Released += released
		if a.Outcome = "Placed"; allowed == 0 {
			a.Outcome, a.FailedMember, a.Code, a.Why = "Failed", h.fail.pod, h.fail.code, h.fail.inShort()
		}
	}
	return true
}

// decided takes in a decision on a pod of the gang's entity.
func (h *gangHistory) decided(m *scheduler.Machine, at answer.Point, d *eventlog.Decision, pod *cluster.Pod) {
	own := h.isMember(pod)
	switch {
	case d.Outcome == eventlog.Reserved:
		h.unreserved = reservationEnd(at, d)
		return // it is no attempt; a reason has it
	case d.Outcome == eventlog.Evicted && own:
		h.evicted = &answer.Eviction{Point: at, Members: len(d.Victims), Why: whyEvicted(d)}
		h.mark(at, "Evicted", "", true, nil, fmt.Sprintf("%s: %s",
			phrase.Count(int64(len(d.Victims)), "member", "members"), h.evicted.Why))
		return
	case d.Outcome == eventlog.Evicted, d.Outcome == eventlog.Asked:
		return
	}
	entity := h.entityIn(m)
	if len(h.attempts) == 0 || entity != h.entity || entity != nil && entity.Attempts() != h.number {
		h.addAttempt(at, d.Cycle, entity)
	}
	if h.entity = entity; entity != nil {
		h.number = entity.Attempts()
	}
	a := &h.attempts[len(h.attempts)-1]
	a.Last, a.LastCycle = at, d.Cycle
	a.Allowed += h.members(m, d.Allowed)
	a.Released += h.members(m, d.Rejected)
	switch d.Outcome {
	case eventlog.Waiting:
		if own {
			a.Placed++
		}
	case eventlog.Scheduled:
		if own && !h.held {
			a.Placed++ // one that was held has been counted when it was
		}
		if own {
			a.Outcome = "Placed"
		}
	default:
		h.refused(a, d, own)
	}
	if h.members(m, d.Allowed) > 0 {
		a.Outcome = "Placed"
	}
}

// refused notes a member that found no node, and what that means for the attempt.
func (h *gangHistory) refused(a *answer.GroupAttempt, d *eventlog.Decision, own bool) {
	refusals := refusalsOf(d.Rejections)
	if own && (h.fail.code == answer.Unplaceable || h.fail.code == answer.PluginFailed) {
		h.rows.add(decidedPod(d), refusals)
		a.NoNode = h.rows.total()
	}
	if a.Outcome == "Placed" && !own {
		return
	}
	if a.Outcome != "Placed" {
		a.Outcome = "Failed"
	}
	a.FailedMember, a.Rejections, a.Code = decidedPod(d), refusals, h.fail.code
	a.Why = h.fail.inShort()
}

func (h *gangHistory) addAttempt(at answer.Point, cycle uint64, entity *queue.Entity) {
	if len(h.attempts) == maxAttempts {
		h.attempts = append(h.attempts[:0], h.attempts[1:]...)
		h.omitted++
	}
	a := answer.GroupAttempt{First: at, FirstCycle: cycle, Outcome: "Running"}
	if entity != nil {
		a.Number = entity.Attempts()
	}
	h.attempts, h.rows = append(h.attempts, a), refusedRows{}
	if h.fail.at != at {
		h.fail, h.ownFail = failure{}, failure{}
	}
}
