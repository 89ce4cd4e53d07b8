package svgplot

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Curves is lines over a logarithmic axis, with another one at the side.
type Curves struct {
	// Title and Subtitle are at the top. The subtitle is wrapped.
	Title, Subtitle string
	// X and Y are the names of the axes.
	X, Y string
	// Lines have a legend. Points of which a value is not above 0, or is infinite, are left out.
	Lines []Line
}

// curveHeight is the height of the inside, in pixels.
const curveHeight = 320.0

// WriteCurves draws them, with a mark at each point. The error is the writer's.
func WriteCurves(w io.Writer, c Curves) error {
	d := &drawing{left: leastLeft}
	var xs, ys []float64
	var keys []key
	lines := make([][]Point, len(c.Lines))
	for k, l := range c.Lines {
		for _, p := range l.Points {
			if p.X > 0 && p.Y > 0 && !math.IsInf(p.X, 1) && !math.IsInf(p.Y, 1) {
				xs, ys, lines[k] = append(xs, p.X), append(ys, p.Y), append(lines[k], p)
			}
		}
		keys = append(keys, key{name: l.Name, class: "f" + curveColour(l, k)})
	}
	d.heading(c.Title, c.Subtitle)
	up := decades(ys, 0, 0)
	for _, v := range up.marks() {
		d.left = max(d.left, margin+8+textWidth(number(v)))
	}
	d.title(c.Y, keys)
	top, bottom := d.y, d.y+curveHeight
	up.begin, up.end = bottom, top
	across := spanned(xs, d.left+20, width-margin-60)
	for _, v := range up.marks() {
		d.rule("grid", d.left, up.at(v), width-margin, up.at(v))
		d.text(d.left-8, up.at(v)+4, "", "end", number(v))
	}
	slices.Sort(xs)
	marks := row{end: margin}
	for _, v := range slices.Compact(xs) {
		d.rule("axis", across.at(v), bottom, across.at(v), bottom+5)
		marks.centred(d, across.at(v), bottom+18, number(v))
	}
	for k, points := range lines {
		d.curve(curveColour(c.Lines[k], k), points, across, up, c)
	}
	d.rule("axis", d.left, bottom, width-margin, bottom)
	d.y = bottom + 18 + lineHeight
	d.text(d.left+d.inside()/2, d.y, "", "middle", cutOff(plain(c.X), d.inside()))
	d.y += 6
	return d.writeTo(w, c.Title, c.Subtitle)
}

func curveColour(l Line, k int) string {
	if l.Colour == 0 {
		return fmt.Sprint(1 + k%Colours)
	}
	return fmt.Sprint(int(l.Colour))
}

func (d *drawing) curve(colour string, points []Point, across, up logAxis, c Curves) {
	var path strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		px, py := across.at(p.X), up.at(p.Y)
		fmt.Fprintf(&path, "%s%s %s", command, num(px), num(py))
		d.printf(`<circle class="f%s" cx="%s" cy="%s" r="3"><title>%s %s, %s %s</title></circle>`+"\n", colour, num(px),
			num(py), number(p.X), escape(c.X), number(p.Y), escape(c.Y))
	}
	if path.Len() > 0 {
		d.printf(`<path class="line s%s" d="%s"/>`+"\n", colour, path.String())
	}
}

// logAxis is a logarithmic axis: a value of 10 to the from is at begin, one of 10 to the to at end.
type logAxis struct{ from, to, begin, end float64 }

// decades returns the axis from one power of ten to another that has room for all values.
func decades(values []float64, begin, end float64) logAxis {
	low, high := logBounds(values)
	low, high = math.Floor(low), math.Ceil(high)
	if low == high {
		high++
	}
	return logAxis{low, high, begin, end}
}

// spanned returns the axis that begins and ends with the values.
func spanned(values []float64, begin, end float64) logAxis {
	low, high := logBounds(values)
	if low == high {
		high++
	}
	return logAxis{low, high, begin, end}
}

// maxDecades is the largest number of marks of an axis.
const maxDecades = 12

// marks returns powers of ten.
func (a logAxis) marks() (all []float64) {
	step := max(1, math.Ceil((a.to-a.from)/maxDecades))
	for v := math.Ceil(a.from); v <= a.to; v += step {
		all = append(all, math.Pow(10, v))
	}
	return all
}

// logBounds returns the logarithms of the least value above 0 and of the greatest; 0 and 1 if there is none.
func logBounds(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 1) {
			low, high = min(low, math.Log10(v)), max(high, math.Log10(v))
		}
	}
	if low > high {
		return 0, 1
	}
	return low, high
}

// at returns the position of a value.
func (a logAxis) at(v float64) float64 {
	if !(v > 0) {
		return a.begin
	}
	share := (math.Log10(v) - a.from) / (a.to - a.from)
	return a.begin + (a.end-a.begin)*min(max(share, 0), 1)
}
