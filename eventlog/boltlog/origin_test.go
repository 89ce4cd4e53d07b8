package boltlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

func originFile(t testing.TB) []byte {
	t.Helper()
	path, _ := archivedLog(t)
	content, err := os.ReadFile(filepath.Join(path, originName))
	must(t, err)
	return content
}

// Whatever byte of ORIGIN is changed, and wherever it is cut, the log is refused.
func TestDamagedOriginIsRefused(t *testing.T) {
	path, _ := archivedLog(t)
	file := filepath.Join(path, originName)
	whole, err := os.ReadFile(file)
	must(t, err)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1
		for _, content := range [][]byte{bad, whole[:i], append(bytes.Clone(whole), whole[i])} {
			must(t, os.WriteFile(file, content, fileMode))
			_, err := OpenReadOnly(path)
			wantDamage(t, err, file, 1, "where the log begins cannot be read")
		}
	}
}

func TestOriginIsReadAsWritten(t *testing.T) {
	for name, b := range map[string]beginning{
		"no parts": {Origin: eventlog.Origin{Seq: 4, Tree: treeOf(4)}},
		"parts with a gap": {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{1, 4, "/a"},
			{6, 9, "/b"}}},
		"parts that end early": {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{1, 8, "/a"}}},
		"parts in no order": {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{5, 9, "/a"},
			{1, 4, "/b"}}},
		"a part of nothing":      {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{10, 9, "/a"}}},
		"a part from entry 0":    {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{0, 9, "/a"}}},
		"a part that is nowhere": {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{1, 9, ""}}},
		"nothing":                {},
		"another tree":           {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(8)}},
		"two parts": {Origin: eventlog.Origin{Seq: 9, Tree: treeOf(9)}, Archived: []Part{{3, 4, "/a"},
			{5, 9, "/b"}}},
	} {
		content, err := b.encode()
		must(t, err)
		got, err := decodeBeginning(content)
		if good := name == "no parts" || name == "two parts"; good != (err == nil) {
			t.Errorf("%s: read as %v, error %v", name, got, err)
		}
	}
}

func FuzzDecodeBeginning(f *testing.F) {
	f.Add(originFile(f))
	f.Add([]byte("{}\ncrc32c 00000000\n"))
	for _, line := range hostileLines() {
		f.Add(sealedLine(line[:200]))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		line, _, _ := bytes.Cut(content, []byte("\n"))
		_, _ = decodeMeasured(t, sealedLine(string(line))) // the checksum alone would keep nearly everything out
		b, err := decodeMeasured(t, content)
		if err != nil {
			return
		}
		again, err := b.encode()
		if err != nil || !bytes.Equal(again, content) {
			t.Errorf("%q is written as %q, error %v", content, again, err)
		}
		if b.base() >= b.Origin.Seq && len(b.Archived) > 0 {
			t.Errorf("%q is accepted", content)
		}
		var o eventlog.Origin
		text, err := json.Marshal(b.Origin)
		if err != nil || json.Unmarshal(text, &o) != nil || o.Check() != nil {
			t.Errorf("%q: error %v", text, err)
		}
	})
}

// hostileLines are lines of JSON with very much in few bytes.
func hostileLines() []string {
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", 100_000), ",") }
	return []string{
		`{"format":1,"archived":[` + many(`{}`) + `]}`,
		`{"format":1,"archived":[` + many(`null`) + `]}`,
		`{"format":1,"origin":{"seq":1,"hash":"","tree":[` + many(`null`) + `]}}`,
		`{"format":1,` + many(`"origin":0`) + `}`,
		`{` + many(`"format":1`) + `}`,
	}
}

// sealedLine returns ORIGIN's content with the line.
func sealedLine(line string) []byte {
	return fmt.Appendf(nil, "%s\ncrc32c %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

// decodeMeasured decodes what is in ORIGIN and sees how much memory that takes.
func decodeMeasured(t testing.TB, content []byte) (b *beginning, err error) {
	t.Helper()
	got := alloc.Bytes(func() { b, err = decodeBeginning(content) })
	if most := uint64(64<<10 + 64*len(content)); got > most {
		t.Errorf("%.60s: %d bytes allocated for %d, want at most %d (error %v)", content, got, len(content), most, err)
	}
	return b, err
}

func TestAHostileOriginTakesLittleMemory(t *testing.T) {
	for _, line := range hostileLines() {
		if _, err := decodeMeasured(t, sealedLine(line)); err == nil {
			t.Errorf("%.60s is accepted", line)
		}
	}
}

func treeOf(n int) merkle.Tree {
	var tree merkle.Tree
	for range n {
		tree.Add([32]byte{})
	}
	return tree
}
