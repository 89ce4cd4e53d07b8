package bundle

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A recordReader unpacks the records of a bundle in order, and checks each against the one before it.
type recordReader struct {
	bundle *Bundle
	zip    *zstd.Decoder
	in     *bufio.Reader
	tally  tally
	buf    []byte
}

// reader begins at the first record.
func (b *Bundle) reader() (*recordReader, error) {
	packed := io.NewSectionReader(b.file, b.records, b.end-b.records)
	zip, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, b.damaged("records", err)
	}
	// What is said to be in the stream bounds what is read of it: one byte more shows that it is another.
	in := bufio.NewReaderSize(io.LimitReader(zip, int64(b.manifest.Records)+1), 64<<10)
	origin := b.manifest.Origin
	origin.Tree = origin.Tree.Clone()
	return &recordReader{bundle: b, zip: zip, in: in, tally: tally{origin: origin}}, nil
}

// next returns the next record, which is the reader's until the next call, and its entry.
func (r *recordReader) next() ([]byte, eventlog.Entry, error) {
	seq := r.tally.origin.Seq + 1
	var length [lengthSize]byte
	if _, err := io.ReadFull(r.in, length[:]); err != nil {
		return nil, eventlog.Entry{}, r.bundle.damaged("records", fmt.Errorf("entry %d: %w", seq, err))
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n > eventlog.MaxRecord {
		return nil, eventlog.Entry{}, r.bundle.damaged("records", fmt.Errorf("entry %d: %d bytes exceed the %d of a record", seq, n, eventlog.MaxRecord))
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	rec := r.buf[:n]
	if _, err := io.ReadFull(r.in, rec); err != nil {
		return nil, eventlog.Entry{}, r.bundle.damaged("records", fmt.Errorf("entry %d: %w", seq, err))
	}
	e, err := r.tally.take(rec)
	if err != nil {
		return nil, e, r.bundle.damaged("records", err)
	}
	return rec, e, nil
}

// atEnd checks that nothing follows.
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

// each hands f the records and entries from an entry on.
func (b *Bundle) each(from uint64, f func(rec []byte, e eventlog.Entry) (more bool)) error {
	if from > b.manifest.Last {
		return nil
	}
	if from = max(from, 1); from < b.manifest.First {
		return &eventlog.ArchivedError{Path: b.name, Seq: from, First: b.manifest.First}
	}
	r, err := b.reader()
	if err != nil {
		return err
	}
	defer r.close()
	for r.tally.origin.Seq < b.manifest.Last {
		rec, e, err := r.next()
		if err != nil {
			return err
		}
		if e.Seq >= from && !f(rec, e) {
			return nil
		}
	}
	return nil
}

// Read implements eventlog.Log. An entry before the first is a *boltlog.ArchivedError.
func (b *Bundle) Read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		err := b.each(from, func(_ []byte, e eventlog.Entry) bool { return yield(e, nil) })
		if err != nil {
			yield(eventlog.Entry{}, err)
		}
	}
}

// Records implements Source.
func (b *Bundle) Records(from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		err := b.each(from, func(rec []byte, e eventlog.Entry) bool {
			return yield(eventlog.Record{Seq: e.Seq, Bytes: rec, Hash: eventlog.HashRecord(rec)}, nil)
		})
		if err != nil {
			yield(eventlog.Record{}, err)
		}
	}
}

// OriginAt implements Source. It reads the records up to entry seq, unless that is the one before the first.
func (b *Bundle) OriginAt(seq uint64) (eventlog.Origin, error) {
	origin := b.manifest.Origin
	origin.Tree = origin.Tree.Clone()
	switch {
	case seq < b.manifest.Origin.Seq:
		return origin, &eventlog.ArchivedError{Path: b.name, Seq: seq, First: b.manifest.First}
	case seq > b.manifest.Last:
		return origin, fmt.Errorf("%s: there is no entry %d: the last is %d", b.name, seq, b.manifest.Last)
	case seq == b.manifest.Origin.Seq:
		return origin, nil
	}
	err := b.each(b.manifest.First, func(rec []byte, e eventlog.Entry) bool {
		origin.Seq, origin.Hash = e.Seq, eventlog.HashRecord(rec)
		origin.Tree.Add(origin.Hash)
		return e.Seq < seq
	})
	return origin, err
}

// RecordHash returns the hash of entry seq's record.
func (b *Bundle) RecordHash(seq uint64) ([32]byte, error) {
	if seq == b.manifest.Last {
		hash, err := hex.DecodeString(b.manifest.LastHash)
		if err != nil {
			return [32]byte{}, b.damaged("manifest", err)
		}
		return [32]byte(hash), nil
	}
	origin, err := b.OriginAt(seq)
	return origin.Hash, err
}

// First returns the first entry.
func (b *Bundle) First() uint64 { return b.manifest.First }

// Last implements eventlog.Log.
func (b *Bundle) Last() (uint64, error) { return b.manifest.Last, nil }

// Append implements eventlog.Log: nothing can be appended.
func (b *Bundle) Append(uint64, []eventlog.Entry) error {
	return fmt.Errorf("%s: %w", b.name, eventlog.ErrReadOnly)
}

// Close implements eventlog.Log.
func (b *Bundle) Close() error { return b.close() }
