package canonical

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Reader cuts fields off bytes until the first error; after it every field is zero. Each method takes the
// field's name for that error.
type Reader struct {
	b   []byte
	at  int
	err error
	// memory is the number of bytes that the values still to be decoded may take.
	memory int
	// replace, if not nil, changes the bytes of a field that Bytes or String reads.
	replace func(field string, b []byte) ([]byte, error)
}

const (
	// Decoded values may take memoryFactor bytes of memory for each byte of the input, and memoryFloor bytes in
	// addition.
	memoryFactor = 32
	memoryFloor  = 16 << 20
)

// NewReader returns a Reader of b. The caller must not change b while a result of Bytes is in use.
func NewReader(b []byte) *Reader { return &Reader{b: b, memory: memoryFloor + memoryFactor*len(b)} }

// Replacing lets replace change the bytes of each field that Bytes or String reads, and returns r. Other fields are
// read as they are.
func (r *Reader) Replacing(replace func(field string, b []byte) ([]byte, error)) *Reader {
	r.replace = replace
	return r
}

// Memory returns the number of bytes of memory that the values decoded from here on may take.
func (r *Reader) Memory() int { return r.memory }

// Take takes the given number of bytes of Memory for a field; it fails if there are fewer.
func (r *Reader) Take(field string, memory int) {
	if r.memory -= memory; r.memory < 0 {
		r.Fail(field, errors.New("what was decoded takes too much memory for its size"))
	}
}

// Err returns the first error, nil if there was none.
func (r *Reader) Err() error { return r.err }

// Fail keeps err as the field's error, unless there was one before or err is nil.
func (r *Reader) Fail(field string, err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("%s at byte %d: %w", field, r.at, err)
	}
}

// End returns the first error. Bytes that are left are an error.
func (r *Reader) End() error {
	if left := len(r.b) - r.at; left > 0 {
		r.Fail("end", fmt.Errorf("%d bytes too many", left))
	}
	return r.err
}

// Byte reads one byte.
func (r *Reader) Byte(field string) byte {
	if r.err == nil && r.at >= len(r.b) {
		r.Fail(field, errors.New("the bytes end before it"))
	}
	if r.err != nil {
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// Flags reads a byte of n flags; it fails if a higher bit is set.
func (r *Reader) Flags(field string, n int) (set [8]bool) {
	b := r.Byte(field)
	if b>>n != 0 {
		r.Fail(field, fmt.Errorf("unknown flags %#02x", b))
	}
	for i := range n {
		set[i] = b&(1<<i) != 0
	}
	return set
}

// Uvarint reads an unsigned integer in its shortest form.
func (r *Reader) Uvarint(field string) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:])
	switch {
	case n == 0:
		r.Fail(field, errors.New("the bytes end within a varint"))
	case n < 0:
		r.Fail(field, errors.New("varint exceeds 64 bits"))
	case n > 1 && r.b[r.at+n-1] == 0:
		r.Fail(field, errors.New("varint is longer than its value needs"))
	}
	if r.err != nil {
		return 0
	}
	r.at += n
	return v
}

// Varint reads a signed integer.
func (r *Reader) Varint(field string) int64 {
	u := r.Uvarint(field)
	return int64(u>>1) ^ -int64(u&1)
}

// Int reads an unsigned integer of at most 31 bits: a counter or an index.
func (r *Reader) Int(field string) int {
	v := r.Uvarint(field)
	if v > math.MaxInt32 {
		r.Fail(field, fmt.Errorf("%d exceeds 31 bits", v))
		return 0
	}
	return int(v)
}

// Count reads the number of things that follow, of at least size bytes each. It fails if they cannot fit the rest of
// the input.
func (r *Reader) Count(field string, size int) int {
	n := r.Uvarint(field)
	if left := len(r.b) - r.at; n > uint64(left/size) {
		r.Fail(field, fmt.Errorf("%d exceeds what the %d bytes left can hold", n, left))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// Bytes reads a length, and as many bytes. They share memory with the argument of NewReader.
func (r *Reader) Bytes(field string) []byte {
	n := r.Count(field, 1)
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	if r.replace == nil || r.err != nil {
		return b
	}
	b, err := r.replace(field, b)
	r.Fail(field, err)
	return b
}

// String reads a length, and as many bytes of UTF-8.
func (r *Reader) String(field string) string {
	b := r.Bytes(field)
	if !utf8.Valid(b) {
		r.Fail(field, errors.New("not valid UTF-8"))
		return ""
	}
	return string(b)
}
