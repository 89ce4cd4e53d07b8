package dump

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// takeEvent takes an event of an audit log.
func (c *collection) takeEvent(f *found) {
	c.audit = true
	e := f.event
	switch {
	case e.skipped != "":
		c.skips++
		return
	case c.seen[e.id] && len(e.id) > 0:
		c.twice["events"]++
		return
	}
	if e.id != "" {
		c.seen[e.id] = true
	}
	if e.at.After(c.time) {
		c.time = e.at
	}
	if e.unusable != "" {
		c.unusable[e.unusable]++
		return
	}
	if len(e.more) > 0 {
		c.events = append(c.events, e.more...)
		return
	}
	c.events = append(c.events, f)
}

// present is an object as the events so far have left it.
type present struct {
	uid types.UID
	sum [32]byte
	pod *corev1.Pod
}

// story is the making of changes from events.
type story struct {
	*collection
	encoder eventlog.Encoder
	there   map[name]*present
	last    eventlog.Time
	made    []change
}

// changes returns the changes that the events of an audit log make, in their order.
func (c *collection) changes() ([]change, error) {
	slices.SortStableFunc(c.events, func(a, b *found) int { return a.event.came.Compare(b.event.came) })
	inOrderOfVersions(c.events)
	stamp(c.events)
	s := &story{collection: c, encoder: eventlog.Encoder{Recording: true}, there: map[name]*present{}}
	for _, f := range c.events {
		if err := s.take(f); err != nil {
			return nil, f.from.failed(err)
		}
	}
	return s.made, nil
}

// stamp gives each event the time of its write: when it was answered, but not after the next request came. A write that
// waited long for its answer, such as one with a slow webhook, must not delay the ones behind it.
func stamp(events []*found) {
	var next time.Time
	for _, f := range slices.Backward(events) {
		e := f.event
		if !next.IsZero() && e.at.After(next) {
			e.at = next
			if e.came.After(next) { // the versions say otherwise than the times
				e.at = e.came
			}
		}
		if next.IsZero() || e.came.Before(next) {
			next = e.came
		}
	}
}

// inOrderOfVersions puts the events of each object in the order of their resource versions: two API servers may have
// stamped them the other way round. Each object's events stay in the places that they have among all.
func inOrderOfVersions(events []*found) {
	where := map[name][]int{}
	for i, f := range events {
		if f.event.object != nil && f.event.object.version > 0 {
			where[f.event.object.name] = append(where[f.event.object.name], i)
		}
	}
	for _, at := range where { // any order: each is apart from the others
		sorted := make([]*found, len(at))
		for i, place := range at {
			sorted[i] = events[place]
		}
		slices.SortStableFunc(sorted, func(a, b *found) int {
			switch x, y := a.event.object.version, b.event.object.version; {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		for i, place := range at {
			events[place] = sorted[i]
		}
	}
}

// take makes the changes of one event.
func (s *story) take(f *found) error {
	e := f.event
	s.last = max(s.last, eventlog.TimeOf(e.at))
	if e.object != nil && e.object.older != "" {
		s.older[e.object.older]++
	}
	switch e.did {
	case bound:
		return s.bind(f)
	case evicted:
		return s.evict(f)
	case deleted:
		s.remove(f.name)
		return nil
	}
	s.upsert(e.object)
	return nil
}

// upsert logs an object that has come or changed, unless nothing about it has that scheduling reads.
func (s *story) upsert(f *found) {
	before := s.there[f.name]
	if f.finished && (before == nil || before.uid != f.uid) {
		s.finished++
		return
	}
	if before != nil && before.uid != f.uid {
		s.remove(f.name)
		before = nil
	}
	now := &present{uid: f.uid, sum: f.encoding.Sum(), pod: f.pod}
	if before != nil && before.sum == now.sum {
		return
	}
	if _, known := s.placings[f.uid]; !known {
		s.know(f)
	}
	s.there[f.name] = now
	s.made = append(s.made, change{s.last, &eventlog.Upserted{Resource: f.resource}, f.encoding})
	if f.finished {
		delete(s.there, f.name)
	}
}

// remove logs that an object is gone, if the log has it.
func (s *story) remove(n name) {
	before := s.there[n]
	if before == nil {
		return
	}
	delete(s.there, n)
	s.made = append(s.made, change{at: s.last, payload: &eventlog.Deleted{Resource: n.resource, Namespace: n.Namespace,
		Name: n.Name, UID: before.uid}})
}

// evict logs the pod of an Eviction with the condition that the API server gives it. The pod is gone if it has no time
// of grace. Otherwise the deletion that it begins is in later writes.
func (s *story) evict(f *found) error {
	before := s.there[f.name]
	if before == nil || before.pod == nil {
		return nil
	}
	pod := before.pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, eventlog.DisruptedByAnnotation, f.event.user)
	pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget
	}), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
	if err := s.upsertPod(f, pod); err != nil {
		return err
	}
	if f.event.atOnce || pod.Spec.NodeName == "" {
		s.remove(f.name)
	}
	return nil
}

// upsertPod logs a pod that an event changes without having it.
func (s *story) upsertPod(f *found, pod *corev1.Pod) error {
	logged, encoding, err := s.encoder.Logged(&eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
	if err != nil {
		return err
	}
	s.upsert(&found{name: f.name, uid: pod.UID, encoding: encoding, pod: logged.Object.(*corev1.Pod)})
	return nil
}

// bind logs the pod of a Binding with its node.
func (s *story) bind(f *found) error {
	before := s.there[f.name]
	if before == nil || before.pod == nil {
		s.unusable["it binds a pod that no event before it has"]++
		return nil
	}
	pod := before.pod.DeepCopy()
	pod.Spec.NodeName = f.event.node
	s.placings[pod.UID] = Placing{Since: f.event.at, By: f.event.user}
	return s.upsertPod(f, pod)
}
