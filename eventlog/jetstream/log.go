package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// A Log is a log in a stream. It is safe for concurrent use: entries may be read while others are appended.
type Log struct {
	at       *Address
	path     string // the address without secrets
	readOnly bool
	reads    *conn
	writes   *conn // nil if the log is only read
	subject  string
	created  time.Time // the stream's
	replicas int       // number of servers that keep the stream
	bucket   *Bucket   // beside the stream
	limit    eventlog.Limit
	piece    int             // largest number of bytes of records in one message
	origin   eventlog.Origin // the place that the first entry follows
	identity string          // of a log whose first record was removed; else "", see Identity
	damage   error           // the error at the end of reading; nil for a whole log
	behind   error           // the reason why the stream may have had more when the log was opened

	// held by Append and Close; guards the next fields, and writes of the fields that mu guards
	appending  sync.Mutex
	treeAt     uint64            // the last message with a tree
	treeSize   uint64            // and that tree's
	tree       merkle.Tree       // over all entries
	unknown    *eventlog.Attempt // the append that has failed with unknown outcome
	superseded error             // another writer has appended, or the stream was replaced
	batch      eventlog.Batch    // scratch of Append
	packed     []byte            // scratch of Append
	seen       uint64            // reconnects of writes after which the stream's end was checked

	mark eventlog.Mark // of the last durable entry, until Close

	mu sync.Mutex // never held while waiting for an answer
	place
	closed bool
}

var _ eventlog.Log = (*Log)(nil)

const (
	// mostBytes is the largest size of one Append: a reader has to hold a whole append before it yields any of it.
	mostBytes = 32 << 20
	// mostPiece is the largest size of a message in bytes, even if the servers allow more.
	mostPiece = 1 << 20
	// leastPayload is the smallest max_payload of servers with which a log can be kept: a record fits in a batch.
	leastPayload = 64 << 10
	// headerRoom is the largest size of a publish's headers.
	headerRoom = 1 << 10
	// treeEvery is the number of entries between two frames with the tree.
	treeEvery = 4096
)

// Create makes a log, which begins after origin, in a stream that does not exist or is empty. The error wraps
// fs.ErrExist if there is a log.
func (a *Address) Create(ctx context.Context, origin eventlog.Origin) (*Log, error) {
	if err := origin.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", a, err)
	}
	l, info, err := a.connect(ctx, false, true)
	if err != nil {
		return nil, err
	}
	if info.State.LastSeq > 0 {
		l.disconnect()
		return nil, fmt.Errorf("%s: there is a log already: %w", a, fs.ErrExist)
	}
	l.origin = origin.Clone()
	first := frame{kind: kindOrigin, part: 1, parts: 1, before: origin.Seq, last: origin.Seq, hash: origin.Hash,
		treeAt: 1, tree: &l.origin.Tree}
	if err := l.begin(ctx, first.append(nil)); err != nil {
		l.disconnect()
		return nil, err
	}
	l.treeAt, l.treeSize, l.tree = 1, origin.Seq, origin.Tree.Clone()
	l.place = place{origin.End(), 1}
	l.mark.Raise(origin.Seq)
	return l, nil
}

// begin publishes the stream's first message, and repeats that while the stream is empty and patience lasts: a new
// stream may have no leader yet. At most one attempt can succeed, for all of them expect an empty stream.
func (l *Log) begin(ctx context.Context, first []byte) error {
	waiting, cancel := within(ctx, l.writes.at.Patience)
	defer cancel()
	var pauses backoff
	for sent := false; ; { // sent: the outcome of some attempt is not known
		err := l.publish(waiting, pauses.answer(), [][]byte{first}, 0)
		if err == nil {
			return nil
		}
		conflict := hasCode(err, conflictCodes...)
		sent = sent || !conflict && !errors.Is(err, nats.ErrNoResponders)
		m, gerr := l.writes.get(waiting, 1)
		refused := l.refused(err)
		switch {
		// this may also come from another creator with the same origin
		case gerr == nil && sent && string(m.data) == string(first):
			return nil
		case gerr == nil:
			return fmt.Errorf("%s: there is a log already: %w", l.path, fs.ErrExist)
		case refused != nil:
			return refused
		case !errors.Is(gerr, errNoMessage) || !pauses.wait(waiting):
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s: begin the log: %w; then: %w: see that the servers run and reach one another", l.path,
				err, gerr)
		}
	}
}

// Open opens a log for appending. The error wraps fs.ErrNotExist if there is none, and ErrNoMajority if appends are
// impossible for now. The first append supersedes the process that has it open for appending.
func (a *Address) Open(ctx context.Context) (*Log, error) { return a.open(ctx, false) }

// OpenReadOnly opens a log for reading. A damaged log can be read up to the damage. Behind says whether entries may be
// missing at its end.
func (a *Address) OpenReadOnly(ctx context.Context) (*Log, error) { return a.open(ctx, true) }

func (a *Address) open(ctx context.Context, readOnly bool) (*Log, error) {
	l, info, err := a.connect(ctx, readOnly, false)
	if err != nil {
		return nil, err
	}
	if err := l.load(ctx, info); err != nil {
		l.disconnect()
		return nil, err
	}
	return l, nil
}

// connect connects to the servers and checks the stream. With create it makes the stream if there is none.
func (a *Address) connect(ctx context.Context, readOnly, create bool) (*Log, *jetstream.StreamInfo, error) {
	l := &Log{at: a, path: a.String(), readOnly: readOnly}
	l.bucket = &Bucket{log: l, name: BucketOf(a.Stream)}
	info, err := l.meet(ctx, create)
	if err != nil {
		l.disconnect()
		return nil, nil, err
	}
	return l, info, nil
}

func (l *Log) meet(ctx context.Context, create bool) (info *jetstream.StreamInfo, err error) {
	if l.reads, err = l.at.dial("reads"); err != nil {
		return nil, err
	}
	if !l.readOnly {
		if l.writes, err = l.at.dial("writes"); err != nil {
			return nil, err
		}
	}
	most := leaderTime
	if !l.readOnly { // appends are impossible before there is one
		most = l.at.Patience
	}
	info, l.behind, err = l.reads.newest(ctx, most)
	if errors.Is(err, fs.ErrNotExist) && create {
		info, err = l.writes.create(ctx)
		if hasCode(err, jetstream.JSErrCodeStreamNameInUse) { // another client was first
			info, l.behind, err = l.reads.newest(ctx, most)
		}
	}
	if err == nil && l.behind != nil && !l.readOnly {
		err = l.behind
	}
	if err != nil {
		return nil, err
	}
	l.reads.anyone = l.behind != nil
	if err := l.at.checkStream(&info.Config, !l.readOnly); err != nil {
		return nil, err
	}
	l.subject, l.created, l.replicas = info.Config.Subjects[0], info.Created, info.Config.Replicas
	return info, l.setLimit(&info.Config)
}

// setLimit finds the largest size of one append.
func (l *Log) setLimit(c *jetstream.StreamConfig) error {
	payload, setting := l.reads.nc.MaxPayload(), "max_payload (of the servers)"
	if c.MaxMsgSize > 0 && int64(c.MaxMsgSize) < payload {
		payload, setting = int64(c.MaxMsgSize), "max_msg_size"
	}
	if payload < leastPayload {
		return &SettingError{Path: l.path, Setting: setting, Has: fmt.Sprint(payload),
			Want: fmt.Sprint(leastPayload) + " or more"}
	}
	l.piece = int(min(payload, mostPiece)) - frameMax - headerRoom
	l.limit = eventlog.WideLimit
	l.limit.Bytes = min(mostBytes, l.piece*maxParts)
	l.limit.Record = min(eventlog.MaxRecord, l.limit.Bytes)
	return nil
}

// load finds the log's beginning and end.
func (l *Log) load(ctx context.Context, info *jetstream.StreamInfo) error {
	tail := info.State.LastSeq
	switch {
	case tail == 0:
		return &NoStreamError{Path: l.path, Empty: true}
	case info.State.FirstSeq != 1:
		if err := l.loadTrimmed(ctx, info); err != nil {
			return err
		}
	default:
		if err := l.loadOrigin(ctx); err != nil {
			return err
		}
	}
	if err := l.loadEnd(ctx, tail); err != nil {
		return err
	}
	l.mark.Raise(l.end.Seq)
	if l.readOnly {
		return nil
	}
	l.seen = l.writes.reconnects.Load()
	return l.loadTree(ctx)
}

// loadOrigin finds the beginning of a log in the first message of its stream.
func (l *Log) loadOrigin(ctx context.Context) error {
	first, err := l.reads.frameAt(ctx, 1)
	if err != nil {
		return l.explainOpen(ctx, 1, err)
	}
	if first.tree == nil {
		return &eventlog.DamagedError{Path: l.path, Seq: 1,
			Err: errors.New("the stream's first message has no hash tree")}
	}
	l.origin = eventlog.Origin{Seq: first.before, Hash: first.hash, Tree: *first.tree}
	if err := l.origin.Check(); err != nil {
		return &eventlog.DamagedError{Path: l.path, Seq: 1, Err: err}
	}
	return nil
}

// loadEnd finds the last complete append, from message tail backwards. A log for reading ends before a message that is
// not its own.
func (l *Log) loadEnd(ctx context.Context, tail uint64) error {
	for at := tail; at > l.reads.first(); {
		f, err := l.reads.frameAt(ctx, at)
		switch {
		case err != nil:
			err = l.explainOpen(ctx, 0, err)
			if !l.readOnly || !errors.As(err, new(*eventlog.DamagedError)) {
				return err
			}
			l.damage = err
			at--
		case f.part < f.parts:
			at -= uint64(f.part)
		default:
			return l.loadLast(ctx, at-uint64(f.part)+1, at, f.treeAt)
		}
	}
	l.place, l.treeAt = place{l.origin.End(), l.reads.first()}, l.reads.first()
	l.placeDamage()
	return nil
}

// loadLast reads the last append, which checks it.
func (l *Log) loadLast(ctx context.Context, start, at, treeAt uint64) error {
	first, err := l.reads.frameAt(ctx, start)
	if err != nil {
		return l.explainOpen(ctx, 0, err)
	}
	chain, err := l.reads.before(ctx, start, first.before)
	if err != nil {
		return l.explainOpen(ctx, first.before+1, err)
	}
	var a assembly
	for m, err := range l.reads.messages(ctx, start, at) {
		complete := false
		if err == nil {
			if complete, err = a.take(m); err != nil {
				err = &chainError{err}
			}
		}
		if err == nil && complete {
			err = a.records(&chain, func(rec []byte) error {
				_, err := chain.Record(rec)
				if err != nil {
					return &chainError{err}
				}
				return nil
			})
		}
		if err != nil {
			return l.explainOpen(ctx, chain.Seq+1, err)
		}
	}
	l.place, l.treeAt = place{chain, at}, treeAt
	l.placeDamage()
	return nil
}

// placeDamage turns a fault after the log's end into damage of the entry there.
func (l *Log) placeDamage() {
	var damage *eventlog.DamagedError
	if errors.As(l.damage, &damage) {
		l.damage = &eventlog.DamagedError{Path: l.path, Seq: l.end.Seq + 1, Err: damage.Err}
	}
}

// explainOpen is explainRead with advice for a log to which another program has published.
func (l *Log) explainOpen(ctx context.Context, seq uint64, err error) error {
	if errors.Is(err, errForeign) {
		err = &chainError{fmt.Errorf("%w; the stream keeps it for good: copy the log up to there to a new stream "+
			"(rollcall log copy --up-to), and let nobody else publish to %s", err, l.subject)}
	}
	return l.explainRead(ctx, seq, err)
}

// loadTree makes the tree over all entries, from the last tree in a frame and the records since.
func (l *Log) loadTree(ctx context.Context) error {
	f, err := l.reads.frameAt(ctx, l.treeAt)
	if err != nil {
		return l.explainOpen(ctx, 0, err)
	}
	if f.tree == nil {
		return &eventlog.DamagedError{Path: l.path, Seq: l.end.Seq + 1,
			Err: fmt.Errorf("message %d of the stream has no hash tree", l.treeAt)}
	}
	l.tree, l.treeSize = f.tree.Clone(), f.tree.Size
	if l.treeSize == l.end.Seq {
		return nil
	}
	for r, err := range l.Records(ctx, l.treeSize+1) {
		if err != nil {
			return err
		}
		l.tree.Add(r.Hash)
	}
	return nil
}

// Path returns the log's address, without its secrets.
func (l *Log) Path() string { return l.path }

// Replicas returns the number of servers that kept the log's stream when the log was opened.
func (l *Log) Replicas() int { return l.replicas }

// Behind returns the reason why the stream may have acknowledged entries that the log was opened without. The error
// wraps ErrNoMajority; nil if it has none.
func (l *Log) Behind() error { return l.behind }

// Size returns the number of the stream's messages, and their size in bytes on one server.
func (l *Log) Size(ctx context.Context) (messages, bytes uint64, err error) {
	info, err := l.reads.info(ctx)
	if err != nil {
		return 0, 0, err
	}
	return info.State.Msgs, info.State.Bytes, nil
}

// Limit implements eventlog.Log.
func (l *Log) Limit() eventlog.Limit { return l.limit }

// First implements eventlog.Log.
func (l *Log) First() uint64 { return l.origin.Seq + 1 }

// Last implements eventlog.Log.
func (l *Log) Last() (uint64, error) {
	at, err := l.known()
	return at.end.Seq, err
}

// Close implements eventlog.Log.
func (l *Log) Close() error {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return eventlog.ErrClosed
	}
	l.mark.End(eventlog.ErrClosed)
	l.disconnect()
	l.batch, l.packed = eventlog.Batch{}, nil
	return nil
}

func (l *Log) disconnect() {
	l.reads.close()
	l.writes.close()
	l.bucket.close()
}

// Reopen implements eventlog.Log.
func (l *Log) Reopen(ctx context.Context) (eventlog.Log, eventlog.Reopened, error) {
	again, found, err := l.reopen(ctx)
	if err != nil {
		return nil, found, fmt.Errorf("reopen log %s: %w", l.path, err)
	}
	return again, found, nil
}

func (l *Log) reopen(ctx context.Context) (*Log, eventlog.Reopened, error) {
	if ctx.Err() != nil {
		return nil, eventlog.Reopened{}, context.Cause(ctx)
	}
	_ = l.Close() // it may have been closed before
	l.appending.Lock()
	defer l.appending.Unlock()
	waiting, cancel := within(ctx, l.at.Patience)
	defer cancel()
	var pauses backoff
	for {
		again, found, err := l.tryReopen(ctx)
		// A leader that was cut off may not know yet which entries the others acknowledged.
		lags := errors.As(err, new(*eventlog.DamagedError)) && found.Last < l.end.Seq
		if !lags || !pauses.wait(waiting) {
			return again, found, err
		}
	}
}

func (l *Log) tryReopen(ctx context.Context) (*Log, eventlog.Reopened, error) {
	again, err := l.at.open(ctx, l.readOnly)
	if err != nil {
		return nil, eventlog.Reopened{Last: l.end.Seq}, err
	}
	if l.readOnly {
		return again, eventlog.Reopened{Expected: l.end.Seq, Last: again.end.Seq}, nil
	}
	attempt := eventlog.Attempt{Before: l.end, After: l.end}
	if l.unknown != nil {
		attempt = *l.unknown
	}
	found, err := attempt.Find(ctx, again)
	if err != nil {
		return nil, found, errors.Join(err, again.Close())
	}
	return again, found, nil
}
