package boltlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// due says whether entries, whose records take size bytes, are to begin a new segment.
func (l *Log) due(entries []eventlog.Entry, size int) (bool, error) {
	if l.last < l.tail.First {
		return false, nil // an empty segment takes anything
	}
	if age := l.opts.SegmentAge; age > 0 && entries[0].Time.Sub(l.began) >= age {
		return true, nil
	}
	if l.opts.SegmentBytes <= 0 {
		return false, nil
	}
	var used int64
	err := l.tail.view(l.last, func(tx *bolt.Tx) error {
		used = tx.Size()
		return nil
	})
	return used+int64(size) > l.opts.SegmentBytes, err
}

// rotate seals the live segment and begins a new one. Whatever step fails, or is not reached, is done when
// the log is opened again.
func (l *Log) rotate() error {
	tail := l.tail
	end, err := l.end()
	if err != nil {
		return err
	}
	if err := tail.writeSeal(l.last, l.prev); err != nil {
		return fmt.Errorf("seal %s: %w", tail.Path, err)
	}
	if err := l.retire(end); err != nil {
		return err
	}
	if err := trim(tail.Path); err != nil {
		return fmt.Errorf("trim %s: %w", tail.Path, err)
	}
	next, err := begin(l.path, end)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = next
	l.segments = append(l.segments, next.Facts)
	return nil
}

// end returns the place where the next segment begins.
func (l *Log) end() (end eventlog.Origin, err error) {
	end = eventlog.Origin{Seq: l.last, Hash: l.prev}
	if l.tail.Tree == nil { // its format has none
		end.Tree, err = l.Tree(l.last)
		return end, err
	}
	if end.Tree, err = l.tail.treeAt(l.last); err == nil {
		tree := end.Tree.Clone()
		l.tail.tree = &tree
	}
	return end, err
}

// retire closes the segment that was sealed; readers open it for themselves from now on.
func (l *Log) retire(end eventlog.Origin) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.tail
	l.segments[len(l.segments)-1].seal(end)
	l.tail = nil
	return tail.close()
}

// writeSeal says in the segment that it ends with entry last, whose record has the given hash.
func (s *Segment) writeSeal(last uint64, hash [32]byte) error {
	value := append(key(last), hash[:]...)
	if s.Format >= formatTree {
		tree, err := s.treeAt(last)
		if err != nil {
			return err
		}
		value = tree.AppendNodes(value)
	}
	return s.update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(metaSealed, value)
	})
}

// seal makes the facts those of a segment that was sealed at end, and cut.
func (f *Facts) seal(end eventlog.Origin) {
	f.Last, f.Sealed, f.Hash, f.Extra = end.Seq, true, end.Hash, 0
	if f.Format >= formatTree {
		tree := end.Tree.Clone()
		f.SealedTree = &tree
	}
}

// trim cuts a sealed segment to what bbolt uses of it, so that bytes behind its end are damage.
func trim(path string) error {
	s, err := openSegment(path, true)
	if err != nil {
		return err
	}
	used, extra := s.used, s.Extra
	if err := s.close(); err != nil {
		return err
	}
	if extra > 0 {
		if err := os.Truncate(path, used); err != nil {
			return err
		}
	}
	return syncPath(path)
}

// begin makes a segment behind origin and opens it for appending.
func begin(dir string, origin eventlog.Origin) (*Segment, error) {
	name := segmentName(origin.Seq + 1)
	if err := createSegment(dir, origin); err != nil {
		return nil, fmt.Errorf("create segment %s: %w", name, err)
	}
	return openSegment(filepath.Join(dir, name), false)
}

// repair does the rest of what a crash has interrupted in l, whose segments were surveyed. It is not called
// for a damaged log.
func (l *Log) repair() error {
	last := len(l.segments) - 1
	if last > 0 && (!l.segments[last-1].Sealed || l.segments[last-1].Extra != 0) {
		if err := reseal(&l.segments[last-1], l.segments[last]); err != nil {
			return err
		}
	}
	tail := &l.segments[last]
	if !tail.Sealed {
		return nil
	}
	if err := trim(tail.Path); err != nil {
		return fmt.Errorf("trim %s: %w", tail.Path, err)
	}
	tail.Extra = 0
	end := eventlog.Origin{Seq: tail.Last, Hash: tail.Hash}
	var err error
	if end.Tree, err = l.Tree(tail.Last); err != nil {
		return fmt.Errorf("compute the hash tree: %w", err)
	}
	next, err := begin(l.path, end)
	if err != nil {
		return err
	}
	l.segments = append(l.segments, next.Facts)
	return next.close()
}

// reseal makes a sealed segment of prev, which lacks nothing but its seal, or the cut after it, before next.
func reseal(prev *Facts, next Facts) (err error) {
	if !prev.Sealed {
		if err := mayBeWritten(prev.Path); err != nil {
			return err
		}
		s, err := openSegment(prev.Path, false)
		if err != nil {
			return err
		}
		if err := errors.Join(s.writeSeal(next.First-1, next.Previous), s.close()); err != nil {
			return fmt.Errorf("seal %s: %w", prev.Path, err)
		}
	}
	if err := trim(prev.Path); err != nil {
		return fmt.Errorf("trim %s: %w", prev.Path, err)
	}
	*prev, err = factsOf(prev.Path)
	return err
}

// MayPrecede says whether prev, which is not sealed, lacks nothing but its seal before next, if hash is that of
// prev's last record: the seal did not reach the disk though the successor, still empty, did. No order of
// writes that this package makes leads there, but a file system that reorders them does.
func (f Facts) MayPrecede(next Facts, hash [32]byte) bool {
	return !f.Sealed && f.Last >= f.First && next.First == f.Last+1 && next.Last < next.First && !next.Sealed && next.Previous == hash
}
