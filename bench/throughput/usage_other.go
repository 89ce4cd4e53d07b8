//go:build !unix

package throughput

import (
	"time"
)

// CPUTime returns 0: the system does not tell.
func CPUTime() time.Duration { return 0 }
