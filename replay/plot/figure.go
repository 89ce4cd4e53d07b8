package plot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/ledger"
)

// The heights of panels, in pixels.
const (
	heldHeight = 170
	restHeight = 90
	waitHeight = 80
)

// lanes are the rows of marks: what begins something, and what ends it.
var lanes = []struct {
	name         string
	begins, ends []events.Kind
	guides       bool
}{
	{"configuration", []events.Kind{events.ConfigChanged}, nil, true},
	{"nodes lost", []events.Kind{events.NodeDeleted, events.NodeNotReady, events.NodeUnreachable},
		[]events.Kind{events.NodeReady, events.NodeJoined}, true},
	{"nodes cordoned", []events.Kind{events.NodeCordoned}, []events.Kind{events.NodeUncordoned}, false},
	{"pods preempted", []events.Kind{events.Preempted}, nil, false},
	{"pods lost, evicted", []events.Kind{events.Lost, events.Evicted}, nil, false},
}

// Figure draws the plot of a log with that name.
func (p *Plot) Figure(name string) svgplot.Figure {
	l := p.ledger
	f := svgplot.Figure{Title: fmt.Sprintf("%s, by %s", eventlog.Plain(name), eventlog.Plain(l.By.String())),
		Subtitle: p.subtitle(), Start: l.Start.Std().UTC(), Span: l.End.Sub(l.Start), Axis: "time, UTC"}
	for _, res := range p.resources {
		capacity := p.capacity(res)
		panel := svgplot.Panel{Title: fmt.Sprintf("%s: %s held", eventlog.Plain(string(res)), capacity.Unit),
			Stack: true, Height: heldHeight, Lines: p.groupLines(p.heldBy(res)), Limit: p.line(capacity, 0)}
		panel.Limit.Name = "capacity"
		f.Panels = append(f.Panels, panel)
		if rest := p.restPanel(res, capacity.Unit); len(rest.Lines) > 0 {
			f.Panels = append(f.Panels, rest)
		}
	}
	for _, kind := range []struct{ column, title string }{{gangsWait, "Gangs that wait for nodes"},
		{podsWait, "Pods without a gang that wait for a node"}} {
		if lines := p.groupLines(p.waiting(kind.column)); len(lines) > 0 {
			f.Panels = append(f.Panels, svgplot.Panel{Title: kind.title, Stack: l.By.String() != "node",
				Height: waitHeight, Lines: lines})
		}
	}
	f.Lanes = p.marks()
	f.Notes = p.notes()
	return f
}

// subtitle says what the range is.
func (p *Plot) subtitle() string {
	l := p.ledger
	entries := fmt.Sprintf("entries %d to %d", l.After+1, l.Last)
	if l.After >= l.Last {
		entries = "no entry"
	}
	text := fmt.Sprintf("%s to %s (%s), %s; values are means of %s", l.Start.Std().Format(time.RFC3339),
		l.End.Std().Format(time.RFC3339), length(l.End.Sub(l.Start).Round(time.Millisecond)), entries, length(p.step))
	if len(p.others) > 0 {
		names := make([]string, len(p.others))
		for i, name := range p.others {
			names[i] = eventlog.Plain(string(name))
		}
		text += "; not drawn: " + strings.Join(names, ", ")
	}
	return text
}

// restPanel has the columns of time that no pod held.
func (p *Plot) restPanel(res v1.ResourceName, unit string) svgplot.Panel {
	panel := svgplot.Panel{Title: fmt.Sprintf("%s: %s not held", eventlog.Plain(string(res)), unit), Stack: true,
		Pale: true, Height: restHeight}
	columns := ledger.NotHeld()
	for _, s := range p.notHeld(res) {
		var colour svgplot.Colour
		switch i := slices.IndexFunc(columns, func(c ledger.Column) bool { return c.String() == s.Column }); {
		case columns[i] == ledger.Unavailable:
			colour = svgplot.Dark
		case columns[i] == ledger.IdleNobody:
			colour = svgplot.Light
		default:
			colour = svgplot.Colour(i - 1)
		}
		panel.Lines = append(panel.Lines, p.line(s, colour))
	}
	return panel
}

// groupLines returns the lines of the groups that have any, with the colours of their places.
func (p *Plot) groupLines(list []Series) (lines []svgplot.Line) {
	for i, s := range list {
		colour := svgplot.Colour(i + 1)
		if s.Groups > 0 || s.Group == all {
			colour = svgplot.Grey
		}
		if !s.empty {
			lines = append(lines, p.line(s, colour))
		}
	}
	return lines
}

func (p *Plot) line(s Series, colour svgplot.Colour) svgplot.Line {
	line := svgplot.Line{Name: s.label, Colour: colour}
	for i, mean := range s.Mean {
		line.Points = append(line.Points, svgplot.Point{X: p.seconds(p.ends[i]), Y: mean})
	}
	return line
}

// seconds returns how far a time is behind the start.
func (p *Plot) seconds(t eventlog.Time) float64 { return t.Sub(p.ledger.Start).Seconds() }

// marks returns the rows of marks.
func (p *Plot) marks() (out []svgplot.Lane) {
	for _, lane := range lanes {
		row := svgplot.Lane{Name: lane.name, Guides: lane.guides}
		for _, e := range p.events {
			begins := slices.Contains(lane.begins, e.Kind)
			if !begins && !slices.Contains(lane.ends, e.Kind) {
				continue
			}
			row.Marks = append(row.Marks, svgplot.Mark{X: p.seconds(eventlog.Time(e.Time)), Count: countOf(e),
				Label: p.when(e) + " " + eventlog.Plain(e.Message), Hollow: !begins})
		}
		out = append(out, row)
	}
	return out
}

// countOf returns the number of pods of an event of pods, or else of nodes.
func countOf(e *events.Event) int {
	if e.Pods > 0 {
		return e.Pods
	}
	return max(1, e.NumNodes)
}
