package listing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Queued is an entity of the queue that waits.
type Queued struct {
	// Position is its place in the order of turns, from 1 on. Ahead is the number of entities that have their turn
	// before it; nil if it is not Active.
	Position int  `json:"position"`
	Ahead    *int `json:"ahead,omitempty"`
	// Kind is pod, resize, gang or composite, Name its namespace/name. Gangs that name each other are one composite.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Lane is its lane, "" for none, and Profile the scheduler's name.
	Lane     string `json:"lane,omitempty"`
	Profile  string `json:"profile"`
	Pods     int    `json:"pods"` // without a node
	Priority int32  `json:"priority"`
	// ActiveSince is the time at which it was first active; zero if it never was.
	ActiveSince answer.Instant `json:"activeSince,omitzero"`
	Attempts    int            `json:"attempts"`
	answer.QueuePlace
}

// queued lists the queue in the order of turns.
func queued(q *question) (*List, error) {
	var rows []Queued
	for i, e := range q.survey.Turns() {
		key := e.Key()
		name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
		var also []types.NamespacedName
		for _, p := range e.Pending() {
			also = append(also, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
			if group, ok := q.m.Cluster().Gangs().NameOf(p); ok {
				also = append(also, group)
			}
		}
		if !q.wants(name, also...) {
			continue
		}
		x := Queued{Position: i + 1, Kind: kindOf(e), Name: name.String(), Lane: queue.LaneOf(q.m.Queue(), e),
			Profile: e.Profile(), Pods: e.NumPending(), Priority: e.Priority(),
			ActiveSince: answer.Instant(e.FirstActive()), Attempts: e.Attempts(), QueuePlace: *q.survey.Place(e)}
		if e.State() == queue.Active {
			ahead := x.QueuePlace.Ahead
			x.Ahead = &ahead
		}
		rows = append(rows, x)
	}
	at := q.survey.At()
	type row = Queued
	return newList(rows, "entity is in the queue", "entities are in the queue", []column[row]{
		{title: "PLACE", text: func(x *row) string { return fmt.Sprint(x.Position) }},
		{title: "NAME", text: func(x *row) string { return x.Name }},
		{title: "KIND", text: func(x *row) string { return x.Kind }},
		{title: "PRIORITY", text: func(x *row) string { return fmt.Sprint(x.Priority) }},
		{title: "STATE", text: func(x *row) string { return stateOf(x, at) },
			value: func(x *row) string { return x.State }},
		{title: "ATTEMPTS", text: func(x *row) string { return fmt.Sprint(x.Attempts) }},
		{title: "AHEAD", text: func(x *row) string { return aheadOf(x.Ahead) }},
		{title: "LANE", wide: true, text: func(x *row) string { return x.Lane }},
		{title: "PODS", wide: true, text: func(x *row) string { return fmt.Sprint(x.Pods) }},
		{title: "ACTIVE SINCE", wide: true, text: func(x *row) string { return clock(x.ActiveSince, at) },
			value: func(x *row) string { return stamp(x.ActiveSince) }},
		{title: "BACKOFF UNTIL", wide: true, text: func(x *row) string { return clock(x.BackoffUntil, at) },
			value: func(x *row) string { return stamp(x.BackoffUntil) }},
		{title: "REFUSED BY", wide: true, text: func(x *row) string { return strings.Join(x.RejectedBy, ", ") }},
		{title: "NEXT TRY", wide: true, text: func(x *row) string { return x.NextRetry }},
	}), nil
}

// kindOf returns the kind of an entity of the queue.
func kindOf(e *queue.Entity) string {
	switch {
	case e.Resize():
		return "resize"
	case e.Type() == fwk.PodGroupKeyType:
		return "gang"
	case e.Type() == fwk.CompositePodGroupKeyType:
		return "composite"
	}
	return "pod"
}

// stateOf is the state of an entity in short, with the thing that it waits for.
func stateOf(x *Queued, at answer.Point) string {
	switch x.State {
	case queue.Backoff.String():
		return "Backoff until " + clock(x.BackoffUntil, at)
	case queue.Unschedulable.String():
		if x.Retryable {
			return "waits for room"
		}
		return "waits for an event"
	case queue.Asking.String():
		return "waits for extenders"
	}
	return x.State
}
