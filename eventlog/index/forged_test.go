package index_test

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAForgedPartTakesNoMoreMemoryThanItsFile reads parts whose hashes are right and whose numbers are too large.
func TestAForgedPartTakesNoMoreMemoryThanItsFile(t *testing.T) {
	facts := func(change func(*index.Facts)) *index.Part {
		p := &index.Part{Facts: somePart(t).Facts}
		p.Kinds = maps.Clone(p.Kinds)
		change(&p.Facts)
		return p
	}
	for name, p := range map[string]*index.Part{
		"too many entries": facts(func(f *index.Facts) {
			f.Last = f.First + index.MaxSpan
			f.Kinds[eventlog.KindBindResult] = index.MaxSpan + 1
		}),
		"8 million times the same epoch": facts(func(f *index.Facts) {
			f.Epochs = slices.Repeat([]uint64{f.First}, 8<<20)
			f.Kinds = map[eventlog.Kind]uint64{eventlog.KindEpochStarted: 7}
		}),
		"an epoch twice": facts(func(f *index.Facts) {
			f.Epochs = []uint64{f.First, f.First}
			f.Kinds = map[eventlog.Kind]uint64{eventlog.KindBindResult: 5, eventlog.KindEpochStarted: 2}
		}),
		"an epoch behind the end": facts(func(f *index.Facts) {
			f.Epochs = []uint64{f.Last + 1}
			f.Kinds = map[eventlog.Kind]uint64{eventlog.KindBindResult: 6, eventlog.KindEpochStarted: 1}
		}),
		"a million resources": facts(func(f *index.Facts) {
			f.Resources = map[eventlog.Resource]uint64{}
			for i := range 1 << 20 {
				f.Resources[eventlog.Resource(strconv.Itoa(i))] = 1
			}
		}),
		"more entries than it has": facts(func(f *index.Facts) { f.Kinds[eventlog.KindBindResult]++ }),
		"a count that wraps around": facts(func(f *index.Facts) {
			f.Kinds[eventlog.KindTick] = math.MaxUint64
			f.Kinds[eventlog.KindBindResult]++
		}),
		"no entry of a kind": facts(func(f *index.Facts) { f.Kinds[eventlog.KindTick] = 0 }),
		"an object of no entry": facts(func(f *index.Facts) {
			f.Resources = map[eventlog.Resource]uint64{eventlog.Pods: 1}
		}),
		"an outcome of no decision":   facts(func(f *index.Facts) { f.Outcomes = map[eventlog.Outcome]uint64{1: 1} }),
		"an end before its beginning": facts(func(f *index.Facts) { f.To = f.From - 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := index.NewDir(filepath.Join(t.TempDir(), "index"))
			if err := dir.Put(p); !errors.Is(err, index.ErrDamaged) {
				t.Errorf("it is put: %v", err)
			}
			r := index.Range{First: p.First, Last: p.Last}
			if err := os.Mkdir(dir.Path(), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir.File(r), p.Encode(), 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, r)
		})
	}
}

// refused checks that a part is refused, and that this takes at most 1 MiB.
func refused(t *testing.T, dir *index.Dir, r index.Range) {
	t.Helper()
	var err, err2 error
	took := allocated(func() {
		_, err = dir.Facts(r)
		_, err2 = dir.Get(r)
	})
	if err2 == nil || !errors.Is(err2, index.ErrDamaged) || err != nil && !errors.Is(err, index.ErrDamaged) {
		t.Errorf("its facts: %v; the whole part: %v", err, err2)
	}
	if took > 1<<20 {
		t.Errorf("reading it allocates %d bytes", took)
	}
}

// TestAFileOfHolesTakesNoMemory: a part that is made longer, which takes no space on the disk, is refused before its
// length is allocated.
func TestAFileOfHolesTakesNoMemory(t *testing.T) {
	p := somePart(t)
	whole := p.Encode()
	dir := index.NewDir(filepath.Join(t.TempDir(), "index"))
	if err := dir.Put(p); err != nil {
		t.Fatal(err)
	}
	r := index.Range{First: p.First, Last: p.Last}
	for _, size := range []int64{int64(len(whole)) + 1, 64 << 20, index.MaxFile, index.MaxFile + 1, 4 << 30} {
		if err := os.Truncate(dir.File(r), size); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, r)
	}
	// The same with a head that says that it is long.
	longHead := append(whole[:len("rollcall index 2\n"):len("rollcall index 2\n")], 0x03, 0xff, 0xff, 0xff)
	for _, size := range []int64{100, 4 << 20, 64 << 20} {
		if err := os.WriteFile(dir.File(r), longHead, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(dir.File(r), size); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, r)
	}
}

// A part that is made of the parts of consecutive ranges is the one made of their entries.
func TestJoinedBuildersMakeTheSamePart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, _ := drawn(t)
		var one, joined index.Builder
		for from := 0; from < len(entries); {
			upTo := rapid.IntRange(from+1, len(entries)).Draw(t, "up to")
			var some index.Builder
			for _, e := range entries[from:upTo] {
				if err := errors.Join(one.Add(e), some.Add(e)); err != nil {
					t.Fatal(err)
				}
			}
			if err := joined.Join(&some); err != nil {
				t.Fatal(err)
			}
			from = upTo
		}
		a, b := one.Part([32]byte{1}), joined.Part([32]byte{1})
		if !slices.Equal(a.Encode(), b.Encode()) || a.Digest() != b.Digest() {
			t.Fatalf("%+v, and joined %+v", a.Facts, b.Facts)
		}
	})
}

// Builders of ranges that do not follow each other, or that have too many entries together, are not joined.
func TestOnlyConsecutiveBuildersAreJoined(t *testing.T) {
	of := func(first, last uint64) *index.Builder {
		var b index.Builder
		for seq := first; seq <= last; seq++ {
			if err := b.Add(eventlog.Entry{Seq: seq, Epoch: 1, Time: 1, Payload: &eventlog.Tick{}}); err != nil {
				t.Fatal(err)
			}
		}
		return &b
	}
	b := of(1, 10)
	for _, next := range []*index.Builder{of(12, 13), of(10, 12), of(11, index.MaxSpan+1)} {
		if err := b.Join(next); err == nil {
			t.Errorf("entries %v are joined to 1 to 10", next.Range())
		}
	}
	if err := b.Join(of(11, index.MaxSpan)); err != nil || b.Len() != index.MaxSpan {
		t.Errorf("%d entries, %v", b.Len(), err)
	}
}

// A part becomes full before it is larger than a part that is read may be, whatever names the entries have.
func TestAFullPartCanBeRead(t *testing.T) {
	uids := make([]types.UID, 1<<20)
	for i := range uids {
		uids[i] = types.UID(strconv.Itoa(i))
	}
	var b index.Builder
	for seq := uint64(1); !b.Full(); seq++ {
		d := &eventlog.Decision{Namespace: "ml", Allowed: uids}
		if err := b.Add(eventlog.Entry{Seq: seq, Epoch: 1, Time: 1, Payload: d}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Len(); n < 10 || n > 20 {
		t.Errorf("it is full with %d entries", n)
	}
	dir := index.NewDir(filepath.Join(t.TempDir(), "index"))
	r := b.Range()
	if err := dir.Put(b.Part([32]byte{1})); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Get(r); err != nil {
		t.Error(err)
	}
}
