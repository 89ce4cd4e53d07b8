package boltlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A memory fault within a file is damage if the file can be read to its end, and otherwise it is not.
func TestAPageThatCannotBeReadIsNoDamage(t *testing.T) {
	for _, readable := range []bool{true, false} {
		path := newLog(t, 1000)
		s, err := openSegment(segment(path, 1), true)
		must(t, err)
		must(t, os.Truncate(s.Path, 2*pageSize)) // the mapping stays: what is behind the meta pages is a fault
		if !readable {
			f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_WRONLY|os.O_CREATE, fileMode)
			must(t, err)
			defer f.Close()
			s.file = f // which no one may read
		}
		err = s.view(500, func(tx *bolt.Tx) error {
			return tx.Bucket(bucketLog).ForEach(func(_, _ []byte) error { return nil })
		})
		var damaged *eventlog.DamagedError
		var unreadable *eventlog.UnreadableError
		if errors.As(err, &damaged) != readable || errors.As(err, &unreadable) == readable {
			t.Errorf("the file can be read: %t, error %v", readable, err)
		}
		_ = s.close()
	}
}
