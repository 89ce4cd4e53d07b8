package bundle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/alloc"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// behind is the entry of the snapshot that some of the bundles begin behind.
const behind = 60

// original is the log that the tests make bundles of.
type original struct {
	*boltlog.Log
	last     uint64
	snapshot []byte // of entry behind
	config   []byte
}

// theLog simulates a small workload once.
var theLog = sync.OnceValues(func() (*original, error) {
	dir, err := os.MkdirTemp("", "bundle-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the files are open
	o := &original{}
	if o.Log, err = boltlog.Create(filepath.Join(dir, "a.log")); err != nil {
		return nil, err
	}
	if o.config, err = framework.EncodeConfig(framework.DefaultConfig()); err != nil {
		return nil, err
	}
	nodes, work, err := workload.Demo()
	if err != nil {
		return nil, err
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		return nil, err
	}
	eng, err := engine.Open(
		context.Background(),
		o.Log,
		workload.Start,
		engine.Options{Registry: plugins.NewRegistry(), Config: o.config, Version: "writer"},
	)
	if err != nil {
		return nil, err
	}
	if _, err := cluster.Run(context.Background(), sim.Stepping(eng), func(sim.Progress) {}); err != nil {
		return nil, err
	}
	if o.last, err = o.Last(); err != nil {
		return nil, err
	}
	o.snapshot, err = o.stateOf(behind)
	return o, err
})

// stateOf returns a snapshot of an entry.
func (o *original) stateOf(seq uint64) ([]byte, error) {
	m := scheduler.New(plugins.NewRegistry())
	for e, err := range o.Read(context.Background(), 1) {
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			return nil, err
		}
		if e.Seq == seq {
			break
		}
	}
	position, err := o.RecordHash(context.Background(), seq)
	if err != nil {
		return nil, err
	}
	return snapshot.Encode(m, position)
}

func logOf(t testing.TB) *original {
	t.Helper()
	o, err := theLog()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// plans are the ways in which bundles begin.
func (o *original) plans() map[string]bundle.Plan {
	return map[string]bundle.Plan{
		"from the first entry": {First: 1, Last: o.last, Version: "test"},
		"behind a snapshot": {
			First:    behind + 1,
			From:     behind + 5,
			Last:     o.last - 3,
			Snapshot: o.snapshot,
			Config:   o.config,
			Version:  "test",
		},
		"of one entry": {
			First:    behind + 1,
			Last:     behind + 1,
			Snapshot: o.snapshot,
			Config:   o.config,
			Version:  "test",
		},
	}
}

func write(t testing.TB, src eventlog.RecordReader, plan bundle.Plan) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, _, err := bundle.Write(context.Background(), &buf, src, plan); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func open(data []byte) (*bundle.Bundle, error) {
	return bundle.New(bytes.NewReader(data), int64(len(data)), "x.bundle", nil)
}

// printed returns the output of log cat.
func printed(t testing.TB, entries iter.Seq2[eventlog.Entry, error], last uint64) string {
	t.Helper()
	var out []byte
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq > last {
			break
		}
		if out, err = eventlog.AppendJSON(out, e); err != nil {
			t.Fatal(err)
		}
		out = append(out, '\n')
	}
	return string(out)
}

func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	o := logOf(t)
	for name, plan := range o.plans() {
		t.Run(name, func(t *testing.T) {
			b, err := open(write(t, o, plan))
			if err != nil {
				t.Fatal(err)
			}
			got := printed(t, b.Read(context.Background(), plan.First), plan.Last)
			want := printed(t, o.Read(context.Background(), plan.First), plan.Last)
			if got != want || got == "" {
				t.Errorf("read\n%s\nwant\n%s", got, want)
			}
			middle := (plan.First + plan.Last) / 2
			got = printed(t, b.Read(context.Background(), middle), plan.Last)
			want = printed(t, o.Read(context.Background(), middle), plan.Last)
			if got != want {
				t.Errorf("from entry %d\n%s\nwant\n%s", middle, got, want)
			}
			if got := printed(t, b.Read(context.Background(), plan.Last+1), plan.Last+1); got != "" {
				t.Errorf("behind the last entry stands %s", got)
			}
			snap, err := b.Snapshot()
			if err != nil || !bytes.Equal(snap, plan.Snapshot) {
				t.Errorf("a snapshot of %d bytes, want %d; %v", len(snap), len(plan.Snapshot), err)
			}
			for _, seq := range []uint64{plan.First - 1, plan.First, middle, plan.Last} {
				got, err := eventlog.OriginAt(context.Background(), b, seq)
				want, wantErr := eventlog.OriginAt(context.Background(), o, seq)
				if err != nil || wantErr != nil || got.Hash != want.Hash || !got.Tree.Equal(want.Tree) {
					t.Errorf("origin behind entry %d is %+v, want %+v; %v, %v", seq, got, want, err, wantErr)
				}
				if hash, err := b.RecordHash(context.Background(), seq); err != nil || hash != want.Hash {
					t.Errorf("the record of entry %d has the hash %x, want %x; %v", seq, hash, want.Hash, err)
				}
			}
			m := b.Manifest()
			if last, _ := b.Last(); m.First != plan.First || b.First() != plan.First || m.Last != plan.Last ||
				last != plan.Last ||
				m.From != max(plan.From, plan.First) ||
				string(m.Config) != string(o.config) ||
				m.Version != "test" ||
				m.Epoch != 1 {
				t.Errorf("manifest %+v", m)
			}
			// A bundle of the bundle is the same.
			if again := write(t, b, plan); !bytes.Equal(again, write(t, o, plan)) {
				t.Error("a bundle of the bundle is another one")
			}
		})
	}
}

func TestNothingEarlierIsRead(t *testing.T) {
	o := logOf(t)
	b, err := open(write(t, o, o.plans()["behind a snapshot"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range b.Read(context.Background(), 1) {
		var archived *eventlog.ArchivedError
		if !errors.As(err, &archived) || archived.First != behind+1 {
			t.Errorf("read from entry 1: %v", err)
		}
	}
	if _, err := eventlog.OriginAt(context.Background(), b, behind-1); err == nil {
		t.Error("an origin before the first entry")
	}
	if _, err := eventlog.OriginAt(context.Background(), b, o.last); err == nil {
		t.Error("an origin behind the last entry")
	}
}

func TestEveryFlippedBitAndEveryCutIsFound(t *testing.T) {
	o := logOf(t)
	good := write(
		t,
		o,
		bundle.Plan{First: behind + 1, Last: behind + 3, Snapshot: o.snapshot, Config: o.config, Version: "test"},
	)
	refused := func(data []byte) bool {
		_, err := open(data)
		var damaged *bundle.DamagedError
		return errors.As(err, &damaged) || errors.Is(err, bundle.ErrNotABundle)
	}
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		if !refused(flipped) {
			t.Fatalf("bit %d of byte %d of %d flipped: not found", i%8, i, len(good))
		}
		if !refused(good[:i]) {
			t.Fatalf("cut to %d of %d bytes: not found", i, len(good))
		}
	}
	if !refused(append(bytes.Clone(good), 0)) {
		t.Error("a byte more: not found")
	}
}

// parts takes a bundle apart, and puts it together again with whatever checksums it takes.
type parts struct {
	manifest, snapshot, records []byte
}

func takeApart(t testing.TB, data []byte) parts {
	t.Helper()
	b, err := open(data)
	if err != nil {
		t.Fatal(err)
	}
	length := int(binary.BigEndian.Uint32(data[12:]))
	at := 16 + length + sha256.Size
	end := at + int(b.Manifest().Snapshot)
	return parts{
		bytes.Clone(data[16 : 16+length]),
		bytes.Clone(data[at:end]),
		bytes.Clone(data[end : len(data)-sha256.Size]),
	}
}

func (p parts) joined() []byte {
	out := binary.BigEndian.AppendUint32([]byte("rollbndl"), bundle.Format)
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(p.manifest))), p.manifest...)
	sum := sha256.Sum256(out)
	out = slices.Concat(out, sum[:], p.snapshot, p.records)
	sum = sha256.Sum256(out)
	return append(out, sum[:]...)
}

func packed(t testing.TB, content []byte) []byte {
	t.Helper()
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	return zip.EncodeAll(content, nil)
}

func unpacked(t testing.TB, content []byte) []byte {
	t.Helper()
	zip, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	out, err := zip.DecodeAll(content, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestALieWithRightChecksumsIsFound changes a bundle and computes the checksums again.
func TestALieWithRightChecksumsIsFound(t *testing.T) {
	o := logOf(t)
	good := write(t, o, o.plans()["behind a snapshot"])
	if _, err := open(takeApart(t, good).joined()); err != nil {
		t.Fatalf("taken apart and put together again: %v", err)
	}
	other, err := o.stateOf(behind - 1)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Clone(o.snapshot)
	foreign[40] ^= 1 // its position
	sum := sha256.Sum256(foreign[:len(foreign)-sha256.Size])
	copy(foreign[len(foreign)-sha256.Size:], sum[:])
	edit := func(old, new string) func(*parts) {
		return func(p *parts) {
			if bytes.Count(p.manifest, []byte(old)) != 1 {
				t.Fatalf("the manifest has not one %q: %s", old, p.manifest)
			}
			p.manifest = bytes.Replace(p.manifest, []byte(old), []byte(new), 1)
		}
	}
	records := func(change func(content []byte) []byte) func(*parts) {
		return func(p *parts) { p.records = packed(t, change(unpacked(t, p.records))) }
	}
	sized := func(snap []byte) func(*parts) {
		return func(p *parts) {
			edit(fmt.Sprintf(`"snapshotBytes":%d`, len(o.snapshot)), fmt.Sprintf(`"snapshotBytes":%d`, len(snap)))(p)
			p.snapshot = snap
		}
	}
	size := fmt.Sprintf(`"recordBytes":%d,`, len(unpacked(t, takeApart(t, good).records)))
	for name, c := range map[string]struct {
		change func(*parts)
		want   string
	}{
		"white space": {func(p *parts) { p.manifest = append(p.manifest, ' ') }, "its manifest: it is not " +
			"written as this program writes it"},
		"unknown field":       {edit(`{"version"`, `{"more":1,"version"`), `its manifest: json: unknown field "more"`},
		"another first entry": {edit(fmt.Sprintf(`"first":%d,`, behind+1), fmt.Sprintf(`"first":%d,`, behind+2)), "its manifest: the first entry is 62, but its origin is behind entry 60"},
		"another last entry":  {edit(fmt.Sprintf(`"last":%d,`, o.last-3), fmt.Sprintf(`"last":%d,`, o.last-4)), "its records: more follows the last entry"},
		"a later last entry":  {edit(fmt.Sprintf(`"last":%d,`, o.last-3), fmt.Sprintf(`"last":%d,`, o.last-2)), fmt.Sprintf("its records: entry %d: EOF", o.last-2)},
		"another time":        {edit(`"lastTime":"2026`, `"lastTime":"2027`), "its manifest: the last entry's time is"},
		"another epoch": {edit(`"epoch":1,`, `"epoch":2,`), "its manifest: the last entry's epoch is 1, and it " +
			"says 2"},
		"an epoch's version": {edit(`"epoch":1,`, `"epoch":1,"epochVersion":"x",`), "its manifest: version and " +
			"configuration are not those of the last epoch"},
		"asked for elsewhere": {edit(fmt.Sprintf(`"from":%d,`, behind+5), `"from":3,`), "its manifest: entry 3 was " +
			"asked for, which is not among entries"},
		"more records":  {edit(size, `"recordBytes":999999,`), "its manifest: the size of the records is"},
		"fewer records": {edit(size, `"recordBytes":2000,`), "its records: entry"},
		"a bomb": {edit(size, `"recordBytes":99999999999,`), "its manifest: 99999999999 bytes of " +
			"records cannot be packed into"},
		"no snapshot":        {sized(nil), "its manifest: a snapshot of 0 bytes for a beginning behind entry 60"},
		"a vast snapshot":    {edit(fmt.Sprintf(`"snapshotBytes":%d`, len(o.snapshot)), `"snapshotBytes":99999999999`), "its manifest: a snapshot of 99999999999 bytes in a file with"},
		"another's snapshot": {func(p *parts) { p.snapshot = foreign }, "its snapshot: entry 60 is another one here"},
		"another snapshot":   {sized(other), "its snapshot: it is of entry 59, and the records begin with entry 61"},
		"no zstd": {func(p *parts) { p.records = []byte("some text that zstd did not write") },
			"its records: entry 61: invalid input: magic number mismatch"},
		"a changed record": {records(func(c []byte) []byte { c[100] ^= 1; return c }), "its records: entry 61: " +
			"record: checksum is"},
		"a huge record": {records(func(c []byte) []byte { c[0] = 0x7f; return c }), "its records: entry 61: " +
			"213070"},
		"a record left out": {records(func(c []byte) []byte {
			n := 4 + binary.BigEndian.Uint32(c)
			return c[n:]
		}), "its records: entry 61: its record is that of entry 62"},
		"a record altered with its checksum": {records(func(c []byte) []byte {
			at := 4 + binary.BigEndian.Uint32(c)
			rec := c[at+4 : at+4+binary.BigEndian.Uint32(c[at:])]
			rec[2] ^= 1 // settled
			end := len(rec) - 4
			binary.BigEndian.PutUint32(rec[end:], crc32.Checksum(rec[:end], crc32.MakeTable(crc32.Castagnoli)))
			return c
		}), "its records: entry 63: it follows a record of hash"},
		"more behind": {records(func(c []byte) []byte { return append(c, "more"...) }), "its records: more follows " +
			"the last entry"},
		"another digest": {func(p *parts) {
			at := bytes.Index(p.manifest, []byte(`"digest":"`)) + 10
			p.manifest[at] ^= 1
		}, "its digest: it is not that of the snapshot and the records"},
		"another root": {func(p *parts) {
			at := bytes.Index(p.manifest, []byte(`"root":"`)) + 9
			p.manifest[at] ^= 1
		}, "its manifest: the hash tree's root is"},
	} {
		t.Run(name, func(t *testing.T) {
			p := takeApart(t, good)
			c.change(&p)
			_, err := open(p.joined())
			var damaged *bundle.DamagedError
			if !errors.As(err, &damaged) || !strings.Contains(err.Error(), "x.bundle: the bundle is damaged: "+c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestANewerFormatIsToldFromDamage(t *testing.T) {
	o := logOf(t)
	data := write(t, o, o.plans()["of one entry"])
	data[11]++
	var damaged *bundle.DamagedError
	if _, err := open(data); !errors.As(err, &damaged) {
		t.Errorf("with a wrong checksum: %v", err)
	}
	sum := sha256.Sum256(data[:len(data)-sha256.Size])
	copy(data[len(data)-sha256.Size:], sum[:])
	var format *bundle.FormatError
	if _, err := open(data); !errors.As(err, &format) || format.Format != bundle.Format+1 {
		t.Errorf("with the right one: %v", err)
	}
}

func TestABundleIsKnownByItsContent(t *testing.T) {
	o := logOf(t)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content []byte
		want    bool
	}{
		"incident": {write(t, o, o.plans()["of one entry"]), true},
		"x.bundle": {[]byte("apiVersion: v1\nkind: Pod\n"), false},
		"short":    {[]byte("roll"), false},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := bundle.Is(path); got != c.want {
			t.Errorf("%s is a bundle: %v", name, got)
		}
		b, err := bundle.Open(path, nil)
		if (err == nil) != c.want || err != nil && !errors.Is(err, bundle.ErrNotABundle) {
			t.Errorf("open %s: %v", name, err)
		}
		if err == nil {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if bundle.Is(dir) || bundle.Is(filepath.Join(dir, "nothing")) {
		t.Error("a directory, or nothing, is a bundle")
	}
}

// faulty is a log that is damaged at an entry.
type faulty struct {
	*original
	at uint64
}

// Records implements eventlog.RecordReader.
func (f faulty) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for rec, err := range f.original.Records(ctx, from) {
			if rec.Seq == f.at {
				yield(eventlog.Record{}, &eventlog.DamagedError{Path: "a.log", Seq: f.at, Err: errors.New("planted")})
				return
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func TestABundleEndsBeforeDamageOnlyIfItMay(t *testing.T) {
	src := faulty{logOf(t), 100}
	plan := bundle.Plan{First: 1, Last: 120}
	var damaged *eventlog.DamagedError
	if _, _, err := bundle.Write(context.Background(), &bytes.Buffer{}, src, plan); !errors.As(err, &damaged) {
		t.Errorf("error %v", err)
	}
	plan.UntilDamage = true
	b, err := open(write(t, src, plan))
	if err != nil {
		t.Fatal(err)
	}
	if m := b.Manifest(); m.Last != 99 || m.Damage != "a.log: log damaged at entry 100: planted" {
		t.Errorf("manifest %+v", m)
	}
	plan.Last = 99
	if b, err = open(write(t, src, plan)); err != nil || b.Manifest().Damage != "" {
		t.Errorf("up to the damage: %v", err)
	}
	src.at = 1
	if _, _, err := bundle.Write(context.Background(), &bytes.Buffer{}, src, plan); !errors.As(err, &damaged) {
		t.Errorf("with nothing before the damage: %v", err)
	}
}

// TestABombTakesNoMemory has a stream that unpacks to much more than is said to be in it.
func TestABombTakesNoMemory(t *testing.T) {
	o := logOf(t)
	p := takeApart(t, write(t, o, o.plans()["of one entry"]))
	content := unpacked(t, p.records)
	p.records = packed(t, append(content, make([]byte, 1<<30)...))
	data := p.joined()
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := open(data); err == nil || !strings.Contains(err.Error(), "more follows the last entry") {
				b.Fatalf("error %v", err)
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 64<<20 {
		t.Errorf("%d bytes were allocated to refuse a bundle of %d", allocated, len(data))
	}
}

func FuzzOpen(f *testing.F) {
	o := logOf(f)
	for _, plan := range o.plans() {
		data := write(f, o, plan)
		f.Add(data)
		f.Add(data[:200])
	}
	f.Add(hostile(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resealed(data)} {
			var b *bundle.Bundle
			var err error
			got := alloc.Bytes(func() { b, err = open(data) })
			if most := bundle.OpenMemory(len(data)); err != nil && got > most {
				t.Errorf("%d bytes were allocated to refuse a bundle of %d, want at most %d: %v",
					got, len(data), most, err)
			}
			if err != nil {
				continue
			}
			m := b.Manifest()
			n := uint64(0)
			for e, err := range b.Read(context.Background(), m.First) {
				if err != nil || e.Seq != m.First+n {
					t.Fatalf("a bundle that was opened yields %+v, %v", e, err)
				}
				n++
			}
			if n != m.Entries() {
				t.Fatalf("%d entries, and it says %d", n, m.Entries())
			}
		}
	})
}

// resealed gives the bytes the checksums of a bundle, as far as they have room for them.
func resealed(data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) < 80 {
		return data
	}
	if end := 16 + uint64(binary.BigEndian.Uint32(data[12:])); end+64 <= uint64(len(data)) {
		sum := sha256.Sum256(data[:end])
		copy(data[end:], sum[:])
	}
	sum := sha256.Sum256(data[:len(data)-sha256.Size])
	copy(data[len(data)-sha256.Size:], sum[:])
	return data
}
