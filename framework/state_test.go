package framework

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

type counter int

func (c counter) Clone() fwk.StateData { return c + 1000 }

func TestCycleStateDoesWhatUpstreamsDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ours, theirs := fwk.CycleState(NewCycleState()), fwk.CycleState(upstream.NewCycleState())
		keys := rapid.SampledFrom([]fwk.StateKey{"a", "b", "c", "d"})
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				k, v := keys.Draw(t, "key"), counter(rapid.IntRange(0, 9).Draw(t, "value"))
				ours.Write(k, v)
				theirs.Write(k, v)
			},
			"delete": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				ours.Delete(k)
				theirs.Delete(k)
			},
			"clone": func(t *rapid.T) {
				ours, theirs = ours.Clone(), theirs.Clone()
			},
			"skip": func(t *rapid.T) {
				n := sets.New(names.Draw(t, "names")...)
				for _, s := range []fwk.CycleState{ours, theirs} {
					s.SetSkipFilterPlugins(n)
					s.SetSkipScorePlugins(n)
					s.SetSkipPreBindPlugins(n)
					s.SetParallelPreBindPlugins(n)
				}
			},
			"": func(t *rapid.T) {
				for _, k := range []fwk.StateKey{"a", "b", "c", "d"} {
					a, errA := ours.Read(k)
					b, errB := theirs.Read(k)
					if fmt.Sprint(a) != fmt.Sprint(b) || errors.Is(errA, fwk.ErrNotFound) != errors.Is(errB,
						fwk.ErrNotFound) {
						t.Fatalf("%s: %v, %v; upstream has %v, %v", k, a, errA, b, errB)
					}
				}
				for _, n := range []string{"x", "y", "z"} {
					if ours.GetSkipFilterPlugins().Has(n) != theirs.GetSkipFilterPlugins().Has(n) ||
						ours.GetSkipScorePlugins().Has(n) != theirs.GetSkipScorePlugins().Has(n) ||
						ours.GetSkipPreBindPlugins().Has(n) != theirs.GetSkipPreBindPlugins().Has(n) ||
						ours.GetParallelPreBindPlugins().Has(n) != theirs.GetParallelPreBindPlugins().Has(n) {
						t.Fatalf("%s is skipped by one and not by the other", n)
					}
				}
			},
		})
	})
}

func TestResetEmptiesTheState(t *testing.T) {
	s := NewCycleState()
	s.Write("a", counter(1))
	s.SetSkipFilterPlugins(sets.New("x"))
	s.Reset()
	if _, err := s.Read("a"); !errors.Is(err, fwk.ErrNotFound) || s.GetSkipFilterPlugins().Has("x") {
		t.Error("something is left")
	}
}

func BenchmarkCycleStateRead(b *testing.B) {
	for _, s := range []fwk.CycleState{NewCycleState(), upstream.NewCycleState()} {
		for i, key := range []fwk.StateKey{
			"PreFilterNodeResourcesFit", "PreFilterInterPodAffinity", "PreFilterPodTopologySpread",
			"PreFilterNodeAffinity",
			"PreScoreTaintToleration", "PreScoreNodeResourcesFit", "PreScoreInterPodAffinity", "PreScoreNodeAffinity",
		} {
			s.Write(key, counter(i))
		}
		b.Run(fmt.Sprintf("%T", s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Read("PreScoreNodeResourcesFit")
			}
		})
	}
}
