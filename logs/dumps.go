package logs

import (
	"context"
	"io/fs"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// openDump reads a dump into a log in memory.
func (o Options) openDump(ctx context.Context, path string) (*dump.Dump, error) {
	opts := o.Dump
	opts.Report = o.Report
	opts.Progress = func(read uint64) { o.progress("reading the dump", read, 0) }
	return opts.Open(ctx, path)
}

// noSnapshots is the store of a log that has no snapshots and takes none.
type noSnapshots struct{}

var _ snapshot.Store = noSnapshots{}

// Put implements snapshot.Store.
func (noSnapshots) Put(uint64, []byte) error { return eventlog.ErrReadOnly }

// Drop implements snapshot.Store.
func (noSnapshots) Drop(uint64) error { return eventlog.ErrReadOnly }

// List implements snapshot.Store.
func (noSnapshots) List() ([]uint64, error) { return nil, nil }

// Get implements snapshot.Store.
func (noSnapshots) Get(uint64) ([]byte, error) { return nil, fs.ErrNotExist }
