package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// A message of the stream begins with a frame, all numbers big endian:
//
//	magic    4 bytes "RCLG"
//	version  u8, 1
//	kind     u8: 1 the log's origin, 2 a part of an append
//	part     u16, from 1 on, and parts u16, the number of the append's parts
//	before   u64, the last entry before the append, and last u64, the append's last entry
//	hash     32 bytes, the hash of entry last's record
//	tree     u64, the stream sequence of the last message with a tree, this one or one before it
//	nodes    u8, the number of the tree's nodes that follow, 32 bytes each: the hash tree over the entries up to
//	         before
//	checksum u32, CRC-32C of the whole frame
//
// After the frame, an append has its part of the records. All parts together are, for each record, its length as an
// unsigned varint, and its bytes. The first message of a stream is the origin: before and last are the entry after
// which the log begins, and it has the tree there. For example, the message
//
//	RCLG 1 2 | part 1 of 1 | before 7, last 9 | hash of record 9 | tree at 1 | no nodes | checksum | records 8 and 9
//
// is an append of two entries.
type frame struct {
	kind         byte
	part, parts  int
	before, last uint64
	hash         [32]byte
	treeAt       uint64
	tree         *merkle.Tree // over the entries up to before; nil if it has none
}

const (
	frameMagic   = "RCLG"
	frameVersion = 1

	kindOrigin = 1
	kindAppend = 2

	offsetKind   = 5
	offsetNodes  = 66
	frameMin     = offsetNodes + 1 + 4
	frameMax     = frameMin + 64*32
	maxParts     = 1000 // the largest batch of a server, unless it is configured with less
	checksumSize = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append appends the frame's bytes.
func (f *frame) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, frameMagic...)
	dst = append(dst, frameVersion, f.kind)
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.part))
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.parts))
	dst = binary.BigEndian.AppendUint64(dst, f.before)
	dst = binary.BigEndian.AppendUint64(dst, f.last)
	dst = append(dst, f.hash[:]...)
	dst = binary.BigEndian.AppendUint64(dst, f.treeAt)
	if f.tree == nil {
		dst = append(dst, 0)
	} else {
		dst = append(dst, byte(len(f.tree.Nodes)))
		dst = f.tree.AppendNodes(dst)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// errForeign says that a message was not written by a log.
var errForeign = errors.New("it is no message of Rollcall: something else has published to the log's subject")

// parseFrame returns the frame of a message, which is at sequence at of the stream, and the rest. It returns
// errForeign for a message that does not begin like a log's.
func parseFrame(b []byte, at uint64) (f frame, rest []byte, err error) {
	if len(b) < frameMin || string(b[:4]) != frameMagic {
		return frame{}, nil, errForeign
	}
	size := offsetNodes + 1 + 32*int(b[offsetNodes])
	if len(b) < size+checksumSize {
		return frame{}, nil, errors.New("its frame is cut short")
	}
	if crc32.Checksum(b[:size], castagnoli) != binary.BigEndian.Uint32(b[size:]) {
		return frame{}, nil, errors.New("the checksum of its frame is wrong")
	}
	if v := b[4]; v != frameVersion {
		return frame{}, nil, fmt.Errorf("its frame has version %d, written by a newer version of Rollcall: this one "+
			"reads version %d", v, frameVersion)
	}
	f = frame{
		kind: b[offsetKind], part: int(binary.BigEndian.Uint16(b[6:])), parts: int(binary.BigEndian.Uint16(b[8:])),
		before: binary.BigEndian.Uint64(b[10:]), last: binary.BigEndian.Uint64(b[18:]), hash: [32]byte(b[26:58]),
		treeAt: binary.BigEndian.Uint64(b[58:]),
	}
	if err := f.check(at); err != nil {
		return frame{}, nil, err
	}
	if f.treeAt == at {
		tree, err := merkle.Parse(f.before, b[offsetNodes+1:size])
		if err != nil {
			return frame{}, nil, err
		}
		f.tree = &tree
	}
	return f, b[size+checksumSize:], nil
}

// check returns an error if a frame is impossible at sequence at of the stream.
func (f *frame) check(at uint64) error {
	switch {
	case f.kind != kindOrigin && f.kind != kindAppend:
		return fmt.Errorf("its frame is of kind %d", f.kind)
	case (f.kind == kindOrigin) != (at == 1):
		return errors.New("the origin of a log is the first message of its stream, and no other is")
	case f.part < 1 || f.part > f.parts || f.parts > maxParts:
		return fmt.Errorf("it is part %d of %d", f.part, f.parts)
	case uint64(f.part) > at:
		return fmt.Errorf("it is part %d of an append, and only %d messages are before it", f.part, at-1)
	case f.kind == kindAppend && f.last <= f.before, f.kind == kindOrigin && f.last != f.before:
		return fmt.Errorf("it has entries %d to %d", f.before+1, f.last)
	case f.treeAt < 1 || f.treeAt > at:
		return fmt.Errorf("its hash tree is in message %d", f.treeAt)
	}
	return nil
}

// isOf reports whether f and g are parts of one append.
func (f *frame) isOf(g *frame) bool {
	return f.before == g.before && f.last == g.last && f.hash == g.hash && f.parts == g.parts
}

// appendLengths appends the records of a batch, each after its length.
func appendLengths(dst []byte, b *eventlog.Batch) []byte {
	for i := range b.Ends {
		rec := b.Record(i)
		dst = binary.AppendUvarint(dst, uint64(len(rec)))
		dst = append(dst, rec...)
	}
	return dst
}

// nextRecord returns the first record written by appendLengths, and the rest.
func nextRecord(b []byte) (rec, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, errors.New("a record's length is wrong")
	}
	return b[n : n+int(size) : n+int(size)], b[n+int(size):], nil
}
