//go:build linux

package boltlog

import (
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// The two faults are the file's own: writes to it fail, or the sync after the page that makes a commit count.
// The log and bbolt are as in the product.
func TestConformsWithFaults(t *testing.T) {
	logtest.RunFaults(t, func(t *testing.T) logtest.Faulty {
		path := filepath.Join(t.TempDir(), "a.log")
		l, err := Create(path)
		must(t, err)
		return logtest.Faulty{Log: l, Fail: func(log eventlog.Log, f logtest.Fault) {
			l := log.(*Log)
			if f == logtest.NotPersisted {
				must(t, l.tail.file.Close())
				return
			}
			failLastSync(t, l)
		}}
	})
}

// failLastSync lets the next commit write all its pages, and then fails the sync that would acknowledge it: in
// the file's place, there is a pipe, which cannot be synced. bbolt has a hook for its own tests of where it
// writes; that it has no name outside does not keep this test from it.
func failLastSync(t *testing.T, l *Log) {
	t.Helper()
	file := l.tail.file
	hook := reflect.ValueOf(l.tail.db).Elem().FieldByName("ops").FieldByName("writeAt")
	if !hook.IsValid() || hook.Type() != reflect.TypeFor[func([]byte, int64) (int, error)]() {
		t.Fatal("bbolt has no hook ops.writeAt any more: find another way to fail a sync")
	}
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(hook.UnsafeAddr()))
	*writeAt = func(b []byte, at int64) (int, error) {
		n, err := file.WriteAt(b, at)
		if err == nil && at < 2*pageSize {
			var pipe [2]int
			if err := syscall.Pipe(pipe[:]); err != nil {
				return 0, err
			}
			err = syscall.Dup3(pipe[0], int(file.Fd()), syscall.O_CLOEXEC)
			syscall.Close(pipe[0])
			syscall.Close(pipe[1])
		}
		return n, err
	}
}
