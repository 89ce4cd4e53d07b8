package boltlog

import (
	"context"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// KnownTree implements eventlog.Log: it knows the trees at the beginnings and ends of segments.
func (l *Log) KnownTree(_ context.Context, size uint64) (merkle.Tree, error) {
	l.mu.Lock()
	var best *merkle.Tree
	consider := func(t *merkle.Tree) {
		if t != nil && t.Size <= size && (best == nil || t.Size > best.Size) {
			best = t
		}
	}
	if l.begin != nil {
		consider(&l.begin.Origin.Tree)
	}
	for i := range l.segments {
		f := &l.segments[i]
		consider(f.Tree)
		consider(f.SealedTree)
	}
	empty := len(l.segments) == 0 && l.begin == nil
	l.mu.Unlock()
	switch {
	case best != nil:
		return best.Clone(), nil
	case empty:
		return merkle.Tree{}, nil
	}
	return merkle.Tree{}, l.archived(size)
}

// grow adds the records with the given hashes, which were appended to the segment, to its tree.
func (s *Segment) grow(hashes [][32]byte) {
	if s.tree == nil {
		return
	}
	for _, hash := range hashes {
		s.tree.Add(hash)
	}
}

// treeAt returns the hash tree over all entries up to the segment's last, whose number is last. The tree is known if
// the whole segment was appended since it was opened. Otherwise treeAt reads the whole segment, so that opening a log
// needs no time for it.
func (s *Segment) treeAt(last uint64) (merkle.Tree, error) {
	if s.tree != nil && s.tree.Size == last {
		return s.tree.Clone(), nil
	}
	tree := s.Tree.Clone()
	for r, err := range s.Records(context.Background(), s.First, last) {
		if err != nil {
			return tree, fmt.Errorf("compute the hash tree: %w", err)
		}
		tree.Add(r.Hash)
	}
	return tree, nil
}
