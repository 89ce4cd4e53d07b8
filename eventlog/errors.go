package eventlog

import (
	"errors"
	"fmt"
	"strings"
)

// ErrReadOnly is returned by Append on a log that was opened for reading.
var ErrReadOnly = errors.New("log is open for reading only")

var (
	// ErrInUse says that a log cannot be opened because of somebody else, another process or another Log of this one: it
	// is open for writing, or it is open for reading and was to be opened for writing. The error that wraps it says who.
	ErrInUse = errors.New("the log is in use")
	// ErrBeingRead is wrapped beside ErrInUse if nobody writes to the log, but someone reads it. Most readers need it
	// for a moment only: it can be tried again.
	ErrBeingRead = errors.New("it is being read")
)

// ErrClosed is returned by calls on a log after Close.
var ErrClosed = errors.New("log is closed")

// ErrUnknownOutcome is returned by Append after an earlier append failed in a way that leaves open whether
// its entries are durable. Open the log again and read its last entry.
var ErrUnknownOutcome = errors.New("an earlier append failed with unknown outcome: the log must be opened again")

// ConflictError says that another writer has appended: the log's last entry is not the expected one.
type ConflictError struct {
	Expected, Actual uint64
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("append conflict: expected the last entry to be %d, it is %d", e.Expected, e.Actual)
}

// DamagedError says that a log cannot be trusted from Seq on.
type DamagedError struct {
	// Path is the file, or "" for a log that has none.
	Path string
	// Seq is the first entry that is missing or wrong; entries before it were read without fault.
	Seq uint64
	// Err is what is wrong.
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("log damaged at entry %d: %v", e.Seq, e.Err)
	}
	return fmt.Sprintf("%s: log damaged at entry %d: %v", e.Path, e.Seq, e.Err)
}

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// ArchivedError says that an entry cannot be read because the log, as it can be read, begins later: what had the entry
// was moved away and is not found again, or the log was made from a part of another. The log is not damaged, unless
// what Err wraps says so of what was moved.
type ArchivedError struct {
	// Path is the log.
	Path string
	// Seq is the entry that was asked for, and First the first one that can be read.
	Seq, First uint64
	// Dirs are the directories where entries before First should be; none if the log never had them.
	Dirs []string
	// Err says why they are not found there; nil if there are no Dirs.
	Err error
}

// Error implements error.
func (e *ArchivedError) Error() string {
	if len(e.Dirs) == 0 {
		return fmt.Sprintf("%s: entry %d is not in this log, which begins with entry %d: it was made from a part of another",
			e.Path, e.Seq, e.First)
	}
	return fmt.Sprintf("%s: entry %d was archived in %s, and cannot be read from there (%v): "+
		"the first entry that can be read is %d", e.Path, e.Seq, strings.Join(e.Dirs, ", "), e.Err, e.First)
}

// Unwrap returns why.
func (e *ArchivedError) Unwrap() error { return e.Err }
