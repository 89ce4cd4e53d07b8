package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A part that is read may come from anywhere. Nothing is allocated for a number in it before that number has been
// compared with the size of the file and with the entries of the part.

// prefixSize is the number of bytes before the head.
const prefixSize = len(magic) + 4

// firstRead is the number of bytes that are read of a file at first: most heads fit in.
const firstRead = prefixSize + 2<<10

// headSize returns the number of bytes up to the end of the head, including the hash after it, of a part that begins
// so.
func headSize(begin []byte) (int, error) {
	if len(begin) < prefixSize || string(begin[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	size := binary.BigEndian.Uint32(begin[len(magic):])
	if size > maxHead {
		return 0, fmt.Errorf("%w: a head of %d bytes, and none has more than %d", ErrDamaged, size, maxHead)
	}
	return prefixSize + int(size) + sha256.Size, nil
}

// readFacts reads the facts of a part of size bytes. It also returns the place of the names. The error may wrap
// ErrDamaged.
func readFacts(file io.ReaderAt, size int64) (f Facts, names int64, err error) {
	if size > MaxFile {
		return f, 0, fmt.Errorf("%w: it has %d bytes, and none has more than %d", ErrDamaged, size, MaxFile)
	}
	begin := make([]byte, min(size, int64(firstRead)))
	if err := readAt(file, begin, 0); err != nil {
		return f, 0, err
	}
	end, err := headSize(begin)
	if err != nil {
		return f, 0, err
	}
	if int64(end) > size {
		return f, 0, fmt.Errorf("%w: it ends within its head", ErrDamaged)
	}
	if end > len(begin) {
		begin = make([]byte, end)
		if err := readAt(file, begin, 0); err != nil {
			return f, 0, err
		}
	}
	f, err = decodeFacts(begin[:end])
	return f, int64(end), err
}

// readAt fills b. That the file has become shorter meanwhile is damage.
func readAt(file io.ReaderAt, b []byte, at int64) error {
	n, err := file.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it has become shorter", ErrDamaged)
	}
	return err
}

// decodeFacts reads a head with all that is before and after it.
func decodeFacts(b []byte) (f Facts, err error) {
	head := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(head); !bytes.Equal(sum[:], b[len(head):]) {
		return f, fmt.Errorf("%w: its head has another hash", ErrDamaged)
	}
	r := reader{b: head[prefixSize:]}
	f.First, f.Last = r.uvarint(), r.uvarint()
	if r.failed || f.First == 0 || f.Last < f.First || f.Last-f.First >= MaxSpan {
		return f, fmt.Errorf("%w: it is of entries %d to %d", ErrDamaged, f.First, f.Last)
	}
	if r.facts(&f); r.failed || len(r.b) > 0 {
		return f, fmt.Errorf("%w: its head cannot be read", ErrDamaged)
	}
	return f, f.check()
}

// check returns an error if the facts cannot all be true.
func (f *Facts) check() error {
	entries := f.Last - f.First + 1
	for _, c := range []struct {
		what         string
		counted, are uint64
	}{
		{"entries", sum(f.Kinds), entries},
		{"objects", sum(f.Resources), f.Kinds[eventlog.KindUpserted]},
		{"decisions", sum(f.Outcomes), f.Kinds[eventlog.KindDecision]},
		{"epochs", uint64(len(f.Epochs)), f.Kinds[eventlog.KindEpochStarted]},
	} {
		if c.counted != c.are {
			return fmt.Errorf("%w: it counts %d %s, and has %d", ErrDamaged, c.counted, c.what, c.are)
		}
	}
	if f.To < f.From {
		return fmt.Errorf("%w: it ends before it begins", ErrDamaged)
	}
	return nil
}

// sum adds up counts, none of which is above MaxSpan.
func sum[K comparable](counts map[K]uint64) (total uint64) {
	// any order: a sum
	for _, n := range counts {
		total += n
	}
	return total
}

// Decode is the inverse of Encode. The error wraps ErrDamaged.
func Decode(b []byte) (*Part, error) { return readPart(bytes.NewReader(b), int64(len(b))) }

// readPart reads a part of size bytes. The error may wrap ErrDamaged.
func readPart(file io.ReaderAt, size int64) (*Part, error) {
	f, at, err := readFacts(file, size)
	if err != nil {
		return nil, err
	}
	p := &Part{Facts: f}
	if size -= at + sha256.Size; size < 0 {
		return nil, fmt.Errorf("%w: it ends within its names", ErrDamaged)
	}
	if err := p.readNames(file, at, int(size)); err != nil {
		return nil, err
	}
	var want [sha256.Size]byte
	if err := readAt(file, want[:], at+size); err != nil {
		return nil, err
	}
	if sha256.Sum256(p.names) != want {
		return nil, fmt.Errorf("%w: its names have another hash", ErrDamaged)
	}
	return p, nil
}

// firstNames is the number of bytes of names that are read at first.
const firstNames = 64 << 10

// readNames reads names of size bytes. It checks what it has read before it reads as much again: a file may say that
// it is large, and be full of holes.
func (p *Part) readNames(file io.ReaderAt, at int64, size int) error {
	var checked names
	for len(p.names) < size {
		have := len(p.names)
		more := make([]byte, min(size, max(firstNames, 2*have)))
		copy(more, p.names)
		if err := readAt(file, more[have:], at+int64(have)); err != nil {
			return err
		}
		p.names = more
		if err := checked.goOn(p, len(more) == size); err != nil {
			return err
		}
	}
	return nil
}

// names counts the checked names of a part.
type names struct {
	keys int    // checked
	key  uint64 // the last one checked
	at   int    // the position after its entries
}

// goOn checks that the names can be read and name entries of the part, and makes the marks. Unless the names are
// whole, their last key may be incomplete: it is checked the next time.
func (c *names) goOn(p *Part, whole bool) error {
	r := reader{b: p.names[c.at:]}
	span := p.Last - p.First
	for len(r.b) > 0 {
		step, n := r.uvarint(), r.uvarint()
		key := c.key + step
		bad := step == 0 && c.keys > 0 || step > math.MaxUint32 || key > math.MaxUint32 || n == 0 || n > span+1
		at := uint64(0)
		for j := uint64(0); !bad && !r.failed && j < n; j++ {
			step := r.uvarint()
			at += step
			bad = at > span || step > span || step == 0 && j > 0
		}
		if r.short && !whole {
			return nil
		}
		if bad || r.failed {
			return fmt.Errorf("%w: the key %d of its names", ErrDamaged, c.keys)
		}
		c.keys, c.key, c.at = c.keys+1, key, len(p.names)-len(r.b)
		if c.keys%markEvery == 0 {
			p.marks = append(p.marks, mark{key, c.at})
		}
	}
	return nil
}

// reader cuts values off b; failed says that it could not, and short that b has ended within a value.
type reader struct {
	b             []byte
	failed, short bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(n == 0)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fail(short bool) {
	r.short = r.short || short && !r.failed
	r.b, r.failed = nil, true
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(n == 0)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(true)
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// facts reads all facts behind First and Last.
func (r *reader) facts(f *Facts) {
	copy(f.Hash[:], r.bytes(uint64(len(f.Hash))))
	f.From, f.To = eventlog.Time(r.varint()), eventlog.Time(r.varint())
	f.Kinds = readCounts(r, func() eventlog.Kind { return eventlog.Kind(r.byte()) })
	f.Resources = readCounts(r, func() eventlog.Resource { return eventlog.Resource(r.bytes(r.uvarint())) })
	f.Outcomes = readCounts(r, func() eventlog.Outcome { return eventlog.Outcome(r.byte()) })
	seq := f.First
	for i := range r.count(1) {
		step := r.uvarint()
		if seq += step; r.failed || step > f.Last-f.First || seq > f.Last || step == 0 && i > 0 {
			r.fail(false)
			return
		}
		f.Epochs = append(f.Epochs, seq)
	}
}

// count reads a number of values of at least so many bytes each, as many as a part may have.
func (r *reader) count(bytes int) uint64 {
	n := r.uvarint()
	if n > MaxSpan || n > uint64(len(r.b)/bytes) {
		r.fail(false)
		return 0
	}
	return n
}

// readCounts reads counts of ascending keys.
func readCounts[K eventlog.Kind | eventlog.Resource | eventlog.Outcome](r *reader, key func() K) map[K]uint64 {
	counts := map[K]uint64{}
	var before K
	for i := range r.count(2) {
		k, n := key(), r.uvarint()
		if r.failed || i > 0 && k <= before || n == 0 || n > MaxSpan {
			r.fail(false)
			break
		}
		counts[k], before = n, k
	}
	return counts
}
