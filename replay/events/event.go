package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Kind names what happened.
type Kind string

// The kinds.
const (
	// EpochStarted: a writer began. ConfigChanged: it has another configuration than the writer before it.
	EpochStarted  Kind = "EpochStarted"
	ConfigChanged Kind = "ConfigChanged"

	// NodeJoined and NodeDeleted: the Node object came, and was deleted.
	NodeJoined  Kind = "NodeJoined"
	NodeDeleted Kind = "NodeDeleted"
	// NodeNotReady and NodeUnreachable: it got that taint. NodeReady: it has neither of the two any longer.
	NodeNotReady    Kind = "NodeNotReady"
	NodeUnreachable Kind = "NodeUnreachable"
	NodeReady       Kind = "NodeReady"
	NodeCordoned    Kind = "NodeCordoned"
	NodeUncordoned  Kind = "NodeUncordoned"
	NodeTainted     Kind = "NodeTainted"
	NodeUntainted   Kind = "NodeUntainted"
	// NodeResized: it has another allocatable amount of a resource.
	NodeResized Kind = "NodeResized"

	// Created: a pod of no gang came. Complete: as many members of a gang as it needs are there.
	Created  Kind = "Created"
	Complete Kind = "Complete"
	// Waiting: it was tried and not placed, or cannot be tried. It has a reason code.
	Waiting Kind = "Waiting"
	// Placed: a pod has its node, or a gang its minimum.
	Placed Kind = "Placed"
	// Preempted: pods have to go for others. EvictionRefused: the API server refused an eviction, or it was given up or
	// withdrawn.
	Preempted       Kind = "Preempted"
	EvictionRefused Kind = "EvictionRefused"
	// Lost: pods lost their node because the node was lost or drained. Evicted: members have to go because their gang
	// fell below its minimum, or somebody else has evicted pods.
	Lost    Kind = "Lost"
	Evicted Kind = "Evicted"
	// Succeeded, Failed and Deleted: pods ended that way.
	Succeeded Kind = "Succeeded"
	Failed    Kind = "Failed"
	Deleted   Kind = "Deleted"
	// GangDeleted: the PodGroup was deleted.
	GangDeleted Kind = "GangDeleted"
	// Reserved and ReservationEnded: room is kept for the first entity that does not fit, and is so no longer.
	Reserved         Kind = "Reserved"
	ReservationEnded Kind = "ReservationEnded"
	// PriorityChanged: a gang has another priority.
	PriorityChanged Kind = "PriorityChanged"

	// Only the logs of recorders have these. Unscheduled: its scheduler has found no node for a pod. Nominated: a node
	// is kept for a pod, or no longer. Resized: a pod's requests have changed on its node, or its resize has come
	// further. Restarted: a container of a pod has started again. NodeCondition: a condition of a node has changed.
	Unscheduled   Kind = "Unscheduled"
	Nominated     Kind = "Nominated"
	Resized       Kind = "Resized"
	Restarted     Kind = "Restarted"
	NodeCondition Kind = "NodeCondition"
	// ChangesMissing: the recorder had to list, and changes before this entry may be missing.
	ChangesMissing Kind = "ChangesMissing"
)

// Kinds returns all kinds, in an order for people.
func Kinds() []Kind {
	return []Kind{EpochStarted, ConfigChanged, NodeJoined, NodeDeleted, NodeNotReady, NodeUnreachable, NodeReady,
		NodeCordoned, NodeUncordoned, NodeTainted, NodeUntainted, NodeResized, NodeCondition, Created, Complete,
		Waiting, Placed, Preempted, EvictionRefused, Lost, Evicted, Succeeded, Failed, Deleted, GangDeleted, Reserved,
		ReservationEnded, PriorityChanged, ChangesMissing, Unscheduled, Nominated, Resized, Restarted}
}

// ParseKind returns the kind of a name, in any case.
func ParseKind(name string) (Kind, error) {
	all := Kinds()
	if i := slices.IndexFunc(all, func(k Kind) bool { return strings.EqualFold(string(k), name) }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, k := range all {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("there are no events of kind %q: want some of %s", name, strings.Join(names, ", "))
}

// ofNode reports whether it is a kind of event of a node.
func (k Kind) ofNode() bool { return strings.HasPrefix(string(k), "Node") }

// maxNames and maxNodes are the numbers of pods and of nodes that an event names.
const (
	maxNames = 20
	maxNodes = 100
)

// An Event is one event, or several equal ones that were folded.
type Event struct {
	// Point is its entry: the first one of several.
	answer.Point
	// Last is the last entry of several.
	Last *answer.Point `json:"last,omitempty"`
	Kind Kind          `json:"kind"`
	// Count is the number of equal events that were folded into this one, itself included.
	Count int `json:"count"`
	// Namespace, Gang and Pod are the subject. Gang and Pod are namespace/name. Pod is set for an event of one pod: a
	// pod of no gang, or a member that waits though its gang has its minimum.
	Namespace string `json:"namespace,omitempty"`
	Gang      string `json:"gang,omitempty"`
	Pod       string `json:"pod,omitempty"`
	// Node is the node of an event of one node.
	Node string `json:"node,omitempty"`
	// Pods counts the pods, and Names are the first of them, at most 20. Nodes are the first of
	// NumNodes, at most 100.
	Pods     int      `json:"pods,omitempty"`
	Names    []string `json:"names,omitempty"`
	NumNodes int      `json:"numNodes,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	// Code is the reason code of Waiting, and of no other kind. docs/GANGS.md has a table of them.
	Code answer.Code `json:"code,omitempty"`
	// Priority is the priority of a gang or pod that came (Complete, Created) or has another one now.
	Priority *int32 `json:"priority,omitempty"`
	// WaitedSeconds is, of Placed, the time since the last one of the placed pods was created.
	WaitedSeconds *float64 `json:"waitedSeconds,omitempty"`
	// By is, of Preempted, what the pods have to go for.
	By *answer.Preemptor `json:"by,omitempty"`
	// How is, of Lost, how the node was lost, with the values of answer.NodeLoss.
	How string `json:"how,omitempty"`
	// BelowMinimum says that the gang has less than its minimum now, and had it before.
	BelowMinimum bool `json:"belowMinimum,omitempty"`
	// Author is the scheduler or the field manager that did it, where that is somebody else and the log tells.
	Author string `json:"author,omitempty"`
	// Removal says, of Preempted and Evicted, who makes the pods go, where that is somebody else.
	Removal *answer.Removal `json:"removal,omitempty"`
	// Detail says more, in words.
	Detail string `json:"detail,omitempty"`
	// Cause is an earlier event of the range that led to this one.
	Cause *Cause `json:"cause,omitempty"`
	// Message is the event as one sentence without the time.
	Message string `json:"message"`

	making
}

// making is the part of an event that only this package needs.
type making struct {
	loss     *answer.NodeLoss
	gap      *eventlog.Gap // of ChangesMissing
	again    bool          // of Placed: the gang has its minimum already
	podsAll  []string      // the names of all pods
	nodesAll []string      // the names of all nodes, sorted
	told     bool          // it was handed out
	folds    string        // is equal in events that are folded
	// causeOf is the key under which later events find it as their cause, and causedBy the key of its own.
	causeOf, causedBy string
}

// A Cause is an event that led to another one.
type Cause struct {
	answer.Point
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"`
}

// subject names the gang, pod or node.
func (e *Event) subject() string {
	switch {
	case e.Pod != "":
		return "pod " + e.Pod
	case e.Gang != "":
		return "gang " + e.Gang
	case e.Node != "":
		return "node " + e.Node
	}
	return ""
}

// AllNodes returns the names of all nodes of the event, sorted. Nodes has the first of them.
func (e *Event) AllNodes() []string { return e.nodesAll }

// addPod adds a pod, and the node that it has or had.
func (e *Event) addPod(name, node string) {
	e.podsAll = append(e.podsAll, name)
	e.Pods++
	if len(e.Names) < maxNames {
		e.Names = append(e.Names, name)
	}
	if node != "" {
		e.addNode(node)
	}
}

// addNode adds a node, once.
func (e *Event) addNode(node string) {
	i, known := slices.BinarySearch(e.nodesAll, node)
	if known {
		return
	}
	e.nodesAll = slices.Insert(e.nodesAll, i, node)
	e.NumNodes = len(e.nodesAll)
	e.Nodes = e.nodesAll[:min(maxNodes, len(e.nodesAll))]
}
