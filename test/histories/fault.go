package histories

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// leading means the scheduler that leads, or the server that leads the stream, at that moment.
const leading = -1

// A Fault is a disturbance that lasts for a while.
type Fault struct {
	// At is the time at which it begins, and For its duration. A momentary fault has no For.
	At, For time.Duration
	// The disturbance.
	What mishap
}

// String writes the fault in a line.
func (f Fault) String() string {
	if f.For == 0 {
		return fmt.Sprintf("at %s: %s", f.At, f.What)
	}
	return fmt.Sprintf("at %s for %s: %s", f.At, f.For, f.What)
}

// A mishap is the effect of a fault on a history.
type mishap interface {
	fmt.Stringer
	// begin begins it, and returns the function that ends it; nil for a momentary one.
	begin(h *history) (end func() error, err error)
}

// A happening is the beginning or the end of a fault.
type happening struct {
	at   time.Duration
	name string
	do   func() error
}

// goWrong lets all faults of the plan begin and end, and returns when the last one is over.
func (h *history) goWrong() {
	coming := []happening{{h.plan.Lasts, "the time of faults is over", func() error { return nil }}}
	for _, f := range h.plan.Faults {
		coming = append(coming, happening{f.At, f.String(), func() error {
			end, err := f.What.begin(h)
			if end != nil {
				coming = append(coming, happening{f.At + f.For, "end of: " + f.String(), end})
			}
			return err
		}})
	}
	for began := time.Now(); len(coming) > 0; {
		next := 0
		for i := range coming {
			if coming[i].at < coming[next].at {
				next = i
			}
		}
		now := coming[next]
		coming = slices.Delete(coming, next, next+1)
		time.Sleep(now.at - time.Since(began))
		h.say("%s", now.name)
		if err := now.do(); err != nil {
			h.failed(fmt.Errorf("%s: %w", now.name, err))
		}
	}
	h.restartEnded()
}

// several are mishaps that begin together, in order, and end together, in the opposite one.
type several []mishap

func (s several) String() string {
	names := make([]string, len(s))
	for i, m := range s {
		names[i] = m.String()
	}
	return strings.Join(names, " and ")
}

func (s several) begin(h *history) (func() error, error) {
	var ends []func() error
	end := func() error {
		var first error
		for _, e := range slices.Backward(ends) {
			if err := e(); err != nil && first == nil {
				first = err
			}
		}
		return first
	}
	for _, m := range s {
		e, err := m.begin(h)
		if e != nil {
			ends = append(ends, e)
		}
		if err != nil {
			return end, err
		}
	}
	return end, nil
}

// atPublish begins a mishap when the leading scheduler publishes, before that arrives anywhere, or not at all if it
// publishes nothing. It ends as a fault does.
type atPublish struct{ Then mishap }

func (m atPublish) String() string { return "at the leader's next publish " + m.Then.String() }

func (m atPublish) begin(h *history) (func() error, error) {
	var mu sync.Mutex
	var begun, over bool
	var end func() error
	at := h.schedulerAt(leading)
	seen := func([]byte) {
		mu.Lock()
		defer mu.Unlock()
		if begun || over {
			return
		}
		begun = true
		h.say("it publishes: %s", m.Then)
		var err error
		if end, err = m.Then.begin(h); err != nil {
			h.failed(err)
		}
	}
	for _, s := range h.servers {
		h.link(at.name, s.name).watch(seen)
	}
	return func() error {
		for _, s := range h.servers {
			h.link(at.name, s.name).watch(nil)
		}
		mu.Lock()
		defer mu.Unlock()
		over = true
		if end == nil {
			return nil
		}
		return end()
	}, nil
}

// nameOfScheduler and nameOfServer are for people.
func nameOfScheduler(i int) string {
	if i == leading {
		return "the leading scheduler"
	}
	return fmt.Sprint("scheduler s", i)
}

func nameOfServer(i int) string {
	if i == leading {
		return "the stream's leader"
	}
	return fmt.Sprint("server n", i)
}

// schedulerAt returns a scheduler.
func (h *history) schedulerAt(i int) *scheduling {
	if i != leading {
		return h.members[i%len(h.members)]
	}
	holder, _, _ := strings.Cut(h.cluster.holder(), ".")
	for _, m := range h.members {
		if m.name == holder {
			return m
		}
	}
	return h.members[0]
}

// serverAt returns a server.
func (h *history) serverAt(i int) *natsServer {
	if i != leading {
		return h.servers[i]
	}
	leader := h.streamLeader()
	for _, s := range h.servers {
		if s.name == leader {
			return s
		}
	}
	return h.servers[0]
}
