package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

// Event is what a plugin records about an object with the handle's EventRecorder, as kube-scheduler's recorder would
// write it.
type Event struct {
	Regarding v1.ObjectReference
	Related   *v1.ObjectReference // nil for none
	Type      string              // v1.EventTypeNormal or v1.EventTypeWarning
	Reason    string
	Action    string
	Note      string
	Reporter  string // the profile's name
	// InCycle says that it was recorded within a cycle, see InsideCycle.
	InCycle bool
	// After is the last entry of the log that was decided, or being decided, when the event was recorded. The event
	// must not be written before that entry is durable.
	After uint64
}

// EventSink takes what plugins record. Its methods may be called by several goroutines, and must not wait.
type EventSink interface {
	Record(Event)
	// Drop is told of an event that is not written, and why.
	Drop(why error)
}

// recorder passes what a profile's plugins record on to its World.
type recorder struct{ p *Profile }

// Eventf implements events.EventRecorder. What kube-scheduler's recorder logs and passes over is dropped likewise: an
// event regarding nil, or an object without a kind, and a type that is not Normal or Warning.
func (r recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if r.p.world.Events == nil {
		return
	}
	sink := r.p.world.Events()
	if sink == nil {
		return
	}
	drop := func(err error) { sink.Drop(fmt.Errorf("profile %q: event %q of a plugin: %w", r.p.name, reason, err)) }
	of, err := reference.GetReference(scheme.Scheme, regarding)
	if err != nil {
		drop(fmt.Errorf("what it regards: %w", err))
		return
	}
	if eventtype != v1.EventTypeNormal && eventtype != v1.EventTypeWarning {
		drop(fmt.Errorf("type %q: want %s or %s", eventtype, v1.EventTypeNormal, v1.EventTypeWarning))
		return
	}
	e := Event{
		Regarding: *of, Type: eventtype, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...),
		Reporter: r.p.name, InCycle: InsideCycle(),
	}
	if related != nil { // one without a kind is left out, as in kube-scheduler
		e.Related, _ = reference.GetReference(scheme.Scheme, related)
	}
	sink.Record(e)
}

// WithLogger returns the recorder itself: it logs nothing.
func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
