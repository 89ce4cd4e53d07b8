package merkle

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

func record(i uint64) [32]byte { return sha256.Sum256(fmt.Append(nil, "record ", i)) }

// stored is tlog's own tree: every complete subtree's hash, by its number in tlog's order.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = s[at]
	}
	return out, nil
}

func (s *stored) add(t testing.TB, n uint64) {
	t.Helper()
	data := record(n)
	more, err := tlog.StoredHashes(int64(n), data[:], s)
	if err != nil {
		t.Fatal(err)
	}
	*s = append(*s, more...)
}

// The tree that grows by its frontier is the tree that tlog computes from all hashes.
func TestTreeIsThatOfTlog(t *testing.T) {
	var tree Tree
	var all stored
	seenOf := func(level int, n uint64, hash tlog.Hash) {
		if want := all[tlog.StoredHashIndex(level, int64(n))]; hash != want {
			t.Fatalf("subtree %d of level %d has hash %v, want %v", n, level, hash, want)
		}
	}
	for size := uint64(0); size <= 1100; size++ {
		if err := tree.Check(); err != nil {
			t.Fatal(err)
		}
		want, err := tlog.TreeHash(int64(size), all)
		if err != nil || tree.Root() != want {
			t.Fatalf("root of %d entries is %v, error %v, want %v", size, tree.Root(), err, want)
		}
		nodes := 0
		tree.Each(func(level int, n uint64, hash tlog.Hash) {
			nodes++
			seenOf(level, n, hash)
		})
		if nodes != bits.OnesCount64(size) {
			t.Fatalf("%d nodes for %d entries", nodes, size)
		}
		again, err := Parse(size, tree.AppendNodes(nil))
		if err != nil || !again.Equal(tree) {
			t.Fatalf("written and read again: %v, error %v, want %v", again, err, tree)
		}
		all.add(t, size)
		completed := 0
		tree.AddSeeing(record(size), func(level int, n uint64, hash tlog.Hash) {
			completed++
			seenOf(level, n, hash)
		})
		if want := bits.TrailingZeros64(size+1) + 1; completed != want {
			t.Fatalf("entry %d completed %d subtrees, want %d", size, completed, want)
		}
	}
}

// Spans that were computed apart give the same tree as their entries one by one.
func TestTreeOfSpans(t *testing.T) {
	for start := range uint64(70) {
		for _, size := range []uint64{1, 2, 3, 8, 13, 64} {
			var one, parts Tree
			for at := uint64(0); at < 200; {
				end := min(at+size, 200)
				if at == 0 && start > 0 {
					end = start
				}
				span := NewSpan(at)
				for ; at < end; at++ {
					one.Add(record(at))
					span.Add(record(at))
				}
				if err := parts.Join(span); err != nil || !parts.Equal(one) {
					t.Fatalf("spans of %d behind %d: another tree at %d, error %v", size, start, at, err)
				}
			}
		}
	}
}

func TestJoinRefusesWhatDoesNotFollow(t *testing.T) {
	span := NewSpan(3)
	for i := range uint64(6) {
		span.Add(record(3 + i))
	}
	for name, change := range map[string]func(s *Span){
		"elsewhere":           func(s *Span) { s.Begin = 2 },
		"another end":         func(s *Span) { s.End++ },
		"a node less":         func(s *Span) { s.Nodes = s.Nodes[1:] },
		"another level":       func(s *Span) { s.Nodes[0].Level = 1 },
		"no level":            func(s *Span) { s.Nodes[1].Level = -1 },
		"a level of a galaxy": func(s *Span) { s.Nodes[0].Level = 70 },
	} {
		var tree Tree
		for i := range uint64(3) {
			tree.Add(record(i))
		}
		bad := Span{Begin: span.Begin, End: span.End, Nodes: append([]Node(nil), span.Nodes...)}
		change(&bad)
		if tree.Join(bad) == nil {
			t.Errorf("%s: joined", name)
		}
	}
}

func TestParseRefusesWhatIsNoTree(t *testing.T) {
	for _, tc := range []struct {
		size  uint64
		nodes int
		want  string
	}{
		{1, 0, "0 nodes, want 1"}, {0, 32, "1 nodes, want 0"}, {3, 32, "1 nodes, want 2"}, {3, 63, "cut short"},
		{4, 64, "2 nodes, want 1"}, {1<<48 + 1, 64, "more than"}, {1 << 63, 32, "more than"},
	} {
		if _, err := Parse(tc.size, make([]byte, tc.nodes)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d bytes for %d entries: error %v, want %q", tc.nodes, tc.size, err, tc.want)
		}
	}
}

func TestLeafHashIsThatOfRFC6962(t *testing.T) {
	data := record(7)
	if got, want := LeafHash(data), tlog.RecordHash(data[:]); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func BenchmarkAdd(b *testing.B) {
	var t Tree
	hash := record(1)
	for b.Loop() {
		t.Add(hash)
	}
}
