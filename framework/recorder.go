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

// Event is an event that a plugin records with the handle's EventRecorder, as kube-scheduler's recorder would write it.
type Event struct {
	Regarding v1.ObjectReference
	Related   *v1.ObjectReference // nil for none
	Type      string              // v1.EventTypeNormal or v1.EventTypeWarning
	Reason    string
	Action    string
	Note      string
	Reporter  string // the profile's name
	// InCycle is set if the event was recorded within a cycle, see InsideCycle.
	InCycle bool
	// After is the last log entry that was decided, or in decision, when the plugin recorded the event. The event must
	// not be written before that entry is durable.
	After uint64
}

// EventSink receives the events that plugins record. Several goroutines may call its methods, which must not block.
type EventSink interface {
	Record(Event)
	// Drop receives the reason why an event is not written.
	Drop(why error)
}

// recorder passes the events of a profile's plugins to the sink of its World.
type recorder struct{ p *Profile }

// Eventf implements events.EventRecorder. It drops the same events as kube-scheduler's recorder: an event regarding nil
// or an object without a kind, and a type other than Normal and Warning.
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
	if related != nil { // dropped without a kind, as in kube-scheduler
		e.Related, _ = reference.GetReference(scheme.Scheme, related)
	}
	sink.Record(e)
}

// WithLogger returns the recorder itself, because it logs nothing.
func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
