package eventlog

import (
	"context"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// Log is a durable sequence of entries, numbered from 1 with no gap, with one writer at a time. It is the contract
// between Rollcall and the storage of its log. Code that needs less of a log uses a smaller interface: Appender,
// Reader, RecordReader or Follower. Every implementation passes eventlog/logtest.
//
// The invariant: an entry that Append, Last, Read, Records or Follow has once reported is durable, and stays in its
// place with the same bytes, whatever fails. For example, when Append(ctx, 7, three entries) has returned nil, entries
// 8, 9 and 10 can be read from this Log and from every Log of the same place that is opened later. When it has failed
// with ErrUnknownOutcome, Reopen says whether the log has entries 8 to 10: either all of them, or none.
//
// A writer works like this:
//
//	err := log.Append(ctx, last, entries)
//	switch {
//	case err == nil:                               // durable: effects may be released
//	case errors.Is(err, eventlog.ErrUnknownOutcome):
//		log, found, err = log.Reopen(ctx)      // continue behind found.Last, from the state that the log has
//	case errors.As(err, new(*eventlog.SupersededError)):
//		return err                             // another writer has the log: stop permanently
//	default:
//		return err                             // nothing was added
//	}
//
// A Log is safe for concurrent use: entries may be read and followed while others are appended.
type Log interface {
	Appender
	Reader
	Follower
	// Reopen opens the log again, for the same use as this Log, and returns the last entry. It closes this Log, unless
	// it is closed already, and ignores errors of closing. After an error Reopen may be called again.
	//
	// A writer must call it after an append of unknown outcome. The log has either all entries of that append or none.
	// If it has other entries instead, the error is a *SupersededError. If entries before them are missing, it is a
	// *DamagedError. Over a network, an append that was not found may still arrive until another one has succeeded.
	// Then it fails, as superseded, and adds nothing.
	Reopen(ctx context.Context) (Log, Reopened, error)
	// Close releases the log. It waits for an Append that is under way, and ends every Follow. Later calls, except
	// Reopen and First, return ErrClosed.
	Close() error
}

// Appender adds entries to a log.
type Appender interface {
	// Append adds entries behind expectedLast, the number of the last entry as the caller knows it (0 for an empty log
	// that begins with entry 1). Their numbers must be expectedLast+1 and on, without a gap. Either all of them become
	// durable or none. It returns when they are durable. Without entries it only compares expectedLast.
	//
	// If the error is ErrUnknownOutcome (errors.Is), the entries may or may not be durable. An *UnknownOutcomeError
	// names them. Every later Append fails with ErrUnknownOutcome until the log is opened again (Reopen). With any
	// other error nothing was added:
	//
	//	*ConflictError    the last entry of this Log is not expectedLast: the caller has lost count
	//	*SupersededError  another writer has appended: this one must stop permanently; later Appends return it again
	//	*EntryError       no log can have the entry, or its number is wrong, or its record exceeds Limit().Record
	//	*LimitError       the batch exceeds Limit: the caller has to split it
	//	ErrReadOnly       the log was opened for reading
	//	ErrClosed         the log is closed
	//	ctx's cause       ctx had ended before anything was written
	//
	// When ctx ends while an append is being made durable, an implementation either continues and returns the outcome,
	// or returns ErrUnknownOutcome.
	//
	// For an entry with an Encoding, the log stores that. Append does not read the payload of an Upserted then, because
	// others use it meanwhile. The caller owns the entries again when Append has returned.
	Append(ctx context.Context, expectedLast uint64, entries []Entry) error
	// Limit returns the limit of one Append. It does not change while the log is open.
	Limit() Limit
}

// Reader reads a log.
type Reader interface {
	RecordReader
	// First returns the number of the first entry that can be read, or that an empty log will have. It is 1, unless
	// earlier entries were archived and are not found, or the log was made from a part of another.
	First() uint64
	// Last returns the number of the last durable entry that this Log knows, First()-1 if there is none. A Log for
	// appending knows the last entry that it has appended or found when it was opened. A Log for reading knows the last
	// entry of the time when it was opened. Last does not wait.
	Last() (uint64, error)
	// Read yields the entries from entry from on (0 means 1), in order, up to the entry that was Last when the
	// iteration began. It may run while entries are appended, also by the loop's own body. The first error ends it,
	// after the good entries before it. Damage is a *DamagedError, an entry before First an *ArchivedError. When ctx
	// has ended, no further entry is yielded and the error is ctx's cause. An entry shares nothing with others or with
	// the log.
	Read(ctx context.Context, from uint64) iter.Seq2[Entry, error]
}

// RecordReader reads a log as records, with the proofs that they were not changed: the chain of their hashes and the
// tree over them. OriginAt and TreeAt compute the rest of an Origin from it.
type RecordReader interface {
	// Records is Read without decoding the entries, which takes a half or a third of the time. A payload that cannot be
	// decoded is no error here. A record that does not follow the one before it, by its number or by the hash that it
	// carries, is a *DamagedError.
	Records(ctx context.Context, from uint64) iter.Seq2[Record, error]
	// RecordHash returns the hash of entry seq's record (HashRecord), zeros for entry 0. It also knows the hash of the
	// entry before First. It does not check the record itself: Records does. It returns the errors of Records, and an
	// error if there is no such entry.
	RecordHash(ctx context.Context, seq uint64) ([32]byte, error)
	// KnownTree returns the largest hash tree, over at most size entries, that it can return without reading entries. A
	// log that begins with entry 1 always knows the empty tree. If it knows none, the error is an *ArchivedError. The
	// tree shares nothing with the log.
	KnownTree(ctx context.Context, size uint64) (merkle.Tree, error)
}

// Follower yields the entries of a log as they become durable.
type Follower interface {
	// Follow yields the records from entry from on (0 means 1), and then waits for further ones. It yields each record
	// as soon as it is durable, in order, without a gap and none twice. It ends with ctx's cause when ctx ends, and
	// with ErrClosed when the log is closed. It yields no record that is not durable. Entries decodes the records.
	//
	// For example, Follow(ctx, 8) of a log of 10 entries yields 8, 9 and 10 and then waits for 11. A slow follower
	// delays nobody: it reads from the log the entries that were appended meanwhile.
	//
	// A log that was opened for reading may not see the entries that its writer appends. Then Follow ends with
	// ErrNotFollowed behind the last entry that it can see. It also returns the errors of Records.
	Follow(ctx context.Context, from uint64) iter.Seq2[Record, error]
}

// Reopened is the result of Reopen.
type Reopened struct {
	// Expected is the last entry that the Log before knew to be durable.
	Expected uint64
	// Last is the log's last entry now. In a log for appending it is Expected, or the last entry of the append of
	// unknown outcome.
	Last uint64
}

// Persisted reports whether the entries of the append of unknown outcome are durable.
func (r Reopened) Persisted() bool { return r.Last > r.Expected }

// An Attempt is an append of unknown outcome. A Log must remember it to be reopened.
type Attempt struct {
	// Before is the log's end before the append, After its end if the append succeeded.
	Before, After Chain
}

// Find looks for the attempt's entries in a log that was opened again. It returns the errors of Log.Reopen.
//
// For example, after an attempt to append entries 8 to 10: a log whose last entry is 7, with the known hash, has none
// of them. A log whose last entry is 10, with the expected hash, has all. To any other log, another writer has
// appended.
func (a Attempt) Find(ctx context.Context, log Reader) (Reopened, error) {
	last, err := log.Last()
	if err != nil {
		return Reopened{}, err
	}
	found := Reopened{Expected: a.Before.Seq, Last: last}
	if last < a.Before.Seq {
		return found, &DamagedError{Seq: last + 1, Err: lostError{a.Before.Seq}}
	}
	hash, err := log.RecordHash(ctx, last)
	if err != nil {
		return found, err
	}
	if end := (Chain{Seq: last, Hash: hash}); end == a.Before || end == a.After {
		return found, nil
	}
	epoch, err := epochOf(ctx, log, last)
	if err != nil {
		return found, err
	}
	return found, &SupersededError{Expected: a.Before.Seq, Actual: last, Epoch: epoch}
}

// epochOf returns the epoch of an entry.
func epochOf(ctx context.Context, log Reader, seq uint64) (uint64, error) {
	for e, err := range log.Read(ctx, seq) {
		return e.Epoch, err
	}
	return 0, nil
}
