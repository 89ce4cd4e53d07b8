package boltlog

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// KnownTree returns the largest hash tree over no more than size entries that is known without reading entries:
// the one that a segment begins or ends with. An *ArchivedError says that there is none.
func (l *Log) KnownTree(size uint64) (merkle.Tree, error) {
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
		if f.First == 1 {
			consider(&merkle.Tree{})
		}
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

// Tree returns the hash tree over the first size entries. It reads the entries behind the largest smaller tree
// that is known: a segment's worth, or the whole of a log that was begun by an older version. Errors are those
// of Read.
func (l *Log) Tree(size uint64) (merkle.Tree, error) {
	tree, err := l.KnownTree(size)
	if err != nil || tree.Size == size {
		return tree, err
	}
	for r, err := range l.Records(tree.Size + 1) {
		if err != nil {
			return merkle.Tree{}, err
		}
		tree.Add(r.Hash)
		if r.Seq == size {
			return tree, nil
		}
	}
	return merkle.Tree{}, fmt.Errorf("%s: there is no entry %d: the last is %d", l.path, size, tree.Size)
}

// OriginAt returns the place behind entry seq, from which a part of the log may go on (CreateFrom). It reads what
// Tree reads.
func (l *Log) OriginAt(seq uint64) (eventlog.Origin, error) {
	hash, err := l.RecordHash(seq)
	if err != nil {
		return eventlog.Origin{}, err
	}
	tree, err := l.Tree(seq)
	return eventlog.Origin{Seq: seq, Hash: hash, Tree: tree}, err
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

// treeAt returns the hash tree over all entries up to the segment's last, whose number is last. It is known if all
// of the segment was appended since it was opened, so that opening a log takes no time for it; otherwise all of
// the segment is read.
func (s *Segment) treeAt(last uint64) (merkle.Tree, error) {
	if s.tree != nil && s.tree.Size == last {
		return s.tree.Clone(), nil
	}
	tree := s.Tree.Clone()
	for r, err := range s.Records(s.First, last) {
		if err != nil {
			return tree, fmt.Errorf("compute the hash tree: %w", err)
		}
		tree.Add(r.Hash)
	}
	return tree, nil
}
