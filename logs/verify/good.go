package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/logs/audit"
)

// failed notes that err has kept the log from being checked to its end. It compares the good entries with the
// checkpoints: a log with an unreadable segment cannot be opened as a whole. It returns an error if ctx has ended.
func (v *verifier) failed(ctx context.Context, err error) error {
	r := v.report
	r.Whole, r.Failed, r.cause = false, err.Error(), err
	r.Checkpoints, r.Mismatches, r.NotCompared = nil, nil, nil
	n := 0
	for n < len(v.opts.Signed) && r.Entries > 0 && v.opts.Signed[n].Size <= r.Last() {
		n++
	}
	found, stopped := audit.Compare(ctx, &v.good, v.opts.Signed[:n], r.Last(), audit.Rest{})
	if stopped != nil {
		return stopped
	}
	r.Checkpoints, r.Mismatches = found.Agree, found.Mismatches
	r.NotCompared = append(found.NotCompared, audit.NotComparedWith(v.opts.Signed[n:], err)...)
	return nil
}

// readInPart notes the good entries of a segment that could not be read to its end.
func (v *verifier) readInPart(report segmentReport, err error) {
	var unreadable *eventlog.UnreadableError
	facts := report.Facts
	if !errors.As(err, &unreadable) || unreadable.Seq <= facts.First || unreadable.Seq > facts.Last+1 ||
		facts.Follows(v.prev.Facts) != nil || v.follows(report) != nil {
		return
	}
	before := v.tree
	if before == nil {
		before = facts.Tree
	} else if facts.Tree != nil && !facts.Tree.Equal(*before) {
		return
	}
	last := unreadable.Seq - 1
	v.good.add(facts.Path, before, facts.First, last)
	v.report.Entries = last + 1 - v.report.First
}

// goodEntries reads the good entries, segment by segment.
type goodEntries struct {
	first    uint64
	before   [32]byte // the hash of the record before the first
	segments []goodSegment
}

// goodSegment is a segment whose entries first to last are good. tree is the tree over the entries before; nil if it
// is not known.
type goodSegment struct {
	path        string
	before      *merkle.Tree
	first, last uint64
}

func (g *goodEntries) add(path string, before *merkle.Tree, first, last uint64) {
	if last < first {
		return // an empty segment
	}
	s := goodSegment{path: path, first: first, last: last}
	if before != nil {
		tree := before.Clone()
		s.before = &tree
	}
	g.segments = append(g.segments, s)
}

// First implements audit.Log.
func (g *goodEntries) First() uint64 { return g.first }

// KnownTree implements eventlog.RecordReader.
func (g *goodEntries) KnownTree(_ context.Context, size uint64) (merkle.Tree, error) {
	for i := len(g.segments) - 1; i >= 0; i-- {
		if s := g.segments[i]; s.before != nil && s.before.Size <= size {
			return s.before.Clone(), nil
		}
	}
	return merkle.Tree{}, fmt.Errorf("the hash tree over the first %d entries is not known", size)
}

// RecordHash implements eventlog.RecordReader.
func (g *goodEntries) RecordHash(_ context.Context, seq uint64) (hash [32]byte, err error) {
	if seq+1 == g.first {
		return g.before, nil
	}
	for _, good := range g.segments {
		if seq < good.first || seq > good.last {
			continue
		}
		s, err := boltlog.OpenSegment(good.path)
		if err != nil {
			return hash, err
		}
		hash, err = s.RecordHash(seq)
		return hash, errors.Join(err, s.Close())
	}
	return hash, fmt.Errorf("entry %d was not found good", seq)
}

// Records implements eventlog.RecordReader.
func (g *goodEntries) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for _, good := range g.segments {
			if good.last >= from && !good.yield(ctx, max(from, good.first), yield) {
				return
			}
		}
	}
}

// yield yields the good entries of a segment from entry from on; false ends the iteration.
func (g *goodSegment) yield(ctx context.Context, from uint64, yield func(eventlog.Record, error) bool) bool {
	s, err := boltlog.OpenSegment(g.path)
	if err != nil {
		yield(eventlog.Record{}, err)
		return false
	}
	defer func() { _ = s.Close() }() // it was only read
	for r, err := range s.Records(ctx, from, g.last) {
		if !yield(r, err) || err != nil {
			return false
		}
	}
	return true
}
