package boltlog

import (
	"io"
	"os"

	"github.com/rollcall-sched/rollcall/internal/regular"
)

// maxCopy is the largest segment that is copied for a reader, in bytes: twice the default size. The copy of a larger
// one would need more space, and more of a writer's time, than a reader may take without notice. Such a reader keeps
// the writer out instead.
const maxCopy = 2 * 256 << 20

// copyOf returns a copy of the file at path, of which the caller knows that no process writes to it now; nil if none
// can be made. The copy is in the directory for temporary files (TMPDIR), without a name, so that no file remains when
// it is closed, or this process is killed.
//
// A file that bbolt appends to cannot be read meanwhile, since it writes to pages that earlier transactions have
// freed.
func copyOf(path string) *os.File {
	from, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxCopy {
		return nil
	}
	if flock(from, false) != nil {
		return nil // a writer without a LOCK file
	}
	to, err := os.CreateTemp("", "rollcall-*"+tmpSuffix)
	if err != nil {
		return nil
	}
	err = os.Remove(to.Name()) // at once: it takes a moment to fill
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err != nil {
		_ = to.Close() // it is of no use
		return nil
	}
	return to
}

// allClosed reports whether segments that all have a successor are complete: no writer will change them.
func allClosed(segments []Facts) bool {
	for _, f := range segments {
		if !f.Sealed || f.Extra != 0 {
			return false
		}
	}
	return true
}

// isClosedAt is allClosed for the segment at path.
func isClosedAt(path string) bool {
	facts, err := factsOf(path)
	return err == nil && allClosed([]Facts{facts})
}
