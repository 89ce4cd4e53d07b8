package svgplot

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// Bars is groups of horizontal bars on a logarithmic axis.
type Bars struct {
	// Title and Subtitle are at the top.
	Title, Subtitle string
	// Series name the bars of each group.
	Series []string
	Groups []BarGroup
}

// BarGroup is a bar for each series.
type BarGroup struct {
	Name   string
	Values []BarValue
}

// BarValue is as long as its value, which is to be above 0, and has its label behind it.
type BarValue struct {
	Value float64
	Label string
}

// The layout of bars, in pixels.
const (
	barThick   = 16.0
	barStep    = 19.0
	groupGap   = 14.0
	groupNames = 110.0
	labelRoom  = 110.0
)

// WriteBars draws them. The error is the writer's.
func WriteBars(w io.Writer, b Bars) error {
	d := &drawing{w: bufio.NewWriter(w)}
	var values []float64
	height := top + headroom + axisRoom
	for _, g := range b.Groups {
		height += groupGap + barStep*float64(len(g.Values))
		for _, v := range g.Values {
			values = append(values, v.Value)
		}
	}
	begin := left + groupNames - 40
	axis := decades(values, begin, width-right-labelRoom)
	d.open(b.Title, b.Subtitle, height)
	x := width - right
	for k := len(b.Series) - 1; k >= 0; k-- {
		x = d.key(x, top+headroom-16, b.Series[k], fmt.Sprintf("f%d", k%colours))
	}
	y := top + headroom
	bottom := height - axisRoom
	for v := axis.low; v <= axis.high; v++ {
		at := axis.at(math.Pow(10, float64(v)))
		d.rule("grid", at, y, at, bottom)
		d.text(at, bottom+18, "", "middle", whole(math.Pow(10, float64(v))))
	}
	for _, g := range b.Groups {
		y += groupGap
		d.text(begin-10, y+barStep*float64(len(g.Values))/2+2, "head", "end", g.Name)
		for k, v := range g.Values {
			end := axis.at(v.Value)
			d.printf(`<rect class="f%d" x="%s" y="%s" width="%s" height="%s"/>`+"\n", k%colours, num(begin), num(y),
				num(max(1, end-begin)), num(barThick))
			d.text(max(begin+1, end)+6, y+barThick-4, "", "", v.Label)
			y += barStep
		}
	}
	d.rule("axis", begin, top+headroom, begin, bottom)
	d.printf("</svg>\n")
	return d.w.Flush()
}

// Curves is lines over a logarithmic axis, with another one at the side.
type Curves struct {
	// Title and Subtitle are at the top.
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
	d := &drawing{w: bufio.NewWriter(w)}
	var xs, ys []float64
	lines := make([][]Point, len(c.Lines))
	for k, l := range c.Lines {
		for _, p := range l.Points {
			if p.X > 0 && p.Y > 0 && !math.IsInf(p.X, 1) && !math.IsInf(p.Y, 1) {
				xs, ys, lines[k] = append(xs, p.X), append(ys, p.Y), append(lines[k], p)
			}
		}
	}
	bottom := top + headroom + curveHeight
	d.open(c.Title, c.Subtitle, bottom+axisRoom)
	d.text(left, top+headroom-14, "head", "", c.Y)
	x := width - right
	for k := len(c.Lines) - 1; k >= 0; k-- {
		x = d.key(x, top+headroom-14, c.Lines[k].Name, fmt.Sprintf("f%d", k%colours))
	}
	across, up := spanned(xs, left+20, width-right-60), decades(ys, bottom, top+headroom)
	for v := up.low; v <= up.high; v++ {
		at := up.at(math.Pow(10, float64(v)))
		d.rule("grid", left, at, width-right, at)
		d.text(left-8, at+4, "", "end", whole(math.Pow(10, float64(v))))
	}
	marked := map[float64]bool{}
	for _, v := range xs {
		if !marked[v] {
			marked[v] = true
			d.rule("axis", across.at(v), bottom, across.at(v), bottom+5)
			d.text(across.at(v), bottom+18, "", "middle", whole(v))
		}
	}
	for k, points := range lines {
		path := ""
		for i, p := range points {
			command := "L"
			if i == 0 {
				command = "M"
			}
			px, py := across.at(p.X), up.at(p.Y)
			path += fmt.Sprintf("%s%s %s", command, num(px), num(py))
			d.printf(`<circle class="f%d" cx="%s" cy="%s" r="3"><title>%s %s, %s %s</title></circle>`+"\n",
				k%colours, num(px), num(py), whole(p.X), escape(c.X), whole(p.Y), escape(c.Y))
		}
		d.printf(`<path class="line s%d" d="%s"/>`+"\n", k%colours, path)
	}
	d.rule("axis", left, bottom, width-right, bottom)
	d.text(left+inside/2, bottom+36, "", "middle", c.X)
	d.printf("</svg>\n")
	return d.w.Flush()
}

// open begins a file of that height.
func (d *drawing) open(title, subtitle string, height float64) {
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img">`+"\n",
		num(width), num(height), num(width), num(height))
	d.printf("<title>%s</title>\n<desc>%s</desc>\n<style>%s</style>\n", escape(title), escape(subtitle), style)
	d.printf(`<rect class="ground" width="%s" height="%s"/>`+"\n", num(width), num(height))
	d.text(left, 28, "title", "", title)
	d.text(left, 46, "", "", subtitle)
}

// logAxis is a logarithmic axis: a value of 10 to the from is at begin, one of 10 to the to at end.
type logAxis struct {
	from, to, begin, end float64
	// low and high are the first and last power of ten that has a mark.
	low, high int
}

// decades returns the axis from one power of ten to another that has room for all values.
func decades(values []float64, begin, end float64) logAxis {
	low, high := logBounds(values)
	a := logAxis{begin: begin, end: end, low: int(math.Floor(low)), high: int(math.Ceil(high))}
	if a.low == a.high {
		a.high++
	}
	a.from, a.to = float64(a.low), float64(a.high)
	return a
}

// spanned returns the axis that begins and ends with the values.
func spanned(values []float64, begin, end float64) logAxis {
	low, high := logBounds(values)
	if low == high {
		high++
	}
	return logAxis{from: low, to: high, begin: begin, end: end}
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
	if v <= 0 || math.IsNaN(v) {
		return a.begin
	}
	share := (math.Log10(v) - a.from) / (a.to - a.from)
	return a.begin + (a.end-a.begin)*min(max(share, 0), 1)
}

// whole writes a number with commas between thousands.
func whole(v float64) string {
	if v < 1 {
		return num(v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
