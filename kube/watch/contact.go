package watch

import (
	"sync"
	"time"
)

// contact knows which watches have ended and do not go on yet, so that what has changed meanwhile is taken in as one.
// After an API server has restarted, or this process was suspended, resources are listed one by one: a pod of the first
// list must not be placed by what was known of nodes before.
//
// One watch that ends is nothing of note: the API server ends each every few minutes, and it goes on at once.
type contact struct {
	timing *timing
	wake   func() // called when a wait may be over by time

	mu     sync.Mutex
	lost   map[int]*loss // by the resource's place
	broken bool          // several were lost at the same time, and not all are back
	silent bool          // the last request got no answer

	again chan struct{} // closed when the API server answers again, see waiters
	told  time.Time     // when it was closed last
}

// loss is a watch that does not go on yet.
type loss struct {
	until time.Time // how long the others wait for it
	twice bool      // they have begun to wait anew, because the API server was not there at first
}

// leastBetween is the least time between two closings of contact.again, for a server that comes and goes.
const leastBetween = time.Second

func newContact(timing *timing, wake func()) *contact {
	return &contact{timing: timing, wake: wake, lost: map[int]*loss{}, again: make(chan struct{})}
}

// ended notes that a watch has ended.
func (c *contact) ended(place int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost[place] != nil {
		return
	}
	c.lost[place] = &loss{until: time.Now().Add(c.timing.together)}
	c.broken = c.broken || len(c.lost) > 1
	time.AfterFunc(c.timing.together, c.wake)
}

// back notes that it is known again what there is of a resource, and what will change; it reports whether that ends a
// wait.
func (c *contact) back(place int) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost[place] == nil {
		return false
	}
	delete(c.lost, place)
	over = c.broken && len(c.lost) == 0
	c.broken = c.broken && !over
	return over
}

// heard notes whether the API server has answered a request. With the first answer after none, all that wait to try
// again do so now, and the time begins anew within which they have to be back.
func (c *contact) heard(answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.silent
	c.silent = !answered
	if !answered || !was {
		return
	}
	now := time.Now()
	// any order: each is changed alike
	for _, l := range c.lost {
		if !l.twice {
			l.twice, l.until = true, now.Add(c.timing.together)
		}
	}
	if len(c.lost) > 0 {
		time.AfterFunc(c.timing.together, c.wake)
	}
	if now.Sub(c.told) >= leastBetween {
		c.told = now
		close(c.again)
		c.again = make(chan struct{})
	}
}

// answers returns a channel that is closed when the API server answers for the first time after it did not.
func (c *contact) answers() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again
}

// waits reports whether what has changed has to wait for resources that are not back.
func (c *contact) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.broken {
		return false
	}
	now := time.Now()
	// any order: it is asked whether there is one
	for _, l := range c.lost {
		if now.Before(l.until) {
			return true
		}
	}
	return false
}
