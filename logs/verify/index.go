package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
)

// An Index is the result of checking the index of a log.
type Index struct {
	// Parts is the number of parts, and Good the number of good ones, which agree with their entries.
	Parts int `json:"parts"`
	Good  int `json:"good"`
	// Others are the parts that are not good, ascending.
	Others []IndexPart `json:"others,omitempty"`
	// Unlisted says why the parts are not known.
	Unlisted string `json:"unlisted,omitempty"`
}

// An IndexPart is the result of checking a part of an index that is not good.
type IndexPart struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// State is one of the constants below, and Reason the reason for it.
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// The states of a part of an index that is not good.
const (
	IndexDamaged = "damaged"      // no whole part, or of another log: readers do not use it
	IndexWrong   = "wrong"        // whole, and does not agree with its entries: readers may answer wrongly
	IndexUnknown = "not compared" // its entries were not all read
	IndexUnread  = "unreadable"   // nothing is known about it
)

// mostOverlapping is the largest number of parts with the same entry that are compared. Writers leave at most two.
const mostOverlapping = 4

// indexCheck compares the parts of an index with the entries.
type indexCheck struct {
	report *Index
	kept   []index.Digest // the parts to compare, ascending
	made   map[index.Range]index.Digest
	unread error // the reason why entries could not be read again to make parts of them
}

// loadIndex reads the parts of a log's index.
func loadIndex(path string) (c indexCheck) {
	dir := logs.IndexOf(path)
	ranges, err := dir.List()
	if err == nil && len(ranges) == 0 {
		return c
	}
	c.report, c.made = &Index{}, map[index.Range]index.Digest{}
	if err != nil {
		c.report.Unlisted = err.Error()
		return c
	}
	var ends []uint64 // of the kept parts that may have the next entry
	for _, r := range ranges {
		ends = slices.DeleteFunc(ends, func(last uint64) bool { return last < r.First })
		if len(ends) >= mostOverlapping {
			c.other(r, IndexDamaged, fmt.Sprintf("%d other parts have its first entry too", len(ends)))
			continue
		}
		p, err := dir.Get(r)
		switch {
		case err == nil:
			c.report.Parts++
			c.kept, ends = append(c.kept, p.Digest()), append(ends, r.Last)
		case errors.Is(err, fs.ErrNotExist): // a writer has dropped it meanwhile
		case errors.Is(err, index.ErrDamaged):
			c.other(r, IndexDamaged, err.Error())
		default:
			c.other(r, IndexUnread, err.Error())
		}
	}
	return c
}

// other notes that a part is not good.
func (c *indexCheck) other(r index.Range, state, reason string) {
	c.report.Parts++
	c.report.Others = append(c.report.Others, IndexPart{First: r.First, Last: r.Last, State: state, Reason: reason})
}

// ranges returns the ranges of the parts to compare that are not made yet, as far as they end at entry from or later.
func (c *indexCheck) ranges(from uint64) (ranges []index.Range) {
	for _, d := range c.kept {
		if _, ok := c.made[d.Range]; !ok && d.Last >= from {
			ranges = append(ranges, d.Range)
		}
	}
	return ranges
}

// add notes parts that were made of the entries.
func (c *indexCheck) add(made []index.Digest) {
	for _, d := range made {
		c.made[d.Range] = d
	}
}

// result compares the parts with the parts that were made of the entries from first to last. It returns the report, nil
// if there is no part.
func (c *indexCheck) result(first, last uint64) *Index {
	for _, d := range c.kept {
		made, ok := c.made[d.Range]
		err := d.Compare(made)
		switch {
		case ok && err == nil:
			c.report.Good++
			continue
		case ok && errors.Is(err, index.ErrWrong):
			c.report.Others = append(c.report.Others, IndexPart{d.First, d.Last, IndexWrong, err.Error()})
			continue
		case ok:
			c.report.Others = append(c.report.Others, IndexPart{d.First, d.Last, IndexDamaged, err.Error()})
			continue
		}
		reason := fmt.Sprintf("the entries before entry %d were not read", first)
		if c.unread != nil && d.First >= first && d.Last <= last {
			reason = fmt.Sprintf("its entries could not be read again: %v", c.unread)
		} else if d.First >= first {
			reason = fmt.Sprintf("no entries after entry %d were read", last)
		}
		c.report.Others = append(c.report.Others, IndexPart{d.First, d.Last, IndexUnknown, reason})
	}
	c.kept = nil
	if c.report != nil {
		slices.SortFunc(c.report.Others, func(a, b IndexPart) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
		})
	}
	return c.report
}

// indexTail makes ready to make the parts of the index that need entries from next on, which come from the writer. It
// reads their earlier entries, which were found good, again.
func (v *verifier) indexTail(ctx context.Context, next uint64) {
	ranges := v.index.ranges(next)
	v.maker = newPartMaker(ranges)
	if len(ranges) == 0 || ranges[0].First >= next {
		return
	}
	for r, err := range v.log.Records(ctx, max(ranges[0].First, v.report.First)) {
		if err == nil && r.Seq >= next {
			return
		}
		var e eventlog.Entry
		if err == nil {
			e, _, err = eventlog.DecodeRecord(r.Bytes)
		}
		if err != nil {
			v.index.unread = err
			return
		}
		v.index.add(v.maker.entry(e, r.Hash))
	}
}

// A partMaker makes the parts of an index with given ranges from entries, which come in order.
type partMaker struct {
	ranges []index.Range // not begun yet, ascending
	cuts   []uint64      // the entries before first entries of ranges, and the last ones, ascending
	begun  []*begunPart
	chunk  index.Builder // of entries that came one by one
}

type begunPart struct {
	index.Range
	builder index.Builder
}

func newPartMaker(ranges []index.Range) *partMaker {
	m := &partMaker{ranges: ranges}
	for _, r := range ranges {
		m.cuts = append(m.cuts, r.First-1, r.Last)
	}
	slices.Sort(m.cuts)
	m.cuts = slices.Compact(m.cuts)
	return m
}

// idle reports whether there are no parts to make.
func (m *partMaker) idle() bool { return len(m.cuts) == 0 }

// end returns the last entry of a chunk that begins with entry from and ends with entry to or earlier, so that no part
// begins or ends within it.
func (m *partMaker) end(from, to uint64) uint64 {
	if i, _ := slices.BinarySearch(m.cuts, from); i < len(m.cuts) {
		return min(to, m.cuts[i])
	}
	return to
}

// entry adds the next entry, whose record has the hash. It returns the parts that end with it.
func (m *partMaker) entry(e eventlog.Entry, hash [32]byte) []index.Digest {
	if m.idle() || m.chunk.Add(e) != nil {
		return nil
	}
	first := m.chunk.Range().First
	if e.Seq < m.end(first, first-(first-1)%partSize+partSize-1) {
		return nil
	}
	made := m.add(&m.chunk, hash)
	m.chunk = index.Builder{}
	return made
}

// add adds the entries of a chunk, which ends at end. hash is the hash of the last one's record. It returns the parts
// that end with that entry. A part of whose entries some did not come is never made.
func (m *partMaker) add(chunk *index.Builder, hash [32]byte) (made []index.Digest) {
	r := chunk.Range()
	for len(m.ranges) > 0 && m.ranges[0].First <= r.First {
		if m.ranges[0].First == r.First {
			m.begun = append(m.begun, &begunPart{Range: m.ranges[0]})
		}
		m.ranges = m.ranges[1:]
	}
	m.begun = slices.DeleteFunc(m.begun, func(p *begunPart) bool {
		if p.builder.Len() > 0 && p.builder.Range().Last+1 != r.First || p.builder.Join(chunk) != nil {
			return true
		}
		if p.Last == r.Last {
			made = append(made, p.builder.Part(hash).Digest())
		}
		return p.Last <= r.Last
	})
	return made
}
