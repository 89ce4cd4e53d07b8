package events

import (
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// say makes the event's message.
func (e *Event) say() {
	e.Message = e.words()
	if e.Kind == Waiting && e.Count > 1 {
		e.Message += fmt.Sprintf(" (%d times until %s)", e.Count, Clock(eventlog.Time(e.Last.Time)))
	}
}

// Clock is the time of day of a time of the log, in whole seconds.
func Clock(t eventlog.Time) string { return t.Std().Format(time.TimeOnly) }

func (e *Event) words() string {
	if e.Kind.ofNode() {
		return e.wordsOfNode()
	}
	if text := e.wordsOfOthers(); text != "" {
		return text
	}
	switch e.Kind {
	case EpochStarted, ConfigChanged, EvictionRefused, ChangesMissing:
		return e.Detail
	case Created:
		if e.Pods > 1 {
			return fmt.Sprintf("%d pods of no gang created in %s", e.Pods, e.Namespace)
		}
		return fmt.Sprintf("pod %s created, priority %d", e.Pod, *e.Priority)
	case Complete:
		return fmt.Sprintf("gang %s complete%s: %s, priority %d", e.Gang, ifSo(e.Cause != nil, " again"), e.counted(),
			*e.Priority)
	case Waiting:
		text := fmt.Sprintf("%s waits (%s)", e.subject(), e.Code)
		if e.Detail != "" {
			text += ": " + e.Detail
		}
		return text
	case Placed:
		return e.wordsOfPlaced()
	case Preempted:
		by := strings.TrimPrefix(phrase.Preemptor(e.By), "gang ")
		return fmt.Sprintf("%s preempted by %s", e.podsOf(), by)
	case Lost:
		return e.wordsOfLost()
	case Evicted:
		return fmt.Sprintf("%s evicted: %s", e.podsOf(), e.Detail)
	case Succeeded:
		return e.podsOf() + " succeeded"
	case Failed:
		return e.podsOf() + " failed" + ifSo(e.BelowMinimum, ", gang below its minimum") + behindColon(e.Detail)
	case Deleted:
		return e.podsOf() + " deleted" + ifSo(e.BelowMinimum, ", gang below its minimum")
	case GangDeleted:
		return fmt.Sprintf("gang %s: its PodGroup was deleted", e.Gang)
	case Reserved:
		return fmt.Sprintf("room reserved for %s: %s on %s, %s", e.subject(), e.counted(), e.onNodes(), e.Detail)
	case ReservationEnded:
		return fmt.Sprintf("the reservation of %s ended: %s", e.subject(), e.Detail)
	case PriorityChanged:
		return fmt.Sprintf("gang %s has priority %d now, %s before", e.Gang, *e.Priority, e.Detail)
	}
	return ""
}

func (e *Event) wordsOfNode() string {
	name := "node " + e.Node
	if e.NumNodes > 1 {
		name = fmt.Sprintf("%d nodes", e.NumNodes)
	}
	be := phrase.Verb(e.NumNodes, "is", "are")
	text := map[Kind]string{
		NodeJoined: "joined", NodeDeleted: "deleted", NodeNotReady: be + " not ready",
		NodeUnreachable: be + " unreachable", NodeReady: be + " ready again", NodeCordoned: "cordoned",
		NodeUncordoned: "uncordoned", NodeTainted: "tainted with " + e.Detail,
		NodeUntainted: "without taint " + e.Detail, NodeResized: "resized: " + e.Detail,
		NodeCondition: "condition " + e.Detail,
	}[e.Kind]
	text = name + " " + text
	if e.NumNodes > 1 {
		text += ": " + e.nodeNames()
	}
	return text
}

// nodeNames lists the first nodes.
func (e *Event) nodeNames() string {
	const most = 3
	text := strings.Join(e.Nodes[:min(most, len(e.Nodes))], ", ")
	if e.NumNodes > most {
		text += fmt.Sprintf(" and %d more", e.NumNodes-most)
	}
	return text
}

func (e *Event) wordsOfLost() string {
	if e.NumNodes <= 1 {
		return phrase.NodeLostInShort(e.loss)
	}
	verb := "lost"
	switch e.How {
	case "Drained":
		verb = "drained"
	case "Deleted", "NotReady", "Unreachable":
	default:
		verb = "evicted their pods"
	}
	return fmt.Sprintf("%d nodes %s: %s lost%s: %s", e.NumNodes, verb, e.podsOf(),
		ifSo(e.BelowMinimum, ", gang below its minimum"), e.nodeNames())
}

func (e *Event) wordsOfPlaced() string {
	var text string
	switch {
	case e.Gang == "":
		text = fmt.Sprintf("pod %s placed on %s", e.Pod, e.Node)
	case e.again:
		text = fmt.Sprintf("%s placed beside the others, on %s", e.podsOf(), e.onNodes())
	default:
		text = fmt.Sprintf("gang %s placed: %s on %s", e.Gang, e.counted(), e.onNodes())
	}
	if e.WaitedSeconds != nil && *e.WaitedSeconds > 0 {
		text += ", waited " + time.Duration(*e.WaitedSeconds*float64(time.Second)).Round(time.Second).String()
	}
	return text + e.byWhom()
}

func (e *Event) counted() string { return phrase.Count(int64(e.Pods), "pod", "pods") }

func (e *Event) onNodes() string {
	if e.NumNodes == 1 {
		return e.Nodes[0]
	}
	return phrase.Count(int64(e.NumNodes), "node", "nodes")
}

// podsOf names the pods: by their number, and their gang if they have one.
func (e *Event) podsOf() string {
	switch {
	case e.Gang != "":
		return e.counted() + " of " + e.Gang
	case e.Pods > 1:
		return fmt.Sprintf("%d pods of no gang in %s", e.Pods, e.Namespace)
	}
	return "pod " + e.Pod
}

func ifSo(is bool, text string) string {
	if is {
		return text
	}
	return ""
}
