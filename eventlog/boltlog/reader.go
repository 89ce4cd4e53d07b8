package boltlog

import (
	"errors"
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
		if err := r.open(facts); err != nil {
			return err
		}
		return r.cursor.fill(r.own, to)
	}
}

// locate returns the segment of the next entry, and the open one if it is the log's last.
func (r *reader) locate() (Facts, *Segment, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Facts{}, nil, eventlog.ErrClosed
	}
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].First > r.next }) - 1
	if i == len(l.segments)-1 && l.tail != nil {
		return l.segments[i], l.tail, nil
	}
	return l.segments[i], nil, nil
}

// open opens a sealed segment, unless it is open already. Each reader opens its own, one at a time.
func (r *reader) open(facts Facts) error {
	if r.own != nil && r.own.First == facts.First {
		return nil
	}
	r.close()
	var err error
	r.own, err = openSegment(facts.Path, true)
	return err
}

// close lets go of the segment. It was only read: no error can matter.
func (r *reader) close() {
	if r.own != nil {
		_ = r.own.close()
		r.own = nil
	}
}
