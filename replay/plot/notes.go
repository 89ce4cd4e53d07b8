package plot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/replay/events"
)

// mostNotes is the largest number of events below the plot.
const mostNotes = 14

// note is an event to tell. The pods that a gang lost at an instant with several nodes are one.
type note struct {
	*events.Event
	nodes, pods  int
	belowMinimum bool
}

// notes returns the most important events, in order: the ones of the configuration and of nodes, and then the ones of
// the most pods.
func (p *Plot) notes() (out []svgplot.Note) {
	all := p.notable()
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b *note) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(b.pods, a.pods))
	})
	told := map[*note]bool{}
	for _, n := range ranked[:min(mostNotes, len(ranked))] {
		told[n] = true
	}
	for _, n := range all {
		if told[n] {
			out = append(out, svgplot.Note{Head: p.when(n.Event), Text: eventlog.Plain(n.text())})
		}
	}
	if more := len(all) - len(told); more > 0 {
		out = append(out, svgplot.Note{Text: fmt.Sprintf("and %d more: rollcall events", more)})
	}
	return out
}

// notable returns the events in order.
func (p *Plot) notable() (all []*note) {
	type instant struct {
		at   eventlog.Time
		gang string
	}
	losses := map[instant]*note{}
	for _, e := range p.events {
		n := &note{e, e.NumNodes, e.Pods, e.BelowMinimum}
		if e.Kind == events.Lost && e.Gang != "" {
			key := instant{eventlog.Time(e.Time), e.Gang}
			if first := losses[key]; first != nil {
				first.nodes += n.nodes
				first.pods += n.pods
				first.belowMinimum = first.belowMinimum || n.belowMinimum
				continue
			}
			losses[key] = n
		}
		all = append(all, n)
	}
	return all
}

func (n *note) text() string {
	if n.nodes == 1 || n.Kind != events.Lost || n.Gang == "" {
		return n.Message
	}
	text := fmt.Sprintf("%d nodes lost: %d pods of %s lost", n.nodes, n.pods, n.Gang)
	if n.belowMinimum {
		text += ", gang below its minimum"
	}
	return text
}

// class orders events of the configuration before the ones of nodes, and these before the ones of pods.
func (n *note) class() int {
	switch {
	case n.Kind == events.ConfigChanged:
		return 0
	case n.Pods == 0:
		return 1
	}
	return 2
}

// when is the time of an event, with the day if the range has several.
func (p *Plot) when(e *events.Event) string {
	at := eventlog.Time(e.Time).Std()
	if p.ledger.Start.Std().Format(time.DateOnly) == p.ledger.End.Std().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format("01-02 15:04:05")
}
