package localapi

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// readMeasured reads what a scheduler tells until it ends, and sees how much memory that takes.
func readMeasured(t testing.TB, told []byte) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(told))
	got := alloc.Bytes(func() {
		var buf []byte
		var err error
		for err == nil {
			buf, err = readRecord(in, buf)
		}
	})
	if most := uint64(256<<10 + 64*len(told)); got > most {
		t.Errorf("%d bytes allocated for %d that were told, want at most %d", got, len(told), most)
	}
}

// A length alone made the reader take 64 MB.
func TestALengthAloneTakesNoMemory(t *testing.T) {
	for _, n := range []uint64{16 << 20, 16<<20 + 1, 64 << 20, 1 << 63} {
		readMeasured(t, binary.AppendUvarint(nil, n))
		readMeasured(t, append([]byte{0}, binary.AppendUvarint(nil, n)...))
	}
}

func FuzzReadRecord(f *testing.F) {
	trouble := `{"text":"` + strings.Repeat("x", 100) + `"}`
	f.Add(append(append([]byte{3, 1, 2, 3, 0}, byte(len(trouble))), trouble...))
	f.Add(binary.AppendUvarint(nil, 16<<20))
	f.Fuzz(readMeasuredIn)
}

func readMeasuredIn(t *testing.T, told []byte) { readMeasured(t, told) }
