package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// AdviceOnLoss says what to do about a log at path that has lost its end.
func AdviceOnLoss(path string, lost *snapshot.LostError) string {
	if at, err := streamAt(path); InStream(path) && err == nil {
		return fmt.Sprintf("Bring the stream back from a backup that has them. If entries %d to %d are lost for good, "+
			"remove every snapshot of a later entry than %d (the newest: nats object rm %s %s), and the log goes on "+
			"behind entry %d; a simulation does that with --resume --give-up-after %d", lost.Last+1, lost.Seq,
			lost.Last, jetstream.BucketOf(at.Stream), snapshot.Name(lost.Seq), lost.Last, lost.Last)
	}
	return fmt.Sprintf(
		"Bring the missing segments, the newest of %s, back from where they are. If entries %d to %d are "+
			"lost for good, save what is there with rollcall log export %s --up-to %d --out FILE, and make a new log "+
			"of that "+
			"with rollcall log import; a simulation goes on behind entry %d with --resume --give-up-after %d",
		path,
		lost.Last+1,
		lost.Seq,
		path,
		lost.Last,
		lost.Last,
		lost.Last,
	)
}

// AdviceOnDamage says how to save the good entries, from first on, before entry seq of the log at path.
func AdviceOnDamage(path string, first, seq uint64) string {
	return fmt.Sprintf("Entries %d to %d are good: save them with rollcall log export %s --up-to %d --out FILE",
		first, seq-1, path, seq-1)
}

// AdviseOnDamage adds to an error about damage of the log at path how to save the good entries, from first on. From a
// stream that was made again they cannot be saved: the error says what to do.
func AdviseOnDamage(path string, first uint64, err error) error {
	var damaged *eventlog.DamagedError
	var again *eventlog.MadeAgainError
	if !errors.As(err, &damaged) || errors.As(err, &again) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, AdviceOnDamage(path, first, damaged.Seq))
}

// AdviseOnUnknownEnd adds to an error of snapshot.Series.Beyond, nil for none, what to do about it.
func AdviseOnUnknownEnd(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\nSee that everything in %s can be read, and run the command again",
		path, err, SnapshotsOf(path).Path())
}

// Advise adds to an error of reading the steps that can be taken.
func (s *Source) Advise(err error) error {
	var unreadable *eventlog.UnreadableError
	var damaged *eventlog.DamagedError
	var archived *eventlog.ArchivedError
	var lost *snapshot.LostError
	switch {
	case errors.As(err, &unreadable):
		return err // it says what to do
	case errors.As(err, &lost):
		return fmt.Errorf("%w\n%s", err, AdviceOnLoss(s.path, lost))
	case errors.As(err, &damaged) && damaged.Seq > s.First():
		return AdviseOnDamage(s.path, s.First(), err)
	case errors.As(err, &archived) && len(archived.Dirs) > 0:
		return fmt.Errorf("%w; say with --archive where they are now", err)
	}
	return err
}

// NotTheEntries is the error for the snapshot of entry seq, whose state is not the one that the entries make.
func (s *Source) NotTheEntries(seq uint64) error {
	refused := &snapshot.RefusedError{Seq: seq, Err: snapshot.ErrNotTheEntries}
	if s.stream != nil {
		return fmt.Errorf("%w\nIt is the %s: %s; without it, its state is made of the entries", refused,
			s.SnapshotPlace(seq), s.RemoveSnapshot(seq))
	}
	return fmt.Errorf("%w\nRemove %s: without it, its state is made of the entries", refused, s.SnapshotPlace(seq))
}

// explainAbsence adds to an error of opening a missing log how to make one.
func explainAbsence(path string, err error) error {
	if _, serr := os.Stat(path); errors.Is(err, fs.ErrNotExist) && serr != nil { // or the error is about an archive
		return &NoLogError{Path: path}
	}
	return explainEmpty(path, err)
}

// A NoLogError says that there is no log at the path.
type NoLogError struct{ Path string }

// Error implements error.
func (e *NoLogError) Error() string {
	return fmt.Sprintf("no log at %s: make one with rollcall simulate --log %s", e.Path, e.Path)
}

// explainEmpty returns, for a directory with snapshots but without segments, an error that its entries are missing. It
// returns every other error unchanged.
func explainEmpty(path string, err error) error {
	if !errors.Is(err, boltlog.ErrNoSegments) {
		return err
	}
	if seqs, _ := SnapshotsOf(path).List(); len(seqs) > 0 {
		return &eventlog.DamagedError{Path: path, Seq: 1, Err: fmt.Errorf("there are snapshots, the last of entry %d, "+
			"and no segment: all its entries are missing; bring its .seg files back from where they are",
			seqs[len(seqs)-1])}
	}
	return err
}

// IsDiskError reports whether err says that a file could not be written because of the disk or the file system. It
// knows some of them by their text alone, since bbolt passes on no more ("file resize error: ..."). A call that
// signals keep interrupting counts too.
func IsDiskError(err error) bool {
	kinds := []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EINTR,
	}
	return err != nil && slices.ContainsFunc(kinds, func(kind syscall.Errno) bool {
		return errors.Is(err, kind) || strings.HasSuffix(err.Error(), ": "+kind.Error())
	})
}
