package eventlog

import (
	"iter"
)

// Log is a durable sequence of entries with one appender. Every implementation passes eventlog/logtest.
type Log interface {
	// Append adds entries behind expectedLast, the sequence number that the caller takes for the last one
	// (0 for an empty log); their Seq must be expectedLast+1 and on. All of them become durable or none
	// does. It returns when they are durable. If the log's last entry is another one, nothing is added and
	// the error is a *ConflictError; nor is anything added if an entry cannot stand in a log, an
	// *EntryError. After any other error the outcome is unknown: the log refuses further appends with
	// ErrUnknownOutcome until it is opened again and its last entry read.
	//
	// What stands in the log of an entry with an Encoding is that: an Upserted's payload is not looked at then, for others use
	// it meanwhile. The entries are the caller's again when Append has returned.
	Append(expectedLast uint64, entries []Entry) error
	// Read yields the entries from seq on (1 is the first), in order, up to what was last when the
	// iteration began. It may run while entries are appended. The first error ends it; damage is a
	// *DamagedError.
	Read(from uint64) iter.Seq2[Entry, error]
	// Last returns the last durable entry's sequence number, 0 if there is none.
	Last() (uint64, error)
	// Close releases the log. Later calls return ErrClosed.
	Close() error
}
