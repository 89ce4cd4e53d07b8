package canonical_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/internal/canonical"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

func TestWhatIsAppendedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64().Draw(t, "u")
		i := rapid.Int64().Draw(t, "i")
		text := rapid.String().Draw(t, "text")
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		text = strings.ToValidUTF8(text, "?")
		b := binary.AppendVarint(binary.AppendUvarint(nil, u), i)
		b = canonical.AppendBytes(canonical.AppendString(b, text), raw)
		b = append(b, canonical.Flags(u%2 == 0, i%2 == 0))
		r := canonical.NewReader(b)
		if r.Uvarint("u") != u || r.Varint("i") != i || r.String("text") != text ||
			string(r.Bytes("raw")) != string(raw) {
			t.Fatal("another value was read")
		}
		if set := r.Flags("flags", 2); set[0] != (u%2 == 0) || set[1] != (i%2 == 0) {
			t.Fatalf("flags %v", set)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFaultsAreNamedWithTheirPlace(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		read  func(r *canonical.Reader)
		want  string
	}{
		"no byte": {"", func(r *canonical.Reader) { r.Byte("stage") }, "stage at byte 0: the bytes end " +
			"before it"},
		"cut varint": {"\x01\x80", func(r *canonical.Reader) { r.Byte("a"); r.Uvarint("b") }, "b at byte 1: " +
			"the bytes end within a varint"},
		"long varint": {"\x80\x00", func(r *canonical.Reader) { r.Uvarint("b") }, "b at byte 0: varint is " +
			"longer than its value needs"},
		"huge varint": {strings.Repeat("\xff", 11), func(r *canonical.Reader) { r.Uvarint("b") }, "b at byte 0: " +
			"varint exceeds 64 bits"},
		"big int": {"\xff\xff\xff\xff\x0f", func(r *canonical.Reader) { r.Int("n") }, "n at byte 5: " +
			"4294967295 exceeds 31 bits"},
		"long list": {"\x03ab", func(r *canonical.Reader) { r.Count("pods", 1) }, "pods at byte 1: 3 exceeds " +
			"what the 2 bytes left can hold"},
		"text not UTF-8": {"\x01\xff", func(r *canonical.Reader) { r.String("name") }, "name at byte 2: not valid " +
			"UTF-8"},
		"unknown flags": {"\x05", func(r *canonical.Reader) { r.Flags("flags", 2) }, "flags at byte 1: unknown " +
			"flags 0x05"},
		"trailing": {"ab", func(r *canonical.Reader) { r.Byte("a") }, "end at byte 1: 1 bytes too many"},
		"the first stands": {"", func(r *canonical.Reader) { r.Byte("a"); r.String("b") }, "a at byte 0: the bytes " +
			"end before it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := canonical.NewReader([]byte(c.bytes))
			c.read(r)
			if err := r.End(); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{0, 1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, b, calls []byte) {
		r := canonical.NewReader(b)
		for _, c := range calls {
			switch c % 6 {
			case 0:
				r.Byte("x")
			case 1:
				r.Varint("x")
			case 2:
				r.Int("x")
			case 3:
				r.Count("x", 2)
			case 4:
				r.Bytes("x")
			case 5:
				r.String("x")
			}
		}
		_ = r.End()
	})
}
