// Package headroom makes the garbage collector run less often while the heap is small.
//
// Go's collector runs when the heap has doubled since the last run. A scheduler of some thousand nodes has a live heap
// of about 60 MiB. It allocates 20 KiB for a pod, and most of that is garbage soon. At 10,000 pods a second the
// collector would run three times a second, which took a quarter of all CPU time. With headroom the heap may grow by a
// fixed amount in any case. A large heap is not affected.
//
// It owns the collector's target (GOGC) of the process, unless other code has set it. It decides nothing.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Bytes is the growth of the heap between two collections, if the live heap is smaller than that, and at least 16 MiB.
const Bytes = 256 << 20

// usual is Go's target: the heap may double.
const usual = 100

// keeper sets the target after each run of the collector.
type keeper struct {
	mu      sync.Mutex
	bytes   uint64
	percent int // the target that was set last
	stopped bool
	live    [1]metrics.Sample
}

// Keep sets the target after each run of the garbage collector, until stop is called: the heap may grow by Bytes or
// double, whichever is more. On a small machine, or in a container with little memory, it is less than Bytes (within).
// Keep does nothing if the environment sets the target (GOGC), and does not change a target that other code has set.
// The environment's memory limit (GOMEMLIMIT) stays in force.
func Keep() (stop func()) { return keep(within(root())) }

func keep(bytes uint64) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	k := &keeper{bytes: bytes, percent: usual}
	k.live[0].Name = "/gc/heap/live:bytes"
	k.adjust()
	k.again()
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.stopped = true; k.percent != usual {
			k.set(usual)
		}
	}
}

// again arranges a call of adjust after the next run of the collector: that run finalizes unreachable objects.
func (k *keeper) again() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		if s.adjust() {
			s.again()
		}
	})
}

// adjust sets the target for the present live heap. It returns false once Keep has ended.
func (k *keeper) adjust() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	metrics.Read(k.live[:])
	if percent := target(k.live[0].Value.Uint64(), k.bytes); percent != k.percent {
		k.set(percent)
	}
	return true
}

// set sets the target, if it is still the last one that was set here.
func (k *keeper) set(percent int) {
	if before := debug.SetGCPercent(percent); before != k.percent {
		debug.SetGCPercent(before)
		return
	}
	k.percent = percent
}

// target returns the growth of the heap that is allowed, as a percentage of the live heap.
func target(live, bytes uint64) int {
	// Before the first run there is no measurement. And the target is computed for the present live heap, but counts
	// for the next live heap, too, until adjust is called: it must not allow many times as much.
	const least = 16 << 20
	live = max(live, least)
	return int(max(usual, min(bytes*100/live, bytes*100/least)))
}
