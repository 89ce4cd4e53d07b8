package watch

import (
	"sync"
	"time"
)

// contact knows which watches have ended and do not go on yet, so that what has changed during a break is taken in as
// one. After an API server has restarted, or this process was suspended, resources are listed one by one: a pod of the
// first list must not be placed by what was known of nodes before.
//
// A watch that ends is nothing of note: the API server ends each every few minutes, and it goes on. A break begins when
// one cannot go on, because a request fails, and another one has ended, too.
type contact struct {
	timing *timing
	wake   func() // called when a wait is over

	mu     sync.Mutex
	ended  map[int]time.Time // when a watch ended that does not go on yet, by the resource's place
	phase  phase
	until  time.Time     // the end of broken, and of returning
	failed bool          // the last request failed
	again  chan struct{} // closed when a request succeeds after others failed
	closed time.Time     // when again was closed last
	timer  *time.Timer   // closes it later; nil for none
}

// phase is how far a break has come.
type phase uint8

const (
	whole     phase = iota // there is no break
	broken                 // what has changed waits; none of the watches goes on yet
	lapsed                 // it does not wait any more, and none goes on yet
	returning              // what has changed waits; some go on
)

// leastBetween is the least time between two closings of contact.again, for a server that comes and goes.
const leastBetween = time.Second

func newContact(timing *timing, wake func()) *contact {
	return &contact{timing: timing, wake: wake, ended: map[int]time.Time{}, again: make(chan struct{})}
}

// end notes that a watch has ended.
func (c *contact) end(place int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[place] = time.Now()
}

// fail notes that a request for a resource has failed.
func (c *contact) fail(place int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
	at, ok := c.ended[place]
	switch {
	case !ok || c.phase != whole:
	case time.Since(at) > c.timing.together: // it fails by itself: others do not wait for it
		delete(c.ended, place)
	case len(c.ended) > 1:
		c.enter(broken)
	}
}

// enter begins a phase that ends by time. The caller holds mu.
func (c *contact) enter(p phase) {
	c.phase, c.until = p, time.Now().Add(c.timing.together)
	time.AfterFunc(c.timing.together, c.expire)
}

// expire ends a phase whose time is over. An API server that is away for long has all come back together later; what
// does not come back with the others is not waited for again.
func (c *contact) expire() {
	c.mu.Lock()
	if time.Now().Before(c.until) {
		c.mu.Unlock()
		return
	}
	switch c.phase {
	case broken:
		c.phase = lapsed
	case returning:
		c.phase = whole
		clear(c.ended)
	}
	c.mu.Unlock()
	c.wake()
}

// comes notes that what there is of a resource is about to be told. From the first one on the others have their time.
func (c *contact) comes(place int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.ended[place]; ok && (c.phase == broken || c.phase == lapsed) {
		c.enter(returning)
	}
}

// back notes that it is known again what there is of a resource, and that what changes will be told.
func (c *contact) back(place int) {
	c.comes(place)
	c.mu.Lock()
	delete(c.ended, place)
	over := c.phase != whole && len(c.ended) == 0
	if over {
		c.phase = whole
	}
	c.mu.Unlock()
	if over {
		c.wake()
	}
}

// waits reports whether what has changed has to wait for resources that are not back.
func (c *contact) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.phase == broken || c.phase == returning) && time.Now().Before(c.until)
}

// succeed notes that a request has succeeded. After others that failed, all that wait to try again do so now.
func (c *contact) succeed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.failed {
		return
	}
	c.failed = false
	if c.timer == nil {
		c.timer = time.AfterFunc(leastBetween-time.Since(c.closed), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.timer, c.closed = nil, time.Now()
			close(c.again)
			c.again = make(chan struct{})
		})
	}
}

// answers returns a channel that is closed when a request succeeds after others that failed, and whether that has
// happened so lately that a request which has failed may have been sent before it.
func (c *contact) answers() (again <-chan struct{}, lately bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again, time.Since(c.closed) < leastBetween
}
