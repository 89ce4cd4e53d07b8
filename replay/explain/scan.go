package explain

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
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

// scanner is what the first reading of the log collects, without a Machine.
type scanner interface {
	take(e eventlog.Entry)
	// startFrom tells of the state behind which the log is known, if that is not the empty one.
	startFrom(m *scheduler.Machine)
	// found reports whether an entry taken so far has what is looked for.
	found() bool
	// missing is the error for when none has.
	missing() *NotFoundError
}

// scanPrefix hands s the entries up to the point in question and returns the last one's place. If what is
// looked for is not among them, it reads on for as long as it takes to say where it comes.
func scanPrefix(ctx context.Context, read Reader, opts *Options, s scanner) (answer.Point, error) {
	at, err := startScan(opts, s)
	if err != nil {
		return at, err
	}
	var missing *NotFoundError
	for e, err := range read(ctx, opts.Base+1) {
		if err != nil {
			return at, err
		}
		if err := ctx.Err(); err != nil {
			return at, err
		}
		if missing == nil && !opts.reaches(e) {
			if s.found() {
				return at, nil
			}
			missing = s.missing()
			missing.KnownFrom = opts.knownFrom()
		}
		s.take(e)
		if missing == nil {
			at = pointOf(e)
		} else if s.found() {
			first := pointOf(e)
			missing.At, missing.First = at, &first
			return at, missing
		}
		opts.progress(e.Seq)
	}
	switch {
	case missing == nil && opts.AtSeq > at.Seq:
		return at, fmt.Errorf("entry %d is not in the log: its last one is %d", opts.AtSeq, at.Seq)
	case missing == nil && !s.found():
		missing = s.missing()
		missing.KnownFrom = opts.knownFrom()
	case missing == nil:
		return at, nil
	}
	missing.At = at
	return at, missing
}

// startScan lets s look at the state behind which the log is known, and returns that entry's place.
func startScan(opts *Options, s scanner) (at answer.Point, err error) {
	if opts.Base == 0 {
		return at, nil
	}
	m, err := opts.state(opts.Base)
	if err != nil {
		return at, err
	}
	at = answer.Point{Seq: m.Seq(), Time: answer.Instant(m.Now())}
	switch {
	case opts.AtSeq > 0 && opts.AtSeq < at.Seq:
		return at, fmt.Errorf("entry %d is before what is known: the first state is that after %s", opts.AtSeq, at)
	case opts.AtTime > 0 && opts.AtTime < m.Now():
		return at, fmt.Errorf("%s is before what is known: the first state is that after %s",
			answer.Instant(opts.AtTime), at)
	}
	s.startFrom(m)
	return at, nil
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
