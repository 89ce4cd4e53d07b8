package watch

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// The reflector of one resource writes to a store. Its methods are called by one goroutine at a time.
type store struct {
	watch   *Watch
	place   int
	kind    kind
	encoder eventlog.Encoder
	buffer  []byte
	// faulty are the objects that cannot be logged, by UID with the reason that was reported last.
	faulty map[types.UID]string

	// position is, in a recorder, the resourceVersion from which the watch can continue; "" if it has to list. Then
	// changes since the time since may be missing, if that is not zero, and why says why.
	position string
	since    time.Time
	why      string
	answer   string // of the API server, in brackets
}

var _ cache.TransformingStore = (*store)(nil)

// An arrival holds the parts of an object that has come that are kept.
type arrival struct {
	name types.NamespacedName
	now  version
	// object will be logged; nil if the log has it.
	object eventlog.Object
	// finished: it is a pod that has ended; end is its last state if the log knows the pod.
	finished bool
	end      *corev1.Pod
	pod      Pod
	whole    eventlog.Object
	// faulty: it cannot be logged.
	faulty bool
}

// Transformer implements cache.TransformingStore: a list that is streamed is kept as arrivals until it is complete, and
// not as whole objects.
func (s *store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.arrive(object) }
}

// Add implements cache.ReflectorStore.
func (s *store) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *store) Update(object any) error {
	a, err := s.arrive(object)
	if err != nil {
		return err
	}
	s.watch.ledger.event(s.place)
	s.keep(a)
	s.booked(a, object)
	s.watch.changed()
	return nil
}

// booked tells the ledger about an arrival by a watch, and how far the watch has come with it.
func (s *store) booked(a *arrival, object any) {
	defer s.together()()
	s.book(a)
	s.reached(versionOf(object))
}

// versionOf returns the resourceVersion of an object.
func versionOf(object any) string { return object.(eventlog.Object).GetResourceVersion() }

// Delete implements cache.ReflectorStore. The object is its last state.
func (s *store) Delete(object any) error {
	obj, ok := object.(eventlog.Object)
	if !ok {
		return s.unknown(object)
	}
	s.watch.ledger.event(s.place)
	name := nameOf(obj)
	var end *corev1.Pod
	if pod, ok := obj.(*corev1.Pod); ok {
		s.watch.pods.remove(pod.UID)
		if s.watch.opts.Recording {
			eventlog.NoteAuthors(pod)
		}
		if isFinished(pod) {
			end = s.endOf(name, pod)
		}
	}
	delete(s.faulty, obj.GetUID())
	if kept := s.watch.whole[s.place]; kept != nil {
		_ = kept.Delete(obj) // its key is found as the object's name was
	}
	s.removed(name, end, obj)
	s.watch.changed()
	return nil
}

// removed tells the ledger about a deletion, and how far the watch has come with it.
func (s *store) removed(name types.NamespacedName, end *corev1.Pod, obj eventlog.Object) {
	defer s.together()()
	s.watch.ledger.remove(s.place, name, end)
	if pod, ok := obj.(*corev1.Pod); ok && isFinished(pod) {
		s.watch.ledger.removeFinished(s.place, name, pod.UID)
	}
	s.reached(versionOf(obj))
}

// Replace implements cache.ReflectorStore: objects are all that there are, in any order.
func (s *store) Replace(objects []any, version string) error {
	arrivals := make([]*arrival, 0, len(objects))
	for i, object := range objects {
		a, ok := object.(*arrival)
		if !ok {
			var err error
			if a, err = s.arrive(object); err != nil {
				return err
			}
		}
		arrivals = append(arrivals, a)
		objects[i] = nil // the object is not needed any more
	}
	slices.SortFunc(arrivals, func(a, b *arrival) int { return compareNames(a.name, b.name) })
	s.keepAll(arrivals)
	s.bookAll(arrivals, version)
	s.watch.ledger.listed(s.place, len(arrivals))
	s.watch.listed(s.place)
	s.watch.changed()
	return nil
}

// bookAll tells the ledger about everything that there is, sorted by name.
func (s *store) bookAll(arrivals []*arrival, version string) {
	defer s.together()()
	for _, name := range s.watch.ledger.names(s.place) {
		_, found := slices.BinarySearchFunc(arrivals, name, func(a *arrival, name types.NamespacedName) int {
			return compareNames(a.name, name)
		})
		if !found {
			s.watch.ledger.remove(s.place, name, nil)
		}
	}
	for _, a := range arrivals {
		s.book(a)
	}
	s.relisted(version)
}

// Resync implements cache.ReflectorStore; the reflector is not asked for it.
func (s *store) Resync() error { return nil }

// book tells the ledger about an arrival. If an object cannot be logged, the log keeps its earlier version.
func (s *store) book(a *arrival) {
	switch {
	case a.faulty:
	case a.finished:
		s.watch.ledger.remove(s.place, a.name, a.end)
	default:
		s.watch.ledger.upsert(s.place, a.name, a.now, a.object)
	}
}

// arrive cuts an object down to the parts that are kept. After it the object itself is no longer needed.
func (s *store) arrive(object any) (*arrival, error) {
	obj, ok := object.(eventlog.Object)
	if !ok {
		return nil, s.unknown(object)
	}
	a := &arrival{name: nameOf(obj), now: version{uid: obj.GetUID()}}
	if custom, ok := obj.(*unstructured.Unstructured); ok && s.kind.own == nil {
		typed, err := s.typed(custom)
		if err != nil {
			a.faulty = true
			s.refuse(a, err)
			return a, nil
		}
		obj = typed
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		if s.watch.opts.Recording {
			eventlog.NoteAuthors(pod)
		}
		if isFinished(pod) {
			a.finished, a.end = true, s.endOf(a.name, pod)
			return a, nil
		}
		a.pod = podOf(pod)
	}
	if s.watch.whole[s.place] != nil {
		obj.SetManagedFields(nil)
		a.whole = obj
	}
	if err := s.trim(a, obj); err != nil {
		a.faulty = true
		s.refuse(a, err)
	} else {
		delete(s.faulty, a.now.uid)
	}
	return a, nil
}

// trim fills in the parts of an object that the log will have, if it does not have them yet.
func (s *store) trim(a *arrival, obj eventlog.Object) (err error) {
	if s.buffer, err = s.encoder.AppendTrimmed(s.buffer[:0], s.kind.resource, obj); err != nil {
		return err
	}
	a.now.sum = digestOf(s.buffer)
	if s.watch.following.Load() == nil && s.watch.ledger.isLogged(s.place, a.name, a.now) {
		return nil
	}
	logged, _, err := s.encoder.Logged(&eventlog.Upserted{Resource: s.kind.resource, Object: obj})
	if err != nil {
		return err
	}
	// The state has no number that cannot be computed with, and the versions of known objects are the state's.
	if bounded := cluster.BoundNumbers(logged.Object); bounded != logged.Object {
		if s.buffer, err = eventlog.AppendObject(s.buffer[:0], bounded); err != nil {
			return err
		}
		a.now.sum = digestOf(s.buffer)
	}
	a.object = logged.Object
	return nil
}

// endOf returns the last state of a pod that has finished, nil if the log does not know the pod or cannot take it.
func (s *store) endOf(name types.NamespacedName, pod *corev1.Pod) *corev1.Pod {
	if !s.watch.ledger.knows(s.place, name, pod.UID) {
		return nil
	}
	logged, _, err := s.encoder.Logged(&eventlog.Upserted{Resource: s.kind.resource, Object: pod})
	if err != nil {
		return nil // that it is gone is logged
	}
	return logged.Object.(*corev1.Pod)
}

// refuse reports an object that cannot be logged, once for each reason.
func (s *store) refuse(a *arrival, err error) {
	if s.faulty[a.now.uid] == err.Error() {
		return
	}
	if s.faulty == nil {
		s.faulty = map[types.UID]string{}
	}
	s.faulty[a.now.uid] = err.Error()
	s.watch.ledger.refused(s.place)
	s.watch.opts.Report(fmt.Sprintf("%s %s is not taken in as it is now, because the log cannot hold it: %v; "+
		"change or delete the object", s.kind.resource, a.name, err))
}

// keep keeps the parts of an object that are needed besides its log.
func (s *store) keep(a *arrival) {
	if kept := s.watch.whole[s.place]; kept != nil && a.whole != nil {
		_ = kept.Update(a.whole) // its key is found as the object's name was
	}
	if s.kind.resource != eventlog.Pods {
		return
	}
	if a.finished {
		s.watch.pods.remove(a.now.uid)
	} else {
		s.watch.pods.put(a.now.uid, a.pod)
	}
}

// keepAll keeps the needed parts of all objects in the cluster.
func (s *store) keepAll(arrivals []*arrival) {
	if len(s.faulty) > 0 {
		faulty := map[types.UID]string{}
		for _, a := range arrivals {
			if a.faulty {
				faulty[a.now.uid] = s.faulty[a.now.uid]
			}
		}
		s.faulty = faulty
	}
	if kept := s.watch.whole[s.place]; kept != nil {
		all := make([]any, 0, len(arrivals))
		for _, a := range arrivals {
			if a.whole != nil {
				all = append(all, a.whole)
			}
		}
		_ = kept.Replace(all, "") // their keys are found as the objects' names were
	}
	if s.kind.resource != eventlog.Pods {
		return
	}
	all := make(map[types.UID]Pod, len(arrivals))
	for _, a := range arrivals {
		if !a.finished {
			all[a.now.uid] = a.pod
		}
	}
	s.watch.pods.replace(all)
}

// typed returns a custom resource's object as the type that the log has.
func (s *store) typed(custom *unstructured.Unstructured) (eventlog.Object, error) {
	text, err := custom.MarshalJSON()
	if err != nil {
		return nil, err
	}
	obj := eventlog.NewObject(s.kind.resource)
	return obj, json.Unmarshal(text, obj)
}

func (s *store) unknown(object any) error {
	return fmt.Errorf("watch %s: got a %T", s.kind.resource, object)
}

func nameOf(obj eventlog.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func digestOf(b []byte) digest {
	sum := sha256.Sum256(b)
	return digest(sum[:len(digest{})])
}
