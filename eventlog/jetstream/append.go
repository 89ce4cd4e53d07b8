package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The headers of a publish. An atomic batch has its identity and a number in each message, and the commit in its last.
const (
	headerExpected = "Nats-Expected-Last-Sequence"
	headerStream   = "Nats-Expected-Stream"
	headerBatch    = "Nats-Batch-Id"
	headerNumber   = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// conflictCodes mean that the stream's last sequence is not the expected one.
var conflictCodes = []jetstream.ErrorCode{
	jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant,
}

// refusals are answers that mean that no part of a publish was or will be stored, with the advice for each.
var refusals = map[jetstream.ErrorCode]string{
	10002: "raise the account's limits of JetStream, or make room in it",
	10023: "the servers lack room for JetStream: see their disks and their limits (max_file_store)",
	10047: "the servers lack room for JetStream: see their disks and their limits (max_file_store)",
	10054: "the stream's max_msg_size or the servers' max_payload was lowered: set it back, or open the log again",
	10109: "the stream was sealed: it takes no more entries; copy the log to another one (rollcall log copy)",
	10174: "set the stream's allow_atomic to true",
	10199: "set the servers' limit of a batch (jetstream limits, max_batch_size) to 1000 or more",
}

// Append implements eventlog.Log. If ctx ends before an answer has come, it gives up with an unknown outcome.
func (l *Log) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	if err := l.mayAppend(ctx, expectedLast); err != nil || len(entries) == 0 {
		return err
	}
	end, err := l.batch.Encode(l.end, entries, l.limit)
	if err != nil {
		return err
	}
	l.packed = appendLengths(l.packed[:0], &l.batch)
	p := &pending{attempt: eventlog.Attempt{Before: l.end, After: end}, tail: l.tail}
	if err := l.store(ctx, p); err != nil {
		return err
	}
	for _, hash := range l.batch.Hashes {
		l.tree.Add(hash)
	}
	if p.treeAt != l.treeAt {
		l.treeAt, l.treeSize = p.treeAt, l.end.Seq
	}
	l.mu.Lock()
	l.place = place{end, p.tail}
	l.mu.Unlock()
	l.mark.Raise(end.Seq)
	return nil
}

// mayAppend returns an error if nothing can be appended after entry expectedLast.
func (l *Log) mayAppend(ctx context.Context, expectedLast uint64) error {
	last, err := l.Last()
	switch {
	case err != nil:
		return err
	case l.readOnly:
		return eventlog.ErrReadOnly
	case l.superseded != nil:
		return l.superseded
	case l.unknown != nil:
		return eventlog.ErrUnknownOutcome
	case last != expectedLast:
		return &eventlog.ConflictError{Expected: expectedLast, Actual: last}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// A pending append is being made durable.
type pending struct {
	attempt eventlog.Attempt
	tail    uint64 // the stream's last message: what the publish expects, and, once it is stored, the append's last
	treeAt  uint64 // the last message with a tree, once it is stored
	sent    bool   // the outcome of some publish is not known
}

// store brings the batch to the stream. It publishes, and, while the outcome is not known, reads the messages after
// the log's end and publishes again if there are none. At most one attempt can succeed, for all of them expect the
// same last message.
func (l *Log) store(ctx context.Context, p *pending) error {
	waiting, cancel := within(ctx, l.writes.at.Patience)
	defer cancel()
	if n := l.writes.reconnects.Load(); n != l.seen { // the stream may have changed meanwhile
		if _, err := l.settle(ctx, waiting, p); err != nil {
			return l.giveUp(ctx, p, err)
		}
		l.seen = n
	}
	var pauses backoff
	for {
		parts := l.parts(p)
		err := l.publish(waiting, pauses.answer(), parts, p.tail)
		if err == nil {
			p.tail += uint64(len(parts))
			return nil
		}
		if refused := l.refused(err); refused != nil && !p.sent {
			return refused
		}
		p.sent = p.sent || !hasCode(err, conflictCodes...)
		stored, serr := l.settle(ctx, waiting, p)
		if stored {
			return nil
		}
		if serr != nil {
			return l.giveUp(ctx, p, fmt.Errorf("%w; then: %w", err, serr))
		}
		if !pauses.wait(waiting) {
			return l.giveUp(ctx, p, err)
		}
	}
}

// giveUp returns the error of an append that is not stored, as far as is known, because of err.
func (l *Log) giveUp(ctx context.Context, p *pending, err error) error {
	var superseded *eventlog.SupersededError
	var damaged *eventlog.DamagedError
	if errors.As(err, &superseded) {
		l.superseded = superseded
		return l.superseded
	}
	if errors.As(err, &damaged) {
		l.superseded = err
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	l.unknown = &p.attempt
	return &eventlog.UnknownOutcomeError{Path: l.path, First: p.attempt.Before.Seq + 1, Last: p.attempt.After.Seq,
		Err: err}
}

// refused returns the error for an answer that means that nothing was added; nil for others.
func (l *Log) refused(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		if advice := refusals[api.ErrorCode]; advice != "" {
			return fmt.Errorf("%s: the servers refuse to store it: %w: %s", l.path, err, advice)
		}
	}
	var denied *deniedError
	if errors.As(err, &denied) {
		return err
	}
	return nil
}

// parts returns the messages of the append, which follow message p.tail.
func (l *Log) parts(p *pending) [][]byte {
	n := (len(l.packed) + l.piece - 1) / l.piece
	f := frame{kind: kindAppend, parts: n, before: p.attempt.Before.Seq, last: p.attempt.After.Seq,
		hash: p.attempt.After.Hash, treeAt: l.treeAt}
	if f.before-l.treeSize >= treeEvery {
		f.treeAt, f.tree = p.tail+1, &l.tree
	}
	p.treeAt = f.treeAt
	out := make([][]byte, 0, n)
	for rest := l.packed; len(rest) > 0; {
		piece := rest[:min(len(rest), l.piece)]
		rest = rest[len(piece):]
		f.part++
		out = append(out, append(f.append(make([]byte, 0, frameMin+len(piece)+32*64)), piece...))
		f.tree = nil
	}
	return out
}

// sendingTime is the largest time needed to send a message of the largest size.
const sendingTime = time.Second

// publish publishes messages as one, after message expected. It waits for the answer for the time wait, and the time
// for sending.
func (l *Log) publish(ctx context.Context, wait time.Duration, parts [][]byte, expected uint64) error {
	wait += time.Duration(len(parts)-1) * sendingTime
	ctx, cancel := within(ctx, min(wait, l.writes.at.Patience))
	defer cancel()
	ctx, done := l.writes.asking(ctx, l.subject)
	defer done()
	nc := l.writes.nc
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	batch := strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix)
	for i, data := range parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m := nats.NewMsg(l.subject)
		m.Data = data
		if i == 0 {
			m.Header.Set(headerExpected, strconv.FormatUint(expected, 10))
			m.Header.Set(headerStream, l.at.Stream)
			m.Reply = inbox + ".first"
		}
		if len(parts) > 1 {
			m.Header.Set(headerBatch, batch)
			m.Header.Set(headerNumber, strconv.Itoa(i+1))
		}
		if i == len(parts)-1 {
			m.Reply = inbox + ".last"
			if len(parts) > 1 {
				m.Header.Set(headerCommit, "1")
			}
		}
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return l.await(ctx, sub, expected+uint64(len(parts)))
}

// await waits for the answer to a publish. Its last message should get the sequence last.
func (l *Log) await(ctx context.Context, sub *nats.Subscription, last uint64) error {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}
		if m.Header.Get("Status") == "503" {
			return nats.ErrNoResponders
		}
		if len(m.Data) == 0 { // only the first of several is acknowledged
			continue
		}
		var answer struct {
			Error  *jetstream.APIError `json:"error"`
			Stream string              `json:"stream"`
			Seq    uint64              `json:"seq"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return fmt.Errorf("the answer cannot be read: %w", err)
		}
		switch {
		case answer.Error != nil:
			return answer.Error
		case answer.Stream != l.at.Stream || answer.Seq != last:
			return fmt.Errorf("the answer names message %d of stream %q, want message %d", answer.Seq, answer.Stream,
				last)
		}
		return nil
	}
}

// settle reads the messages after the log's end, and reports whether they are the append. If they are neither the
// append nor parts of it, the error is a *SupersededError, or a *DamagedError if no log has written them. Parts of
// incomplete appends stay in place: the next attempt comes after them. waiting is the part of ctx for which patience
// lasts.
func (l *Log) settle(ctx, waiting context.Context, p *pending) (stored bool, err error) {
	var pauses backoff
	for {
		info, err := l.writes.info(waiting)
		var none *NoStreamError
		switch {
		case errors.As(err, &none):
			return false, l.madeAgain(err)
		case err != nil:
			return false, err
		case !info.Created.Equal(l.created):
			return false, l.madeAgain(fmt.Errorf("it was made on %s", info.Created))
		}
		if info.State.LastSeq >= l.tail {
			return l.compare(waiting, p, info.State.LastSeq)
		}
		if !pauses.wait(waiting) {
			return false, l.missing(ctx, info.State.LastSeq)
		}
	}
}

// missing is the error for a stream that was reported to end with message last, before the log's end, until patience
// ended. The report may come from a member that lags. It is damage only if the leader lacks the log's last message
// too: a leader that was cut off would have caught up by now.
func (l *Log) missing(ctx context.Context, last uint64) error {
	said := fmt.Errorf("the stream is said to end with message %d, and message %d was acknowledged", last, l.tail)
	if ctx.Err() != nil {
		return said
	}
	ctx, cancel := within(ctx, min(answerTime, l.writes.at.Patience))
	defer cancel()
	switch _, err := l.writes.get(ctx, l.tail); {
	case errors.Is(err, errNoMessage):
		return &eventlog.DamagedError{Path: l.path, Seq: l.end.Seq + 1,
			Err: fmt.Errorf("the stream ends with message %d, and message %d was acknowledged: entries are lost", last,
				l.tail)}
	case err != nil:
		return fmt.Errorf("%w; then: %w", said, err)
	}
	return said
}

// madeAgain is the error for a stream that is not the one that was opened.
func (l *Log) madeAgain(why error) error {
	return &eventlog.DamagedError{Path: l.path, Seq: l.end.Seq + 1,
		Err: &eventlog.MadeAgainError{Opened: l.created, Err: why}}
}

// compare determines whether the messages after l.tail, up to message last, are the append.
func (l *Log) compare(ctx context.Context, p *pending, last uint64) (stored bool, err error) {
	end := l.end
	if f, err := l.writes.frameAt(ctx, l.tail); err != nil {
		return false, l.explainOpen(ctx, end.Seq+1, err)
	} else if f.last != end.Seq || f.hash != end.Hash {
		return false, l.madeAgain(fmt.Errorf("message %d has entry %d and another hash", l.tail, f.last))
	}
	var a assembly
	for m, err := range l.writes.messages(ctx, l.tail+1, last) {
		if err != nil {
			return false, err
		}
		complete, err := a.take(m)
		if err != nil {
			return false, l.explainOpen(ctx, end.Seq+1, &chainError{err})
		}
		p.tail = m.seq
		if !complete {
			continue
		}
		if (eventlog.Chain{Seq: a.head.last, Hash: a.head.hash}) == p.attempt.After {
			if a.head.before != end.Seq || !bytes.Equal(a.body, l.packed) {
				return false, l.explainOpen(ctx, end.Seq+1, &chainError{fmt.Errorf("the append that ends with message "+
					"%d of the stream has the entries and the hash of the one that was made, and other bytes", m.seq)})
			}
			p.treeAt = a.head.treeAt
			return true, nil
		}
		return false, l.taken(ctx, last)
	}
	p.tail = last
	return false, nil
}

// taken is the error for entries that another writer has appended, up to message last.
func (l *Log) taken(ctx context.Context, last uint64) error {
	superseded := &eventlog.SupersededError{Expected: l.end.Seq}
	var a assembly
	for m, err := range l.writes.messages(ctx, l.tail+1, last) {
		if err != nil {
			return superseded
		}
		complete, err := a.take(m)
		if err != nil {
			return superseded
		}
		if !complete {
			continue
		}
		chain := eventlog.Chain{Seq: a.head.before}
		_ = a.records(&chain, func(rec []byte) error { // the rest stays unknown
			e, _, err := eventlog.DecodeRecord(rec)
			if err == nil {
				superseded.Actual, superseded.Epoch = e.Seq, e.Epoch
			}
			return err
		})
	}
	return superseded
}
