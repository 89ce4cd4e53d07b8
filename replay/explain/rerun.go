package explain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// rerun is the second reading of the log: a visit to the states up to the point in question, which runs the cycles of
// some decisions again on the way. It is the history.Visitor, and passes the states to its watcher.
type rerun struct {
	*reading
	watcher
	at      answer.Point
	machine *scheduler.Machine
	wanted  map[uint64]recorded
	done    map[uint64]*answer.Decision
	// preemptions are the requested ones, by entry. The value is nil before the entry is reached, and if it is no
	// preemption.
	preemptions map[uint64]*answer.Preemption
	losses      map[uint64]nodeLossOf // the requested ones, by entry
	own         types.UID             // of the pod that is explained, "" for none
	// alsoWanted reports whether an entry that is to be applied next is a decision to be explained as well.
	alsoWanted func(eventlog.Entry) bool
	last       uint64 // the state to begin with may be this entry's, or an earlier one's
	// trials are the trials at the point in question, by entity. asks allows them. failed is the error if one could not
	// be made.
	asks   bool
	trials map[queue.Key]*trial
	failed error
}

// watcher looks at each entry of the second reading before and after it is applied.
type watcher interface {
	before(m *scheduler.Machine, e eventlog.Entry)
	after(m *scheduler.Machine, e eventlog.Entry)
	// needs returns the needs after a state, as history.Visitor defines them. names are the names of the selected
	// entries.
	needs(m *scheduler.Machine, ahead []uint64, names *history.Names) history.Need
}

func newRerun(r *reading) *rerun {
	at := r.point()
	return &rerun{reading: r, at: at, last: at.Seq,
		wanted: map[uint64]recorded{}, done: map[uint64]*answer.Decision{},
		preemptions: map[uint64]*answer.Preemption{}, losses: map[uint64]nodeLossOf{},
		asks: true, trials: map[queue.Key]*trial{}}
}

// startBefore requests the state before an entry; 0 means the earliest state.
func (r *rerun) startBefore(seq uint64) { r.last = min(r.last, max(seq, 1)-1) }

// begin makes the state to begin with.
func (r *rerun) begin() (err error) {
	r.machine, err = r.log.Nearest(r.last)
	return err
}

// explain requests the explanation of decisions; it ignores decisions that do not exist.
func (r *rerun) explain(decisions ...recorded) {
	for _, d := range decisions {
		if d.exists() {
			r.wanted[d.at.Seq] = d
			r.startBefore(d.at.Seq)
		}
	}
}

// tell requests the preemptions of decisions; it ignores decisions that do not exist.
func (r *rerun) tell(decisions ...recorded) {
	for _, d := range decisions {
		if d.exists() {
			r.preemptions[d.at.Seq] = nil
			r.startBefore(d.at.Seq)
		}
	}
}

func (r *rerun) isOwn(p *cluster.Pod) bool { return p.Object.UID == r.own }

// trialOf makes a trial of an entity that is in the queue, once; nil if there is nothing to try.
func (r *rerun) trialOf(e *queue.Entity) *trial {
	if !r.asks || e == nil || e.State() == queue.InFlight {
		return nil
	}
	if t, made := r.trials[e.Key()]; made {
		return t
	}
	next := e.Next()
	if next == nil {
		return nil
	}
	t, err := r.try(next.UID)
	if err != nil && r.failed == nil {
		r.failed = fmt.Errorf("try %s/%s at entry %d: %w", next.Namespace, next.Name, r.at.Seq, err)
	}
	r.trials[e.Key()] = t
	return t
}

// preemption returns the requested preemption, nil for none.
func (r *rerun) preemption(d recorded) *answer.Preemption { return r.preemptions[d.at.Seq] }

// explained returns the requested explanation, nil for a decision that does not exist.
func (r *rerun) explained(d recorded) *answer.Decision { return r.done[d.at.Seq] }

// run visits the states up to the point in question, before the eyes of w.
func (r *rerun) run(w watcher) (err error) {
	r.watcher = w
	r.machine, err = r.Visit(r.ctx, r.machine, r)
	return err
}

var _ history.Visitor = (*rerun)(nil)

// Before implements history.Visitor.
func (r *rerun) Before(m *scheduler.Machine, e eventlog.Entry) {
	r.machine = m
	r.before(m, e)
	if _, ok := r.preemptions[e.Seq]; ok {
		r.preemptions[e.Seq] = preemptionOf(m, pointOf(e), e.Payload.(*eventlog.Decision), r.isOwn)
	}
	if of, ok := r.losses[e.Seq]; ok {
		r.losses[e.Seq] = nodeLossOf{of.uid, lossOfOwn(m, e, of.uid)}
	}
	if d, ok := r.wanted[e.Seq]; ok {
		r.done[e.Seq] = r.again(d)
	} else if r.alsoWanted != nil && r.alsoWanted(e) {
		r.done[e.Seq] = r.again(recorded{pointOf(e), e.Payload.(*eventlog.Decision)})
	}
}

// After implements history.Visitor.
func (r *rerun) After(m *scheduler.Machine, e eventlog.Entry) { r.after(m, e) }

// Needs implements history.Visitor.
func (r *rerun) Needs(m *scheduler.Machine, ahead []uint64) history.Need {
	return r.needs(m, ahead, r.Names())
}
