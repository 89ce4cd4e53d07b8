package bundle

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// OpenMemory returns the largest amount of memory, in bytes, that opening a bundle of the given size takes at a time.
// It consists of the window, the manifest, the snapshot and one record, however many there are.
func OpenMemory(size int) uint64 {
	const around = 48 << 20
	record := min(limit(uint64(size)), eventlog.MaxRecord)
	return around + 8*uint64(size) + 2*record + snapshot.DecodeMemory(size) + eventlog.DecodeMemory(int(record))
}

// A recordReader unpacks the records of a bundle in order, and checks each against the one before it.
type recordReader struct {
	bundle *Bundle
	zip    *zstd.Decoder
	in     *bufio.Reader
	tally  tally
	buf    []byte
}

// reader returns a recordReader at the first record.
func (b *Bundle) reader() (*recordReader, error) {
	packed := io.NewSectionReader(b.file, b.records, b.end-b.records)
	zip, err := zstd.NewReader(packed,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, b.damaged("records", err)
	}
	// The manifest's size of the stream bounds the bytes that are read: one byte more shows that it is another.
	in := bufio.NewReaderSize(io.LimitReader(zip, int64(b.manifest.Records)+1), 64<<10)
	return &recordReader{bundle: b, zip: zip, in: in, tally: newTally(b.manifest.Origin)}, nil
}

// next returns the next record, which is valid until the next call, and its entry.
func (r *recordReader) next() ([]byte, eventlog.Entry, error) {
	seq := r.tally.end.Seq + 1
	var length [lengthSize]byte
	if _, err := io.ReadFull(r.in, length[:]); err != nil {
		return nil, eventlog.Entry{}, r.bundle.damaged("records", fmt.Errorf("entry %d: %w", seq, err))
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n > eventlog.MaxRecord {
		err := fmt.Errorf("entry %d: %d bytes exceed the %d of a record", seq, n, eventlog.MaxRecord)
		return nil, eventlog.Entry{}, r.bundle.damaged("records", err)
	}
	for r.buf = r.buf[:0]; len(r.buf) < n; { // memory is allocated as the bytes come, not as announced
		step := min(n-len(r.buf), max(64<<10, len(r.buf)))
		r.buf = slices.Grow(r.buf, step)[:len(r.buf)+step]
		if _, err := io.ReadFull(r.in, r.buf[len(r.buf)-step:]); err != nil {
			return nil, eventlog.Entry{}, r.bundle.damaged("records", fmt.Errorf("entry %d: %w", seq, err))
		}
	}
	rec := r.buf
	e, err := r.tally.take(rec)
	if err != nil {
		return nil, e, r.bundle.damaged("records", err)
	}
	return rec, e, nil
}

// atEnd checks that the stream has ended.
func (r *recordReader) atEnd() error {
	_, err := r.in.ReadByte()
	switch {
	case err == nil:
		return r.bundle.damaged("records", errors.New("more follows the last entry"))
	case !errors.Is(err, io.EOF):
		return r.bundle.damaged("records", err)
	}
	return nil
}

func (r *recordReader) close() { r.zip.Close() }

// each calls f with the records and entries from an entry on, until ctx ends.
func (b *Bundle) each(
	ctx context.Context, from uint64, f func(rec eventlog.Record, e eventlog.Entry) (more bool),
) error {
	if from > b.manifest.Last {
		return nil
	}
	if from = max(from, 1); from < b.manifest.First {
		return b.archived(from)
	}
	r, err := b.reader()
	if err != nil {
		return err
	}
	defer r.close()
	for r.tally.end.Seq < b.manifest.Last {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, e, err := r.next()
		if err != nil {
			return err
		}
		if e.Seq >= from && !f(eventlog.Record{Seq: e.Seq, Bytes: rec, Hash: r.tally.end.Hash}, e) {
			return nil
		}
	}
	return nil
}

// archived is the error for an entry before the first.
func (b *Bundle) archived(seq uint64) error {
	return &eventlog.ArchivedError{Path: b.name, Seq: seq, First: b.manifest.First}
}

// Read implements eventlog.Reader.
func (b *Bundle) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		err := b.each(ctx, from, func(_ eventlog.Record, e eventlog.Entry) bool { return yield(e, nil) })
		if err != nil {
			yield(eventlog.Entry{}, err)
		}
	}
}

// Records implements eventlog.Reader.
func (b *Bundle) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		err := b.each(ctx, from, func(rec eventlog.Record, _ eventlog.Entry) bool { return yield(rec, nil) })
		if err != nil {
			yield(eventlog.Record{}, err)
		}
	}
}

// KnownTree implements eventlog.Reader: it knows the tree at the place where the bundle begins.
func (b *Bundle) KnownTree(_ context.Context, size uint64) (merkle.Tree, error) {
	if size < b.manifest.Origin.Seq {
		return merkle.Tree{}, b.archived(size)
	}
	return b.manifest.Origin.Tree.Clone(), nil
}

// RecordHash implements eventlog.Reader. It reads the records up to entry seq, unless that is the last one or the one
// before the first.
func (b *Bundle) RecordHash(ctx context.Context, seq uint64) (hash [32]byte, err error) {
	switch {
	case seq == 0:
		return hash, nil
	case seq < b.manifest.Origin.Seq:
		return hash, b.archived(seq)
	case seq > b.manifest.Last:
		return hash, fmt.Errorf("%s: there is no entry %d: the last is %d", b.name, seq, b.manifest.Last)
	case seq == b.manifest.Origin.Seq:
		return b.manifest.Origin.Hash, nil
	case seq == b.manifest.Last:
		last, err := hex.DecodeString(b.manifest.LastHash)
		if err != nil {
			return hash, b.damaged("manifest", err)
		}
		return [32]byte(last), nil
	}
	err = b.each(ctx, seq, func(rec eventlog.Record, _ eventlog.Entry) bool {
		hash = rec.Hash
		return false
	})
	return hash, err
}

// First implements eventlog.Reader.
func (b *Bundle) First() uint64 { return b.manifest.First }

// Last implements eventlog.Reader.
func (b *Bundle) Last() (uint64, error) { return b.manifest.Last, nil }

// Close closes the file.
func (b *Bundle) Close() error { return b.close() }
