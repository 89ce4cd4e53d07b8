package eventlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// FormatVersion is the highest version of the record format that AppendRecord writes, and that DecodeRecord reads. Each
// change of the format after a release gets the next number. No number is ever used again. A record has the lowest
// version that can hold its kind, so that the log of a scheduler does not change.
//
//	1 to 9  were written before the first release, and are no longer read
//	10      the format of release 0.1.0
//	11      has the kind Watched, which only recorders write
const FormatVersion = 11

// SchedulerFormat is the highest version of the records of a scheduler, and the lowest that DecodeRecord reads.
const SchedulerFormat = 10

// formatOf returns the version of the records of a kind.
func formatOf(kind Kind) byte {
	if kind == KindWatched {
		return 11
	}
	return SchedulerFormat
}

// MaxRecord is the largest size of a record in bytes, about ten times the largest object that the API server accepts.
const MaxRecord = 16 << 20

// The layout of a record:
//
//	version u8 | kind u8 | flags u8 | seq u64 | epoch u64 | time i64 | previous record's SHA-256 | payload | CRC-32C
//
// Integers of the header and the checksum are big endian. The checksum covers everything before it. The hash of a
// record, which the next record carries, covers the checksum too.
const (
	offsetVersion = 0
	offsetKind    = 1
	offsetFlags   = 2
	offsetSeq     = 3
	offsetEpoch   = 11
	offsetTime    = 19
	offsetPrev    = 27
	headerSize    = 59
	checksumSize  = 4

	flagSettled = 1 << 0
	knownFlags  = flagSettled
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EntryError says that a log cannot have the entry: it has no payload, a payload that the format cannot hold, or a
// wrong sequence number. An Append that returns it has added nothing, and the log may still be used.
type EntryError struct {
	// Seq is the sequence number that the entry has.
	Seq uint64
	// Err says why.
	Err error
}

// Error implements error.
func (e *EntryError) Error() string { return fmt.Sprintf("entry %d: %v", e.Seq, e.Err) }

// Unwrap returns Err.
func (e *EntryError) Unwrap() error { return e.Err }

// AppendRecord appends e's record to dst and returns the longer slice. prev is the hash of the record before it
// (HashRecord), all zeros for entry 1. The error is an *EntryError; then dst is returned unchanged.
//
// An Upserted's object is written without its apiVersion and kind, which its resource implies. The caches in the object
// may be filled in (a Quantity keeps its text). So no one else may use the object meanwhile, unless e has an Encoding.
// The message of a BindResult or EvictResult is written as valid UTF-8: invalid bytes are replaced. Other text must be
// valid.
func AppendRecord(dst []byte, e Entry, prev [32]byte) ([]byte, error) {
	start := len(dst)
	kind, err := e.kind()
	if err == nil && e.Seq == 0 {
		err = errors.New("sequence number 0: the first is 1")
	}
	if err != nil {
		return dst, &EntryError{Seq: e.Seq, Err: err}
	}
	var flags byte
	if e.Settled {
		flags |= flagSettled
	}
	out := append(dst, formatOf(kind), byte(kind), flags)
	out = binary.BigEndian.AppendUint64(out, e.Seq)
	out = binary.BigEndian.AppendUint64(out, e.Epoch)
	out = binary.BigEndian.AppendUint64(out, uint64(e.Time))
	out = append(out, prev[:]...)
	if e.Encoding.bytes != nil {
		out = append(out, e.Encoding.bytes[encodingPayload:]...)
	} else {
		out, err = appendPayload(out, e.Payload)
	}
	if err == nil && len(out)-start+checksumSize > MaxRecord {
		err = tooLarge(len(out) - start + checksumSize)
	}
	if err != nil {
		return dst, &EntryError{Seq: e.Seq, Err: err}
	}
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out[start:], castagnoli)), nil
}

func tooLarge(size int) error { return tooLargeFor(size, MaxRecord) }

func tooLargeFor(size, most int) error {
	return fmt.Errorf("%d bytes exceed the %d of a record", size, most)
}

// kind returns the kind of e's payload.
func (e *Entry) kind() (Kind, error) {
	if enc := e.Encoding.bytes; enc != nil {
		return Kind(enc[encodingKind]), nil
	}
	return payloadKind(e.Payload)
}

// HashRecord returns the SHA-256 of a whole record. The next record carries it as the previous hash.
func HashRecord(rec []byte) [32]byte { return sha256.Sum256(rec) }

// DecodeRecord returns the entry of a record, and the hash of the record before it that the record carries. It accepts
// only records that AppendRecord writes: from an accepted record's entry and hash, AppendRecord makes the same bytes
// again. The entry does not alias b. Errors name the field and the place in the record. It never panics, and allocates
// at most DecodeMemory of the record's size.
func DecodeRecord(b []byte) (e Entry, prev [32]byte, err error) {
	return (*Decoder)(nil).Record(b)
}

// recordError adds to err that it concerns a record.
func recordError(err error) error { return fmt.Errorf("record: %w", err) }

// decodeChecked is Decoder.Record, for a record that has passed checkFrame.
func decodeChecked(b []byte, d *Decoder) (e Entry, prev [32]byte, err error) {
	e.Seq = binary.BigEndian.Uint64(b[offsetSeq:])
	e.Epoch = binary.BigEndian.Uint64(b[offsetEpoch:])
	e.Time = Time(binary.BigEndian.Uint64(b[offsetTime:]))
	e.Settled = b[offsetFlags]&flagSettled != 0
	copy(prev[:], b[offsetPrev:headerSize])
	if e.Seq == 0 {
		return Entry{}, prev, errors.New("record: sequence number 0 at byte 3: the first is 1")
	}
	e.Payload, err = decodePayload(Kind(b[offsetKind]), b[headerSize:len(b)-checksumSize], d)
	if err != nil {
		return Entry{}, prev, fmt.Errorf("record of entry %d: %w", e.Seq, err)
	}
	return e, prev, nil
}

// RecordPlace returns the number of a record and the hash of the record before it. It does not read the payload, so
// DecodeRecord may still refuse the record.
func RecordPlace(b []byte) (seq uint64, prev [32]byte, err error) {
	if err := checkFrame(b); err != nil {
		return 0, prev, recordError(err)
	}
	return binary.BigEndian.Uint64(b[offsetSeq:]), [32]byte(b[offsetPrev:headerSize]), nil
}

// checkFrame checks a record as far as that is possible without its payload.
func checkFrame(b []byte) error {
	if len(b) < headerSize+checksumSize {
		return fmt.Errorf("%d bytes are too few: a record has at least %d", len(b), headerSize+checksumSize)
	}
	if len(b) > MaxRecord {
		return tooLarge(len(b))
	}
	body, want := b[:len(b)-checksumSize], binary.BigEndian.Uint32(b[len(b)-checksumSize:])
	if got := crc32.Checksum(body, castagnoli); got != want {
		return fmt.Errorf("checksum is %08x, want %08x", got, want)
	}
	// The checksum comes first: it distinguishes another format from a flipped bit.
	if v := b[offsetVersion]; v == 0 {
		return fmt.Errorf("unknown format version 0 at byte %d: the first one is 1", offsetVersion)
	} else if v < SchedulerFormat || v > FormatVersion {
		return &FormatError{Format: v}
	} else if want := formatOf(Kind(b[offsetKind])); v != want {
		return fmt.Errorf("format version %d at byte %d: a record of kind %d has %d", v, offsetVersion, b[offsetKind],
			want)
	}
	if unknown := b[offsetFlags] &^ knownFlags; unknown != 0 {
		return fmt.Errorf("unknown flags %#02x at byte %d", unknown, offsetFlags)
	}
	return nil
}
