package headroom

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTheLimitGrowsWithWhatIsLive has a live heap above the limit, and counts the collector's runs: with a constant
// limit there would be one for nearly each allocation.
func TestTheLimitGrowsWithWhatIsLive(t *testing.T) {
	for live, want := range map[uint64]uint64{0: 100, 60: 100, 66: 100, 100: 150, 1000: 1500, 1200: 1800, 9000: 1800} {
		if got := limitFor(live, 100, 2000); got != want {
			t.Errorf("with %d bytes live the limit is %d, want %d", live, got, want)
		}
	}
	if got := limitFor(10, 100, 50); got != 45 {
		t.Errorf("the limit is %d where there are 50 bytes of memory, want 45", got)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	limit := debug.SetMemoryLimit(-1)
	const most = 32 << 20
	stop := Spend(400, most)
	kept := make([][]byte, 64)
	for i := range kept {
		kept[i] = make([]byte, 1<<20)
	}
	// The limit is set by a finalizer, which the collector starts.
	for range 100 {
		runtime.GC()
		if debug.SetMemoryLimit(-1) > most {
			break
		}
	}
	if got := debug.SetMemoryLimit(-1); got < 96<<20 {
		t.Errorf("with 64 MiB live the limit is %d bytes", got)
	}
	runtime.KeepAlive(kept)
	stop()
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("the limit is %d afterwards, and was %d", got, limit)
	}
	if got := debug.SetGCPercent(usual); got != usual {
		t.Errorf("the target is %d afterwards", got)
	}
}

func TestTheEnvironmentsLimitsHold(t *testing.T) {
	t.Setenv("GOGC", "55")
	t.Setenv("GOMEMLIMIT", "1GiB")
	defer debug.SetGCPercent(debug.SetGCPercent(55))
	limit := debug.SetMemoryLimit(-1)
	stop := Spend(400, 1<<20)
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("the limit %d became %d", limit, got)
	}
	if got := debug.SetGCPercent(55); got != 55 {
		t.Errorf("the target 55 became %d", got)
	}
	stop()
}
