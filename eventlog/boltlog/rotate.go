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
	if err := tail.writeSeal(l.last, l.prev); err != nil {
		return fmt.Errorf("seal %s: %w", tail.Path, err)
	}
	if err := l.retire(); err != nil {
		return err
	}
	if err := trim(tail.Path); err != nil {
		return fmt.Errorf("trim %s: %w", tail.Path, err)
	}
	next, err := begin(l.path, l.last+1, l.prev)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = next
	l.segments = append(l.segments, next.Facts)
	return nil
}

// retire closes the segment that was sealed; readers open it for themselves from now on.
func (l *Log) retire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.tail
	facts := &l.segments[len(l.segments)-1]
	facts.Last, facts.Sealed, facts.Hash = l.last, true, l.prev
	l.tail = nil
	return tail.close()
}

// writeSeal says in the segment that it ends with entry last, whose record has the given hash.
func (s *Segment) writeSeal(last uint64, hash [32]byte) error {
	return s.update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(metaSealed, append(key(last), hash[:]...))
	})
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

// begin makes a segment and opens it for appending.
func begin(dir string, first uint64, previous [32]byte) (*Segment, error) {
	if err := createSegment(dir, first, previous); err != nil {
		return nil, fmt.Errorf("create segment %s: %w", segmentName(first), err)
	}
	return openSegment(filepath.Join(dir, segmentName(first)), false)
}

// repair does the rest of what a crash has interrupted in a log whose segments were surveyed, and returns
// their facts as they are then. It is not called for a damaged log.
func repair(dir string, segments []Facts) ([]Facts, error) {
	last := len(segments) - 1
	if last > 0 && (!segments[last-1].Sealed || segments[last-1].Extra != 0) {
		prev := &segments[last-1]
		if err := reseal(*prev, segments[last]); err != nil {
			return nil, err
		}
		prev.Sealed, prev.Hash, prev.Extra = true, segments[last].Previous, 0
	}
	tail := &segments[last]
	if !tail.Sealed {
		return segments, nil
	}
	if err := trim(tail.Path); err != nil {
		return nil, fmt.Errorf("trim %s: %w", tail.Path, err)
	}
	tail.Extra = 0
	next, err := begin(dir, tail.Last+1, tail.Hash)
	if err != nil {
		return nil, err
	}
	return append(segments, next.Facts), next.close()
}

// reseal makes a sealed segment of prev, which lacks nothing but its seal, or the cut after it, before next.
func reseal(prev, next Facts) error {
	if !prev.Sealed {
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
	return nil
}

// MayPrecede says whether prev, which is not sealed, lacks nothing but its seal before next, if hash is that of
// prev's last record: the seal did not reach the disk though the successor, still empty, did. No order of
// writes that this package makes leads there, but a file system that reorders them does.
func (f Facts) MayPrecede(next Facts, hash [32]byte) bool {
	return !f.Sealed && f.Last >= f.First && next.First == f.Last+1 && next.Last < next.First && !next.Sealed && next.Previous == hash
}
