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
	memory  uint64 // of the process
	stopped bool
	live    [1]metrics.Sample
}

// Spend is for a command that ends soon and mostly allocates memory that it needs until then. Until stop is called,
// the heap may grow by percent of the live heap before a collection, and collections are more frequent when the
// process comes near to most bytes. If the live heap is larger than that, the limit grows to half as much again, so
// that the collector does not run all the time without effect. The limit stays below nine tenths of the memory of the
// machine or container. If the live heap is larger still, the collector does run all the time. The environment's GOGC
// and GOMEMLIMIT take precedence.
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

// again arranges a call of adjust after the next run of the collector.
func (s *spender) again() {
	runtime.SetFinalizer(&struct{ *spender }{s}, func(x *struct{ *spender }) {
		if x.adjust() {
			x.again()
		}
	})
}

// adjust sets the limit for the present live heap. It returns false once Spend has ended.
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

// limitFor returns the memory limit in bytes. A tenth of the process's memory is left for uses that Go does not count,
// such as pages of mapped files.
func limitFor(live, most, memory uint64) uint64 { return min(max(most, live+live/2), memory-memory/10) }
