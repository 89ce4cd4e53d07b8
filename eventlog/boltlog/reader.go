package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A reader goes through the segments of a log.
type reader struct {
	cursor
	log  *Log
	last uint64   // number of the last entry to read
	own  *Segment // opened for this reader alone, or nil
}

// fill copies the next records out of the segment that has them.
func (r *reader) fill() error {
	for {
		facts, tail, err := r.locate()
		if err != nil {
			return err
		}
		to := min(r.last, facts.Last)
		if tail != nil {
			// It may have been sealed and closed meanwhile: then locate finds no tail.
			if err := r.cursor.fill(tail, r.last); !errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
				return err
			}
			continue
		}
		if again, err := r.open(facts); err != nil {
			return err
		} else if again {
			continue
		}
		return r.cursor.fill(r.own, to)
	}
}

// locate returns the segment of the next entry, and the open one if it is the log's last.
func (r *reader) locate() (Facts, *Segment, error) {
	facts, tail, err := r.log.locate(r.next)
	if err == nil && facts.Path == "" {
		err = r.log.archived(r.next)
	}
	return facts, tail, err
}

// locate returns the segment of an entry, and the open one if it is the log's last; no facts if the entry is
// before the first segment.
func (l *Log) locate(seq uint64) (Facts, *Segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Facts{}, nil, eventlog.ErrClosed
	}
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].First > seq }) - 1
	switch {
	case i < 0:
		return Facts{}, nil, nil
	case i == len(l.segments)-1 && l.tail != nil:
		return l.segments[i], l.tail, nil
	}
	return l.segments[i], nil, nil
}

// open opens a sealed segment, unless it is open already. Each reader opens its own, one at a time. If the
// segment was archived since the log was opened, the reader is to locate it again.
func (r *reader) open(facts Facts) (again bool, err error) {
	if r.own != nil && r.own.First == facts.First {
		return false, nil
	}
	r.close()
	r.own, err = openSegment(facts.Path, true)
	if errors.Is(err, fs.ErrNotExist) {
		return true, r.log.relocate(facts)
	}
	return false, err
}

// close lets go of the segment. It was only read: no error can matter.
func (r *reader) close() {
	if r.own != nil {
		_ = r.own.close()
		r.own = nil
	}
}

// RecordHash implements eventlog.Log.
func (l *Log) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	last, err := l.Last()
	switch {
	case err != nil:
		return [32]byte{}, err
	case seq > last && l.damage != nil:
		return [32]byte{}, l.damage
	case seq > last:
		return [32]byte{}, fmt.Errorf("%s: there is no entry %d: the last is %d", l.path, seq, last)
	case seq == 0:
		return [32]byte{}, nil
	}
	r := reader{log: l, last: seq, cursor: cursor{ctx: ctx, next: seq}}
	defer r.close()
	if known, ok := l.place(seq); ok {
		return known.Hash, nil
	}
	if err := r.fill(); err != nil {
		return [32]byte{}, err
	}
	if r.gap != nil {
		return [32]byte{}, r.gap
	}
	return eventlog.HashRecord(r.batch), nil
}

// place returns the place behind entry seq, if that is known without reading entries; its tree may be empty.
func (l *Log) place(seq uint64) (Facts, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.segments {
		if f := &l.segments[i]; f.Sealed && f.Last == seq {
			return *f, true
		} else if f.First == seq+1 {
			return f.predecessor(), true
		}
	}
	if l.begin != nil && l.begin.Origin.Seq == seq {
		return l.begin.facts(), true
	}
	return Facts{}, false
}
