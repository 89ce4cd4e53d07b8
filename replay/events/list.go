package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// A Filter says which events are asked for. The zero value asks for all.
type Filter struct {
	// Kinds are the kinds; nil for any.
	Kinds []Kind
	// Namespace, Gang and Pod (namespace/name) and Node are names that an event has to be about. An event is about a
	// gang also if others are preempted for it, and about a node also if pods are placed or lost there.
	Namespace, Gang, Pod, Node string
}

// wants reports whether an event is asked for.
func (f *Filter) wants(e *Event) bool {
	by := e.By
	if by == nil {
		by = &answer.Preemptor{}
	}
	byNamespace, _, _ := strings.Cut(by.Pod, "/")
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) &&
		(f.Namespace == "" || e.Namespace == f.Namespace || byNamespace == f.Namespace) &&
		(f.Gang == "" || e.Gang == f.Gang || by.Group == f.Gang) &&
		(f.Pod == "" || e.Pod == f.Pod || by.Pod == f.Pod || slices.Contains(e.podsAll, f.Pod)) &&
		(f.Node == "" || slices.Contains(e.nodesAll, f.Node))
}

// maxHeld is the largest number of events that a List keeps. Later events are not folded into the ones before.
const maxHeld = 50000

// A List takes events in their order, and hands out the ones that are asked for, with equal ones folded.
//
//   - Failed attempts of a gang or a pod with the same code are one event of Waiting, until something else happens.
//   - Changes that may be missing, of several resources at about the same time, are one event.
//   - Pods of a gang that end the same way are one event, until something else happens to the gang.
//   - The pods that a gang loses with a node are one event, until something else happens to the node.
//   - So are the pods that a gang loses with several nodes at one instant in a row.
//   - The same event of several nodes, or of several pods of no gang, at one instant in a row is one event.
type List struct {
	filter Filter
	out    func(*Event) error
	held   []*Event
	open   map[string]*Event // by subject: the events into which equal ones are folded
	causes map[string]*Event // by key: the last event of the range
	turns  map[string]int    // how many events each node had
	err    error
}

// NewList returns a List that hands out events to out, in order. The error of out ends the reading.
func NewList(filter Filter, out func(*Event) error) *List {
	return &List{filter: filter, out: out, open: map[string]*Event{}, causes: map[string]*Event{},
		turns: map[string]int{}}
}

// add takes the next event.
func (l *List) add(e *Event) {
	l.noteCause(e)
	if !l.filter.wants(e) {
		return
	}
	slot := l.slot(e)
	if into := l.foldsInto(e, slot); into != nil {
		into.fold(e)
		return
	}
	if e.Kind == Lost {
		delete(l.open, e.subject())
	}
	if slot != "" {
		l.open[slot] = e
	}
	if l.held = append(l.held, e); len(l.held) >= maxHeld {
		l.Flush()
		clear(l.open)
	}
}

// noteCause finds the event's cause, and remembers the event as a cause of later ones.
func (l *List) noteCause(e *Event) {
	if e.Kind.ofNode() {
		l.turns[e.Node]++
	}
	if c := l.causes[e.causedBy]; e.causedBy != "" && c != nil {
		e.Cause = &Cause{Point: c.Point, Kind: c.Kind, Subject: c.subject()}
	}
	if e.causeOf != "" {
		l.causes[e.causeOf] = &Event{Point: e.Point, Kind: e.Kind, Gang: e.Gang, Pod: e.Pod, Node: e.Node}
	}
	if e.Kind == Placed || e.Kind == GangDeleted {
		delete(l.causes, e.subject())
		delete(l.causes, "came "+e.subject())
	}
}

// slot returns the name under which equal events are found; "" for an event that is folded only in a row.
func (l *List) slot(e *Event) string {
	switch {
	case e.Kind == ChangesMissing:
		return "missing"
	case e.Kind == Lost:
		return fmt.Sprintf("lost %s %d %s", e.Node, l.turns[e.Node], e.Gang)
	case e.Kind.ofNode(), e.Gang == "" && e.Kind != Waiting:
		return ""
	}
	return e.subject()
}

// foldsInto returns the earlier event into which an event is to be folded, nil for none.
func (l *List) foldsInto(e *Event, slot string) *Event {
	if slot == "" {
		if len(l.held) == 0 {
			return nil
		}
		last := l.held[len(l.held)-1]
		equal := last.Kind == e.Kind && last.Time == e.Time && last.folds == e.folds && last.Namespace == e.Namespace
		if equal && (e.Kind.ofNode() || inARow(e.Kind) && last.Gang == "") {
			return last
		}
		return nil
	}
	into := l.open[slot]
	if into == nil || into.Kind != e.Kind || into.Code != e.Code || into.folds != e.folds {
		return nil
	}
	if into.told && e.Kind != Waiting {
		return nil
	}
	if isFolded(e, into) {
		return into
	}
	return nil
}

// isFolded reports whether an event of the same kind, code and subject as an earlier one is folded into it.
func isFolded(e, into *Event) bool {
	switch e.Kind {
	case ChangesMissing: // the resources are listed one after the other
		return e.gap.Since <= eventlog.Time(into.Time)
	case Waiting, Lost, Succeeded, Failed, Deleted:
		return true
	case Placed:
		return into.again && e.again
	}
	return false
}

// inARow reports whether events of pods of no gang are folded.
func inARow(k Kind) bool {
	return k == Created || k == Succeeded || k == Failed || k == Deleted || k == Lost
}

// fold adds an equal event to this one.
func (e *Event) fold(other *Event) {
	e.Count += other.Count
	if other.Seq != e.Seq {
		at := other.Point
		e.Last = &at
	}
	e.BelowMinimum = e.BelowMinimum || other.BelowMinimum
	switch e.Kind {
	case Waiting:
		return
	case ChangesMissing:
		e.foldGap(other)
		return
	}
	e.Pods += other.Pods
	e.podsAll = append(e.podsAll, other.podsAll...)
	e.Names = append(e.Names, other.Names[:min(len(other.Names), maxNames-len(e.Names))]...)
	if e.Gang == "" && e.Pods > 1 {
		e.Pod = ""
	}
	for _, n := range other.nodesAll {
		e.addNode(n)
	}
	if e.Kind.ofNode() && e.NumNodes > 1 {
		e.Node = ""
	}
	if e.loss != nil {
		sum := *e.loss
		sum.Pods, sum.BelowMinimum = e.Pods, e.BelowMinimum
		e.loss = &sum
	}
	e.WaitedSeconds = longer(e.WaitedSeconds, other.WaitedSeconds)
}

func longer(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// Flush hands out all events. Later ones are not folded into them. Only an equal event of Waiting is left out.
func (l *List) Flush() {
	for i, e := range l.held {
		if e.told = true; i+1 < len(l.held) && l.held[i+1].absorb(e) {
			continue
		}
		if l.err == nil {
			e.say()
			l.err = l.out(e)
		}
	}
	l.held = l.held[:0]
}

// absorb takes in the event right before this one, if both are about pods that a gang lost at one instant in the same
// way, with different nodes. It reports whether it did.
func (e *Event) absorb(before *Event) bool {
	if e.Kind != Lost || before.Kind != Lost || e.Gang == "" || e.Gang != before.Gang || e.Time != before.Time ||
		e.folds != before.folds || (e.Cause == nil) != (before.Cause == nil) ||
		e.Cause != nil && e.Cause.Kind != before.Cause.Kind {
		return false
	}
	names := slices.Concat(before.Names, e.Names)
	e.Names = names[:min(len(names), maxNames)]
	for _, last := range []*answer.Point{before.Last, &e.Point} {
		if last != nil && last.Seq > before.Seq && (e.Last == nil || last.Seq > e.Last.Seq) {
			at := *last
			e.Last = &at
		}
	}
	e.Point, e.Cause, e.Node = before.Point, before.Cause, ""
	e.Count, e.Pods = e.Count+before.Count, e.Pods+before.Pods
	e.BelowMinimum = e.BelowMinimum || before.BelowMinimum
	e.podsAll = slices.Concat(before.podsAll, e.podsAll)
	for _, n := range before.nodesAll {
		e.addNode(n)
	}
	return true
}
