package localapi

import (
	"time"
)

// SetIdleTime makes readers wait for so long for the next byte, and returns what makes it as it was.
func SetIdleTime(d time.Duration) (undo func()) {
	was := idleTime
	idleTime = d
	return func() { idleTime = was }
}
