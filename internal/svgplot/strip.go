package svgplot

import (
	"cmp"
	"math"
	"slices"
)

// stripHeight is the height of a strip's inside: a row of waiting parts above a row of taken parts.
const stripHeight = 2*barHeight + 14

// maxBars is the largest number of bars that are drawn one by one. Beyond that, bars that touch each other become one.
const maxBars = 400

// strip draws the bars.
func (d *drawing) strip() {
	s := d.f.Strip
	d.title(s.Title, []key{{name: s.Waiting, class: "waits"}, {name: s.Taken, class: "taken"}})
	d.instants("grid", d.y, d.y+stripHeight)
	d.bars("waits", d.y+4, func(b Bar) (float64, float64) { return b.Made, b.From })
	d.bars("taken", d.y+10+barHeight, func(b Bar) (float64, float64) { return b.From, b.Until })
	d.y += stripHeight
	d.rule("axis", d.left, d.y, width-margin, d.y)
}

// extent is a bar's place on the time axis.
type extent struct {
	from, to float64
	label    string
}

// bars draws a part of each bar.
func (d *drawing) bars(class string, y float64, part func(Bar) (from, to float64)) {
	var all []extent
	for _, b := range d.f.Strip.Bars {
		if from, to := part(b); to >= from && from <= d.f.Span.Seconds() {
			all = append(all, extent{d.x(from), d.x(to), b.Label})
		}
	}
	if len(all) > maxBars {
		all = merged(all)
	}
	for _, e := range all {
		d.printf(`<rect class="bar %s" x="%s" y="%s" width="%s" height="%s">`, class, num(e.from), num(y),
			num(max(e.to-e.from, 1.5)), num(barHeight))
		if e.label != "" {
			d.printf("<title>%s</title>", escape(e.label))
		}
		d.printf("</rect>\n")
	}
}

// merged joins bars that share a pixel, so that there are at most half as many as pixels.
func merged(all []extent) []extent {
	for i, e := range all {
		all[i] = extent{from: math.Floor(e.from), to: math.Ceil(e.to)}
	}
	slices.SortFunc(all, func(a, b extent) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	out := all[:1]
	for _, e := range all[1:] {
		if last := &out[len(out)-1]; e.from <= last.to {
			last.to = max(last.to, e.to)
		} else {
			out = append(out, e)
		}
	}
	return out
}
