package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// newLogSnapshot writes a snapshot of a log that has none where one is needed.
func newLogSnapshot() *cobra.Command {
	var at uint64
	var open reading
	var out output
	cmd := &cobra.Command{
		Use:   "snapshot LOG [--at SEQ]",
		Short: "Write a snapshot of the state after an entry into a log's directory",
		Long: `Reads the log from the newest snapshot before the entry on, or from its first entry, and writes the
state after it to the log's directory. Nothing needs a snapshot: it saves reading, and lets the
entries before it be archived. Schedulers that write a log write snapshots by themselves.`,
		Example: "  rollcall log snapshot jobs.db --at 2000000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("at") && at == 0 {
				return usageError{errors.New("--at is 0: entries are numbered from 1")}
			}
			facts, err := takeSnapshot(cmd.Context(), open, args[0], at)
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	cmd.Flags().Uint64Var(&at, "at", 0, "the entry; default: the log's last")
	open.register(cmd)
	out.register(cmd)
	return cmd
}

// snapshotFacts is what "rollcall log snapshot" prints.
type snapshotFacts struct {
	Path  string `json:"path"`
	Seq   uint64 `json:"seq"`
	Bytes int    `json:"bytes"`
	Hash  string `json:"hash"`
}

func takeSnapshot(ctx context.Context, open reading, path string, at uint64) (*snapshotFacts, error) {
	log, err := open.open(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := log.mayKeepSnapshots(); err != nil {
		return nil, err
	}
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	if at > last {
		return nil, usageError{fmt.Errorf("--at is %d: the log ends with entry %d", at, last)}
	}
	if at == 0 {
		at = last
	}
	if at == 0 {
		return nil, fmt.Errorf("%s is empty: there is no state to write yet", path)
	}
	m, err := log.stateAfter(ctx, at)
	if err != nil {
		return nil, err
	}
	position, err := log.RecordHash(at)
	if err != nil {
		return nil, err
	}
	data, err := snapshot.Encode(m, position)
	if err != nil {
		return nil, err
	}
	if log, ok := log.records.(*boltlog.Log); ok {
		if err := log.Sync(); err != nil { // a snapshot tells that its entry was durable
			return nil, err
		}
	}
	dir := snapshotsOf(path)
	if err := dir.Add(at, data); err != nil {
		return nil, err
	}
	hash := m.Hash()
	return &snapshotFacts{Path: dir.File(at), Seq: at, Bytes: len(data), Hash: fmt.Sprintf("%x", hash)}, nil
}

func (f *snapshotFacts) writeText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "snapshot  %s, %d bytes\nentry     %d\nstate     %s\n", f.Path, f.Bytes, f.Seq, f.Hash)
	return err
}

// stateAfter returns the state after an entry.
func (s *source) stateAfter(ctx context.Context, at uint64) (*scheduler.Machine, error) {
	base, err := s.base()
	if err != nil {
		return nil, err
	}
	if at < base {
		return nil, fmt.Errorf("the first state that is known is that after entry %d", base)
	}
	m, err := s.restore(at)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = scheduler.New(plugins.NewRegistry())
	}
	return m, s.apply(ctx, m, at)
}

// notComparedError says that a snapshot's state could not be compared with what the entries make.
type notComparedError struct {
	at  uint64
	err error
}

// Error implements error.
func (e *notComparedError) Error() string {
	return fmt.Sprintf("the snapshot of entry %d is not compared with the entries before it: %v", e.at, e.err)
}

// Unwrap returns why.
func (e *notComparedError) Unwrap() error { return e.err }

// follows says whether a state that a snapshot has is the one that the entries make, from the log's first one on, or from
// its first snapshot if that is where it is known from: then what that one says is taken for granted. No other snapshot
// is: whoever can forge one can forge two. Where the entries cannot be read the error is a *notComparedError.
func (s *source) follows(ctx context.Context, m *scheduler.Machine) error {
	at := m.Seq()
	base, err := s.base()
	if err != nil || at == base {
		return err
	}
	made := scheduler.New(plugins.NewRegistry())
	if base > 0 {
		var refused []error
		if made, refused = s.snapshots.Newest(base, base); made == nil {
			return &notComparedError{at, errors.Join(refused...)}
		}
	}
	if err := s.apply(ctx, made, at); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &notComparedError{at, err}
	}
	if made.Hash() != m.Hash() {
		return notTheEntries(s.path, at)
	}
	return nil
}

// apply brings a state to entry at, which is not before it.
func (s *source) apply(ctx context.Context, m *scheduler.Machine, at uint64) error {
	if m.Seq() == at {
		return nil
	}
	p := newProgress()
	defer p.done()
	for e, err := range s.Read(m.Seq() + 1) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			return err
		}
		p.show("entry %d of %d", e.Seq, at)
		if e.Seq == at {
			return nil
		}
	}
	return fmt.Errorf("%s ends with entry %d, before entry %d", s.path, m.Seq(), at)
}

// mayKeepSnapshots says why no snapshot can be put beside what is read: its writer does that, or it is a bundle.
func (s *source) mayKeepSnapshots() error {
	if _, ok := s.records.(*bundle.Bundle); ok {
		return usageError{fmt.Errorf("%s is a bundle: make a log of it with rollcall log import", s.path)}
	}
	if log, ok := s.records.(*boltlog.Log); !ok || log.Live() {
		return errors.New("the log is being written to: its writer writes snapshots, too")
	}
	return nil
}
