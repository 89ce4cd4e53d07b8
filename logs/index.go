package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"sort"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// IndexDir is the directory of the index, in the directory of the log.
const IndexDir = "index"

// IndexSpan is the number of entries of each part of an index that is written. A reader that needs the index reads the
// entries after the last part itself. There are fewer than IndexSpan of them, unless the writer was killed or had no
// pause.
const IndexSpan = index.MaxSpan

// keptParts is the largest total size in bytes of the parts that an Index keeps in memory and can read again.
const keptParts = 256 << 20

// IndexOf returns the index of the log at path.
func IndexOf(path string) *index.Dir { return index.NewDir(filepath.Join(path, IndexDir)) }

// An Index finds the entries of a log in a directory that may name an object, up to the last entry when it was opened.
// Parts that are missing or cannot be trusted are made from the entries, and are not kept. It is not safe for
// concurrent use.
type Index struct {
	log   *Source
	dir   *index.Dir
	parts []indexed
	kept  int    // bytes of parts in memory that can be read again
	read  uint64 // entries that were read to make parts
}

// indexed is a part of an Index.
type indexed struct {
	index.Facts
	part *index.Part // nil if it is to be read from the directory
	made bool        // it is not in the directory
}

var _ index.Lookup = (*Index)(nil)

// Index returns the log's index, an *Index; nil for a bundle and for a log in a stream, which have none. It reads the
// entries that no part is kept of.
func (s *Source) Index(ctx context.Context) (index.Lookup, error) {
	if s.stored == nil {
		return nil, nil
	}
	if s.index == nil {
		x, err := s.openIndex(ctx)
		if err != nil {
			return nil, err
		}
		s.index = x
	}
	return s.index, nil
}

func (s *Source) openIndex(ctx context.Context) (*Index, error) {
	x := &Index{log: s, dir: IndexOf(s.path)}
	last, err := s.Last()
	if err != nil {
		return nil, err
	}
	ranges, err := x.dir.List()
	if err != nil {
		s.Report("the index is not used: %v", err)
	}
	kept, err := x.trusted(ctx, index.Cover(ranges, s.First(), last), x.dir.Facts, x.distrust)
	if err != nil {
		return nil, err
	}
	next := s.First()
	for _, f := range kept {
		if err := x.make(ctx, next, f.First-1); err != nil {
			return nil, err
		}
		x.parts = append(x.parts, indexed{Facts: f})
		next = f.Last + 1
	}
	return x, x.make(ctx, next, last)
}

// trusted returns the facts of the parts of this log among the parts with the given ranges. It reads them with read,
// and calls distrust for each of the others.
func (x *Index) trusted(ctx context.Context, ranges []index.Range, read func(index.Range) (index.Facts, error),
	distrust func(index.Range, error),
) (kept []index.Facts, err error) {
	var ends []uint64
	for _, r := range ranges {
		f, err := read(r)
		if err != nil {
			distrust(r, err)
			continue
		}
		kept, ends = append(kept, f), append(ends, f.Last)
	}
	hashes, err := x.log.pickHashes(ctx, ends)
	if err != nil {
		return nil, err
	}
	i := -1
	return slices.DeleteFunc(kept, func(f index.Facts) bool {
		i++
		if f.Hash != hashes[i] {
			distrust(index.Range{First: f.First, Last: f.Last}, index.NotOfThisLog(f.Last))
		}
		return f.Hash != hashes[i]
	}), nil
}

// distrust reports the reason why a part is not used. A missing one was dropped meanwhile.
func (x *Index) distrust(r index.Range, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		x.log.Report("the index of entries %d to %d is not used: %v", r.First, r.Last, err)
	}
}

// pickHashes returns the hashes of the records of seqs, which are ascending.
func (s *Source) pickHashes(ctx context.Context, seqs []uint64) ([][32]byte, error) {
	sealed, err := s.stored.Last()
	if err != nil {
		return nil, err
	}
	n := sort.Search(len(seqs), func(i int) bool { return seqs[i] > sealed })
	hashes, err := s.stored.PickHashes(ctx, seqs[:n])
	for _, seq := range seqs[n:] {
		var hash [32]byte
		if err == nil {
			hash, err = s.RecordHash(ctx, seq)
		}
		hashes = append(hashes, hash)
	}
	return hashes, s.Advise(err)
}

// make makes parts of the entries from first to last.
func (x *Index) make(ctx context.Context, first, last uint64) error {
	if first > last {
		return nil
	}
	return x.log.indexed(ctx, first, last, bySpan, func(p *index.Part) error {
		x.parts = append(x.parts, indexed{Facts: p.Facts, part: p, made: true})
		x.read += p.Last - p.First + 1
		return nil
	})
}

// bySpan ends the parts of an index that are written: at multiples of IndexSpan.
func bySpan(b *index.Builder) bool { return b.Range().Last%IndexSpan == 0 || b.Full() }

// makePart makes the part of a range from its entries.
func makePart(ctx context.Context, s *Source, r index.Range) (p *index.Part, err error) {
	err = s.indexed(ctx, r.First, r.Last, func(*index.Builder) bool { return false }, func(made *index.Part) error {
		p = made
		return nil
	})
	return p, err
}

// indexed reads the entries from first to last, which the log has, and calls add with each part of their index. A part
// ends where ends says so, and at the last entry.
func (s *Source) indexed(
	ctx context.Context, first, last uint64, ends func(*index.Builder) bool, add func(*index.Part) error,
) error {
	var b index.Builder
	next := first
	for e, err := range s.Read(ctx, first) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = b.Add(e)
		}
		if err != nil {
			return err
		}
		s.opts.progress("", e.Seq, last)
		if next = e.Seq + 1; e.Seq != last && !ends(&b) {
			continue
		}
		hash, err := s.RecordHash(ctx, e.Seq)
		if err == nil {
			err = add(b.Part(hash))
		}
		if err != nil || e.Seq == last {
			return err
		}
	}
	return fmt.Errorf("%s ends before entry %d", s.path, next)
}

// Read returns the number of entries that were read because they have no part.
func (x *Index) Read() uint64 { return x.read }

// Facts returns the facts of the parts, in order. Together they cover all entries of the log.
func (x *Index) Facts() []index.Facts {
	facts := make([]index.Facts, len(x.parts))
	for i := range x.parts {
		facts[i] = x.parts[i].Facts
	}
	return facts
}

// Naming returns the entries that may name one of the keys, ascending.
func (x *Index) Naming(ctx context.Context, keys ...index.Key) ([]uint64, error) {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	var seqs []uint64
	for i := range x.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := x.part(ctx, &x.parts[i])
		if err != nil {
			return nil, err
		}
		from := len(seqs)
		seqs = p.Naming(keys, seqs)
		slices.Sort(seqs[from:])
	}
	return slices.Compact(seqs), nil
}

// part returns a whole part. It makes an unreadable one from the entries.
func (x *Index) part(ctx context.Context, p *indexed) (*index.Part, error) {
	if p.part != nil {
		return p.part, nil
	}
	r := index.Range{First: p.First, Last: p.Last}
	whole, err := x.dir.Get(r)
	if err == nil && whole.Hash != p.Hash {
		err = errors.New("it was replaced by another one")
	}
	if err != nil {
		x.distrust(r, err)
		if whole, err = makePart(ctx, x.log, r); err != nil {
			return nil, err
		}
		x.read += r.Last - r.First + 1
		p.part, p.made = whole, true
		return whole, nil
	}
	if x.kept += whole.Size(); x.kept <= keptParts {
		p.part = whole
	}
	return whole, nil
}

// Pick yields the entries of seqs, which are ascending. It does not read the entries in between.
func (x *Index) Pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error] {
	return x.log.pick(ctx, seqs)
}

func (s *Source) pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		sealed, err := s.stored.Last()
		if err != nil {
			yield(eventlog.Entry{}, s.Advise(err))
			return
		}
		n := sort.Search(len(seqs), func(i int) bool { return seqs[i] > sealed })
		for e, err := range s.stored.Pick(ctx, seqs[:n]) {
			if !yield(e, s.Advise(err)) || err != nil {
				return
			}
		}
		for rest := seqs[n:]; len(rest) > 0; { // the writer sends these
			for e, err := range s.Read(ctx, rest[0]) {
				if err == nil && e.Seq < rest[0] {
					continue
				}
				if !yield(e, err) || err != nil {
					return
				}
				if rest = rest[1:]; len(rest) == 0 || rest[0] > e.Seq+pickGap {
					break
				}
			}
		}
	}
}

// pickGap is the largest gap that is read through instead of being skipped by a new request.
const pickGap = 1 << 10

// Until returns the last entry that is not after a time; 0 if there is none.
func (x *Index) Until(ctx context.Context, at eventlog.Time) (uint64, error) {
	i := sort.Search(len(x.parts), func(i int) bool { return x.parts[i].From > at }) - 1
	if i < 0 {
		return 0, nil
	}
	p := &x.parts[i]
	if p.To <= at {
		return p.Last, nil
	}
	var failed error
	n := sort.Search(int(p.Last-p.First), func(n int) bool {
		for e, err := range x.Pick(ctx, []uint64{p.First + 1 + uint64(n)}) {
			if err != nil && failed == nil {
				failed = err
			}
			return err == nil && e.Time > at
		}
		return true
	})
	return p.First + uint64(n), failed
}
