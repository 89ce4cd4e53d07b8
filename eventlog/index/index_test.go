package index_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

// drawn returns entries that each name one of a few pods, and the naive reference: the entries by pod.
func drawn(t *rapid.T) (entries []eventlog.Entry, naming map[string][]uint64) {
	naming = map[string][]uint64{}
	first := rapid.Uint64Range(1, 1<<40).Draw(t, "first")
	for i := range rapid.IntRange(1, 60).Draw(t, "entries") {
		seq := first + uint64(i)
		name := fmt.Sprintf("p%d", rapid.IntRange(0, 4).Draw(t, "pod"))
		uid := types.UID("uid-of-" + name)
		e := eventlog.Entry{Seq: seq, Epoch: 1, Time: eventlog.Time(seq)}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			e.Payload = &eventlog.Upserted{Resource: eventlog.Pods,
				Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: uid}}}
			naming["name "+name] = append(naming["name "+name], seq)
		case 1:
			e.Payload = &eventlog.Decision{Namespace: "ml", UID: "another", Group: name, Victims: []types.UID{uid, uid}}
			naming["group "+name] = append(naming["group "+name], seq)
		case 2:
			e.Payload = &eventlog.BindResult{UID: uid}
		case 3:
			e.Payload = &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: name, UID: uid}
		default:
			e.Payload = &eventlog.Tick{}
			uid = ""
		}
		if uid != "" {
			naming["uid "+name] = append(naming["uid "+name], seq)
		}
		entries = append(entries, e)
	}
	return entries, naming
}

func TestAPartNamesTheEntriesThatANaiveReaderFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, naming := drawn(t)
		var b index.Builder
		for _, e := range entries {
			if err := b.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		p, err := index.Decode(b.Part([32]byte{7}).Encode())
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1]
		if p.First != entries[0].Seq || p.Last != last.Seq || p.Hash != [32]byte{7} || p.To != last.Time {
			t.Fatalf("%+v", p.Facts)
		}
		counted := uint64(0)
		for _, n := range p.Kinds {
			counted += n
		}
		if counted != uint64(len(entries)) {
			t.Fatalf("%d entries are counted of %d", counted, len(entries))
		}
		for i := range 5 {
			name := fmt.Sprintf("p%d", i)
			for what, key := range map[string]index.Key{
				"name ":  index.Pod(types.NamespacedName{Namespace: "ml", Name: name}),
				"uid ":   index.UID(types.UID("uid-of-" + name)),
				"group ": index.Group(types.NamespacedName{Namespace: "ml", Name: name}),
			} {
				if got := p.Naming([]index.Key{key}, nil); !slices.Equal(got, naming[what+name]) {
					t.Fatalf("%s%s: %v, want %v", what, name, got, naming[what+name])
				}
			}
		}
	})
}

// TestAPartOfManyNamesTellsWhatNamesEach asks a part with thousands of names, before and after encoding, for keys one
// by one, some at a time and all at once.
func TestAPartOfManyNamesTellsWhatNamesEach(t *testing.T) {
	const pods, times = 10000, 3
	var b index.Builder
	want := map[index.Key][]uint64{}
	for i := range uint64(pods * times) {
		uid := types.UID(fmt.Sprint(i % pods))
		e := eventlog.Entry{Seq: 5 + i, Epoch: 1, Time: 9, Payload: &eventlog.BindResult{UID: uid}}
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
		want[index.UID(uid)] = append(want[index.UID(uid)], e.Seq)
	}
	made := b.Part([32]byte{1})
	read, err := index.Decode(made.Encode())
	if err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(want))
	for what, p := range map[string]*index.Part{"made": made, "read": read} {
		for _, n := range []int{1, 7, len(keys)} {
			for some := range slices.Chunk(keys, n) {
				var all []uint64
				for _, k := range some {
					all = append(all, want[k]...)
				}
				absent := index.UID("absent")
				asked := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(some), absent))))
				if got := p.Naming(asked, nil); !slices.Equal(got, all) {
					t.Fatalf("%s: %d keys from %d on: %v, want %v", what, n, some[0], got, all)
				}
			}
		}
	}
}

// somePart is a part of a few entries.
func somePart(t testing.TB) *index.Part {
	t.Helper()
	var b index.Builder
	for seq := uint64(5); seq < 12; seq++ {
		result := &eventlog.BindResult{UID: types.UID(fmt.Sprint(seq))}
		err := b.Add(eventlog.Entry{Seq: seq, Epoch: 1, Time: 9, Payload: result})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Part([32]byte{1})
}

// A file that is cut short anywhere, or has one byte changed, is refused. No part is accepted for another range.
func TestADamagedPartIsRefused(t *testing.T) {
	dir := index.NewDir(t.TempDir() + "/index")
	if err := dir.Put(somePart(t)); err != nil {
		t.Fatal(err)
	}
	r := index.Range{First: 5, Last: 11}
	whole, err := os.ReadFile(dir.File(r))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(dir.File(r), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Get(r); !errors.Is(err, index.ErrDamaged) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range whole {
		refused(fmt.Sprintf("cut to %d bytes", i), whole[:i])
		changed := bytes.Clone(whole)
		changed[i] ^= 0x10
		refused(fmt.Sprintf("byte %d changed", i), changed)
	}
	if err := os.WriteFile(dir.File(index.Range{First: 5, Last: 12}), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Facts(index.Range{First: 5, Last: 12}); !errors.Is(err, index.ErrDamaged) {
		t.Errorf("the part of another range: %v", err)
	}
	if _, err := dir.Get(index.Range{First: 1, Last: 2}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no part: %v", err)
	}
}

func TestDropRemovesWhatIsBeforeAndWhatACrashLeft(t *testing.T) {
	dir := index.NewDir(t.TempDir() + "/index")
	if err := dir.Put(somePart(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.File(index.Range{First: 1, Last: 4})+".77.tmp", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := dir.Drop(11); n != 0 || err != nil {
		t.Errorf("entry 11 is still there: %d, %v", n, err)
	}
	files, err := os.ReadDir(dir.Path())
	if err != nil || len(files) != 1 || strings.HasSuffix(files[0].Name(), ".tmp") {
		t.Errorf("%v, %v", files, err)
	}
	if n, err := dir.Drop(12); n != 1 || err != nil {
		t.Errorf("all are before entry 12: %d, %v", n, err)
	}
	if ranges, err := dir.List(); len(ranges) != 0 || err != nil {
		t.Errorf("%v, %v", ranges, err)
	}
}

func TestNothingIsDroppedThroughALink(t *testing.T) {
	there := index.NewDir(t.TempDir() + "/elsewhere")
	if err := there.Put(somePart(t)); err != nil {
		t.Fatal(err)
	}
	link := t.TempDir() + "/index"
	if err := os.Symlink(there.Path(), link); err != nil {
		t.Fatal(err)
	}
	if n, err := index.NewDir(link).Drop(100); n != 0 || !errors.Is(err, regular.ErrNotAFile) {
		t.Errorf("%d parts dropped, %v", n, err)
	}
	if ranges, err := there.List(); len(ranges) != 1 || err != nil {
		t.Errorf("%v, %v", ranges, err)
	}
}

func TestCoverTakesEachEntryOnce(t *testing.T) {
	ranges := []index.Range{{1, 4}, {1, 8}, {5, 8}, {9, 12}, {10, 20}, {13, 16}, {30, 40}}
	want := []index.Range{{1, 8}, {9, 12}, {13, 16}}
	if got := index.Cover(ranges, 1, 35); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := index.Cover(ranges, 3, 12); !slices.Equal(got, []index.Range{{5, 8}, {9, 12}}) {
		t.Errorf("of a log that begins later: %v", got)
	}
}

// FuzzDecode feeds any bytes: they are refused, or decode into a part that answers queries.
func FuzzDecode(f *testing.F) {
	f.Add(somePart(f).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := index.Decode(b)
		if err != nil {
			return
		}
		for _, seq := range p.Naming([]index.Key{0, 1, index.Barrier()}, nil) {
			if seq < p.First || seq > p.Last {
				t.Errorf("entry %d of %d to %d", seq, p.First, p.Last)
			}
		}
	})
}
