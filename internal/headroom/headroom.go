// Package headroom has the garbage collector run less often while the heap is small.
//
// Go's collector runs when the heap has grown by as much again as was live after the run before. A scheduler of some
// thousand nodes has some 60 MiB live and allocates 20 KiB for a pod, of which little stays: at 10,000 pods a second it
// would be collected three times a second, which took a quarter of all its CPU time. With headroom the heap may grow by
// a fixed amount in any case. A large heap is not affected.
//
// It owns the collector's target (GOGC) of the process, unless somebody else has set it. It decides nothing.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Bytes is by how much the heap may grow before garbage is collected, if less than that is live, and 16 MiB or more.
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

// Keep sets the target after each run of the garbage collector, so that the heap may grow by Bytes or double, whichever
// is more, until stop is called. On a small machine, or in a container that may have little memory, it is less than
// Bytes (within). It does nothing if the environment says what the target is (GOGC), and leaves a target
// alone that somebody else has set meanwhile. The memory limit of the environment (GOMEMLIMIT) holds as always.
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

// again has adjust called after the next run of the collector: that is when what cannot be reached is finalized.
func (k *keeper) again() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		if s.adjust() {
			s.again()
		}
	})
}

// adjust sets the target for what is live now. It returns false once Keep has ended.
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

// set sets the target, if it still is the one that was set last.
func (k *keeper) set(percent int) {
	if before := debug.SetGCPercent(percent); before != k.percent {
		debug.SetGCPercent(before)
		return
	}
	k.percent = percent
}

// target returns by how many percent of what is live the heap may grow.
func target(live, bytes uint64) int {
	// Nothing was measured before the first run. And the target is for the heap that is live now, but counts for the
	// one that is live after the next run, too, until adjust has been called: that must not be many times as large.
	const least = 16 << 20
	live = max(live, least)
	return int(max(usual, min(bytes*100/live, bytes*100/least)))
}
