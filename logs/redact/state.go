package redact

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// stateTexts says how each text of a Machine's state is replaced, by the name of its field. A field that is not here is
// an error: a new one has to be thought about.
var stateTexts = map[string]func(w *walker, text string) string{
	"resource": kept, "entity type": kept, "plugin": kept, "plugins": kept, "pending plugins": kept, "noted": kept,
	"gating plugin": kept, "gate": kept, "code": kept,

	"gating message": droppedText, "gate message": droppedText,
	"reason": as(Free),

	"uid": as(UID), "member": as(UID), "waiting pod": as(UID), "holder": as(UID), "controller": as(UID),
	"place's uid": as(UID),
	"node":        as(Node), "place's node": as(Node),
	"namespace": as(Namespace), "entity namespace": as(Namespace),
	"name": as(Object), "claim": as(Object), "volume": as(Object), "image": as(Image), "profile": as(Scheduler),
	"group": (*walker).gangs, "entity name": (*walker).gangs,
	"avoided domain": (*walker).domain,
	"allocation":     (*walker).allocation,
	"configuration":  func(w *walker, text string) string { return string(w.config([]byte(text))) },
}

func kept(_ *walker, text string) string { return text }
func droppedText(w *walker, text string) string {
	if !w.replace {
		return text // of the state that decides as the log does
	}
	return dropped(text)
}

func as(kind Kind) func(*walker, string) string {
	return func(w *walker, text string) string { return w.text(kind, text) }
}

// maxObject is the number of bytes of memory that an object of a state may take.
const maxObject = 256 << 20

// stateField returns the bytes that are read in the place of a field of a state.
func (w *walker) stateField(field string, b []byte) ([]byte, error) {
	switch rule, ok := stateTexts[field]; {
	case ok && field == "image":
		b = []byte(w.stateImage(string(b)))
	case ok:
		b = []byte(rule(w, string(b)))
	case eventlog.NewObject(eventlog.Resource(field)) != nil || eventlog.IsOwn(eventlog.Resource(field)):
		return w.stateObject(eventlog.Resource(field), b)
	case field == "state" && len(b) > 0:
		return nil, fmt.Errorf("a plugin keeps a state of its own, whose texts are not known: export from entry 1 on")
	case field != "state":
		return nil, fmt.Errorf("the field %q of the state is not known here", field)
	}
	return b, w.err
}

// stateImage replaces the name of an image of some node.
func (w *walker) stateImage(name string) string {
	w.image(&name, name)
	return name
}

func (w *walker) stateObject(res eventlog.Resource, b []byte) ([]byte, error) {
	obj, _, err := eventlog.DecodeObject(res, b, maxObject)
	if err != nil {
		return nil, err
	}
	w.object(res, obj)
	if w.err != nil {
		return nil, w.err
	}
	return eventlog.AppendObject(nil, obj)
}
