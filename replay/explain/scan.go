package explain

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

func pointOf(e eventlog.Entry) answer.Point {
	return answer.Point{Seq: e.Seq, Time: answer.Instant(e.Time)}
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

func decidedPod(d *eventlog.Decision) string { return d.Namespace + "/" + d.Name }

func bindOf(e eventlog.Entry, p *eventlog.BindResult) *answer.Bind {
	return &answer.Bind{Point: pointOf(e), Node: p.Node, Outcome: p.Outcome.String(), Message: p.Message}
}

func evictResultOf(e eventlog.Entry, p *eventlog.EvictResult) *answer.EvictResult {
	x := &answer.EvictResult{Point: pointOf(e), UID: p.UID, Outcome: p.Outcome.String(), Message: p.Message,
		Decision: p.Decision}
	if p.RetryAfter > 0 {
		x.RetryAt = answer.Instant(e.Time.Add(p.RetryAfter))
	}
	return x
}

// recorded is a decision with its place in the log; the zero value is none.
type recorded struct {
	at       answer.Point
	decision *eventlog.Decision
}

func (r recorded) exists() bool { return r.decision != nil }

func (r recorded) failed() bool {
	return r.exists() && (r.decision.Outcome == eventlog.Unschedulable || r.decision.Outcome == eventlog.Error)
}

// scanner collects data in the first reading of the log, without a Machine.
type scanner interface {
	take(e eventlog.Entry)
	// startFrom receives the state behind which the log is known, if that is not the empty one.
	startFrom(m *scheduler.Machine)
	// found reports whether an entry taken so far has the name.
	found() bool
	// missing is the error for when none has.
	missing() *NotFoundError
	// again returns a scanner for the same that has taken nothing.
	again() scanner
	// key is the key of the entries that have the name.
	key() index.Key
}

// A reading is one question's reading of a log, up to the point in question.
type reading struct {
	ctx  context.Context
	log  *history.Log
	opts *Options
	base uint64       // the entry behind which the log is known
	from answer.Point // its place
	// names are the names for the selection of entries. More may be added before the selection.
	names *history.Names
	whole bool // every entry is to be selected
	*history.Selection
}

// ask reads a log for a question: the entries that concern it if the log has an index, and all if these do not do.
func ask[T any](ctx context.Context, log *history.Log, opts *Options, question func(*reading) (T, error)) (T, error) {
	var none T
	base, err := log.Base()
	if err != nil {
		return none, err
	}
	x, err := question(&reading{ctx: ctx, log: log, opts: opts, base: base})
	if errors.Is(err, history.ErrTooNarrow) {
		x, err = question(&reading{ctx: ctx, log: log, opts: opts, base: base, whole: true})
	}
	return x, err
}

// start lets s look at the state behind which the log is known.
func (r *reading) start(s scanner) error {
	r.names = history.NewNames(s.key())
	if r.base == 0 {
		return nil
	}
	m, err := r.log.Nearest(r.base)
	if err != nil {
		return err
	}
	at := answer.Point{Seq: m.Seq(), Time: answer.Instant(m.Now())}
	switch {
	case r.opts.AtSeq > 0 && r.opts.AtSeq < at.Seq:
		return fmt.Errorf("entry %d is before what is known: the first state is that after %s", r.opts.AtSeq, at)
	case r.opts.AtTime > 0 && r.opts.AtTime < m.Now():
		return fmt.Errorf("%s is before what is known: the first state is that after %s",
			answer.Instant(r.opts.AtTime), at)
	}
	r.from = at
	s.startFrom(m)
	return nil
}

// selectFor selects the entries that concern the question.
func (r *reading) selectFor(learn history.Learner) (err error) {
	if r.whole {
		r.Selection, err = r.log.All(r.ctx, r.opts.bound())
	} else {
		r.Selection, err = r.log.Select(r.ctx, r.opts.bound(), r.names, learn)
	}
	return err
}

// scan passes the selected entries to s. If the name is not in them, the error says where it comes.
func (r *reading) scan(s scanner) error {
	for e, err := range r.Entries(r.ctx) {
		if err != nil {
			return err
		}
		s.take(e)
	}
	if s.found() {
		return nil
	}
	return r.missing(s)
}

// point returns the point in question, once the entries were read.
func (r *reading) point() answer.Point {
	at := r.At()
	if at.Seq == r.base {
		return r.from
	}
	return answer.Point{Seq: at.Seq, Time: answer.Instant(at.Time)}
}

// knownFrom is the first entry of which the log tells, 0 if that is the first there was.
func (r *reading) knownFrom() uint64 {
	if r.base == 0 {
		return 0
	}
	return r.base + 1
}

// gangOf returns the gang whose member or PodGroup the entry brings; ok is false for another one.
func gangOf(p *eventlog.Upserted) (name types.NamespacedName, ok bool) {
	if pod, isPod := p.Object.(*v1.Pod); isPod {
		return cluster.GroupName(pod)
	}
	if cluster.DeclaresGroups(p.Resource) {
		return types.NamespacedName{Namespace: p.Object.GetNamespace(), Name: p.Object.GetName()}, true
	}
	return name, false
}

// missing returns the error for a name that no entry up to the point in question has. The scanner was handed the
// selected ones.
func (r *reading) missing(s scanner) error {
	missing := s.missing()
	if missing.Composite && !r.Whole() {
		return history.ErrTooNarrow
	}
	missing.At, missing.KnownFrom = r.point(), r.knownFrom()
	for e, err := range r.Behind(r.ctx, s.key()) {
		if err != nil {
			return err
		}
		if s.take(e); s.found() {
			first := pointOf(e)
			missing.First = &first
			return missing
		}
	}
	if r.Whole() {
		return missing
	}
	again := s.again()
	if err := r.lookForNames(again); err != nil {
		return err
	}
	missing.Similar = again.missing().Similar
	return missing
}

// lookForNames hands a scanner the newest state that is recentNames entries before the point in question, or the first
// one, and all entries from there on.
func (r *reading) lookForNames(s scanner) error {
	at := r.At().Seq
	m, err := r.log.Nearest(at - min(at, r.opts.recentNames()))
	if err != nil {
		return err
	}
	if m.Seq() > 0 {
		s.startFrom(m)
	}
	if m.Seq() >= at {
		return nil
	}
	between := history.Query{From: m.Seq() + 1, To: history.Bound{Seq: at}}
	for e, err := range r.log.Entries(r.ctx, between) {
		if err != nil {
			return err
		}
		s.take(e)
	}
	return nil
}
