package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// told returns the messages of the events that a List hands out, with the entry of the cause where there is one.
func told(t *testing.T, filter Filter, events ...*Event) []string {
	t.Helper()
	var out []string
	l := NewList(filter, func(e *Event) error {
		text := e.Message
		if e.Cause != nil {
			text += fmt.Sprintf(" [because of %d]", e.Cause.Seq)
		}
		out = append(out, text)
		return nil
	})
	for i, e := range events {
		e.Point = answer.Point{Seq: uint64(i + 1), Time: answer.Instant(1 + i/3)}
		e.Count = 1
		l.add(e)
	}
	l.Flush()
	return out
}

func waiting(gang string, code answer.Code) *Event {
	return &Event{Kind: Waiting, Gang: gang, Code: code, making: making{causedBy: "gang " + gang}}
}

func placed(gang string) *Event {
	e := &Event{Kind: Placed, Gang: gang}
	e.addPod(gang+"-0", "n1")
	return e
}

func unreachable(node string) *Event {
	e := &Event{Kind: NodeUnreachable, Node: node, making: making{causeOf: nodeCause(node)}}
	e.addNode(node)
	return e
}

func lost(gang, node string) *Event {
	e := &Event{Kind: Lost, Gang: gang, Node: node, Pods: 1, How: "Unreachable"}
	e.causedBy, e.causeOf = nodeCause(node), "gang "+gang
	e.loss = &answer.NodeLoss{Node: node, How: "Unreachable", Group: gang, Pods: 1}
	e.addNode(node)
	return e
}

func succeeded(gang, pod string) *Event {
	e := &Event{Kind: Succeeded, Gang: gang}
	e.addPod(pod, "")
	return e
}

// TestEqualEventsAreFoldedUntilSomethingElseHappens has a table of events and the messages that come out.
func TestEqualEventsAreFoldedUntilSomethingElseHappens(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []*Event
		want   []string
	}{
		{"equal failures of two gangs, one between the other's",
			[]*Event{waiting("a/x", "LacksRoom"), waiting("a/y", "LacksRoom"), waiting("a/x", "LacksRoom")},
			[]string{"gang a/x waits (LacksRoom) (2 times until 00:00:00)", "gang a/y waits (LacksRoom)"}},
		{"another code",
			[]*Event{waiting("a/x", "LacksRoom"), waiting("a/x", "Unplaceable"), waiting("a/x", "LacksRoom")},
			[]string{"gang a/x waits (LacksRoom)", "gang a/x waits (Unplaceable)", "gang a/x waits (LacksRoom)"}},
		{"placed between two failures",
			[]*Event{waiting("a/x", "LacksRoom"), placed("a/x"), waiting("a/x", "LacksRoom")},
			[]string{"gang a/x waits (LacksRoom)", "gang a/x placed: 1 pod on n1", "gang a/x waits (LacksRoom)"}},
		{"nodes in a row at one instant, and at the next",
			[]*Event{unreachable("n1"), unreachable("n2"), unreachable("n3"), unreachable("n4")},
			[]string{"3 nodes are unreachable: n1, n2, n3", "node n4 is unreachable"}},
		{"pods lost with two nodes in turn, and with one again",
			[]*Event{unreachable("n1"), lost("a/x", "n1"), lost("a/x", "n2"), lost("a/x", "n1"), unreachable("n1"),
				lost("a/x", "n1")},
			[]string{"node n1 is unreachable", "node n1 lost: 2 pods of a/x lost [because of 1]",
				"node n2 lost: 1 pod of a/x lost", "node n1 is unreachable",
				"node n1 lost: 1 pod of a/x lost [because of 5]"}},
		{"pods lost with two nodes at one instant",
			[]*Event{lost("a/x", "n2"), lost("a/x", "n1"), lost("a/x", "n2"), lost("a/y", "n3")},
			[]string{"2 nodes lost: 3 pods of a/x lost: n1, n2", "node n3 lost: 1 pod of a/y lost"}},
		{"pods that end, with those of another gang between",
			[]*Event{succeeded("a/x", "a/x-0"), succeeded("a/y", "a/y-0"), succeeded("a/x", "a/x-1")},
			[]string{"2 pods of a/x succeeded", "1 pod of a/y succeeded"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := told(t, Filter{}, test.events...); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestAnEffectNamesItsCauseUntilTheGangIsPlaced follows a lost node to the gang that waits.
func TestAnEffectNamesItsCauseUntilTheGangIsPlaced(t *testing.T) {
	got := told(t, Filter{}, unreachable("n1"), lost("a/x", "n1"), waiting("a/x", "LacksRoom"), placed("a/x"),
		waiting("a/x", "LacksRoom"))
	want := []string{"node n1 is unreachable", "node n1 lost: 1 pod of a/x lost [because of 1]",
		"gang a/x waits (LacksRoom) [because of 2]", "gang a/x placed: 1 pod on n1", "gang a/x waits (LacksRoom)"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The cause is known though the filter drops its event.
	got = told(t, Filter{Kinds: []Kind{Waiting}}, unreachable("n1"), lost("a/x", "n1"), waiting("a/x", "LacksRoom"))
	if want := []string{"gang a/x waits (LacksRoom) [because of 2]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAfterAFlushAnEqualWaitIsNotToldAgain is about events that are printed as they come.
func TestAfterAFlushAnEqualWaitIsNotToldAgain(t *testing.T) {
	var out []string
	l := NewList(Filter{}, func(e *Event) error {
		out = append(out, e.Message)
		return nil
	})
	for _, e := range []*Event{waiting("a/x", "LacksRoom"), waiting("a/x", "LacksRoom"), succeeded("a/y", "a/y-0"),
		succeeded("a/y", "a/y-1"), waiting("a/x", "Unplaceable")} {
		e.Count = 1
		l.add(e)
		l.Flush()
	}
	want := []string{"gang a/x waits (LacksRoom)", "1 pod of a/y succeeded", "1 pod of a/y succeeded",
		"gang a/x waits (Unplaceable)"}
	if !slices.Equal(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
}
