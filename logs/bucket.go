package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// inBucket is the snapshots of a log in a stream: objects of the bucket beside it, with the names and the bytes that
// they have as files. They are read and written without a claim to the log. It is not safe for concurrent use.
type inBucket struct {
	ctx    context.Context // of the calls, which have none
	log    *jetstream.Log
	bucket *jetstream.Bucket
	keep   snapshot.Retention
	first  string // which log it is, once that was asked: see identity
	failed error  // of the last List: what could not be reached is not waited for again, until something is put
}

var _ snapshot.Apart = (*inBucket)(nil)

// aboutFirst is what the hash of the log's first record is called in what is said about an object.
const aboutFirst = "rollcall-first-record"

// besideStream returns the snapshots of a log in a stream, of which those are kept that are spacing entries apart.
func besideStream(ctx context.Context, log *jetstream.Log, spacing uint64) *inBucket {
	return &inBucket{ctx: ctx, log: log, bucket: log.Bucket(), keep: snapshot.Retention{
		Last: keptSnapshots, Spacing: spacing * olderSnapshots, Base: log.First() - 1,
	}}
}

// space lets those be kept that are spacing entries apart.
func (s *inBucket) space(spacing uint64) { s.keep.Spacing = spacing * olderSnapshots }

// identity returns what tells the log from all others: the hash of its first record, which begins an epoch and so has
// an identity by chance. A stream that was deleted and made again has another one; a copy of the log has the same.
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

// Add is Put, but drops no other snapshot.
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

// prune drops what is not to be kept any more, and what interrupted writers have left.
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

// List implements snapshot.Store. A bucket that is not there holds none; objects that are no snapshots by their name
// are skipped.
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

// Get implements snapshot.Store. A snapshot of an entry behind the log's last one, whose place in the chain cannot be
// compared, is of another log unless it is said to be of this one.
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

// isOfThisLog returns an error for a snapshot of an entry behind the log's last one, if it is not of this log by what
// is said about it.
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
