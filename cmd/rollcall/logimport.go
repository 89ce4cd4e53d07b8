package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// importFacts is what "rollcall log import" prints.
type importFacts struct {
	Path     string `json:"path"`
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Entries  uint64 `json:"entries"`
	LastHash string `json:"lastHash"`
	Root     string `json:"root"`
}

func newLogImport() *cobra.Command {
	var dir string
	var out output
	cmd := &cobra.Command{
		Use:   "import FILE --log DIR",
		Short: "Make a log of an incident bundle",
		Long: `Makes a new log of the entries and the snapshot of a bundle (log export). The bundle is checked
from end to end before, and the log's chain and hash tree are compared with it after: the log appears
whole, or not at all. A bundle that begins later than with entry 1 becomes a log that does: its
entries keep their numbers.`,
		Example: "  rollcall log import incident.bundle --log incident.log",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if dir == "" {
				return usageError{errors.New("--log is needed: the directory of the new log")}
			}
			if _, err := os.Lstat(dir); err == nil {
				return usageError{fmt.Errorf("%s is there already: remove it, or name another directory", dir)}
			}
			facts, err := importBundle(cmd.Context(), args[0], dir)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	cmd.Flags().StringVar(&dir, "log", "", "the new directory of the log")
	out.register(cmd)
	return cmd
}

func importBundle(ctx context.Context, path, dir string) (*importFacts, error) {
	p := newProgress()
	defer p.done()
	b, err := bundle.Open(path, func(seq uint64) { p.show("checking the bundle: entry %d", seq) })
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := restorable(b); err != nil {
		return nil, err
	}
	// All is made under another name, so that what has the name is whole.
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), "."+filepath.Base(dir)+".*.tmp")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	m := b.Manifest()
	made := filepath.Join(tmp, "log")
	err = fill(ctx, b, made, func(seq uint64) { p.show("entry %d of %d", seq, m.Last) })
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", path, err)
	}
	if err := os.Rename(made, dir); err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(filepath.Clean(dir))); err != nil {
		return nil, err
	}
	return &importFacts{Path: dir, First: m.First, Last: m.Last, Entries: m.Entries(), LastHash: m.LastHash, Root: m.Root}, nil
}

// restorable says whether the snapshot of a bundle gives the state that was written down.
func restorable(b *bundle.Bundle) error {
	data, err := b.Snapshot()
	if err != nil || len(data) == 0 {
		return err
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		return err
	}
	_, err = s.Restore(plugins.NewRegistry())
	return err
}

// importBatch is how many entries go into one transaction of a log that is imported.
const importBatch = 2000

// fill makes a log at path of what is in a bundle, and compares the two.
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
		err := log.Append(batch[0].Seq-1, batch)
		progress(batch[len(batch)-1].Seq)
		batch = batch[:0]
		return err
	}
	for e, err := range b.Read(m.First) {
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
	end, err := log.OriginAt(m.Last)
	if err != nil {
		return err
	}
	if hash := fmt.Sprintf("%x", end.Hash); hash != m.LastHash || end.Tree.Root().String() != m.Root {
		return fmt.Errorf("the log that was made ends with a record of hash %s, and the bundle with %s", hash, m.LastHash)
	}
	data, err := b.Snapshot()
	if err != nil || len(data) == 0 {
		return err
	}
	return snapshotsOf(path).Add(m.Origin.Seq, data)
}

// syncDir brings the names in a directory to the disk.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (f *importFacts) writeText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "log       %s\nentries   %d to %d\nchain     %s\ntree      %s\n", f.Path, f.First, f.Last, f.LastHash, f.Root)
	return err
}
