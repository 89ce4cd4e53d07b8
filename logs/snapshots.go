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

// SnapshotDir is the directory of snapshots, in the directory of the log.
const SnapshotDir = "snapshots"

// SnapshotsOf returns the snapshots of the log at path, for reading.
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

// Snapshots returns a copy of the log's series of snapshots. The caller may change it.
func (s *Source) Snapshots() *snapshot.Series {
	series := s.snapshots
	return &series
}

// SnapshotSeqs returns the entries of the snapshots, ascending. If the snapshots of a log in a stream cannot be
// listed, it reports that and returns none: the log is whole without them.
func (s *Source) SnapshotSeqs() ([]uint64, error) {
	seqs, err := s.snapshots.Store.List()
	if err != nil && s.IsStream() {
		s.opts.report("no snapshots are used: %v", err)
		return nil, nil
	}
	return seqs, err
}

// StateHashes returns the hashes of the states in the snapshots of entries from first to last. It reports the bad
// snapshots, which are not compared.
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

// Taken describes a snapshot that TakeSnapshot has written.
type Taken struct {
	// Path is the file's path, or the names of the object and its bucket.
	Path  string `json:"path"`
	Seq   uint64 `json:"seq"`
	Bytes int    `json:"bytes"`
	Hash  string `json:"hash"` // of the state
}

// TakeSnapshot writes a snapshot of the state after entry at, 0 for the last one. It writes into the directory of a
// log without a writer, or into the bucket beside a log in a stream, which may have a writer.
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
	if err := s.stored.Sync(); err != nil { // a snapshot promises that its entry is durable
		return err
	}
	return SnapshotsOf(s.path).Add(at, data)
}

// SnapshotPlace returns the place of the snapshot of entry seq, whether or not it exists: the path of the file, or the
// names of the object and its bucket.
func (s *Source) SnapshotPlace(seq uint64) string {
	if s.stream != nil {
		return fmt.Sprintf("object %s of the bucket %s", snapshot.Name(seq), s.stream.Bucket().Name())
	}
	return SnapshotsOf(s.path).File(seq)
}

// RemoveSnapshot returns the command that removes the snapshot of entry seq.
func (s *Source) RemoveSnapshot(seq uint64) string {
	if s.stream != nil {
		return removeObject(s.stream.Bucket().Name(), seq)
	}
	return "remove " + SnapshotsOf(s.path).File(seq)
}

// removeObject returns the command that removes the snapshot of entry seq from a bucket.
func removeObject(bucket string, seq uint64) string {
	return fmt.Sprintf("remove it with nats object rm %s %s", bucket, snapshot.Name(seq))
}

// Writing returns the store for snapshots of a log in a stream that are spacing entries apart: every follower of the
// log may write them. It returns nil for any other log, where only the writer may.
func (s *Source) Writing(spacing uint64) snapshot.Store {
	if s.stream == nil {
		return nil
	}
	s.beside.space(spacing)
	return s.beside
}

// positionIn returns a function from an entry to the position that a snapshot of it has.
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

// MayTakeSnapshots returns the reason why no snapshot can be added: the log has a writer, which does that, or it is a
// bundle. Anybody who may write to the bucket of a log in a stream may add snapshots to it.
func (s *Source) MayTakeSnapshots() error {
	if s.IsBundle() {
		return Refuse("%s is a bundle: make a log of it with rollcall log import", s.path)
	}
	if s.Dumped != nil {
		return Refuse("%s is a dump: a log that is kept is made by rollcall run", s.path)
	}
	if s.live {
		return errors.New("the log is being written to: its writer writes snapshots, too")
	}
	return nil
}
