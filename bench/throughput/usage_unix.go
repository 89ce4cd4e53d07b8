//go:build unix

package throughput

import (
	"syscall"
	"time"
)

// CPUTime returns the time that the process has spent on processors, by itself and in the system.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
