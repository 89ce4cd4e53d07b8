package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// Restore reads the output of AppendState into q. q must be as New made it, with the same options as the queue that was
// written. now is the time of the last SetTime of that queue. pod returns the pod of a UID. If it returns nil, Restore
// fails. No plugin is asked anything. After an error q must not be used.
//
// It checks only what it needs to avoid a panic. The caller compares whether AppendState would write the same bytes
// again.
func (q *Queue) Restore(r *canonical.Reader, now eventlog.Time, pod func(types.UID) *v1.Pod) error {
	if len(q.entities) > 0 || q.changes > 0 {
		return errors.New("restore the queue: it was used already")
	}
	if v := r.Byte("queue version"); r.Err() == nil && v != stateVersion {
		return fmt.Errorf("queue version %d: this program reads version %d", v, stateVersion)
	}
	q.now, q.changes, q.changedAt = now, r.Uvarint("changes"), readTime(r, "changed at")
	flight := make([]Key, r.Count("in flight", 3))
	for i := range flight {
		flight[i] = readKey(r)
	}
	q.sorted = byKey{list: make([]*Entity, r.Count("entities", 20))}
	for i := range q.sorted.list {
		e, err := q.readEntity(r, pod)
		if err != nil {
			return err
		}
		q.sorted.list[i] = e
	}
	if r.Err() != nil {
		return r.Err()
	}
	return q.restorePlaces(flight)
}

func readTime(r *canonical.Reader, field string) eventlog.Time {
	return eventlog.Time(r.Varint(field))
}

func readKey(r *canonical.Reader) Key {
	return Key{
		Type:      fwk.EntityKeyType(r.String("entity type")),
		Namespace: r.String("entity namespace"),
		Name:      r.String("entity name"),
	}
}

func readNames(r *canonical.Reader, field string) []string {
	n := r.Count(field, 1)
	if n == 0 {
		return nil
	}
	names := make([]string, n)
	for i := range names {
		names[i] = r.String(field)
	}
	return names
}

// readEntity reads what appendState wrote of one entity and of its members.
func (q *Queue) readEntity(r *canonical.Reader, pod func(types.UID) *v1.Pod) (*Entity, error) {
	e := &Entity{key: readKey(r), profile: r.String("profile"), state: State(r.Byte("state"))}
	bits := r.Flags("entity flags", 8)
	if bits[6] && !q.opts.PopEarly {
		r.Fail("entity flags", errors.New("it was attempted early, and no entity is"))
	}
	e.retryable, e.failed, e.erred = bits[0], bits[1], bits[2]
	e.notedAll, e.notedAny, e.keptOff = bits[3], bits[4], bits[5]
	e.poppedEarly, e.asked = bits[6], bits[7]
	e.timestamp = readTime(r, "timestamp")
	if t := readTime(r, "first active"); t != 0 {
		e.setFirstActive(t)
	}
	e.backoffUntil = readTime(r, "backoff until")
	e.attempts = r.Int("attempts")
	e.plan.attempts = r.Int("plans")
	e.plan.search = r.Int("next search")
	e.unschedulableCount = r.Int("unschedulable count")
	e.errorCount = r.Int("error count")
	e.plugins = readNames(r, "plugins")
	e.pendingPlugins = readNames(r, "pending plugins")
	e.noted = readNames(r, "noted")
	gatingPlugin, gatingMessage := r.String("gating plugin"), r.String("gating message")
	e.startedAt = r.Uvarint("begun")
	if rests(e) {
		e.since, e.stamp = readTime(r, "since"), r.Uvarint("stamp")
	}
	n := r.Count("members", 4)
	if r.Err() != nil {
		return nil, r.Err()
	}
	if q.entities[e.key] != nil || n == 0 {
		return nil, fmt.Errorf("queue entity %s is there twice, or has no member", e.key)
	}
	q.entities[e.key] = e
	for range n {
		if err := q.readMember(r, e, pod); err != nil {
			return nil, err
		}
	}
	if !e.plan.restore(e.members) {
		return nil, fmt.Errorf("queue entity %s has two members with the same turn", e.key)
	}
	e.resize = isResize(e.members[0].pod)
	e.priority = q.priorityOf(e)
	e.gatingPlugin, e.gatingMessage = gatingPlugin, gatingMessage
	return e, nil
}

func (q *Queue) readMember(r *canonical.Reader, e *Entity, pod func(types.UID) *v1.Pod) error {
	uid := types.UID(r.String("member"))
	bits := r.Flags("member flags", 5)
	placed, gated := bits[0], bits[1]
	turn := r.Int("turn")
	var gate, message string
	if gated {
		gate, message = r.String("gate"), r.String("gate message")
	}
	if r.Err() != nil {
		return r.Err()
	}
	m := &member{entity: e, pod: pod(uid), placed: placed, tried: bits[2], refused: bits[3], asking: bits[4],
		turn: turn}
	if m.pod != nil {
		m.part = q.partOf(e.key, m.pod)
	}
	if m.pod == nil || q.byUID[uid] != nil || placed && gated {
		return fmt.Errorf("member %s of queue entity %s is not there, there twice, or placed and gated", uid, e.key)
	}
	e.insert(m)
	if m.asking {
		e.asking++
	}
	q.byUID[uid] = m
	q.byName[types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}] = m
	if gated {
		q.gate(m, q.plugin(m.pod.Spec.SchedulerName, gate), message)
	}
	return nil
}

// rests reports whether the entity is in the list of entities that wait for a flush.
func rests(e *Entity) bool { return e.state == Gated || e.state == Unschedulable && !e.retryable }

// restorePlaces puts every entity into the place of its state. Entities in flight are in the order of flight, the
// others in an order that follows from their fields.
func (q *Queue) restorePlaces(flight []Key) error {
	var resting []*Entity
	for _, e := range q.sorted.all() {
		if e.state == nowhere || e.state > Asking || e.retryable && e.state != Unschedulable {
			return fmt.Errorf("queue entity %s is in no such state: %d", e.key, e.state)
		}
		*q.counts.of(e.state)++
		switch {
		case rests(e):
			resting = append(resting, e)
		case e.retryable && !q.hasLane(e):
			q.retryable.add(e, q.summaryOf(e), q.compare)
		case e.state == Active && !q.hasLane(e):
			q.active.push(e)
		case e.state == Backoff:
			q.backoff.push(e)
			q.addEarly(e)
		}
	}
	for _, key := range flight {
		e := q.entities[key]
		if e == nil || e.state != InFlight || slices.Contains(q.flight, e) {
			return fmt.Errorf("queue entity %s is not in flight, or twice", key)
		}
		q.flight = append(q.flight, e)
	}
	if len(q.flight) != q.counts.InFlight {
		return fmt.Errorf("%d of %d entities in flight are in an order", len(q.flight), q.counts.InFlight)
	}
	slices.SortStableFunc(
		resting,
		func(a, b *Entity) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.stamp, b.stamp)) },
	)
	for _, e := range resting {
		if e.state == Unschedulable {
			q.classify(e)
		}
		q.restsIn(e).push(e, e.since, e.stamp)
	}
	for _, e := range q.sorted.all() {
		q.joinLane(e)
	}
	// Forget the answers of Room: it is asked again.
	q.earlyAsked, q.roomVersion = 0, math.MaxUint64
	return nil
}
