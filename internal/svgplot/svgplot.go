// Package svgplot draws values over time, dots and curves. Each drawing is one self-contained SVG file: without fonts,
// scripts or style sheets. It is legible on light and dark ground, and the same figure gives the same bytes.
//
// It owns the layout and the style. Every text is measured before it is placed. It is wrapped, shortened or left out
// where it would leave the picture or meet another text. The package never reads or thins data: its callers bound the
// amount.
//
// gonum.org/v1/plot and github.com/go-analyze/charts were tried: neither shortens, wraps or moves a text that does not
// fit, and charts has no continuous time axis. That layout would stay ours, and gonum adds 8 MB to the program and had
// no release for a year.
//
// Start reading at Figure, then WriteSVG; dots.go and curves.go have the other two drawings.
package svgplot

import (
	"io"
	"time"
)

// Figure is panels one below the other, with one time axis.
type Figure struct {
	// Title and Subtitle are at the top. The subtitle is wrapped.
	Title, Subtitle string
	// Start is the instant at which the time axis begins. The axis is in its time zone, and Axis names it.
	Start  time.Time
	Span   time.Duration
	Axis   string
	Panels []Panel
	// Strip, if it has bars, is below the panels, and Lanes are below it.
	Strip Strip
	Lanes []Lane
	// Notes are lines of text below the time axis.
	Notes []Note
}

// Note is a line of text with a head, such as a time.
type Note struct{ Head, Text string }

// Panel is one or several lines over time, with an axis from 0 up.
type Panel struct {
	// Title names the values and their unit.
	Title string
	// Share says that values are shares of a whole: the axis is in percent, and goes to 100 unless all are below 50 or
	// one is above.
	Share bool
	// Stack says that the lines are parts of a sum: areas on top of each other, the first one at the bottom. Pale gives
	// them lighter colours.
	Stack, Pale bool
	// Height is the height of the panel's inside, in pixels.
	Height float64
	// Lines have a legend if there are several, or if they are stacked.
	Lines []Line
	// Limit, if it has points, is a dashed line.
	Limit Line
}

// Line is a value that holds from each point to the next, and from the last to the end.
type Line struct {
	Name   string
	Points []Point
	Colour Colour
}

// Point is a value that holds from X, in seconds behind the start.
type Point struct{ X, Y float64 }

// Colour is a colour of lines. The zero value is one by the place of the line. From 1 on they are the colours of the
// palette, which has Colours of them.
type Colour int

// Colours is the number of colours. Grey, Light and Dark are beside them.
const (
	Colours = 8

	Grey  Colour = Colours + 1
	Light Colour = Colours + 2
	Dark  Colour = Colours + 3
)

// Strip is bars along the time axis.
type Strip struct {
	// Title names the bars; Waiting and Taken name their two parts.
	Title, Waiting, Taken string
	Bars                  []Bar
}

// Bar is a thing that is waited for from Made, in seconds, and in use from From to Until.
type Bar struct {
	// Label is shown under a pointing device.
	Label             string
	Made, From, Until float64
}

// Lane is a row of marks along the time axis.
type Lane struct {
	Name  string
	Marks []Mark
	// Guides says that filled marks have a line through the panels.
	Guides bool
}

// Mark is an instant at which something happened, X seconds behind the start.
type Mark struct {
	X float64
	// Count is shown beside the mark if it is above 1 and there is room. Marks at one place are one mark.
	Count int
	// Label is shown under a pointing device.
	Label string
	// Hollow marks the end of something that a filled mark begins.
	Hollow bool
}

// WriteSVG draws the figure. The error is the writer's.
func WriteSVG(w io.Writer, f Figure) error {
	d := &drawing{left: leftOf(f), f: f}
	d.heading(f.Title, f.Subtitle)
	d.ticks = ticksOf(f.Start, f.Span)
	for _, lane := range f.Lanes {
		d.guide(lane)
	}
	for i, p := range f.Panels {
		d.panel(i, p)
	}
	if len(f.Strip.Bars) > 0 {
		d.strip()
	}
	if len(f.Lanes) > 0 {
		d.lanes()
	}
	d.timeAxis()
	d.notes()
	return d.writeTo(w, f.Title, f.Subtitle)
}

// The layout, in pixels.
const (
	width      = 1000.0
	margin     = 24.0 // at the right, and at the left of titles
	leastLeft  = 64.0
	mostLeft   = 240.0
	lineHeight = 17.0
	headroom   = 34.0 // above a panel, for its title
	barHeight  = 9.0
	laneHeight = 20.0
)

// notes draws the lines below the time axis.
func (d *drawing) notes() {
	const mostHead = 200
	indent := 0.0
	for _, note := range d.f.Notes {
		indent = max(indent, 10+min(mostHead, textWidth(plain(note.Head))))
	}
	for _, note := range d.f.Notes {
		if note.Head != "" {
			d.name(margin, d.y, "head", "", note.Head, mostHead)
		}
		d.cut(margin+indent, d.y, "", note.Text, width-2*margin-indent)
		d.y += lineHeight
	}
}

// leftOf returns where the inside begins: the labels of the axes and the names of the lanes are left of it.
func leftOf(f Figure) float64 {
	left := leastLeft
	for _, p := range f.Panels {
		left = max(left, valueScale(p).widest()+16)
	}
	for _, lane := range f.Lanes {
		left = max(left, textWidth(lane.Name)+20)
	}
	return min(left, mostLeft)
}

// inside is the width of a panel's inside.
func (d *drawing) inside() float64 { return width - margin - d.left }

// x returns the position of an instant.
func (d *drawing) x(seconds float64) float64 {
	span := d.f.Span.Seconds()
	if span <= 0 {
		return d.left
	}
	return d.left + d.inside()*min(max(seconds/span, 0), 1)
}
