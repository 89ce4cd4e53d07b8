// Package alloc measures, for tests, how much memory a call allocates.
package alloc

import (
	"runtime"
	"sync"
)

// one lets one measurement run at a time.
var one sync.Mutex

// Bytes returns how many bytes f allocates in total, also those that it lets go of again. What other goroutines
// allocate meanwhile is counted too.
func Bytes(f func()) uint64 {
	one.Lock()
	defer one.Unlock()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
