package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Copied describes a copy.
type Copied struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Entries is the number of entries of the copy, and Added the number of new ones among them.
	Entries uint64 `json:"entries"`
	Added   uint64 `json:"added"`
	// Hash is the hash of the last entry's record, and Root the root of the hash tree, in both logs.
	Hash string `json:"hash"`
	Root string `json:"root"`
}

// copyBatch is the number of entries in one append to a copy.
const copyBatch = 2000

// Copy copies a log to another one, up to entry upTo, 0 for the last: the same records, with the same chain and tree,
// which Copy compares at the end. If the other log exists and has the beginning of this one, Copy appends the rest,
// even if this one lacks that beginning by now. If the other one differs, Copy appends nothing and returns a
// *RequestError. It does not copy snapshots.
func (o Options) Copy(ctx context.Context, from, to string, upTo uint64, keep KeepOptions) (*Copied, error) {
	source, err := o.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	last, err := source.Last()
	switch {
	case err != nil:
		return nil, err
	case upTo > last:
		return nil, source.MustHave(upTo)
	case upTo > 0:
		last = upTo
	}
	if err := source.readable(ctx); err != nil {
		return nil, err
	}
	kept, at, err := keep.copyInto(ctx, source, to, last)
	if err != nil {
		return nil, err
	}
	err = kept.copyFrom(ctx, source, at, last)
	var end eventlog.Origin
	if err == nil {
		end, err = sameEnd(ctx, source, kept, last)
	}
	if err := errors.Join(err, kept.Close()); err != nil {
		return nil, fmt.Errorf("copy %s to %s: %w", source.Path(), kept.Path(), err)
	}
	return &Copied{From: source.Path(), To: kept.Path(), Entries: last, Added: last - at, Hash: fmt.Sprintf("%x",
		end.Hash),
		Root: end.Tree.Root().String()}, nil
}

// readable reads the first entry. A log of a version that this program does not read is refused there, before a target
// is made for it.
func (s *Source) readable(ctx context.Context) error {
	for _, err := range s.Read(ctx, s.First()) {
		return err
	}
	return nil
}

// copyInto opens the target log, and returns its last entry, which is not after last.
func (o KeepOptions) copyInto(ctx context.Context, source *Source, to string, last uint64) (*Kept, uint64, error) {
	first := source.First()
	if first == 1 {
		kept, err := o.Create(ctx, to)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return kept, 0, err
		}
	}
	kept, err := o.Continue(ctx, to)
	if errors.Is(err, fs.ErrNotExist) {
		err = beginsLate(source)
	}
	if err != nil {
		return nil, 0, err
	}
	at, err := kept.Last()
	if err == nil && at < first-1 {
		err = beginsLate(source)
	}
	if err == nil && at > last {
		err = Refuse("%s has %d entries already, and %d are to be copied: name another one", kept.Path(), at, last)
	}
	if err == nil {
		_, err = sameEnd(ctx, source, kept, at)
	}
	if err != nil {
		return nil, 0, errors.Join(err, kept.Close())
	}
	return kept, at, nil
}

// beginsLate is the error for a log whose first entries are missing, also from the copy.
func beginsLate(source *Source) error {
	return Refuse("%s begins with entry %d: it can be copied only to a copy that has the entries before, for the "+
		"state there is in a snapshot", source.Path(), source.First())
}

// sameEnd returns the place after entry at, which must be the same in both logs.
func sameEnd(ctx context.Context, source *Source, kept *Kept, at uint64) (eventlog.Origin, error) {
	want, err := eventlog.OriginAt(ctx, source, at)
	if err != nil {
		return want, source.Advise(err)
	}
	got, err := eventlog.OriginAt(ctx, kept, at)
	if err != nil {
		return got, err
	}
	if got.End() != want.End() || !got.Tree.Equal(want.Tree) {
		return got, Refuse("%s is another log: behind entry %d it has the hash %x, and %s has %x: name another one",
			kept.Path(), at, got.Hash, source.Path(), want.Hash)
	}
	return want, nil
}

// copyFrom appends the entries of source after entry at, up to entry last.
func (k *Kept) copyFrom(ctx context.Context, source *Source, at, last uint64) error {
	if at == last {
		return nil
	}
	var encoder eventlog.Encoder
	var batch []eventlog.Entry
	limit, size := k.Limit(), 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := k.Append(ctx, batch[0].Seq-1, batch)
		source.Progress("copying", batch[len(batch)-1].Seq, last)
		batch, size = batch[:0], 0
		return err
	}
	for e, err := range source.Read(ctx, at+1) {
		if err == nil {
			e.Encoding, err = encoder.Encode(e.Payload)
		}
		if err != nil {
			return err
		}
		if len(batch) == copyBatch || !limit.Holds(len(batch)+1, size+e.Encoding.Len()) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, e), size+e.Encoding.Len()
		if e.Seq == last {
			break
		}
	}
	return flush()
}
