package explain

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// rerun is the second reading of the log: it applies the entries up to the point in question and runs the
// cycles of some decisions again on the way.
type rerun struct {
	opts    Options
	at      answer.Point
	machine *scheduler.Machine
	wanted  map[uint64]recorded
	done    map[uint64]*answer.Decision
	// preemptions are those that were asked for, nil before the entry is reached and if it is none.
	preemptions map[uint64]*answer.Preemption
	own         types.UID // of the pod that is explained, "" for none
	// alsoWanted says of an entry that is to be applied next whether it is a decision that is to be explained as well.
	alsoWanted func(eventlog.Entry) bool
	last       uint64 // the state to begin with may be this entry's, or an earlier one's
	// trials are those that were made at the point in question, by entity; asks says that they may be made. failed is
	// why one could not be.
	asks   bool
	trials map[queue.Key]*trial
	failed error
	leaps  *leaps // nil if every entry is applied
	over   bool   // no later state means anything to the answer: the machine's may be an earlier one
}

func newRerun(opts Options, at answer.Point) *rerun {
	return &rerun{opts: opts, at: at, last: at.Seq,
		wanted: map[uint64]recorded{}, done: map[uint64]*answer.Decision{},
		preemptions: map[uint64]*answer.Preemption{}, asks: true, trials: map[queue.Key]*trial{}}
}

// startBefore says that the state before an entry is needed; 0 stands for the earliest there is.
func (r *rerun) startBefore(seq uint64) { r.last = min(r.last, max(seq, 1)-1) }

// start makes the state to begin with.
func (r *rerun) start() (err error) {
	r.machine, err = r.opts.state(r.last)
	return err
}

// explain asks for the explanation of decisions; those that do not exist are passed over.
func (r *rerun) explain(decisions ...recorded) {
	for _, d := range decisions {
		if d.exists() {
			r.wanted[d.at.Seq] = d
			r.startBefore(d.at.Seq)
		}
	}
}

// tell asks for what decisions preempt; those that do not exist are passed over.
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

// preemption returns what was asked for, nil for none.
func (r *rerun) preemption(d recorded) *answer.Preemption { return r.preemptions[d.at.Seq] }

// explained returns what was asked for, nil for a decision that does not exist.
func (r *rerun) explained(d recorded) *answer.Decision { return r.done[d.at.Seq] }

// watcher looks at each entry of the second reading before and after it is applied.
type watcher interface {
	before(m *scheduler.Machine, e eventlog.Entry)
	after(m *scheduler.Machine, e eventlog.Entry)
	// rests reports whether no entry can mean anything to the watcher from a state on, that none of its names is in:
	// those have known.
	rests(m *scheduler.Machine, known *mentions) bool
	// leapt is told that the reading goes on at a later state, and reports whether it could: nothing of what the
	// watcher would have seen on the way is lost. If not, the watcher is as it was.
	leapt(from, to *scheduler.Machine, known *mentions) bool
	// over reports whether no later state means anything to what is told of the watcher, if no entry ahead names what
	// is known.
	over(m *scheduler.Machine, known *mentions) bool
	// goesWith reports whether all that an entry ahead means, the next one that names what is known, is that it takes
	// away what is told, so that it may be applied to the state at hand.
	goesWith(m *scheduler.Machine, seq uint64, known *mentions) bool
}

// run applies the entries up to the point in question, before the eyes of w.
func (r *rerun) run(ctx context.Context, read Reader, w watcher) error {
	if err := r.leap(w); err != nil {
		return err
	}
	for !r.over && r.machine.Seq() < r.at.Seq {
		if err := r.walk(ctx, read, w); err != nil {
			return err
		}
	}
	return nil
}

// walk applies entries up to the point in question, or to where it leapt on.
func (r *rerun) walk(ctx context.Context, read Reader, w watcher) error {
	for e, err := range read(ctx, r.machine.Seq()+1) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		w.before(r.machine, e)
		if _, ok := r.preemptions[e.Seq]; ok {
			r.preemptions[e.Seq] = preemptionOf(r.machine, pointOf(e), e.Payload.(*eventlog.Decision), r.isOwn)
		}
		if d, ok := r.wanted[e.Seq]; ok {
			r.done[e.Seq] = r.again(d)
		} else if r.alsoWanted != nil && r.alsoWanted(e) {
			r.done[e.Seq] = r.again(recorded{pointOf(e), e.Payload.(*eventlog.Decision)})
		}
		if err := r.machine.Apply(e); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		w.after(r.machine, e)
		r.opts.progress(e.Seq)
		if err := r.leap(w); err != nil {
			return err
		}
		if r.over || r.machine.Seq() != e.Seq || e.Seq == r.at.Seq {
			return nil
		}
	}
	return fmt.Errorf("entry %d is not in the log: its last one is %d", r.at.Seq, r.machine.Seq())
}
