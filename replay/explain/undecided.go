package explain

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// othersTurn names the time of the next attempt in a cluster that others schedule.
const othersTurn = "when its scheduler comes to it"

// asked reports whether a trial gives the answer for an entity with a code: its last attempt failed, or nobody decides
// in the log.
func (r *rerun) asked(code answer.Code) bool {
	return ofAnAttempt(code) || code == answer.InTurn && r.undecided() != ""
}

// undecided returns the sentence of a log without decisions; "" for one with decisions.
func (r *rerun) undecided() string {
	if r.log == nil || r.machine == nil {
		return ""
	}
	return r.log.Undecided(r.machine)
}

// asOthersDecide gives the reason of an entity in a log without decisions the code of its trial. The log does not know
// when the entity has its turn, nor since when it has waited.
func (r *rerun) asOthersDecide(x *answer.Reason) {
	if r.undecided() == "" {
		return
	}
	if x.Since == r.at.Time { // the time of the dump
		x.Since = 0
	}
	if x.Code != answer.InTurn {
		return
	}
	x.Since, x.NextRetry, x.WaitsFor = 0, answer.NextRetry{Words: othersTurn}, answer.WaitsFor{}
	if x.Now != nil && !x.Now.Fits && x.Now.Code != "" {
		x.Code = x.Now.Code
	}
}

// addUndecided adds to a pod of a log without decisions what is known about it, and takes away the place in the queue
// that it would have here.
func addUndecided(x *answer.Pod, s *podScan, r *rerun) error {
	if x.Undecided = r.undecided(); x.Undecided == "" {
		return nil
	}
	x.Queue, x.FirstQueued = nil, 0
	x.Managed, x.Disruption = managedBy(s.object), disruption(s.object)
	if at := s.object.CreationTimestamp; !at.IsZero() {
		x.Created.Time = answer.Instant(at.UnixNano())
	}
	switch by := s.object.Annotations[eventlog.BoundByAnnotation]; {
	case x.Node == "":
	case r.opts.Placing != nil:
		x.Placing = r.opts.Placing(s.uid)
	case s.lost.others.boundAt.Seq > 0 || by != "":
		x.Placing = &answer.Placing{Since: s.lost.others.boundAt.Time, By: by}
	}
	if s.object.Status.Phase == v1.PodFailed {
		x.FailedFor = WhyFailed(s.object)
	}
	if s.lost.others.removed.last.Seq == 0 {
		return nil
	}
	var err error
	x.Removal, err = removal(r.ctx, r.log, s.lost.others.removed.last, r.at.Seq)
	return err
}
