package boltlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// due reports whether a batch has to begin a new segment. Its first entry has the given time and its records take size
// bytes.
func (l *Log) due(first eventlog.Time, size int) (bool, error) {
	if l.last < l.tail.First {
		return false, nil // an empty segment takes anything
	}
	if age := l.opts.SegmentAge; age > 0 && first.Sub(l.began) >= age {
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

// rotate seals the live segment and begins a new one. Opening the log again completes the steps that fail, or are not
// reached.
func (l *Log) rotate() error {
	tail := l.tail
	end, err := l.successor()
	if err != nil {
		return err
	}
	held, err := tail.file.Stat()
	if err != nil {
		return err
	}
	if err := tail.writeSeal(l.end); err != nil {
		return fmt.Errorf("seal %s: %w", tail.Path, err)
	}
	if err := l.retire(end); err != nil {
		return err
	}
	if err := l.dir.trim(filepath.Base(tail.Path), held); err != nil {
		return fmt.Errorf("trim %s: %w", tail.Path, err)
	}
	next, err := l.dir.addSegment(end)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = next
	l.segments = append(l.segments, next.Facts)
	return nil
}

// successor returns the place at which the next segment begins.
func (l *Log) successor() (end eventlog.Origin, err error) {
	end = eventlog.Origin{Seq: l.end.Seq, Hash: l.end.Hash}
	if end.Tree, err = l.tail.treeAt(l.last); err == nil {
		tree := end.Tree.Clone()
		l.tail.tree = &tree
	}
	return end, err
}

// retire closes the sealed segment; readers open it themselves from now on.
func (l *Log) retire(end eventlog.Origin) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.tail
	l.segments[len(l.segments)-1].seal(end)
	l.tail = nil
	return tail.close()
}

// writeSeal writes the segment's end into it.
func (s *Segment) writeSeal(end eventlog.Chain) error {
	tree, err := s.treeAt(end.Seq)
	if err != nil {
		return err
	}
	value := tree.AppendNodes(append(key(end.Seq), end.Hash[:]...))
	return s.update(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if err := s.unchanged(tx.Bucket(bucketLog), meta, end.Seq); err != nil {
			return err
		}
		return meta.Put(metaSealed, value)
	})
}

// unchanged returns a *eventlog.SupersededError if the segment is not as its writer left it: entry last is the last
// one, and it is not sealed. The locks keep other writers out. Where they do not work, such as on some network file
// systems, this check keeps two writers from overwriting each other's entries.
func (s *Segment) unchanged(entries, meta *bolt.Bucket, last uint64) error {
	found, rec := s.First-1, []byte(nil)
	if k, v := entries.Cursor().Last(); len(k) == 8 {
		found, rec = binary.BigEndian.Uint64(k), v
	}
	if found == last && meta.Get(metaSealed) == nil {
		return nil
	}
	superseded := &eventlog.SupersededError{Expected: last}
	if found == last {
		return superseded // the other writer has sealed it, and continues in the next one
	}
	superseded.Actual = found
	if e, _, err := eventlog.DecodeRecord(rec); err == nil {
		superseded.Epoch = e.Epoch
	}
	return superseded
}

// seal turns the facts into the facts of a segment that was sealed at end, and cut.
func (f *Facts) seal(end eventlog.Origin) {
	f.Last, f.Sealed, f.Hash, f.Extra = end.Seq, true, end.Hash, 0
	tree := end.Tree.Clone()
	f.SealedTree = &tree
}

// trim cuts a sealed segment to the part that bbolt uses, so that bytes after its end are damage. It cuts no file but
// held; nil means the present one.
func (d *heldDir) trim(name string, held fs.FileInfo) error {
	f, err := d.openFile(name, os.O_RDWR)
	if err != nil {
		return err
	}
	err = d.trimFile(name, f, held)
	return errors.Join(err, f.Close())
}

// trimFile is trim for the open file f.
func (d *heldDir) trimFile(name string, f *os.File, held fs.FileInfo) error {
	if held == nil {
		var err error
		if held, err = f.Stat(); err != nil {
			return err
		}
	}
	s, err := d.openSegment(name, true)
	if err != nil {
		return err
	}
	for _, file := range []*os.File{f, s.file} {
		if info, err := file.Stat(); err != nil || !os.SameFile(info, held) {
			replaced := fmt.Errorf("the segment %s was replaced by another file", name)
			return errors.Join(replaced, err, s.close())
		}
	}
	used, extra := s.used, s.Extra
	if err := s.close(); err != nil {
		return err
	}
	if extra > 0 {
		if err := f.Truncate(used); err != nil {
			return err
		}
	}
	return f.Sync()
}

// addSegment makes a segment after origin and opens it for appending.
func (d *heldDir) addSegment(origin eventlog.Origin) (*Segment, error) {
	name := segmentName(origin.Seq + 1)
	if err := d.createSegment(origin); err != nil {
		return nil, fmt.Errorf("create segment %s: %w", name, err)
	}
	return d.openSegment(name, false)
}

// repair completes the steps that a crash has interrupted in l, whose segments were surveyed. It is not called for a
// damaged log.
func (l *Log) repair() error {
	last := len(l.segments) - 1
	if last > 0 && (!l.segments[last-1].Sealed || l.segments[last-1].Extra != 0) {
		if err := l.dir.reseal(&l.segments[last-1], l.segments[last]); err != nil {
			return err
		}
	}
	tail := &l.segments[last]
	if !tail.Sealed {
		return nil
	}
	if err := l.dir.trim(filepath.Base(tail.Path), nil); err != nil {
		return fmt.Errorf("trim %s: %w", tail.Path, err)
	}
	tail.Extra = 0
	end := eventlog.Origin{Seq: tail.Last, Hash: tail.Hash}
	var err error
	if end.Tree, err = eventlog.TreeAt(context.Background(), l, tail.Last); err != nil {
		return fmt.Errorf("compute the hash tree: %w", err)
	}
	next, err := l.dir.addSegment(end)
	if err != nil {
		return err
	}
	l.segments = append(l.segments, next.Facts)
	return next.close()
}

// reseal seals the segment of prev, which lacks nothing but its seal, or the cut after it, before next.
func (d *heldDir) reseal(prev *Facts, next Facts) (err error) {
	if !prev.Sealed {
		if err := mayBeWritten(prev.Path); err != nil {
			return err
		}
		s, err := d.openSegment(filepath.Base(prev.Path), false)
		if err != nil {
			return err
		}
		if err := errors.Join(
			s.writeSeal(eventlog.Chain{Seq: next.First - 1, Hash: next.Previous}),
			s.close(),
		); err != nil {
			return fmt.Errorf("seal %s: %w", prev.Path, err)
		}
	}
	if err := d.trim(filepath.Base(prev.Path), nil); err != nil {
		return fmt.Errorf("trim %s: %w", prev.Path, err)
	}
	*prev, err = factsOf(prev.Path)
	return err
}

// MayPrecede reports whether prev, which is not sealed, lacks nothing but its seal before next. hash is the hash of
// prev's last record. In that case the seal did not reach the disk though the successor, still empty, did. This
// package's order of writes does not lead there, but a file system that reorders them does.
func (f Facts) MayPrecede(next Facts, hash [32]byte) bool {
	return !f.Sealed && f.Last >= f.First && next.First == f.Last+1 && next.Last < next.First && !next.Sealed &&
		next.Previous == hash
}
