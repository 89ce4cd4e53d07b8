package svgplot

import (
	"fmt"
	"io"
	"math"
)

// Dots is groups of values on a logarithmic axis. A dot has a place and no length, so the axis needs no zero.
type Dots struct {
	// Title and Subtitle are at the top. The subtitle is wrapped.
	Title, Subtitle string
	// Axis is the name of the axis.
	Axis string
	// Series name the values of each group.
	Series []string
	Groups []DotGroup
}

// DotGroup is a value for each series.
type DotGroup struct {
	Name   string
	Values []Dot
}

// Dot is a value, which is to be above 0, with a label beside it. Another value has the label alone.
type Dot struct {
	Value float64
	Label string
}

// The layout of dots, in pixels.
const (
	dotStep   = 18.0
	groupGap  = 12.0
	mostGroup = 300.0
	mostLabel = 200.0
	radius    = 4.5
)

// WriteDots draws them. The error is the writer's.
func WriteDots(w io.Writer, p Dots) error {
	d := &drawing{left: leastLeft}
	var values []float64
	labels := 0.0
	for _, g := range p.Groups {
		d.left = max(d.left, margin+10+min(mostGroup, textWidth(plain(g.Name))))
		for _, v := range g.Values {
			values = append(values, v.Value)
			labels = max(labels, min(mostLabel, textWidth(plain(v.Label))))
		}
	}
	d.heading(p.Title, p.Subtitle)
	axis := decades(values, d.left+8, width-margin-labels-radius-6)
	var keys []key
	for k, name := range p.Series {
		keys = append(keys, key{name: name, class: fmt.Sprintf("f%d", 1+k%Colours)})
	}
	d.title("", keys)
	top := d.y
	bottom := top + groupGap/2
	for _, g := range p.Groups {
		bottom += groupGap + g.height()
	}
	marks := row{end: margin}
	for _, v := range axis.marks() {
		d.rule("grid", axis.at(v), top, axis.at(v), bottom)
		marks.centred(d, axis.at(v), bottom+18, number(v))
	}
	for _, g := range p.Groups {
		d.dotGroup(g, axis)
	}
	d.rule("axis", d.left, top, d.left, bottom)
	d.rule("axis", d.left, bottom, width-margin, bottom)
	d.text((axis.begin+axis.end)/2, bottom+18+lineHeight, "", "middle", cutOff(plain(p.Axis), axis.end-axis.begin))
	d.y = bottom + 18 + lineHeight + 6
	return d.writeTo(w, p.Title, p.Subtitle)
}

func (d *drawing) dotGroup(g DotGroup, axis logAxis) {
	d.y += groupGap
	end := d.y + g.height()
	d.name(d.left-10, (d.y+end)/2+4, "head", "end", g.Name, mostGroup)
	for k, v := range g.Values {
		y := d.y + dotStep/2
		x := axis.at(v.Value)
		d.rule("grid", d.left, y, axis.end, y)
		if v.Value > 0 && !math.IsInf(v.Value, 1) {
			d.printf(`<circle class="f%d" cx="%s" cy="%s" r="%s"/>`+"\n", 1+k%Colours, num(x), num(y), num(radius))
		}
		d.name(x+radius+5, y+4, "over", "", v.Label, mostLabel)
		d.y += dotStep
	}
	d.y = end
}

// height is the height of the rows; the name of a group without values needs one.
func (g DotGroup) height() float64 { return dotStep * float64(max(1, len(g.Values))) }
