// Package alloc measures, for tests, how much memory a call allocates.
package alloc

import (
	"runtime"
	"sync"
)

// one lets one measurement run at a time.
var one sync.Mutex

// Bytes returns the number of bytes that f allocates in total, including freed ones. It counts allocations of other
// goroutines in the meantime too.
func Bytes(f func()) uint64 {
	one.Lock()
	defer one.Unlock()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
