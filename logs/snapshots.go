package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs/bundle"
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

// Snapshots returns a copy of the log's series of snapshots, which the caller may change.
func (s *Source) Snapshots() *snapshot.Series {
	series := s.snapshots
	return &series
}

// SnapshotSeqs returns the entries of which there are snapshots, ascending. Of a log in a stream, which is whole
// without them, it is reported if they cannot be listed, and none are returned.
func (s *Source) SnapshotSeqs() ([]uint64, error) {
	seqs, err := s.snapshots.Store.List()
	if err != nil && s.IsStream() {
		s.opts.report("no snapshots are used: %v", err)
		return nil, nil
	}
	return seqs, err
}

// StateHashes returns the hashes of the states that the snapshots of entries from first to last have, and reports which
// are not compared because they are not good.
func (s *Source) StateHashes(first, last uint64) (map[uint64][32]byte, error) {
	seqs, err := s.SnapshotSeqs()
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
	// Path is that of the file, or says which object of which bucket it is.
	Path  string `json:"path"`
	Seq   uint64 `json:"seq"`
	Bytes int    `json:"bytes"`
	Hash  string `json:"hash"` // of the state
}

// TakeSnapshot writes a snapshot of the state after entry at, 0 for the last one, into the directory of a log that
// nobody writes to, or into the bucket beside a log in a stream, which may have a writer.
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
	if err := s.addSnapshot(at, data); err != nil {
		return nil, err
	}
	return &Taken{Path: s.SnapshotPlace(at), Seq: at, Bytes: len(data), Hash: fmt.Sprintf("%x", m.Hash())}, nil
}

// addSnapshot puts a snapshot beside the log.
func (s *Source) addSnapshot(at uint64, data []byte) error {
	if s.stream != nil {
		return s.beside.Add(at, data)
	}
	if err := s.stored.Sync(); err != nil { // a snapshot tells that its entry was durable
		return err
	}
	return SnapshotsOf(s.path).Add(at, data)
}

// SnapshotPlace says where the snapshot of entry seq is, or would be: the path of the file, or which object of which
// bucket it is.
func (s *Source) SnapshotPlace(seq uint64) string {
	if s.stream != nil {
		return fmt.Sprintf("object %s of the bucket %s", snapshot.Name(seq), s.stream.Bucket().Name())
	}
	return SnapshotsOf(s.path).File(seq)
}

// RemoveSnapshot says how the snapshot of entry seq is removed.
func (s *Source) RemoveSnapshot(seq uint64) string {
	if s.stream != nil {
		return removeObject(s.stream.Bucket().Name(), seq)
	}
	return "remove " + SnapshotsOf(s.path).File(seq)
}

// removeObject says how the snapshot of entry seq is removed from a bucket.
func removeObject(bucket string, seq uint64) string {
	return fmt.Sprintf("remove it with nats object rm %s %s", bucket, snapshot.Name(seq))
}

// Writing returns where snapshots of a log in a stream are written that are spacing entries apart: whoever follows the
// log may do that. It returns nil for any other log, of which only the writer writes snapshots.
func (s *Source) Writing(spacing uint64) snapshot.Store {
	if s.stream == nil {
		return nil
	}
	s.beside.space(spacing)
	return s.beside
}

// positionIn returns what tells about an entry what a snapshot of it has as its position.
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

// MayTakeSnapshots returns why no snapshot can be put beside what is read: its writer does that, or it is a bundle. To
// one in a stream anybody may add snapshots who may write to its bucket.
func (s *Source) MayTakeSnapshots() error {
	if s.IsBundle() {
		return Refuse("%s is a bundle: make a log of it with rollcall log import", s.path)
	}
	if s.live {
		return errors.New("the log is being written to: its writer writes snapshots, too")
	}
	return nil
}
