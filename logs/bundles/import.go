package bundles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Imported is the result of Import.
type Imported struct {
	Path     string `json:"path"`
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Entries  uint64 `json:"entries"`
	LastHash string `json:"lastHash"`
	Root     string `json:"root"`
}

// Import makes a new log from a bundle. Both have the names of logs (logs.Path), and the log must not exist. Import
// checks the bundle from end to end first, and compares the log's chain and hash tree with it afterwards: the log
// appears whole, or not at all. It uses two of the options: Registry, to make the state of the bundle's snapshot, and
// Progress.
func Import(ctx context.Context, file, log string, opts logs.Options) (*Imported, error) {
	path, err := logs.Path(file)
	if err != nil {
		return nil, err
	}
	dir, err := logs.Path(log)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir); err == nil {
		return nil, logs.Refuse("%s is there already: remove it, or name another directory", dir)
	}
	progress := opts.Progress
	if progress == nil {
		progress = func(string, uint64, uint64) {}
	}
	b, err := bundle.Open(path, func(seq uint64) { progress("checking the bundle", seq, 0) })
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := restorable(b, opts.Registry); err != nil {
		return nil, err
	}
	// The log is made under another name, so that a log of the final name is always whole.
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), "."+filepath.Base(dir)+".*.tmp")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	m := b.Manifest()
	made := filepath.Join(tmp, "log")
	err = fill(ctx, b, made, func(seq uint64) { progress("", seq, m.Last) })
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", path, err)
	}
	if err := os.Rename(made, dir); err != nil {
		return nil, err
	}
	if err := durable.Sync(filepath.Dir(filepath.Clean(dir))); err != nil {
		return nil, err
	}
	return &Imported{
		Path: dir, First: m.First, Last: m.Last, Entries: m.Entries(), LastHash: m.LastHash, Root: m.Root,
	}, nil
}

// restorable returns an error unless the snapshot of a bundle gives the recorded state.
func restorable(b *bundle.Bundle, registry framework.Registry) error {
	data, err := b.Snapshot()
	if err != nil || len(data) == 0 {
		return err
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		return err
	}
	_, err = s.Restore(registry)
	return err
}

// importBatch is the number of entries in one transaction of an imported log.
const importBatch = 2000

// fill makes a log at path from a bundle, and compares the two.
func fill(ctx context.Context, b *bundle.Bundle, path string, progress func(seq uint64)) (err error) {
	m := b.Manifest()
	log, err := boltlog.DefaultOptions().CreateFrom(path, m.Origin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	batch := make([]eventlog.Entry, 0, importBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := log.Append(ctx, batch[0].Seq-1, batch)
		progress(batch[len(batch)-1].Seq)
		batch = batch[:0]
		return err
	}
	for e, err := range b.Read(ctx, m.First) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if batch = append(batch, e); len(batch) == importBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	end, err := eventlog.OriginAt(ctx, log, m.Last)
	if err != nil {
		return err
	}
	if hash := fmt.Sprintf("%x", end.Hash); hash != m.LastHash || end.Tree.Root().String() != m.Root {
		return fmt.Errorf("the log that was made ends with a record of hash %s, and the bundle with %s",
			hash, m.LastHash)
	}
	data, err := b.Snapshot()
	if err != nil || len(data) == 0 {
		return err
	}
	return logs.SnapshotsOf(path).Add(m.Origin.Seq, data)
}
