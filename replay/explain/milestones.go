package explain

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// condition is the condition whose changes are milestones.
type condition struct {
	declared, refused, complete, placed bool
	min                                 int
}

// conditionOf returns the condition of a gang, nil for one that is not there.
func conditionOf(g *cluster.Group) (is condition) {
	if g == nil {
		return is
	}
	is = condition{declared: g.Declared(), refused: g.Refusal() != "", min: g.Min()}
	is.complete = is.declared && g.Lacking(gang.Present) <= 0
	is.placed = is.declared && g.Lacking(gang.Kept) <= 0
	return is
}

// reached notes what the gang has come to, or has lost, as of at.
func (h *gangHistory) reached(m *scheduler.Machine, at answer.Point) {
	g := h.gang(m)
	is := conditionOf(g)
	if is == h.was {
		return
	}
	if is.placed {
		h.done, h.evicted, h.lostTo = false, nil, nil
	}
	was := h.was
	h.was = is
	if is.declared {
		h.lastMin = is.min
	}
	why := h.cause
	if why == "" {
		why = whyChanged(was, is)
	}
	if was.declared != is.declared {
		h.mark(at, "Declared", "Undeclared", is.declared, &h.declared, "")
	}
	if was.refused != is.refused && g != nil {
		h.mark(at, "Refused", "Accepted", is.refused, nil, g.Refusal())
	}
	if was.placed && !is.placed && h.ends {
		h.done = true
		h.mark(at, "Done", "", true, nil, why)
		h.past.observe(m.Cluster(), g, at, is.complete && !is.refused, false)
		return
	}
	if was.placed != is.placed && g != nil {
		left := fmt.Sprintf("%d of %d members on nodes", g.Placed(), g.Min())
		h.mark(at, "Placed", "BelowMinimum", is.placed, &h.placed, join(why, left))
	}
	if was.complete != is.complete && g != nil && g.Placed() == 0 {
		h.mark(at, "Complete", "Incomplete", is.complete, &h.complete, why)
	} else if is.complete && h.complete == nil {
		h.complete = &at
	}
	h.past.observe(m.Cluster(), g, at, is.complete && !is.refused, is.placed)
}

// whyChanged says what about a gang's declaration changed its condition; "" if nothing did.
func whyChanged(was, is condition) string {
	if was.min != is.min && was.declared && is.declared {
		return fmt.Sprintf("its minimum was %d and is %d now", was.min, is.min)
	}
	return ""
}

// join puts two remarks together.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// milestones are the last changes, in order.
type milestones struct {
	list      []answer.Milestone
	forgotten int // how many came before them
	lostNodes nodeLosses
}

// mark adds a milestone: the text of yes or of no, for the new value. first is the point where yes came about first.
func (l *milestones) mark(at answer.Point, yes, no string, is bool, first **answer.Point, detail string) {
	what := no
	if is {
		what = yes
		if first != nil && *first == nil {
			*first = &at
		}
	}
	if len(l.list) == maxMilestones {
		l.list = append(l.list[:0], l.list[1:]...)
		l.forgotten++
	}
	l.list = append(l.list, answer.Milestone{Point: at, What: what, Detail: detail})
}
