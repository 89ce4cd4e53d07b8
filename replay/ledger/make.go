package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Range is the time that is booked. It begins behind entry After, at the time Start, and ends behind entry Last, at
// the time End. A Moment has one nanosecond, so that its sums are amounts.
type Range struct {
	After, Last uint64
	Start, End  eventlog.Time
	Moment      bool
}

// Span is a range in the form in which people type it. At excludes the others. Places that are not given are the
// beginning and the end of the log.
type Span struct{ From, To, At history.Moment }

// Resolve finds a span in a log. An entry's number means the point right behind it. The error is a
// *history.RequestError if the range is impossible.
func Resolve(ctx context.Context, log *history.Log, s Span) (r Range, err error) {
	if s.At.Given() {
		if r.After, r.Start, err = locate(ctx, log, &s.At); err != nil {
			return r, err
		}
		r.Last, r.End, r.Moment = r.After, r.Start+1, true
		return r, nil
	}
	if r.Last, r.End, err = locate(ctx, log, &s.To); err != nil {
		return r, err
	}
	s.From.Begins(&s.To)
	if s.From.Given() {
		r.After, r.Start, err = locate(ctx, log, &s.From)
	} else {
		r.After, r.Start, err = beginning(ctx, log)
	}
	if err == nil && (r.Start > r.End || r.After > r.Last) {
		err = &history.RequestError{Err: fmt.Errorf("the range would begin at %s and end at %s", r.Start, r.End)}
	}
	return r, err
}

// locate returns the last entry up to a moment, and the time.
func locate(ctx context.Context, log *history.Log, m *history.Moment) (seq uint64, at eventlog.Time, err error) {
	p, err := log.Resolve(ctx, m)
	if err != nil {
		return 0, 0, err
	}
	if p.Seq == 0 {
		return 0, 0, &history.RequestError{Err: errors.New("the log has no entry")}
	}
	base, err := log.Base()
	if err == nil && p.Seq < base {
		err = &history.RequestError{Err: fmt.Errorf(
			"%s is before the first state of the log, which is that after entry %d", m, base)}
	}
	if err != nil {
		return 0, 0, err
	}
	last, err := log.Last()
	if err != nil {
		return 0, 0, err
	}
	_, asked, err := log.Means(ctx, m)
	if at = p.Time; p.Seq < last { // behind the last entry nothing is known
		at = max(at, asked)
	}
	return p.Seq, at, err
}

// beginning returns the entry behind which the log is known, and the time of the first one that can be read.
func beginning(ctx context.Context, log *history.Log) (after uint64, at eventlog.Time, err error) {
	if after, err = log.Base(); err != nil {
		return 0, 0, err
	}
	for e, err := range log.Entries(ctx, history.Query{From: after + 1}) {
		return after, e.Time, err
	}
	return after, 0, &history.RequestError{Err: errors.New("the log has no entry")}
}

// Options say what is booked, and how.
type Options struct {
	Range
	By By
	// Edges are times within the range, ascending. The sums are kept for each bucket between them too: Group.In.
	Edges []eventlog.Time
	// Only names the groups that are kept apart. All other groups are one, Others. nil keeps all apart. With Edges, the
	// memory of a ledger is the number of groups times the number of buckets.
	Only []string
	// Workers is the number of parts that are booked at a time; at most 1 means one part.
	Workers int
	// Progress is called now and then with the number of entries read, of so many, by one goroutine at a time; nil is
	// not called.
	Progress func(read, all uint64)
}

// Make books a range of a log. Entries behind it are read for the ends of the pods that still run there.
func Make(ctx context.Context, source history.Source, o Options) (*Ledger, error) {
	p := parts{source: source, o: o}
	closed, err := p.run(ctx)
	if err != nil {
		return nil, err
	}
	l := newLedger(o, closed)
	l.Parts = len(closed)
	return l, nil
}

// asked returns the decisions that ask for the outstanding evictions of a state. One that cannot be read any more is
// left out.
func asked(ctx context.Context, log *history.Log, m *scheduler.Machine) (map[uint64]*eventlog.Decision, error) {
	decisions := map[uint64]*eventlog.Decision{}
	for _, x := range m.Effects() {
		if x.Kind != scheduler.Evict || x.Seq < log.First() || decisions[x.Seq] != nil {
			continue
		}
		for e, err := range log.Entries(ctx, history.Query{From: x.Seq}) {
			if err != nil {
				return nil, err
			}
			if d, ok := e.Payload.(*eventlog.Decision); ok {
				decisions[x.Seq] = d
			}
			break
		}
	}
	return decisions, nil
}
