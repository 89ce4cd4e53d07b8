package status

import (
	"context"
	"sync"
	"time"
)

// pending holds the values to write, one for each key. A later value replaces the value that waits, is being written or
// is to be tried again. Its order is the order in which keys came.
type pending[K comparable, V any] struct {
	limit int // 0 for none
	// hold is called before each thing is taken out, and returns when that may be; nil for at once.
	hold func(context.Context)
	// keeps reports whether a value is tried until it is written, or is no longer needed; nil for never.
	keeps func(V) bool

	mu       sync.Mutex
	values   map[K]*item[V]
	order    []K            // the keys of values, and some that were dropped
	taken    map[K]*item[V] // being written, or to be tried again, unless something later has come
	writing  map[K]bool     // a worker is at it; no other one begins with that key
	held     map[K]bool     // of values, and not in order: their turn came while they were being written
	replaces uint64
	drops    uint64 // the values that waited longest, when too many did
	wake     chan struct{}
}

// item is a value that waits to be written.
type item[V any] struct {
	value V
	tries int       // that have failed
	since time.Time // when something for its key began to wait
}

func newPending[K comparable, V any](limit int) *pending[K, V] {
	return &pending[K, V]{
		limit: limit, values: map[K]*item[V]{}, taken: map[K]*item[V]{}, writing: map[K]bool{}, held: map[K]bool{},
		wake: make(chan struct{}, 1),
	}
}

// put has value written for key. If too many wait, the one that has waited longest is dropped.
func (p *pending[K, V]) put(key K, value V) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Now()
	if old := p.values[key]; old != nil {
		p.replaces++
		since = old.since
	} else {
		if p.limit > 0 && len(p.values) >= p.limit {
			p.dropOldest()
		}
		p.order = append(p.order, key)
	}
	delete(p.taken, key)
	p.values[key] = &item[V]{value: value, since: since}
	p.signal()
}

func (p *pending[K, V]) dropOldest() {
	for len(p.order) > 0 {
		key := p.order[0]
		p.order = p.order[1:]
		if _, waits := p.values[key]; waits {
			delete(p.values, key)
			p.drops++
			return
		}
	}
}

// waiting returns the value that waits for key, also to be tried again; zero for none.
func (p *pending[K, V]) waiting(key K) (value V) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if it := p.values[key]; it != nil {
		return it.value
	}
	if it := p.taken[key]; it != nil {
		return it.value
	}
	return value
}

// drop has nothing written for key.
func (p *pending[K, V]) drop(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.values, key)
	delete(p.taken, key)
}

func (p *pending[K, V]) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// next takes the first one out that nobody is writing; nil if there is none. The caller that takes it calls ended. A
// later value of the key is not written before this write has ended: its call may reach the API server after the other.
func (p *pending[K, V]) next() (key K, it *item[V]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 {
		key = p.order[0]
		p.order = p.order[1:]
		if it = p.values[key]; it != nil && p.writing[key] {
			p.held[key] = true
		} else if it != nil {
			p.writing[key] = true
			delete(p.values, key)
			p.taken[key] = it
			if len(p.values) > 0 {
				p.signal() // another worker may be asleep
			}
			return key, it
		}
	}
	p.order = nil
	return key, nil
}

// waitsSince returns the time since which the next value has waited, also if it was replaced meanwhile, and the number
// of values that wait.
func (p *pending[K, V]) waitsSince() (since time.Time, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 {
		if it := p.values[p.order[0]]; it != nil {
			return it.since, len(p.values)
		}
		p.order = p.order[1:]
	}
	return since, 0
}

// maxTries is the number of tries to write a value. retryAfter is the wait after the first try, and it doubles after
// each one that follows. A write that is still tried after that waits for maxRetryAfter each time.
const (
	maxTries      = 5
	retryAfter    = time.Second
	maxRetryAfter = time.Minute
)

// An outcome is the result of a try to write a value.
type outcome uint8

const (
	wrote   outcome = iota // it stands now
	stands                 // it stood already, or need not be said any more
	failed                 // it may be written yet
	lost                   // it would fail again
	delayed                // it has failed maxTries times, and is tried again all the same; told once
)

// ended takes in the outcome of an item. After a failure it is tried again after a while, unless a later value has come
// for its key, or it was tried too often. It returns the outcome to report: lost if it is given up.
func (p *pending[K, V]) ended(ctx context.Context, key K, it *item[V], came outcome) (told outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.writing, key)
	if p.held[key] {
		delete(p.held, key)
		p.order = append(p.order, key)
		p.signal()
	}
	if p.taken[key] != it {
		return came // something later has come
	}
	it.tries++
	kept := p.keeps != nil && p.keeps(it.value)
	if came != failed || it.tries >= maxTries && !kept || ctx.Err() != nil {
		delete(p.taken, key)
		if came == failed {
			return lost
		}
		return came
	}
	time.AfterFunc(min(retryAfter<<min(it.tries, maxTries+1), maxRetryAfter), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[key] != it {
			return
		}
		delete(p.taken, key)
		if ctx.Err() != nil {
			return
		}
		p.values[key] = it
		p.order = append(p.order, key)
		p.signal()
	})
	if it.tries == maxTries {
		return delayed
	}
	return failed
}

// each calls write for one after the other until ctx is done. came hears the outcome: failed is tried again.
func (p *pending[K, V]) each(ctx context.Context, write func(context.Context, K, V) (outcome, error),
	came func(K, V, outcome, error),
) {
	for {
		if p.hold != nil {
			p.hold(ctx)
		}
		key, it := p.next()
		if it != nil && ctx.Err() == nil {
			out, err := write(ctx, key, it.value)
			came(key, it.value, p.ended(ctx, key, it, out), err)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
	}
}

func (p *pending[K, V]) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.values)
}

func (p *pending[K, V]) dropped() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drops
}

func (p *pending[K, V]) replaced() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replaces
}
