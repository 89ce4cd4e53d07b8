package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// event is a row about something that happened at a point.
type event struct {
	at   answer.Point
	row  []string
	loss bool
}

// losses returns the rows about lost nodes. None of them is left out or folded.
func losses(list []answer.NodeLoss, knownFrom uint64) (events []event) {
	for i := range list {
		x := &list[i]
		text := place(x.Point, knownFrom)
		if x.Last != nil {
			text += fmt.Sprintf(" to entry %d, %s", x.Last.Seq, x.Last.Time)
		}
		text += ": " + x.Message
		if x.OnNode == 0 && x.Group != "" {
			text += " (" + namesText(x.Names, x.Pods) + ")"
		}
		events = append(events, event{x.Point, []string{"node lost", text}, true})
	}
	return events
}

// namesText names the first of some pods.
func namesText(names []string, all int) string {
	shown := names[:min(len(names), textVictims)]
	text := strings.Join(shown, ", ")
	if all > len(shown) {
		text += fmt.Sprintf(" and %d more", all-len(shown))
	}
	return text
}

// inOrder adds events in the order of the log.
func (f *facts) inOrder(events []event) {
	slices.SortStableFunc(events, func(a, b event) int {
		order := cmp.Compare(a.at.Seq, b.at.Seq)
		if order == 0 && a.loss != b.loss && a.loss {
			return -1
		} else if order == 0 && a.loss != b.loss {
			return 1
		}
		return order
	})
	for _, e := range events {
		f.add(e.row[0], "%s", e.row[1])
	}
}

// nodesLost writes the losses of nodes on which a pod, or an earlier one of its name, or its gang's members were.
func (f *facts) nodesLost(p *answer.Pod) {
	if p.NodeLost != nil {
		f.inOrder(losses([]answer.NodeLoss{*p.NodeLost}, p.KnownFrom))
	}
	if x := p.EarlierNodeLost; x != nil {
		f.add("before it", "%s: %s; that was an earlier pod of the name", place(x.Point, p.KnownFrom), x.Message)
	}
	f.inOrder(losses(p.GroupNodeLosses, p.KnownFrom))
}

// podLost says, to come before how a pod went, that its node had been lost; "" if it had not.
func podLost(p *answer.Pod) string {
	x := p.NodeLost
	if x == nil || p.Gone != nil && p.Gone.Seq < x.Seq {
		return ""
	}
	return fmt.Sprintf("was lost at %s (entry %d): %s; it ", x.Time, x.Seq, phrase.NodeAndCause(x))
}

// lostNode names, to follow the answer about a gang, the last node that it lost with members since it was last placed.
// It returns "" if the gang has its minimum, or has lost no node.
func lostNode(g *answer.Group) string {
	if g.Stage == "Placed" || g.Stage == "Done" {
		return ""
	}
	placed := lastPlaced(&g.History)
	var text string
	earlier := 0
	for i := range slices.Backward(g.History.NodeLosses) {
		x := &g.History.NodeLosses[i]
		switch {
		case placed != nil && x.Seq < placed.Seq:
		case text == "":
			text = fmt.Sprintf("; at %s (entry %d) %s", moment(x.Point, g.KnownFrom), x.Seq, x.Message)
		default:
			earlier++
		}
	}
	if earlier > 0 {
		text += "; before that, since it was placed, " +
			phrase.Count(int64(earlier), "other loss of a node", "other losses of nodes")
	}
	return text
}
