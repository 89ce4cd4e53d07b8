package boltlog

import (
	"io"
	"os"

	"github.com/rollcall-sched/rollcall/internal/regular"
)

// maxCopy is the largest segment that is copied for a reader, in bytes: twice the default size. The copy of a larger
// one would take more room, and more of a writer's time, than a reader may ask for unseen: it keeps the writer out
// instead.
const maxCopy = 2 * 256 << 20

// copyOf returns a copy of the file at path, of which the caller knows that nobody writes to it now; nil if none can be
// made. It stands where temporary files do (TMPDIR), without a name, so that nothing is left of it when it is closed,
// or this process is killed.
//
// A file that bbolt appends to cannot be read meanwhile, since it writes to pages that earlier transactions have freed.
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
		return nil // a writer that has no LOCK to lock
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
		_ = to.Close() // nobody needs it
		return nil
	}
	return to
}

// allClosed reports whether segments that all have a successor are complete: no writer has anything left to do in them.
func allClosed(segments []Facts) bool {
	for _, f := range segments {
		if !f.Sealed || f.Extra != 0 {
			return false
		}
	}
	return true
}

// isClosedAt is allClosed of the segment at path.
func isClosedAt(path string) bool {
	facts, err := factsOf(path)
	return err == nil && allClosed([]Facts{facts})
}
