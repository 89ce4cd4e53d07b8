package boltlog

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// interruptFlock lets a signal interrupt every first and second flock(2) of bbolt until the test ends.
func interruptFlock(t *testing.T, always bool) (interrupted *int) {
	t.Helper()
	interrupted = new(int)
	calls := 0
	boltOpen = func(path string, mode os.FileMode, o *bolt.Options) (*bolt.DB, error) {
		if calls++; always || calls%3 > 0 {
			*interrupted++
			f, err := o.OpenFile(path, os.O_RDWR, mode)
			if err != nil {
				return nil, err
			}
			return nil, errors.Join(syscall.EINTR, f.Close()) // as bbolt does
		}
		return bolt.Open(path, mode, o)
	}
	t.Cleanup(func() { boltOpen = bolt.Open })
	return interrupted
}

// A signal that interrupts the locking of a segment stops neither a writer nor a reader.
func TestAnInterruptedLockIsTakenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	interrupted := interruptFlock(t, false)
	l, err := Create(path)
	must(t, err)
	must(t, l.Append(t.Context(), 0, logtest.Entries(1, 10)))
	must(t, l.Close())
	l, err = Open(path)
	must(t, err)
	must(t, l.Append(t.Context(), 10, logtest.Entries(11, 10)))
	must(t, l.Close())
	l, err = OpenReadOnly(path)
	must(t, err)
	if last, err := l.Last(); last != 20 || err != nil {
		t.Errorf("the last entry is %d, %v", last, err)
	}
	must(t, l.Close())
	if *interrupted < 4 {
		t.Errorf("%d calls were interrupted: the test is worth nothing", *interrupted)
	}
	_ = interruptFlock(t, true)
	if _, err := Open(path); !errors.Is(err, syscall.EINTR) {
		t.Errorf("if every call is interrupted: %v", err)
	}
}
