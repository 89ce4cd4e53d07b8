package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/bundle"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// SnapshotDir is the directory of snapshots in that of a log.
const SnapshotDir = "snapshots"

// SnapshotsOf returns the snapshots of the log at path, to be read.
func SnapshotsOf(path string) *snapshot.Dir {
	return snapshot.NewDir(filepath.Join(path, SnapshotDir), 1)
}

// bundled is the one snapshot of a bundle, if it has one.
type bundled struct{ *bundle.Bundle }

var _ snapshot.Store = bundled{}

// Put implements snapshot.Store: nothing can be put into a bundle.
func (b bundled) Put(uint64, []byte) error { return eventlog.ErrReadOnly }

// Drop implements snapshot.Store.
func (b bundled) Drop(uint64) error { return eventlog.ErrReadOnly }

// List implements snapshot.Store.
func (b bundled) List() ([]uint64, error) {
	if first := b.First(); first > 1 {
		return []uint64{first - 1}, nil
	}
	return nil, nil
}

// Get implements snapshot.Store.
func (b bundled) Get(uint64) ([]byte, error) { return b.Snapshot() }

// unkept is where no snapshots are kept.
type unkept struct{}

var _ snapshot.Store = unkept{}

// Put implements snapshot.Store.
func (unkept) Put(uint64, []byte) error { return eventlog.ErrReadOnly }

// Drop implements snapshot.Store.
func (unkept) Drop(uint64) error { return eventlog.ErrReadOnly }

// List implements snapshot.Store.
func (unkept) List() ([]uint64, error) { return nil, nil }

// Get implements snapshot.Store.
func (unkept) Get(uint64) ([]byte, error) { return nil, fs.ErrNotExist }

// Snapshots returns a copy of the log's series of snapshots, which the caller may change.
func (s *Source) Snapshots() *snapshot.Series {
	series := s.snapshots
	return &series
}

// StateHashes returns the hashes of the states that the snapshots of entries from first to last have, and reports which
// are not compared because they are not good.
func (s *Source) StateHashes(first, last uint64) (map[uint64][32]byte, error) {
	seqs, err := s.snapshots.Store.List()
	if err != nil {
		return nil, err
	}
	hashes := map[uint64][32]byte{}
	for _, seq := range seqs {
		if seq < first || seq > last {
			continue
		}
		snap, err := s.snapshots.Load(seq)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a writer has dropped it meanwhile
		case err != nil:
			s.opts.report("not compared: %v", &snapshot.RefusedError{Seq: seq, Err: err})
		default:
			hashes[seq] = snap.StateHash
		}
	}
	return hashes, nil
}

// A Taken snapshot is one that TakeSnapshot has written.
type Taken struct {
	Path  string `json:"path"`
	Seq   uint64 `json:"seq"`
	Bytes int    `json:"bytes"`
	Hash  string `json:"hash"` // of the state
}

// TakeSnapshot writes a snapshot of the state after entry at, 0 for the last one, into the directory of a log that
// nobody writes to.
func (s *Source) TakeSnapshot(ctx context.Context, at uint64) (*Taken, error) {
	if err := s.MayTakeSnapshots(); err != nil {
		return nil, err
	}
	last, err := s.Last()
	if err != nil {
		return nil, err
	}
	if at > last {
		return nil, Refuse("--at is %d: the log ends with entry %d", at, last)
	}
	if at == 0 {
		at = last
	}
	if at == 0 {
		return nil, fmt.Errorf("%s is empty: there is no state to write yet", s.path)
	}
	m, err := s.StateAfter(ctx, at)
	if err != nil {
		return nil, err
	}
	data, err := s.EncodeSnapshot(m)
	if err != nil {
		return nil, err
	}
	if err := s.stored.Sync(); err != nil { // a snapshot tells that its entry was durable
		return nil, err
	}
	dir := SnapshotsOf(s.path)
	if err := dir.Add(at, data); err != nil {
		return nil, err
	}
	return &Taken{Path: dir.File(at), Seq: at, Bytes: len(data), Hash: fmt.Sprintf("%x", m.Hash())}, nil
}

// positionIn returns what tells of an entry what a snapshot of it has as its position.
func (s *Source) positionIn(ctx context.Context) func(seq uint64) ([32]byte, error) {
	return func(seq uint64) ([32]byte, error) { return s.RecordHash(ctx, seq) }
}

// EncodeSnapshot returns a snapshot of a state of this log.
func (s *Source) EncodeSnapshot(m *scheduler.Machine) ([]byte, error) {
	position, err := s.RecordHash(context.Background(), m.Seq())
	if err != nil {
		return nil, err
	}
	return snapshot.Encode(m, position)
}

// MayTakeSnapshots returns why no snapshot can be put beside what is read: its writer does that, or it is a bundle.
func (s *Source) MayTakeSnapshots() error {
	if s.IsBundle() {
		return Refuse("%s is a bundle: make a log of it with rollcall log import", s.path)
	}
	if s.IsStream() {
		return Refuse("%s is in NATS JetStream, where no snapshots are kept yet: make a directory of it with "+
			"rollcall log copy",
			s.path)
	}
	if s.live {
		return errors.New("the log is being written to: its writer writes snapshots, too")
	}
	return nil
}
