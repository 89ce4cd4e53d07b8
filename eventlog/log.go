package eventlog

import (
	"context"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// Log is a durable sequence of entries, numbered from 1 with no gap, with one writer at a time. It is the contract
// between Rollcall and what keeps its log. Whoever needs less of a log takes a smaller interface: Appender, Reader,
// RecordReader or Follower. Every implementation passes eventlog/logtest.
//
// The invariant: an entry that Append, Last, Read, Records or Follow has once reported is durable, and stays in its
// place with the same bytes, whatever fails. For example, when Append(ctx, 7, three entries) has returned nil, entries
// 8, 9 and 10 are read from this Log and from every Log of the same place that is opened later. When it has failed with
// ErrUnknownOutcome, Reopen says whether entries 8 to 10 stand there: all of them do, or none.
//
// A writer works like this:
//
//	err := log.Append(ctx, last, entries)
//	switch {
//	case err == nil:                               // durable: effects may be released
//	case errors.Is(err, eventlog.ErrUnknownOutcome):
//		log, found, err = log.Reopen(ctx)      // found.Last: go on behind it, from the state that the log has
//	case errors.As(err, new(*eventlog.SupersededError)):
//		return err                             // another writer has the log: stop for good
//	default:
//		return err                             // nothing was added
//	}
//
// A Log is safe for concurrent use: entries may be read and followed while others are appended.
type Log interface {
	Appender
	Reader
	Follower
	// Reopen opens the log again, for what this Log was opened for, and says what it found there. This Log is closed by
	// it, unless it was closed before; of an error of closing nothing is said. After an error Reopen may be called
	// again.
	//
	// It is the way on after an append of unknown outcome. The entries of that append stand in the log, all of them, or
	// none does; if anything else stands there the error is a *SupersededError, and if entries before them are missing
	// it is a *DamagedError. Where the log is reached over a network an append that was not found may still arrive
	// until another one has succeeded: then that one fails, as superseded, and adds nothing.
	Reopen(ctx context.Context) (Log, Reopened, error)
	// Close releases the log. It waits for an Append that is under way, and ends every Follow. Later calls, but for
	// Reopen and First, return ErrClosed.
	Close() error
}

// Appender is what adds entries to a log.
type Appender interface {
	// Append adds entries behind expectedLast, the number of the entry that the caller takes for the last one (0 for an
	// empty log that begins with entry 1). Their numbers must be expectedLast+1 and on, without a gap. All of them
	// become durable or none does. It returns when they are durable; without entries it only compares expectedLast.
	//
	// If it returns an error that is ErrUnknownOutcome (errors.Is), an *UnknownOutcomeError says of which entries it is
	// not known whether they are durable, and every later Append fails with ErrUnknownOutcome until the log is opened
	// again (Reopen). With any other error nothing was added:
	//
	//	*ConflictError    the last entry of this Log is not expectedLast: the caller has lost count
	//	*SupersededError  another writer has appended: this one must stop for good; every later Append says so again
	//	*EntryError       an entry cannot stand in a log, or its number is wrong, or its record exceeds Limit().Record
	//	*LimitError       the batch exceeds Limit: the caller has to split it
	//	ErrReadOnly       the log was opened for reading
	//	ErrClosed         the log is closed
	//	ctx's cause       ctx had ended before anything was written
	//
	// When ctx ends while an append is being made durable, an implementation goes on and tells what became of it, or
	// gives up with ErrUnknownOutcome.
	//
	// What stands in the log of an entry with an Encoding is that: an Upserted's payload is not looked at then, for
	// others use it meanwhile. The entries are the caller's again when Append has returned.
	Append(ctx context.Context, expectedLast uint64, entries []Entry) error
	// Limit returns how much one Append takes. It does not change as long as the log is open.
	Limit() Limit
}

// Reader reads a log.
type Reader interface {
	RecordReader
	// First returns the number of the first entry that can be read, or, in an empty log, that it will have: 1 unless
	// earlier entries were archived and are not found again, or the log was made from a part of another.
	First() uint64
	// Last returns the number of the last durable entry that this Log knows of, First()-1 if there is none: of a log
	// that is appended to, the last that it has appended or found when it was opened; of a log that was opened for
	// reading, the last one at that time. It does not wait.
	Last() (uint64, error)
	// Read yields the entries from entry from on (0 means 1), in order, up to what was Last when the iteration began.
	// It may run while entries are appended, also by the loop's own body. The first error ends it, after what was good
	// before it: damage is a *DamagedError, an entry before First an *ArchivedError, and when ctx has ended no entry is
	// yielded any more and the error is ctx's cause. An entry shares nothing with others or with the log.
	Read(ctx context.Context, from uint64) iter.Seq2[Entry, error]
}

// RecordReader reads a log as records, with what proves that they were not changed: the chain of their hashes and the
// tree over them. OriginAt and TreeAt make of it what else is to be known of a place in a log.
type RecordReader interface {
	// Records is Read without decoding the entries, which takes a half or a third of the time. A payload that cannot be
	// decoded is no error here; that a record is not the one that follows, by its number or by the hash that it
	// carries, is a *DamagedError.
	Records(ctx context.Context, from uint64) iter.Seq2[Record, error]
	// RecordHash returns the hash of entry seq's record (HashRecord), zeros for entry 0. The place before First is
	// known, too. Of the record itself nothing is checked: Records does that. Errors are those of Records, and that
	// there is no such entry.
	RecordHash(ctx context.Context, seq uint64) ([32]byte, error)
	// KnownTree returns the hash tree over as many entries as it is known of without reading entries, size of them at
	// the most. The empty tree is always known in a log that begins with entry 1; an *ArchivedError says that none is.
	// The tree shares nothing with the log.
	KnownTree(ctx context.Context, size uint64) (merkle.Tree, error)
}

// Follower tells what becomes durable in a log.
type Follower interface {
	// Follow yields the records from entry from on (0 means 1), and goes on: each as soon as it is durable, in order,
	// without a gap and none twice, until ctx ends, with ctx's cause, or the log is closed, with ErrClosed. It yields
	// nothing that is not durable. Entries makes entries of records.
	//
	// For example, Follow(ctx, 8) of a log of 10 entries yields 8, 9 and 10 and then waits for 11. A follower that is
	// slow holds up nobody: it reads from the log what has come meanwhile.
	//
	// A log that was opened for reading may not see what its writer appends: it ends with ErrNotFollowed behind the
	// last entry that it can see. Other errors are those of Records.
	Follow(ctx context.Context, from uint64) iter.Seq2[Record, error]
}

// Reopened is what Reopen has found.
type Reopened struct {
	// Expected is the last entry that the Log before had known to be durable.
	Expected uint64
	// Last is the log's last entry now. Of a log that is appended to it is Expected, or the last entry of the append
	// whose outcome was not known.
	Last uint64
}

// Persisted reports whether the entries of the append whose outcome was not known are durable.
func (r Reopened) Persisted() bool { return r.Last > r.Expected }

// An Attempt is an append whose outcome is not known: what a Log must remember of it to be reopened.
type Attempt struct {
	// Before is the log's end before the append, After the end that it was to have.
	Before, After Chain
}

// Find says what became of the attempt in a log that was opened again. Errors are those of Log.Reopen.
//
// For example, of an attempt to append entries 8 to 10: a log whose last entry is 7, with the record that was known,
// has none of them; one whose last entry is 10, with the hash that was to be, has all; in any other log, somebody
// else has written.
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
