package plot

import (
	"fmt"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/ledger"
)

// TestTheMostImportantEventsAreWrittenOut has more events than a plot tells. The change of the configuration, the lost
// node and the largest preemptions are among the notes, in order. The pods that a gang loses at once are one note.
func TestTheMostImportantEventsAreWrittenOut(t *testing.T) {
	const second = eventlog.Time(1e9)
	p := &Plot{ledger: &ledger.Ledger{Start: second, End: 3600 * second}}
	add := func(at eventlog.Time, e events.Event) {
		e.Point = answer.Point{Time: answer.Instant(at * second)}
		p.events = append(p.events, &e)
	}
	for i := range 20 {
		add(eventlog.Time(i), events.Event{Kind: events.Preempted, Pods: i + 1, Message: fmt.Sprint(i+1, " preempted")})
	}
	add(30, events.Event{Kind: events.NodeUnreachable, NumNodes: 2, Message: "2 nodes are unreachable"})
	for i := range 2 {
		add(31, events.Event{Kind: events.Lost, Gang: "ml/a", Pods: 30, NumNodes: 1, BelowMinimum: i == 1})
	}
	add(32, events.Event{Kind: events.Lost, Gang: "ml/a", Pods: 25, NumNodes: 1, Message: "25 lost"})
	add(40, events.Event{Kind: events.ConfigChanged, Message: "another configuration"})
	add(50, events.Event{Kind: events.NodeReady, NumNodes: 2, Message: "2 nodes are ready again"})
	notes := p.notes()
	if len(notes) != mostNotes+1 {
		t.Fatalf("%d notes: %v", len(notes), notes)
	}
	want := []string{"12 preempted", "13 preempted", "14 preempted", "15 preempted", "16 preempted", "17 preempted",
		"18 preempted", "19 preempted", "20 preempted", "2 nodes are unreachable",
		"2 nodes lost: 60 pods of ml/a lost, gang below its minimum", "25 lost", "another configuration",
		"2 nodes are ready again", "and 11 more: rollcall events"}
	for i, note := range notes {
		if note.Text != want[i] {
			t.Errorf("note %d is %q, want %q", i, note.Text, want[i])
		}
	}
	if notes[12].Head != "00:00:40" {
		t.Errorf("the time is %q", notes[12].Head)
	}
	rows := p.marks()
	if changed := rows[0]; changed.Name != "configuration" || len(changed.Marks) != 1 || changed.Marks[0].X != 39 ||
		changed.Marks[0].Hollow || !changed.Guides {
		t.Errorf("the marks of the configuration are %+v", changed)
	}
	if nodes := rows[1].Marks; len(nodes) != 2 || nodes[0].Count != 2 || nodes[0].Hollow || !nodes[1].Hollow {
		t.Errorf("the marks of nodes are %+v", nodes)
	}
}
