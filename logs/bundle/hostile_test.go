package bundle_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
	"github.com/rollcall-sched/rollcall/logs/bundle"
)

// emptyContainers returns a record, behind one with the given hash, of a pod with so many containers of two bytes.
func emptyContainers(t testing.TB, seq uint64, prev [32]byte, n int) []byte {
	t.Helper()
	rec, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: seq, Epoch: 1, Time: 1, Payload: &eventlog.Upserted{
		Resource: eventlog.Pods, Object: eventlog.NewObject(eventlog.Pods)}}, prev)
	if err != nil {
		t.Fatal(err)
	}
	spec := bytes.Repeat([]byte{0x12, 0}, n) // spec.containers
	rec = append(rec[:60:60], binary.AppendUvarint([]byte{0x12}, uint64(len(spec)))...)
	rec = append(rec, spec...)
	return binary.BigEndian.AppendUint32(rec, crc32.Checksum(rec, crc32.MakeTable(crc32.Castagnoli)))
}

// hostile returns a bundle of seven kilobytes whose second record is a pod with three million containers.
func hostile(t testing.TB) []byte {
	t.Helper()
	o := logOf(t)
	p := takeApart(t, write(t, o, o.plans()["of one entry"]))
	var m bundle.Manifest
	if err := json.Unmarshal(p.manifest, &m); err != nil {
		t.Fatal(err)
	}
	content := unpacked(t, p.records)
	second := emptyContainers(t, m.First+1, eventlog.HashRecord(content[4:]), 3<<20)
	content = append(binary.BigEndian.AppendUint32(content, uint32(len(second))), second...)
	padding := make([]byte, 7<<10) // a frame that is skipped: so much can be unpacked from so many bytes
	p.records = slices.Concat(streamed(t, content), []byte{0x50, 0x2a, 0x4d, 0x18, 0, 0x1c, 0, 0}, padding)
	m.Last, m.Records = m.First+1, uint64(len(content))
	p.manifest = encoded(t, &m)
	return p.joined()
}

// streamed is packed for a reader that has no more than a window of memory.
func streamed(t testing.TB, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	zip, err := zstd.NewWriter(&buf, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zip.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// A bundle of seven kilobytes made its reader take five gigabytes.
func TestAHostileBundleTakesLittleMemory(t *testing.T) {
	data := hostile(t)
	t.Logf("a bundle of %d bytes", len(data))
	var err error
	got := alloc.Bytes(func() { _, err = open(data) })
	if err == nil || !strings.Contains(err.Error(), "not in canonical form") {
		t.Errorf("error %v", err)
	}
	t.Logf("%d bytes allocated: %v", got, err)
	if most := bundle.OpenMemory(len(data)); got > most {
		t.Errorf("%d bytes were allocated to refuse a bundle of %d, want at most %d", got, len(data), most)
	}
}

// Repeated fields of a manifest are decoded once.
func TestAManifestOfRepetitionsTakesLittleMemory(t *testing.T) {
	o := logOf(t)
	p := takeApart(t, write(t, o, o.plans()["of one entry"]))
	again := bytes.Repeat([]byte(`"origin":0,`), 100_000)
	p.manifest = append(append([]byte{'{'}, again...), p.manifest[1:]...)
	data := p.joined()
	var err error
	got := alloc.Bytes(func() { _, err = open(data) })
	if most := bundle.OpenMemory(len(data)); err == nil || got > most {
		t.Errorf("%d bytes were allocated for a bundle of %d, want at most %d; error %v", got, len(data), most, err)
	}
}

// encoded is the manifest as it is in a file.
func encoded(t testing.TB, m *bundle.Manifest) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
