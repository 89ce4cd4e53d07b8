package status

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/uuid"
)

// eventKey tells events apart: only the last waiting event of a pod and reason is written. Two events that plugins
// record differ also if their words differ.
type eventKey struct {
	uid     types.UID
	reason  string
	plugins string // tells the events of plugins apart, "" for Rollcall's own events
}

// event is an event of a pod, or of any object if a plugin has recorded it.
type event struct {
	regarding         corev1.ObjectReference
	related           *corev1.ObjectReference // nil for none
	eventtype, reason string
	action, note      string
	reporter          string
}

// A series is an event that was written, and how often it came. The same event again makes the series longer, in place
// of another event.
type series struct {
	name, note string
	count      int32
}

// eventWriter knows the last event of each pod and reason.
type eventWriter struct {
	mu   sync.Mutex
	last map[eventKey]series
}

// maxSeries is the number of events that are remembered. When there are more they are all forgotten, so that a pod's
// next event is a new one.
const maxSeries = 50_000

// tell has an event written.
func (s *Status) tell(e event) {
	if s.silent {
		return
	}
	e.note = cutNote(e.note)
	s.event.put(eventKey{uid: e.regarding.UID, reason: e.reason}, e)
}

// writeEvent writes an event, or makes the series longer that it continues.
func (s *Status) writeEvent(ctx context.Context, key eventKey, e event) (outcome, error) {
	last, again := s.events.find(key)
	if again && last.note == e.note {
		last.count++
		err := s.lengthen(ctx, e, last)
		if err == nil {
			s.events.keep(key, last)
			return wrote, nil
		}
		if !apierrors.IsNotFound(err) { // events are removed after a while
			return eventFailed(err), err
		}
	}
	name, err := s.create(ctx, e)
	if err != nil {
		return eventFailed(err), err
	}
	s.events.keep(key, series{name: name, note: e.note, count: 1})
	return wrote, nil
}

// eventFailed says whether an event is tried again: not if that is of no use. In a namespace that is being removed,
// none is taken.
func eventFailed(err error) outcome {
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return lost
	}
	return failed
}

func (s *Status) create(ctx context.Context, e event) (name string, err error) {
	written := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.namespace(), Name: e.regarding.Name + "." + uuid.NewString()[:13],
		},
		EventTime:           metav1.NewMicroTime(s.opts.Now()),
		ReportingController: e.reporter,
		ReportingInstance:   instanceOf(e.reporter),
		Action:              e.action,
		Reason:              e.reason,
		Regarding:           e.regarding,
		Related:             e.related,
		Note:                e.note,
		Type:                e.eventtype,
	}
	_, err = s.opts.Events.EventsV1().Events(e.namespace()).Create(ctx, written, metav1.CreateOptions{})
	return written.Name, err
}

// lengthen notes in an event that it came again, as client-go's recorder does: with one patch, and without reading it.
func (s *Status) lengthen(ctx context.Context, e event, to series) error {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{
		Count: to.count, LastObservedTime: metav1.NewMicroTime(s.opts.Now()),
	}})
	if err != nil {
		return err
	}
	_, err = s.opts.Events.EventsV1().Events(e.namespace()).Patch(ctx, to.name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// namespace is the namespace of the event: the object's namespace, or default for an object without one.
func (e event) namespace() string { return cmp.Or(e.regarding.Namespace, metav1.NamespaceDefault) }

// instanceOf is the name of this process, as kube-scheduler writes it.
func instanceOf(reporter string) string {
	host, err := os.Hostname()
	if err != nil {
		return reporter
	}
	return reporter + "-" + host
}

func (r ref) object() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: r.namespace, Name: r.name, UID: r.uid,
	}
}

func (w *eventWriter) find(key eventKey) (series, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[key]
	return last, ok
}

func (w *eventWriter) keep(key eventKey, last series) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil || len(w.last) >= maxSeries {
		w.last = map[eventKey]series{}
	}
	w.last[key] = last
}
