package framework

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// TestTheFirstOfTheHighestNumbersIsFound changes numbers, many of them equal, and compares with a search through the
// list.
func TestTheFirstOfTheHighestNumbersIsFound(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, fan - 1, fan, fan + 1, 100, fan * fan, fan*fan + 1, 5000} {
		tree := newMaxTree(n)
		list := make([]int32, n)
		for step := range 2000 {
			at, to := g.IntN(n), g.Int32N(5)-2
			if g.IntN(3) == 0 {
				to = unranked
			}
			list[at] = to
			if step%50 == 0 {
				tree.numbers()[at] = to
				tree.build()
			} else {
				tree.set(int32(at), to)
			}
			if got, want := tree.first(), slices.Index(list, slices.Max(list)); got != want {
				t.Fatalf("%d numbers, step %d: the first of the highest is at %d, want %d", n, step, got, want)
			}
		}
	}
}

// TestNodesThatAreRefusedInTheSameWordsShareAStatus compares with counts in a map.
func TestNodesThatAreRefusedInTheSameWordsShareAStatus(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	var r refusals
	numbers, want := map[int]int32{}, map[string]int64{}
	words := func(s *fwk.Status) string { return fmt.Sprint(s.Code(), s.Plugin(), len(s.Reasons()), s.Reasons()) }
	for step := range 5000 {
		if step == 3000 {
			r.reset()
			clear(numbers)
			clear(want)
		}
		node := g.IntN(50)
		if i := numbers[node]; i != 0 {
			want[words(r.of(i))]--
			r.drop(i)
		}
		var status *fwk.Status
		if k := g.IntN(12); k > 0 {
			reasons := [][]string{{"a"}, {"a", "b"}, {"ab"}, {}, {""}}[g.IntN(5)]
			status = fwk.NewStatus(fwk.Code(1+k%2), reasons...).WithPlugin(fmt.Sprint("p", k%3))
			want[words(status)]++
		}
		numbers[node] = r.add(status)
		if got := r.of(numbers[node]); (got == nil) != (status == nil) || got != nil && words(got) != words(status) {
			t.Fatalf("step %d: the status is %v, want %v", step, got, status)
		}
		for i, n := range r.nodes {
			if n > 0 && want[words(r.list[i])] != n {
				t.Fatalf("step %d: %d nodes are refused with %v, want %d", step, n, r.list[i], want[words(r.list[i])])
			}
		}
		if len(r.list) > 51 {
			t.Fatalf("step %d: %d numbers for 50 nodes", step, len(r.list))
		}
	}
}

// TestMemosAreOfTheSizeThatTheySay compares the sizes with allocated memory, and with the bounds for large clusters and
// workloads.
func TestMemosAreOfTheSizeThatTheySay(t *testing.T) {
	for _, c := range []struct{ nodes, shapes int }{{15000, 200}, {50000, 100}} {
		var r ranking
		size := int(alloc.Bytes(func() { r = ranking{totals: newMaxTree(c.nodes), refusal: make([]int32, c.nodes)} }))
		if said := r.bytes(); size < said || size > said*11/10+64<<10 {
			t.Errorf("a ranking of %d nodes says that it takes %d bytes, and takes %d", c.nodes, said, size)
		}
		if most := c.nodes * 9; size > most+64<<10 {
			t.Errorf("a ranking of %d nodes takes %d bytes, want at most %d", c.nodes, size, most)
		}
		if r.scales = make([]scale, 1); r.bytes()*c.shapes > maxRankingBytes {
			t.Errorf("there is no room for %d rankings of %d nodes", c.shapes, c.nodes)
		}
		var k class
		const scorers = 3
		size = int(alloc.Bytes(func() {
			k = class{nodes: make([]classNode, c.nodes), raw: make([]int64, scorers*c.nodes)}
		}))
		if said := k.bytes(); size < said || size > said*11/10+64<<10 {
			t.Errorf("a class of %d nodes says that it takes %d bytes, and takes %d", c.nodes, said, size)
		}
		if k.bytes()*c.shapes > maxClassBytes {
			t.Errorf("there is no room for %d classes of %d nodes", c.shapes, c.nodes)
		}
	}
}

// TestMemosOfSmallClustersAreBounded always uses new templates and classes, in clusters whose nodes take few bytes. A
// memo also has a key, maps and more that its size does not include.
func TestMemosOfSmallClustersAreBounded(t *testing.T) {
	var m classes
	m.reset(1)
	for i := range 2 * maxTemplates {
		key := fmt.Sprint(i)
		m.rankingOf(&template{key: key, again: true})
		m.find(key, minClassNodes)
		if i > 0 && m.byKey[fmt.Sprint(i-1)] == nil || i > 0 && m.rankings[fmt.Sprint(i-1)] == nil {
			t.Fatalf("the memo before the %d-th is gone", i)
		}
	}
	if len(m.rankings) > maxTemplates || len(m.byKey) > maxTemplates {
		t.Errorf("there are %d rankings and %d classes, want at most %d", len(m.rankings), len(m.byKey), maxTemplates)
	}
}
