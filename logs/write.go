package logs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/internal/localapi"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// KeepOptions are the options of a log that this process writes to.
type KeepOptions struct {
	// SegmentBytes is the size that a segment does not exceed, unless one Append does; 0 for the default.
	SegmentBytes int64
	// Archives are directories with archived segments, as in Options.
	Archives []string
	// GiveUpAfter is the log's last entry if the later ones, which snapshots show to have existed, are given up; 0 for
	// none.
	GiveUpAfter uint64
	// Version is the version of this program, for readers in other processes.
	Version string
	// Report, if not nil, gets notes for a person that are no errors. Several goroutines call it.
	Report func(message string)
}

func (o *KeepOptions) report(format string, args ...any) {
	if o.Report != nil {
		o.Report(fmt.Sprintf(format, args...))
	}
}

// A Kept log is open for writing and is served to readers beside this process.
type Kept struct {
	eventlog.Log
	path   string
	opts   KeepOptions
	stored *boltlog.Log     // nil for a log in a stream
	beside *inBucket        // its snapshots; nil for a log in a directory
	server *localapi.Server // nil if it cannot be served
	index  *indexer         // nil for a log in a stream
}

// Replicas returns the number of servers that keep a log in a stream; 0 for a log in a directory.
func (k *Kept) Replicas() int {
	if log, ok := k.Log.(*jetstream.Log); ok {
		return log.Replicas()
	}
	return 0
}

// Create makes a new log. The error wraps fs.ErrExist if there is something of that name already.
func (o KeepOptions) Create(ctx context.Context, name string) (*Kept, error) {
	if InStream(name) {
		return o.keepStream(name, func(at *jetstream.Address) (*jetstream.Log, error) {
			return at.Create(ctx, eventlog.Origin{})
		})
	}
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	log, err := o.backend().Create(path)
	if errors.Is(err, eventlog.ErrBeingRead) { // it was made, and a reader opened it at once
		return o.goOn(path)
	}
	if err != nil {
		return nil, err
	}
	return o.keep(path, log), nil
}

// Continue opens an existing log for appending. A log that has lost its end is damaged, unless its lost entries are
// given up. The error wraps fs.ErrNotExist if there is no log.
func (o KeepOptions) Continue(ctx context.Context, name string) (*Kept, error) {
	if InStream(name) {
		return o.keepStream(name, func(at *jetstream.Address) (*jetstream.Log, error) { return at.Open(ctx) })
	}
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	return o.goOn(path)
}

// lockTime is the time that opening a log waits for readers of it: they hold it while they copy its last segment.
const lockTime = 10 * time.Second

func (o KeepOptions) goOn(path string) (*Kept, error) {
	opts := o.backend()
	log, err := opts.Open(path)
	began := time.Now()
	for errors.Is(err, eventlog.ErrBeingRead) && time.Since(began) < lockTime {
		time.Sleep(10 * time.Millisecond)
		log, err = opts.Open(path)
	}
	if err != nil {
		return nil, explainEmpty(path, err)
	}
	if err := o.mayGoOn(log, SnapshotsOf(path)); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return o.keep(path, log), nil
}

func (o *KeepOptions) backend() boltlog.Options {
	opts := boltlog.DefaultOptions()
	if o.SegmentBytes > 0 {
		opts.SegmentBytes = o.SegmentBytes
	}
	opts.Archives = o.Archives
	return opts
}

// keptLog is the part of a log that Continue needs to check it.
type keptLog interface {
	Path() string
	Last() (uint64, error)
}

var (
	_ keptLog = (*boltlog.Log)(nil)
	_ keptLog = (*jetstream.Log)(nil)
)

// mayGoOn returns an error for a log that has lost its end, or may have, unless the lost entries are given up.
func (o *KeepOptions) mayGoOn(log keptLog, snapshots snapshot.Store) error {
	last, err := log.Last()
	if err != nil {
		return err
	}
	if o.GiveUpAfter != 0 && o.GiveUpAfter != last {
		return Refuse("--give-up-after is %d, but the log ends with entry %d: nothing is given up", o.GiveUpAfter, last)
	}
	if o.GiveUpAfter != 0 {
		return nil
	}
	series := snapshot.Series{Store: snapshots}
	lost, _, err := series.Beyond(last)
	if lost != nil {
		return fmt.Errorf("%w\n%s", &eventlog.DamagedError{Path: log.Path(), Seq: last + 1, Err: lost},
			AdviceOnLoss(log.Path(), lost))
	}
	return AdviseOnUnknownEnd(log.Path(), err)
}

// keep lets other processes read the log while it is written to. A log that cannot be served can still be written:
// others can read the sealed entries.
func (o KeepOptions) keep(path string, log *boltlog.Log) *Kept {
	k := &Kept{Log: log, path: path, opts: o, stored: log}
	var err error
	k.server, err = localapi.Serve(path, log, o.Version, func(err error) { o.report("%s: %v", path, err) })
	if err != nil {
		o.report("%v: until it is closed, others can read only what is sealed of it", err)
	}
	dir := IndexOf(path)
	dir.Held = log.Held
	k.index = startIndexing(log, dir, func(format string, args ...any) {
		o.report("%s: "+format, append([]any{path}, args...)...)
	})
	return k
}

// Path returns the log's directory, or the address of its stream without secrets.
func (k *Kept) Path() string { return k.path }

// GiveUp removes the snapshots of entries after KeepOptions.GiveUpAfter, if that is not 0.
func (k *Kept) GiveUp() error {
	last := k.opts.GiveUpAfter
	if last == 0 {
		return nil
	}
	var snapshots snapshot.Store = k.beside
	if k.stored != nil {
		dir := SnapshotsOf(k.path)
		dir.Held = k.stored.Held
		snapshots = dir
	}
	seqs, err := snapshots.List()
	if err != nil {
		return err
	}
	for _, seq := range seqs { // the newest last: while it exists, all missing entries are known
		if seq <= last {
			continue
		}
		if err := snapshots.Drop(seq); err != nil {
			return err
		}
		k.opts.report("%s: entries %d to %d are given up: removed the snapshot of entry %d", k.path, last+1, seq, seq)
	}
	return nil
}

const (
	// keptSnapshots is the number of newest snapshots that are kept whatever their distance: if one is damaged there
	// are others.
	keptSnapshots = 3
	// olderSnapshots is the factor between the distance of older snapshots that are kept and the distance at which
	// snapshots are written. With the default of 50,000 entries, any state of a log of 5 M entries is known in 3 s.
	olderSnapshots = 3
)

// Snapshots returns the store for snapshots of the log that are spacing entries apart.
func (k *Kept) Snapshots(spacing uint64) snapshot.Store {
	if k.stored == nil {
		k.beside.space(spacing)
		return k.beside
	}
	dir := snapshot.NewDir(filepath.Join(k.path, SnapshotDir), keptSnapshots)
	dir.Spacing = spacing * olderSnapshots
	dir.Held = k.stored.Held
	dir.Base = func() (uint64, error) {
		first, err := k.stored.OwnFirst()
		return first - 1, err
	}
	return dir
}

// Close stops serving the log and closes it.
func (k *Kept) Close() error {
	var err error
	if k.server != nil {
		err = k.server.Close(k.path)
	}
	if k.index != nil {
		k.index.close()
		k.index = nil
	}
	return errors.Join(err, k.Log.Close())
}
