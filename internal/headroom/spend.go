package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// A spender sets the memory limit after each run of the collector.
type spender struct {
	mu      sync.Mutex
	most    uint64
	memory  uint64 // that the process may have
	stopped bool
	live    [1]metrics.Sample
}

// Spend is for a command that ends soon, and mostly makes what lives until then: the heap may grow by percent of what
// is live before garbage is collected, and it is collected more often when the process comes near to most bytes, until
// stop is called. If more than that is live, the limit grows to half as much again, so that the collector does not run
// all the time for nothing. It stays below nine tenths of what the machine, or the container, may have; where more is
// live than that, the collector does run all the time. What the environment says (GOGC, GOMEMLIMIT) holds.
func Spend(percent int, most uint64) (stop func()) {
	before, limited := 0, os.Getenv("GOMEMLIMIT") == ""
	paced := os.Getenv("GOGC") == ""
	if paced {
		before = debug.SetGCPercent(percent)
	}
	s := &spender{most: most, memory: memory(root())}
	s.live[0].Name = "/gc/heap/live:bytes"
	limit := int64(0)
	if limited {
		limit = debug.SetMemoryLimit(int64(limitFor(0, most, s.memory)))
		s.again()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopped = true
		if limited {
			debug.SetMemoryLimit(limit)
		}
		if paced {
			debug.SetGCPercent(before)
		}
	}
}

// again has adjust called after the next run of the collector.
func (s *spender) again() {
	runtime.SetFinalizer(&struct{ *spender }{s}, func(x *struct{ *spender }) {
		if x.adjust() {
			x.again()
		}
	})
}

// adjust sets the limit for what is live now. It returns false once Spend has ended.
func (s *spender) adjust() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	metrics.Read(s.live[:])
	debug.SetMemoryLimit(int64(limitFor(s.live[0].Value.Uint64(), s.most, s.memory)))
	return true
}

// limitFor returns how many bytes of memory there may be: a tenth of what the process may have is left to what Go does
// not count, such as pages of files that are mapped.
func limitFor(live, most, memory uint64) uint64 { return min(max(most, live+live/2), memory-memory/10) }
