package eventlog

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrReadOnly is returned by Append on a log that was opened for reading.
var ErrReadOnly = errors.New("log is open for reading only")

var (
	// ErrInUse says that a log cannot be opened because another process, or another Log of this one, has it open: for
	// writing, or for reading while this one wants to write. The error that wraps it says who.
	ErrInUse = errors.New("the log is in use")
	// ErrBeingRead is wrapped beside ErrInUse if the log has a reader and no writer. Most readers need it for a moment
	// only, so that another attempt makes sense.
	ErrBeingRead = errors.New("it is being read")
)

// ErrClosed is returned by calls on a log after Close.
var ErrClosed = errors.New("log is closed")

// ErrNotFollowed says that this Log cannot follow the log any further: the writer may append entries that this Log does
// not see. The error that wraps it says what to do instead.
var ErrNotFollowed = errors.New("what is appended from now on cannot be followed here")

// ErrUnknownOutcome says that the entries of an append may or may not be durable. The append itself returns an
// *UnknownOutcomeError, and every later append fails with ErrUnknownOutcome. Reopen the log.
var ErrUnknownOutcome = errors.New("an earlier append failed with unknown outcome: the log must be opened again")

// UnknownOutcomeError says that an append failed while its entries were being made durable. It is ErrUnknownOutcome.
type UnknownOutcomeError struct {
	// Path is the log's path, or "" for a log without one.
	Path string
	// First and Last are the entries' numbers.
	First, Last uint64
	// Err says why the append failed.
	Err error
}

// Error implements error.
func (e *UnknownOutcomeError) Error() string {
	text := fmt.Sprintf("append entries %d to %d, outcome unknown: %v", e.First, e.Last, e.Err)
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	return text
}

// Is reports whether target is ErrUnknownOutcome.
func (e *UnknownOutcomeError) Is(target error) bool { return target == ErrUnknownOutcome }

// Unwrap returns Err.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// ConflictError says that the last entry of the Log is not the expected one: the caller has lost count of its appends.
// If another writer has appended, the error is a *SupersededError.
type ConflictError struct {
	Expected, Actual uint64
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("append conflict: expected the last entry to be %d, it is %d", e.Expected, e.Actual)
}

// DisplacedError says that the files that a writer has open are no longer at the log's path: its directory or its live
// segment was moved away, removed or replaced. Nothing was appended. All entries up to Last are durable in the files
// that the writer has open.
type DisplacedError struct {
	Path string
	// Last is the last durable entry.
	Last uint64
	Err  error
}

// Error implements error.
func (e *DisplacedError) Error() string {
	return fmt.Sprintf("log %s: %v while it was written to: nothing is appended any more; bring the files back, which "+
		"have all entries up to %d, or go on with the log where they are now", e.Path, e.Err, e.Last)
}

// Unwrap returns Err.
func (e *DisplacedError) Unwrap() error { return e.Err }

// SupersededError says that another writer has appended to the log: the entries behind the last one that this writer
// appended or found are not its own. It has lost the log, and must stop permanently: its later decisions are not in the
// log and never will be.
//
// For example, a scheduler that was cut off for a minute finds that another one has appended EpochStarted of epoch 5
// behind the last entry of its own epoch 4.
type SupersededError struct {
	// Expected is the last entry as the writer left it. Actual is the last one that was found, 0 if it is not known:
	// the other writer continues where this one does not read.
	Expected, Actual uint64
	// Epoch is the epoch of entry Actual, 0 if it is not known.
	Epoch uint64
}

// Error implements error.
func (e *SupersededError) Error() string {
	text := fmt.Sprintf("superseded by another writer: the log's last entry was %d, and another has appended behind it",
		e.Expected)
	if e.Actual != 0 {
		text += fmt.Sprintf(", up to entry %d", e.Actual)
	}
	if e.Epoch != 0 {
		text += fmt.Sprintf(", in epoch %d", e.Epoch)
	}
	return text
}

// LimitError says that a batch exceeds the limit of one Append. Nothing was added; the caller has to split it.
type LimitError struct {
	// Limit is the log's limit.
	Limit Limit
	// Entries is the number of entries in the batch. Bytes is the size of their records, as far as they were counted.
	Entries, Bytes int
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Entries > e.Limit.Entries {
		return fmt.Sprintf("a batch of %d entries: the log takes %d at once", e.Entries, e.Limit.Entries)
	}
	return fmt.Sprintf("a batch of %d entries with %d bytes: the log takes %d bytes at once",
		e.Entries, e.Bytes, e.Limit.Bytes)
}

// lostError says that entries up to this one were durable.
type lostError struct{ seq uint64 }

// Error implements error.
func (e lostError) Error() string {
	return fmt.Sprintf("entries up to %d were durable when the log was open before", e.seq)
}

// DamagedError says that a log cannot be trusted from Seq on.
type DamagedError struct {
	// Path is the file, or "" for a log that has none.
	Path string
	// Seq is the first entry that is missing or wrong; entries before it were read without fault.
	Seq uint64
	// Err says what is missing or wrong.
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("log damaged at entry %d: %v", e.Seq, e.Err)
	}
	return fmt.Sprintf("%s: log damaged at entry %d: %v", e.Path, e.Seq, e.Err)
}

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// UnreadableError says that the system could not read a file of a log. The content is unknown: neither damaged nor
// absent. Nothing may be given up or cut because of it.
type UnreadableError struct {
	// Path is the file.
	Path string
	// Seq is the first entry that was not read, 0 if it is not known.
	Seq uint64
	// Err is the system's error.
	Err error
}

// Error implements error.
func (e *UnreadableError) Error() string {
	at := ""
	if e.Seq > 0 {
		at = fmt.Sprintf(" from entry %d on", e.Seq)
	}
	return fmt.Sprintf("%s: could not be read%s: %v: this does not say that the log is damaged: see that the disk is "+
		"in order and try again, or read another copy; do not cut the log here", e.Path, at, e.Err)
}

// Unwrap returns the system's error.
func (e *UnreadableError) Unwrap() error { return e.Err }

// LastPrerelease is the commit of Rollcall that reads what was written before the first release: formats 1 to 9 of
// entries, and behaviours 1 to 9.
const LastPrerelease = "f97c758"

// FormatError says that another version of Rollcall wrote an entry, in a format that this one does not read: a newer
// one, or one from before the first release. The entry is whole, as far as its checksum shows. Nothing may be given up
// or cut because of it.
type FormatError struct {
	// Path is the file or the name of the log. Empty if it is not known.
	Path string
	// Seq is the first entry of that format that was found, 0 if it is not known.
	Seq uint64
	// Format is the entry's format. This version reads format 10 up to FormatVersion.
	Format uint8
}

// Error implements error.
func (e *FormatError) Error() string {
	entry := "an entry"
	if e.Seq > 0 {
		entry = fmt.Sprintf("entry %d", e.Seq)
	}
	if e.Path != "" {
		entry = e.Path + ": " + entry
	}
	if e.Format > FormatVersion {
		return fmt.Sprintf("%s has format %d, written by a newer version of Rollcall: this one reads up to %d: use "+
			"the newer version; the log is not damaged, do not cut it here", entry, e.Format, FormatVersion)
	}
	return fmt.Sprintf("%s has format %d, written before the first release of Rollcall: this version reads format %d "+
		"and later: read the log with the program that wrote it, or with one built from commit %s; the log is not "+
		"damaged, do not cut it here", entry, e.Format, SchedulerFormat, LastPrerelease)
}

// DamageAt returns the error for the record of entry seq at path, in which err was found. The record is damaged, or
// another version wrote it in a format that this one does not read.
func DamageAt(path string, seq uint64, err error) error {
	var format *FormatError
	if errors.As(err, &format) {
		return &FormatError{Path: path, Seq: seq, Format: format.Format}
	}
	return &DamagedError{Path: path, Seq: seq, Err: err}
}

// ArchivedError says that an entry cannot be read because the readable part of the log begins later. The files with the
// entry were moved away and are not found, or the log was made from a part of another. The log is not damaged, unless
// Err wraps an error that says so about the files that were moved.
type ArchivedError struct {
	// Path is the log.
	Path string
	// Seq is the requested entry, and First the first one that can be read.
	Seq, First uint64
	// Dirs are the directories where entries before First should be; none if the log never had them.
	Dirs []string
	// Err says why they are not found there; nil if there are no Dirs.
	Err error
}

// Error implements error.
func (e *ArchivedError) Error() string {
	if len(e.Dirs) == 0 {
		return fmt.Sprintf(
			"%s: entry %d is not in this log, which begins with entry %d: what was before was removed, or the log was "+
				"made from a part of another",
			e.Path,
			e.Seq,
			e.First,
		)
	}
	return fmt.Sprintf("%s: entry %d was archived in %s, and cannot be read from there (%v): "+
		"the first entry that can be read is %d", e.Path, e.Seq, strings.Join(e.Dirs, ", "), e.Err, e.First)
}

// Unwrap returns Err.
func (e *ArchivedError) Unwrap() error { return e.Err }

// A MadeAgainError says that the stream is not the one that was opened: it was deleted, and perhaps made again under
// its name. Entries of the log cannot be saved from the present stream.
type MadeAgainError struct {
	// Opened is the time at which the stream that was opened was made.
	Opened time.Time
	// Err says what is there now.
	Err error
}

// Error implements error.
func (e *MadeAgainError) Error() string {
	return fmt.Sprintf("the stream is not the one that was opened, which was made on %s: it was deleted or made again "+
		"meanwhile (%v): nothing is appended any more. What was acknowledged was in the old stream, and cannot be "+
		"read from this one: bring the old stream back from a backup of the servers, or make the log again from an "+
		"archive, a bundle or a copy, or begin a new log in another stream", e.Opened, e.Err)
}

// Unwrap returns e.Err.
func (e *MadeAgainError) Unwrap() error { return e.Err }
