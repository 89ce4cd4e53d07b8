package scheduler

import (
	"fmt"
	"sync"

	"github.com/rollcall-sched/rollcall/framework"
)

// maxEventsOfCycle is the number of events that plugins may record while one entry is decided or applied. The rest is
// dropped.
const maxEventsOfCycle = 100

// recorded passes on the events that plugins record with the handle's EventRecorder. It is no state: no decision
// depends on it.
//
// Each event is marked with the last entry that was decided or being decided when it was recorded, so that it is
// written once that entry is durable. Some calls to plugins are made twice here, where kube-scheduler makes them once.
// Events of the second call are left out.
type recorded struct {
	sink framework.EventSink // nil: nothing is recorded

	mu    sync.Mutex
	after uint64
	count int // of events recorded for after within the Machine's calls
	muted int // how many of the calls under way are made once more
	// holding says that events of the cycle under way are kept in held: it may be made once more.
	holding bool
	held    []framework.Event
}

// at says which entry is being decided or applied.
func (r *recorded) at(seq uint64) {
	if r.sink == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq != r.after {
		r.after, r.count = seq, 0
	}
}

// muting calls plugins without recording their events.
func (r *recorded) muting(call func()) {
	r.mute(1)
	defer r.mute(-1)
	call()
}

func (r *recorded) mute(by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted += by
}

// hold keeps the events of the next cycle until release.
func (r *recorded) hold() {
	if r.sink == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = true
}

// release passes on the kept events, or drops them because the cycle is repeated.
func (r *recorded) release(drop bool) {
	if r.sink == nil {
		return
	}
	r.mu.Lock()
	held := r.held
	r.holding, r.held = false, nil
	if drop {
		r.count -= len(held)
	}
	r.mu.Unlock()
	if drop {
		return
	}
	for _, e := range held {
		r.sink.Record(e)
	}
}

// events is the World's Events.
func (r *recorded) events() framework.EventSink {
	if r.sink == nil {
		return nil
	}
	return r
}

// Record implements framework.EventSink.
func (r *recorded) Record(e framework.Event) {
	r.mu.Lock()
	e.After = r.after
	silent, over := e.InCycle && r.muted > 0, e.InCycle && r.count >= maxEventsOfCycle
	if e.InCycle && !silent {
		r.count++
	}
	held := e.InCycle && !silent && !over && r.holding
	if held {
		r.held = append(r.held, e)
	}
	r.mu.Unlock()
	switch {
	case silent, held:
	case over:
		r.sink.Drop(fmt.Errorf("profile %q: plugins recorded more than %d events in one cycle: the others are dropped",
			e.Reporter, maxEventsOfCycle))
	default:
		r.sink.Record(e)
	}
}

// Drop implements framework.EventSink.
func (r *recorded) Drop(why error) { r.sink.Drop(why) }
