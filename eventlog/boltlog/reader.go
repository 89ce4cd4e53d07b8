package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sort"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A reader reads the segments of a log in order.
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
			// The segment may have been sealed and closed meanwhile: then locate finds no tail.
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

// open opens a sealed segment, unless it is open already. Each reader opens its own, one at a time. If the segment was
// archived since the log was opened, the reader has to locate it again.
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

// close closes the segment. It was only read: no error can matter.
func (r *reader) close() {
	if r.own != nil {
		_ = r.own.close()
		r.own = nil
	}
}

// Pick yields the entries of the ascending seqs. It checks that each record carries the hash of its predecessor. It
// opens a segment once. Pick reads only the direct predecessor of each entry, so it may miss damage in between.
func (l *Log) Pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		last, err := l.Last()
		if err != nil {
			yield(eventlog.Entry{}, err)
			return
		}
		r := reader{log: l, last: last, cursor: cursor{ctx: ctx}}
		defer r.close()
		for _, seq := range seqs {
			if seq > last {
				yield(eventlog.Entry{}, l.beyond(seq, last))
				return
			}
			if err := r.seek(seq); err != nil {
				yield(eventlog.Entry{}, err)
				return
			}
			if !drain(&r.cursor, r.entry, yield) {
				return
			}
		}
	}
}

// beyond returns the reason why there is no entry seq after the last one.
func (l *Log) beyond(seq, last uint64) error {
	switch {
	case l.damage != nil:
		return l.damage
	case l.endUnknown != nil:
		return l.endUnknown
	}
	return fmt.Errorf("%s: there is no entry %d: the last is %d", l.path, seq, last)
}

// seek copies only entry seq from its segment. An entry right after the one before is linked to it.
func (r *reader) seek(seq uint64) error {
	if seq != r.next {
		r.linked = false
	}
	last := r.last
	r.next, r.last = seq, seq
	err := r.fill()
	r.last = last
	return err
}

// PickHashes returns the hashes of the records of seqs, which are ascending, as RecordHash does. It opens a segment
// once, and none for an entry at the end of a segment.
func (l *Log) PickHashes(ctx context.Context, seqs []uint64) ([][32]byte, error) {
	last, err := l.Last()
	if err != nil {
		return nil, err
	}
	r := reader{log: l, last: last, cursor: cursor{ctx: ctx}}
	defer r.close()
	hashes := make([][32]byte, 0, len(seqs))
	for _, seq := range seqs {
		if seq > last {
			return nil, l.beyond(seq, last)
		}
		if known, ok := l.place(seq); ok || seq == 0 {
			hashes = append(hashes, known.Hash)
			continue
		}
		if err := r.seek(seq); err != nil {
			return nil, err
		}
		if r.gap != nil {
			return nil, r.gap
		}
		hashes = append(hashes, eventlog.HashRecord(r.batch))
		r.linked = false // the record was not checked
	}
	return hashes, nil
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

// place returns the place after entry seq, if that is known without reading entries; its tree may be empty.
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
