package bundles

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
	"github.com/rollcall-sched/rollcall/sim/workload"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// recorded returns a simulated log with snapshots.
func recorded(t *testing.T) string {
	t.Helper()
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.log")
	_, err = keep.Run(t.Context(), cluster, keep.Options{
		Log: path, SnapshotEvery: 20,
		Engine: engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// withPlugins returns options with the plugins that the logs were decided with.
func withPlugins() logs.Options { return logs.Options{Registry: plugins.NewRegistry()} }

func open(t *testing.T, path string) *logs.Source {
	t.Helper()
	log, err := withPlugins().Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// lines returns the entries of a log from one on in their public form.
func lines(t *testing.T, log *logs.Source, from uint64) []string {
	t.Helper()
	var out []string
	for e, err := range log.Read(t.Context(), from) {
		var line []byte
		if err == nil {
			line, err = eventlog.AppendJSON(nil, e)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(line))
	}
	return out
}

// TestABundleAndTheLogMadeOfItAreTheRangeOfTheLog goes there and back, from the first entry and from a later one.
func TestABundleAndTheLogMadeOfItAreTheRangeOfTheLog(t *testing.T) {
	path := recorded(t)
	whole := lines(t, open(t, path), 1)
	last := uint64(len(whole))
	for _, from := range []uint64{0, last - 20} {
		file := filepath.Join(t.TempDir(), "a.bundle")
		made, err := Export(t.Context(), open(t, path),
			ExportOptions{File: file, From: Place{Seq: from}, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if made.Last != last || made.First > max(from, 1) || (made.First == 1) != (from == 0) ||
			made.Entries != last-made.First+1 {
			t.Errorf("from %d: the bundle is of entries %d to %d (%d)", from, made.First, made.Last, made.Entries)
		}
		info, err := os.Stat(file)
		if err != nil || info.Size() != made.Bytes {
			t.Errorf("from %d: the file has %d bytes, want %d, %v", from, info.Size(), made.Bytes, err)
		}
		if got := lines(t, open(t, file), made.First); !slices.Equal(got, whole[made.First-1:]) {
			t.Errorf("from %d: the bundle has other entries than the log", from)
		}
		dir := filepath.Join(t.TempDir(), "b.log")
		back, err := Import(t.Context(), file, "file://"+dir, withPlugins())
		if err != nil {
			t.Fatal(err)
		}
		if back.Path != dir || back.First != made.First || back.Last != last || back.LastHash != made.LastHash {
			t.Errorf("from %d: imported %+v of %+v", from, back, made)
		}
		log := open(t, dir)
		if got := lines(t, log, made.First); !slices.Equal(got, whole[made.First-1:]) {
			t.Errorf("from %d: the log that was made has other entries", from)
		}
		if base, err := log.Base(); err != nil || base != made.First-1 {
			t.Errorf("from %d: its state is known behind entry %d, %v, want %d", from, base, err, made.First-1)
		}
	}
}

// TestABundleHasNothingOfWhatWasGone exports the end of a log, with and without a snapshot long before. The bundle
// begins with the requested entry. No pod and no group that was deleted before is in its bytes.
func TestABundleHasNothingOfWhatWasGone(t *testing.T) {
	path := recorded(t)
	from := uint64(150)
	gone := map[string]bool{}
	for e, err := range open(t, path).Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case *eventlog.Deleted:
			if e.Seq < from {
				gone[p.Name] = true
			}
		case *eventlog.Upserted:
			delete(gone, p.Object.GetName())
		}
	}
	if len(gone) < 10 {
		t.Fatalf("%d objects are gone by entry %d: want more", len(gone), from)
	}
	for _, snapshots := range []bool{true, false} {
		if !snapshots {
			if err := os.RemoveAll(filepath.Join(path, logs.SnapshotDir)); err != nil {
				t.Fatal(err)
			}
		}
		var content bytes.Buffer
		made, err := Export(t.Context(), open(t, path),
			ExportOptions{Into: &content, From: Place{Seq: from}, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if made.First != from {
			t.Errorf("with snapshots %t: the bundle begins with entry %d, want %d", snapshots, made.First, from)
		}
		b, err := bundle.New(bytes.NewReader(content.Bytes()), int64(content.Len()), "bundle", nil)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := b.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		raw := cutState(t, packed, 0)
		zip, err := gzip.NewReader(bytes.NewReader(raw[108 : len(raw)-sha256.Size]))
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		for rec, err := range b.Records(t.Context(), from) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rec.Bytes...)
		}
		for name := range gone {
			if len(name) > 3 && bytes.Contains(all, []byte(name)) {
				t.Errorf("with snapshots %t: %s was deleted before entry %d, and is in the bundle", snapshots, name,
					from)
			}
		}
	}
}

func TestARangeIsOfEntriesOrTimes(t *testing.T) {
	entries := logstest.WellFormed(90)
	log := open(t, logstest.Segmented(t, entries, 40))
	at := func(seq int) Place { return Place{Time: entries[seq-1].Time} }
	firstAt := func(seq int) uint64 { // the first entry of that time
		for _, e := range entries {
			if e.Time >= entries[seq-1].Time {
				return e.Seq
			}
		}
		return 0
	}
	lastAt := func(seq int) uint64 {
		last := uint64(0)
		for _, e := range entries {
			if e.Time <= entries[seq-1].Time {
				last = e.Seq
			}
		}
		return last
	}
	for _, tc := range []struct {
		from, to    Place
		first, last uint64
	}{
		{Place{}, Place{}, 1, 90},
		{Place{Seq: 10}, Place{Seq: 20}, 10, 20},
		{at(30), at(60), firstAt(30), lastAt(60)},
		{at(30), Place{}, firstAt(30), 90},
		{Place{Seq: 5}, at(60), 5, lastAt(60)},
	} {
		o := ExportOptions{From: tc.from, To: tc.to}
		first, last, err := o.findRange(t.Context(), log)
		if err != nil || first != tc.first || last != tc.last {
			t.Errorf("from %+v to %+v: entries %d to %d, %v, want %d to %d", tc.from, tc.to, first, last, err, tc.first,
				tc.last)
		}
	}
	for _, o := range []ExportOptions{
		{From: Place{Seq: 91}}, {To: Place{Seq: 91}}, {From: Place{Seq: 20}, To: Place{Seq: 10}},
		{From: Place{Time: entries[89].Time + 1}},
	} {
		o.File = filepath.Join(t.TempDir(), "a.bundle")
		var request *logs.RequestError
		if _, err := Export(t.Context(), log, o); !errors.As(err, &request) {
			t.Errorf("from %+v to %+v: want a RequestError, got %v", o.From, o.To, err)
		}
		if _, err := os.Lstat(o.File); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("from %+v to %+v: a file was left, %v", o.From, o.To, err)
		}
	}
}

// TestAnExportEndsBeforeDamageOnlyIfItMay cuts the last segment of a log.
func TestAnExportEndsBeforeDamageOnlyIfItMay(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(90), 40)
	if err := os.Truncate(logstest.SegmentOf(path, 81), 4096); err != nil {
		t.Fatal(err)
	}
	var notes []string
	log, err := logs.Options{Report: func(note string) { notes = append(notes, note) }}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := ExportOptions{File: filepath.Join(t.TempDir(), "a.bundle"), Version: "test"}
	var damaged *eventlog.DamagedError
	if _, err := Export(t.Context(), log, o); !errors.As(err, &damaged) {
		t.Errorf("to its end: want the damage, got %v", err)
	}
	o.UntilDamage = true
	made, err := Export(t.Context(), log, o)
	if err != nil || made.Last != 80 || made.Damage == "" {
		t.Fatalf("until the damage: %+v, %v", made, err)
	}
	if len(notes) == 0 || !strings.Contains(notes[len(notes)-1], "exported what is good") {
		t.Errorf("reported %q, want that the export ends before the damage", notes)
	}
	if _, err := Export(t.Context(), log, o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("to a file that is there: %v", err)
	}
}

// TestASnapshotThatIsNotTheEntriesIsNotExported replaces a snapshot of the log by the snapshot of another state. The
// two states differ, and each is whole in itself. The set of entries with snapshots depends on the speed of writing.
// An export does not begin with the snapshot of the log's last entry, and an entry may be no more than a Tick.
func TestASnapshotThatIsNotTheEntriesIsNotExported(t *testing.T) {
	path := recorded(t)
	log := open(t, path)
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	seqs, err := logs.SnapshotsOf(path).List()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range slices.Backward(seqs) {
		if at == last || !forge(t, log, path, at) {
			continue
		}
		_, err = Export(t.Context(), open(t, path), ExportOptions{
			File: filepath.Join(t.TempDir(), "a.bundle"), From: Place{Seq: at + 1}, Version: "test"})
		if !errors.Is(err, snapshot.ErrNotTheEntries) {
			t.Errorf("the snapshot of entry %d of %d: want that it is not what the entries make, got %v", at, last, err)
		}
		return
	}
	t.Fatalf("of the snapshots of entries %d of %d none can be forged", seqs, last)
}

// forge replaces the snapshot of entry at by the state that the log would make with a Tick in place of that entry. It
// reports whether that is another state.
func forge(t *testing.T, log *logs.Source, path string, at uint64) bool {
	t.Helper()
	right, err := log.StateAfter(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	m, err := log.StateAfter(t.Context(), at-1)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range log.Read(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		e.Payload = &eventlog.Tick{}
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
		break
	}
	if m.Hash() == right.Hash() {
		return false
	}
	data, err := log.EncodeSnapshot(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := logs.SnapshotsOf(path).Add(at, data); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestNothingIsImportedOverWhatIsThere(t *testing.T) {
	path := recorded(t)
	file := filepath.Join(t.TempDir(), "a.bundle")
	if _, err := Export(t.Context(), open(t, path), ExportOptions{File: file, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	var request *logs.RequestError
	if _, err := Import(t.Context(), file, path, withPlugins()); !errors.As(err, &request) {
		t.Errorf("over a log: want a RequestError, got %v", err)
	}
	_, err := Import(t.Context(), "nats://host/stream", filepath.Join(t.TempDir(), "b"), withPlugins())
	if !errors.As(err, &request) {
		t.Errorf("of a stream: want a RequestError, got %v", err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Import(t.Context(), file, filepath.Join(dir, "b"), withPlugins()); err == nil {
		t.Error("a bundle that was changed was imported")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A snapshot that is whole, of the right place, and not of the state that it says it is of, comes to light only when a
// Machine is made of it. That is done before anything is made of the bundle.
func TestABundleWhoseSnapshotCannotBeRestoredIsNotImported(t *testing.T) {
	log := open(t, recorded(t))
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.bundle")
	opts := ExportOptions{File: file, From: Place{Seq: last}, Version: "test"}
	plan, err := opts.plan(t.Context(), log)
	if err != nil || len(plan.Snapshot) == 0 {
		t.Fatalf("a snapshot of %d bytes, error %v", len(plan.Snapshot), err)
	}
	for name, cut := range map[string]int{"as it was": 0, "without the state's end": 3} {
		forged := *plan
		forged.Snapshot = cutState(t, plan.Snapshot, cut)
		var content bytes.Buffer
		if _, _, err := bundle.Write(t.Context(), &content, log, forged); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := bundle.Open(file, func(uint64) {}); err != nil || b.Close() != nil {
			t.Fatalf("%s: the bundle by itself: %v", name, err)
		}
		dir := t.TempDir()
		_, err := Import(t.Context(), file, filepath.Join(dir, "b"), withPlugins())
		left, rerr := os.ReadDir(dir)
		if good := cut == 0; good != (err == nil) || rerr != nil || good != (len(left) == 1) {
			t.Errorf("%s: error %v, %d files left behind (%v)", name, err, len(left), rerr)
		}
	}
}

// cutState takes bytes from the end of a snapshot's state, with checksums that fit.
func cutState(t *testing.T, data []byte, cut int) []byte {
	t.Helper()
	const offsetHash, offsetSize, headerSize = 68, 100, 108
	zip, err := gzip.NewReader(bytes.NewReader(data[headerSize : len(data)-sha256.Size]))
	if err != nil {
		t.Fatal(err)
	}
	state, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	state = state[:len(state)-cut]
	out := bytes.NewBuffer(slices.Clone(data[:headerSize]))
	hash := sha256.Sum256(state)
	copy(out.Bytes()[offsetHash:], hash[:])
	binary.BigEndian.PutUint64(out.Bytes()[offsetSize:], uint64(len(state)))
	w := gzip.NewWriter(out)
	if _, err := w.Write(state); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(out.Bytes())
	return append(out.Bytes(), sum[:]...)
}
