package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// inBucket has the snapshots of a log in a stream: objects of the bucket beside it, with the same names and bytes as
// snapshot files. They are read and written without a lock on the log. It is not safe for concurrent use.
type inBucket struct {
	ctx    context.Context // of the calls, which take none
	log    *jetstream.Log
	bucket *jetstream.Bucket
	keep   snapshot.Retention
	first  string // the log's identity, once it was read: see identity
	failed error  // of the last List: an unreachable bucket is not waited for again, until something is put
}

var _ snapshot.Apart = (*inBucket)(nil)

// aboutFirst is the key, in an object's metadata, of the hash of the log's first record.
const aboutFirst = "rollcall-first-record"

// besideStream returns the snapshots of a log in a stream. It keeps snapshots that are spacing entries apart.
func besideStream(ctx context.Context, log *jetstream.Log, spacing uint64) *inBucket {
	return &inBucket{ctx: ctx, log: log, bucket: log.Bucket(), keep: snapshot.Retention{
		Last: keptSnapshots, Spacing: spacing * olderSnapshots, Base: log.First() - 1,
	}}
}

// space sets the distance of the snapshots to keep, in entries.
func (s *inBucket) space(spacing uint64) { s.keep.Spacing = spacing * olderSnapshots }

// identity returns the identity of the log: the hash of its first record. That record begins an epoch and has a random
// identity. A stream that was deleted and made again has another one; a copy of the log has the same.
func (s *inBucket) identity() (id string, err error) {
	if s.first == "" {
		s.first, err = s.log.Identity(s.ctx)
	}
	return s.first, err
}

// Put implements snapshot.Store.
func (s *inBucket) Put(seq uint64, data []byte) error {
	if err := s.Add(seq, data); err != nil {
		return err
	}
	if err := s.prune(seq); err != nil {
		return fmt.Errorf("drop snapshots before that of entry %d: %w", seq, err)
	}
	return nil
}

// Add is Put without dropping other snapshots.
func (s *inBucket) Add(seq uint64, data []byte) error {
	s.failed = nil
	first, err := s.identity()
	if err == nil {
		err = s.bucket.Put(s.ctx, snapshot.Name(seq), data, map[string]string{aboutFirst: first})
	}
	if err != nil {
		return fmt.Errorf("keep the snapshot of entry %d: %w", seq, err)
	}
	return nil
}

// prune drops the snapshots that are no longer to be kept, and the remains of interrupted writers.
func (s *inBucket) prune(newest uint64) error {
	seqs, err := s.List()
	if err != nil {
		return err
	}
	for _, seq := range s.keep.Superfluous(seqs, newest) {
		if err := s.bucket.Remove(s.ctx, snapshot.Name(seq)); err != nil {
			return err
		}
	}
	return s.bucket.Sweep(s.ctx, snapshot.Name(newest))
}

// Drop implements snapshot.Store.
func (s *inBucket) Drop(seq uint64) error {
	if err := s.bucket.Remove(s.ctx, snapshot.Name(seq)); err != nil {
		return fmt.Errorf("drop the snapshot of entry %d: %w", seq, err)
	}
	return nil
}

// List implements snapshot.Store. A missing bucket holds none. Objects without a snapshot's name are skipped.
func (s *inBucket) List() ([]uint64, error) {
	if s.failed != nil {
		return nil, s.failed
	}
	names, err := s.bucket.List(s.ctx)
	if err != nil {
		s.failed = fmt.Errorf("list snapshots: %w", err)
		return nil, s.failed
	}
	var seqs []uint64
	for _, name := range names {
		if seq, ok := snapshot.SeqOf(name); ok {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}

// Get implements snapshot.Store. The place in the chain of a snapshot beyond the log's last entry cannot be compared:
// such a snapshot counts as another log's unless its metadata names this log.
func (s *inBucket) Get(seq uint64) ([]byte, error) {
	data, about, err := s.bucket.Get(s.ctx, snapshot.Name(seq), snapshot.Largest)
	var wrong *jetstream.ObjectError
	if errors.As(err, &wrong) {
		err = &snapshot.DamagedError{Check: "object", Err: wrong}
	}
	if err != nil {
		return nil, fmt.Errorf("read the snapshot of entry %d: %w", seq, err)
	}
	return data, s.isOfThisLog(seq, about)
}

// isOfThisLog returns an error for a snapshot beyond the log's last entry unless its metadata names this log.
func (s *inBucket) isOfThisLog(seq uint64, about map[string]string) error {
	last, err := s.log.Last()
	switch {
	case err != nil || seq <= last:
		return err
	case last < s.log.First():
		return fmt.Errorf("%w: the log is empty", snapshot.ErrForeign)
	}
	first, err := s.identity()
	if err == nil && about[aboutFirst] != first {
		err = fmt.Errorf("%w: the first record here is another one", snapshot.ErrForeign)
	}
	return err
}

// Reaches implements snapshot.Apart.
func (s *inBucket) Reaches(seq uint64) (bool, error) { return s.log.Reaches(s.ctx, seq) }
