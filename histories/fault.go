package histories

import (
	"fmt"
	"slices"
	"time"
)

// leading stands for the scheduler that leads, or the server that leads the stream, at that moment.
const leading = -1

// A Fault is something that goes wrong for a while.
type Fault struct {
	// At is when it begins, and For how long it lasts. What happens in a moment has no For.
	At, For time.Duration
	// What goes wrong.
	What mishap
}

// String writes the fault in a line.
func (f Fault) String() string {
	if f.For == 0 {
		return fmt.Sprintf("at %s: %s", f.At, f.What)
	}
	return fmt.Sprintf("at %s for %s: %s", f.At, f.For, f.What)
}

// A mishap is what a fault does to a history.
type mishap interface {
	fmt.Stringer
	// begin begins it, and returns what ends it; nil for one of a moment.
	begin(h *history) (end func() error, err error)
}

// goWrong lets all faults of the plan begin and end, and returns when the last one is over.
func (h *history) goWrong() {
	type happening struct {
		at   time.Duration
		name string
		do   func() error
	}
	var coming []happening
	for _, f := range h.plan.Faults {
		coming = append(coming, happening{f.At, f.String(), func() error {
			end, err := f.What.begin(h)
			if err != nil || end == nil {
				return err
			}
			coming = append(coming, happening{f.At + f.For, "end of: " + f.String(), end})
			return nil
		}})
	}
	coming = append(coming, happening{h.plan.Lasts, "the time of faults is over", func() error { return nil }})
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
}

// fills reports whether a fault of the plan fills the disk of a server.
func (h *history) fills(int) bool { return false }
