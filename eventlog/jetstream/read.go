package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// mostBody is the largest total size of an append's parts: its Limit, and the records' headers and lengths. A stream
// may hold messages that no append has written.
const mostBody = 2 * mostBytes

// An assembly assembles appends from the messages of a stream, taken in order.
type assembly struct {
	head  frame  // of the append in progress: its first part's frame
	parts int    // the number of its parts so far; 0 for no append in progress
	body  []byte // the parts' bytes
	at    uint64 // the last message taken
}

// take takes the next message. It reports whether an append is complete: then head and body are that append's, until
// the next call. It skips the parts of incomplete appends.
func (a *assembly) take(m message) (complete bool, err error) {
	f, rest, err := parseFrame(m.data, m.seq)
	if err != nil {
		return false, fmt.Errorf("message %d of the stream: %w", m.seq, err)
	}
	a.at = m.seq
	switch {
	case f.part == 1:
		a.head, a.parts, a.body = f, 1, append(a.body[:0], rest...)
	case a.parts == f.part-1 && a.head.isOf(&f):
		a.parts++
		a.body = append(a.body, rest...)
	default:
		return false, fmt.Errorf("message %d of the stream: it is part %d of an append of which part %d is not "+
			"before it", m.seq, f.part, f.part-1)
	}
	if len(a.body) > mostBody {
		return false, fmt.Errorf("message %d of the stream: its append has more than %d bytes, which none has", m.seq,
			mostBody)
	}
	if a.parts < f.parts {
		return false, nil
	}
	a.parts = 0
	return true, nil
}

// records calls f with each record of the complete append, until f returns an error. The records must continue chain.
// Afterwards the chain is at the last record that f got, and damaged says whether the error is about the next one.
func (a *assembly) records(chain *eventlog.Chain, f func(rec []byte) error) (err error) {
	if a.head.before != chain.Seq {
		return &chainError{fmt.Errorf("message %d of the stream has an append behind entry %d", a.at, a.head.before)}
	}
	rest := a.body
	for len(rest) > 0 {
		var rec []byte
		if rec, rest, err = nextRecord(rest); err != nil {
			return &chainError{fmt.Errorf("message %d of the stream: %w", a.at, err)}
		}
		if err := f(rec); err != nil {
			return err
		}
	}
	if want := (eventlog.Chain{Seq: a.head.last, Hash: a.head.hash}); *chain != want {
		return &chainError{fmt.Errorf("the append in message %d of the stream ends with entry %d and hash %x, want "+
			"%d and %x", a.at, chain.Seq, chain.Hash, want.Seq, want.Hash)}
	}
	return nil
}

// chainError wraps the reason why a record does not continue a log.
type chainError struct{ err error }

// Error implements error.
func (e *chainError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *chainError) Unwrap() error { return e.err }

// frameAt returns the frame of a message, from the leader.
func (c *conn) frameAt(ctx context.Context, seq uint64) (frame, error) {
	m, err := c.get(ctx, seq)
	if err != nil {
		return frame{}, err
	}
	f, _, err := parseFrame(m.data, seq)
	if err != nil {
		err = &chainError{fmt.Errorf("message %d of the stream: %w", seq, err)}
	}
	return f, err
}

// find returns the first message of the append of entry seq. It is not after message tail.
//
// The entry before an append never decreases from one message to the next, even with parts of incomplete appends in
// between. So the last message with a smaller entry before it than seq belongs to that append, and is its last.
func (c *conn) find(ctx context.Context, seq, tail uint64) (uint64, error) {
	var failed error
	base := c.first()
	n := sort.Search(int(tail-base), func(i int) bool { // the messages after base, up to tail
		if failed != nil {
			return true
		}
		f, err := c.frameAt(ctx, base+uint64(i)+1)
		failed = err
		return err != nil || f.before >= seq
	})
	if failed != nil {
		return 0, failed
	}
	if n == 0 {
		return 0, &chainError{fmt.Errorf("no message of the stream has entry %d", seq)}
	}
	at := base + uint64(n)
	f, err := c.frameAt(ctx, at)
	if err != nil {
		return 0, err
	}
	if f.part < f.parts || seq > f.last {
		return 0, &chainError{fmt.Errorf("message %d of the stream is not the end of the append of entry %d", at, seq)}
	}
	return at - uint64(f.part) + 1, nil
}

// before returns the chain's end before the append that begins with message start. Its hash is the hash of the record
// before, from the frame of the message before.
func (c *conn) before(ctx context.Context, start, entry uint64) (eventlog.Chain, error) {
	for at := start - 1; ; {
		if c.base > 0 && at == c.base {
			return c.origin, nil
		}
		f, err := c.frameAt(ctx, at)
		if err != nil {
			return eventlog.Chain{}, err
		}
		if f.last == entry && f.part == f.parts {
			return eventlog.Chain{Seq: f.last, Hash: f.hash}, nil
		}
		if f.before != entry || uint64(f.part) >= at { // not even a part of an incomplete append
			return eventlog.Chain{}, &chainError{fmt.Errorf("message %d of the stream is not what entry %d follows", at,
				entry+1)}
		}
		at -= uint64(f.part)
	}
}

// A place is the part of its stream that a Log knows: the last entry, and the last message of its append.
type place struct {
	end  eventlog.Chain
	tail uint64
}

// known returns the place of Last.
func (l *Log) known() (place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return place{}, eventlog.ErrClosed
	}
	return l.place, nil
}

// Read implements eventlog.Log.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return read(ctx, l, from, (*eventlog.Chain).Entry)
}

// Records implements eventlog.Log.
func (l *Log) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return read(ctx, l, from, (*eventlog.Chain).Record)
}

// errEnough ends reading because the caller stops.
var errEnough = errors.New("enough was read")

// read is Read or Records: decode checks and decodes the next record of a chain.
func read[T any](
	ctx context.Context, l *Log, from uint64, decode func(*eventlog.Chain, []byte) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		to, err := l.known()
		if err == nil {
			from = max(from, 1)
			if from <= min(l.origin.Seq, to.end.Seq) {
				err = l.archived(from)
			}
		}
		if err == nil && from <= to.end.Seq {
			r := reading[T]{log: l, from: from, last: to.end.Seq, decode: decode, yield: yield}
			err = r.run(ctx, to.tail)
		}
		if err == nil && l.damage != nil {
			err = l.damage
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(none, err)
		}
	}
}

// A reading is one Read or Records.
type reading[T any] struct {
	log        *Log
	from, last uint64 // entries
	decode     func(*eventlog.Chain, []byte) (T, error)
	yield      func(T, error) bool
	chain      eventlog.Chain
}

// run reads messages up to tail.
func (r *reading[T]) run(ctx context.Context, tail uint64) error {
	c := r.log.reads
	r.chain.Seq = r.from - 1 // for errors before the first record
	start, err := c.find(ctx, r.from, tail)
	if err != nil {
		return r.failed(ctx, err)
	}
	first, err := c.frameAt(ctx, start)
	if err == nil {
		r.chain, err = c.before(ctx, start, first.before)
	}
	if err != nil {
		return r.failed(ctx, err)
	}
	var a assembly
	for m, err := range c.messages(ctx, start, tail) {
		complete := false
		if err == nil {
			if complete, err = a.take(m); err != nil {
				err = &chainError{err}
			}
		}
		if err == nil && complete {
			err = r.give(ctx, &a)
		}
		if err != nil {
			return r.failed(ctx, err)
		}
	}
	return nil
}

// give yields the requested entries of an append.
func (r *reading[T]) give(ctx context.Context, a *assembly) error {
	return a.records(&r.chain, func(rec []byte) error {
		if r.chain.Seq+1 < r.from {
			if _, err := r.chain.Record(rec); err != nil {
				return &chainError{err}
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v, err := r.decode(&r.chain, rec)
		if err != nil {
			return &chainError{err}
		}
		if !r.yield(v, nil) {
			return errEnough
		}
		return nil
	})
}

// failed returns the error that ended reading.
func (r *reading[T]) failed(ctx context.Context, err error) error {
	return r.log.explainRead(ctx, r.chain.Seq+1, err)
}

// explainRead returns the error that ended reading at entry seq, with advice.
func (l *Log) explainRead(ctx context.Context, seq uint64, err error) error {
	var wrong *chainError
	if _, kerr := l.known(); kerr != nil && !errors.Is(err, errEnough) {
		return kerr
	}
	switch {
	case errors.Is(err, errEnough):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &wrong):
		if err := l.isReplaced(ctx); err != nil {
			return err
		}
		return eventlog.DamageAt(l.path, seq, wrong.err)
	case errors.Is(err, errNoMessage):
		if first, trimmed := l.trimmedSince(ctx); trimmed && seq < first {
			return &eventlog.ArchivedError{Path: l.path, Seq: seq, First: first}
		}
		if err := l.isReplaced(ctx); err != nil {
			return err
		}
		return &eventlog.DamagedError{Path: l.path, Seq: seq, Err: err}
	}
	return err
}

// RecordHash implements eventlog.Log.
func (l *Log) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	to, err := l.known()
	switch {
	case err != nil:
		return [32]byte{}, err
	case seq > to.end.Seq && l.damage != nil:
		return [32]byte{}, l.damage
	case seq > to.end.Seq:
		return [32]byte{}, fmt.Errorf("%s: there is no entry %d: the last is %d", l.path, seq, to.end.Seq)
	case seq == to.end.Seq:
		return to.end.Hash, nil
	case seq == l.origin.Seq:
		return l.origin.Hash, nil
	}
	for r, err := range l.Records(ctx, seq) {
		return r.Hash, err
	}
	return [32]byte{}, eventlog.ErrClosed
}

// KnownTree implements eventlog.Log: it knows the trees in frames.
func (l *Log) KnownTree(ctx context.Context, size uint64) (merkle.Tree, error) {
	to, err := l.known()
	switch {
	case err != nil:
		return merkle.Tree{}, err
	case size < l.origin.Seq:
		return merkle.Tree{}, l.archived(size)
	case size == l.origin.Seq || to.end.Seq == l.origin.Seq:
		return l.origin.Tree.Clone(), nil
	}
	start, err := l.reads.find(ctx, min(size, to.end.Seq), to.tail)
	if err != nil {
		return merkle.Tree{}, l.explainRead(ctx, size, err)
	}
	f, err := l.reads.frameAt(ctx, start)
	if err == nil && f.tree == nil {
		f, err = l.reads.frameAt(ctx, f.treeAt)
	}
	if err == nil && (f.tree == nil || f.tree.Size > size) {
		err = &chainError{errors.New("the hash tree is not in the message that is said to have it")}
	}
	if err != nil {
		return merkle.Tree{}, l.explainRead(ctx, size, err)
	}
	return f.tree.Clone(), nil
}

// archived is the error for an entry before the log's origin.
func (l *Log) archived(seq uint64) error {
	return &eventlog.ArchivedError{Path: l.path, Seq: seq, First: l.First()}
}

// Follow implements eventlog.Log. A Log that was opened for reading shows the entries of any writer.
func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	if !l.readOnly {
		return eventlog.FollowMark(ctx, from, &l.mark, l.Records)
	}
	return func(yield func(eventlog.Record, error) bool) {
		if err := l.follow(ctx, max(from, 1), yield); !errors.Is(err, errEnough) {
			yield(eventlog.Record{}, err)
		}
	}
}

// follow yields records from entry from on, as replicas get them, until an error ends it.
func (l *Log) follow(ctx context.Context, from uint64, yield func(eventlog.Record, error) bool) error {
	to, err := l.known()
	if err != nil {
		return err
	}
	for r, err := range l.Records(ctx, from) {
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return errEnough
		}
	}
	r := reading[eventlog.Record]{
		log: l, from: from, decode: (*eventlog.Chain).Record, yield: yield, chain: to.end,
	}
	var a assembly
	var got []message
	var pauses backoff
	waiting, cancel := within(ctx, l.at.Patience)
	defer func() { cancel() }()
	idle, endIdle := within(ctx, lookAgain)
	defer func() { endIdle() }()
	for next := to.tail + 1; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		got, err = l.reads.some(ctx, pauses.answer(), next, next+rangeMessages-1, got[:0])
		if err == nil || len(got) > 0 {
			pauses.answers = 0
			cancel()
			waiting, cancel = within(ctx, l.at.Patience)
		}
		if fatal := l.endsFollowing(ctx, waiting, err); fatal != nil {
			return r.failed(ctx, fatal)
		}
		for _, m := range got {
			complete, err := a.take(m)
			if err != nil {
				err = &chainError{err}
			} else if complete {
				err = r.give(ctx, &a)
			}
			if err != nil {
				return r.failed(ctx, err)
			}
			next++
			pauses = backoff{}
		}
		over := idle.Err() != nil
		if over && len(got) == 0 {
			if err := l.isReplaced(ctx); err != nil {
				return r.failed(ctx, err)
			}
		}
		if over || len(got) > 0 {
			endIdle()
			idle, endIdle = within(ctx, lookAgain)
		}
		if len(got) == 0 {
			pauses.next = min(pauses.next, followPause/2)
			pauses.wait(ctx)
		}
	}
}

// lookAgain is the time without a message after which a follower checks whether the stream is still the same.
const lookAgain = 5 * time.Second

// isReplaced returns an error if the stream was made again. A follower would get nothing from the new one until it is
// as long as the old one, and then other entries. A reader would call these damaged. Readers find other faults, such
// as a missing stream, on their own.
func (l *Log) isReplaced(ctx context.Context) error {
	if info, err := l.reads.info(ctx); err == nil && !info.Created.Equal(l.created) {
		return l.madeAgain(fmt.Errorf("it was made on %s", info.Created))
	}
	return nil
}

// followPause is the longest time between two polls.
const followPause = 20 * firstPause / 4

// endsFollowing returns the error if it ends following. Other errors are waited out while patience lasts.
func (l *Log) endsFollowing(ctx, waiting context.Context, err error) error {
	var denied *deniedError
	_, closed := l.known()
	switch {
	case closed != nil:
		return closed
	case err == nil:
		return nil
	case errors.As(err, &denied), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, errNoMessage):
		return err
	case waiting.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%s: %w: this does not say that the log is damaged: see that the servers run, and that "+
			"the stream is there", l.path, err)
	}
	return nil
}
