package status

import (
	"context"
	"sync"
	"time"
)

// pending is what is to be written, one thing for each key: what comes later takes the place of what waits. Its order
// is that in which keys came.
type pending[K comparable, V any] struct {
	limit int // 0 for none

	mu       sync.Mutex
	values   map[K]V
	order    []K // those of values, and some that were dropped
	tries    map[K]int
	replaces uint64
	wake     chan struct{}
}

func newPending[K comparable, V any](limit int) *pending[K, V] {
	return &pending[K, V]{limit: limit, values: map[K]V{}, tries: map[K]int{}, wake: make(chan struct{}, 1)}
}

// put has value written for key, unless too much waits.
func (p *pending[K, V]) put(key K, value V) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.values[key]; waits {
		p.replaces++
	} else if p.limit > 0 && len(p.values) >= p.limit {
		p.replaces++
		return
	} else {
		p.order = append(p.order, key)
	}
	p.values[key] = value
	p.signal()
}

// waiting returns what waits for key, zero for nothing.
func (p *pending[K, V]) waiting(key K) V {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[key]
}

// drop has nothing written for key.
func (p *pending[K, V]) drop(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.values, key)
	delete(p.tries, key)
}

func (p *pending[K, V]) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// next takes the first one out; false if there is none.
func (p *pending[K, V]) next() (key K, value V, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 {
		key = p.order[0]
		p.order = p.order[1:]
		if value, ok = p.values[key]; ok {
			delete(p.values, key)
			if len(p.values) > 0 {
				p.signal() // another worker may be asleep
			}
			return key, value, true
		}
	}
	p.order = nil
	return key, value, false
}

// maxTries is how often something is tried to be written, and retryAfter how long after each try.
const (
	maxTries   = 5
	retryAfter = time.Second
)

// failed has a value tried again after a while, unless another one has come or it was tried too often. It reports
// whether it is given up.
func (p *pending[K, V]) failed(ctx context.Context, key K, value V) (gaveUp bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries[key]++
	if p.tries[key] >= maxTries {
		delete(p.tries, key)
		return true
	}
	time.AfterFunc(retryAfter<<p.tries[key], func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, newer := p.values[key]; newer || ctx.Err() != nil {
			return
		}
		p.values[key] = value
		p.order = append(p.order, key)
		p.signal()
	})
	return false
}

// written forgets that earlier tries have failed.
func (p *pending[K, V]) written(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tries, key)
}

// each calls write for one after the other until ctx is done.
func (p *pending[K, V]) each(ctx context.Context, write func(context.Context, K, V)) {
	for {
		key, value, ok := p.next()
		if ok && ctx.Err() == nil {
			write(ctx, key, value)
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

func (p *pending[K, V]) replaced() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replaces
}
