package headroom

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestTheHeapMayGrowByTheHeadroomOrDouble(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 1600, 1 << 20: 1600, 64 << 20: 400, 100 << 20: 256, 256 << 20: 100, 300 << 20: 100, 1 << 40: 100,
	} {
		if got := target(live, 256<<20); got != want {
			t.Errorf("with %d bytes live the heap may grow by %d %%, want %d", live, got, want)
		}
	}
}

var sink [][]byte

// TestGarbageIsCollectedLessOften allocates more than ten times the live heap, and counts the collector's runs.
func TestGarbageIsCollectedLessOften(t *testing.T) {
	runs := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	allocate := func() uint64 {
		sink = nil
		for range 16 {
			sink = append(sink, make([]byte, 1<<20))
		}
		runtime.GC()
		before := runs()
		for range 512 {
			sink[0] = make([]byte, 1<<20)
		}
		return runs() - before
	}
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	without := allocate()
	stop := keep(128 << 20)
	with := allocate()
	stop()
	if after := debug.SetGCPercent(usual); after != usual {
		t.Errorf("the target is %d afterwards", after)
	}
	if with == 0 || without < 3*with {
		t.Errorf("the collector ran %d times for 512 MiB, and %d times with headroom", without, with)
	}
}

func TestATargetThatSomebodyHasSetIsLeftAlone(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	stop := keep(64 << 20)
	debug.SetGCPercent(77)
	sink = nil
	runtime.GC()
	stop()
	if got := debug.SetGCPercent(usual); got != 77 {
		t.Errorf("the target 77 became %d", got)
	}
	t.Setenv("GOGC", "55")
	debug.SetGCPercent(55)
	keep(64 << 20)()
	if got := debug.SetGCPercent(usual); got != 55 {
		t.Errorf("the environment's target 55 became %d", got)
	}
}
