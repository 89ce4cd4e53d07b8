package canonical

import "encoding/binary"

// AppendString appends the length of s, then s.
func AppendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendBytes appends the length of b, then b.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// Flags packs up to eight booleans, the first in the lowest bit.
func Flags(bits ...bool) byte {
	var b byte
	for i, bit := range bits {
		if bit {
			b |= 1 << i
		}
	}
	return b
}
