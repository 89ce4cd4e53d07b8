// Package svgplot draws values over time, bars and curves. Each drawing is one self-contained SVG file: without fonts,
// scripts or style sheets. It is legible on light and dark ground.
//
// It owns the layout and the style. It never reads or thins data: its callers bound the amount.
//
// Start reading at Figure, then WriteSVG; bars.go has the other two.
package svgplot

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"
)

// Figure is panels one below the other, with one time axis.
type Figure struct {
	// Title and Subtitle are at the top.
	Title, Subtitle string
	// Since names, for people, the instant at which the time axis begins.
	Since string
	// Span is the length of the time axis, in seconds.
	Span   float64
	Panels []Panel
	// Strip, if it has bars, is below the panels.
	Strip Strip
}

// Panel is one or several lines over time, with an axis from 0 up.
type Panel struct {
	// Title names the values and their unit.
	Title string
	// Share says that values are shares of a whole: the axis is in percent, and goes to 100 unless all are below 50 or
	// one is above.
	Share bool
	// Height is the height of the panel's inside, in pixels.
	Height float64
	// Lines have a legend if there are several; from the sixth on their colours repeat.
	Lines []Line
}

// Line is a value that holds from each point to the next, and from the last to the end.
type Line struct {
	Name   string
	Points []Point
}

// Point is a value that holds from X, in seconds.
type Point struct{ X, Y float64 }

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

// The layout, in pixels.
const (
	width     = 1000.0
	left      = 64.0
	right     = 24.0
	inside    = width - left - right
	top       = 64.0
	headroom  = 36.0 // above a panel, for its title
	axisRoom  = 46.0
	barHeight = 9.0
)

// style has a class for everything that has a colour. The colours of lines are the ones of Okabe and Ito, which people
// with colour blindness can tell apart, a little lighter on dark ground.
const style = `
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#57606a}
.title{font-size:16px;font-weight:600;fill:#1f2328}
.head{font-weight:600;fill:#1f2328}
.ground{fill:#ffffff}
.grid{stroke:#d8dee4;stroke-width:1;shape-rendering:crispEdges}
.axis{stroke:#8c959f;stroke-width:1;shape-rendering:crispEdges}
.line{fill:none;stroke-width:1.25;stroke-linejoin:round}
.area{stroke:none;opacity:.13}
.s0{stroke:#0072b2}.f0{fill:#0072b2}
.s1{stroke:#d55e00}.f1{fill:#d55e00}
.s2{stroke:#009e73}.f2{fill:#009e73}
.s3{stroke:#cc79a7}.f3{fill:#cc79a7}
.s4{stroke:#a97700}.f4{fill:#a97700}
.bar{stroke:#ffffff;stroke-width:.5}
.waits{fill:#a97700;opacity:.4}
.taken{fill:#a97700}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}
.title,.head{fill:#f0f6fc}
.ground{fill:#0d1117}
.grid{stroke:#262c36}
.axis{stroke:#656c76}
.area{opacity:.2}
.s0{stroke:#56b4e9}.f0{fill:#56b4e9}
.s1{stroke:#f0883e}.f1{fill:#f0883e}
.s2{stroke:#2fbf91}.f2{fill:#2fbf91}
.s3{stroke:#e29cc4}.f3{fill:#e29cc4}
.s4{stroke:#e3b341}.f4{fill:#e3b341}
.bar{stroke:#0d1117}
.waits,.taken{fill:#e3b341}
}
`

const colours = 5

// WriteSVG draws the figure. The error is the writer's.
func WriteSVG(w io.Writer, f Figure) error {
	d := &drawing{w: bufio.NewWriter(w), f: f, scale: timeScale(f.Span)}
	d.open(f.Title, f.Subtitle, d.height())
	y := top
	for i, p := range f.Panels {
		y = d.panel(y, i, p)
	}
	if len(f.Strip.Bars) > 0 {
		y = d.strip(y)
	}
	d.timeAxis(y)
	d.printf("</svg>\n")
	return d.w.Flush() // of the write that failed
}

// drawing is the state while a figure is written.
type drawing struct {
	w     *bufio.Writer
	f     Figure
	scale scale // of time
}

// height is the total height.
func (d *drawing) height() float64 {
	h := top + axisRoom
	for _, p := range d.f.Panels {
		h += headroom + p.Height
	}
	if len(d.f.Strip.Bars) > 0 {
		h += headroom + stripHeight
	}
	return h
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d.w, format, args...) }

func (d *drawing) text(x, y float64, class, anchor, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	d.printf(`<text%s%s x="%s" y="%s">%s</text>`+"\n", class, anchor, num(x), num(y), escape(text))
}

func (d *drawing) rule(class string, x1, y1, x2, y2 float64) {
	d.printf(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

// x returns the position of an instant.
func (d *drawing) x(seconds float64) float64 {
	if d.f.Span <= 0 {
		return left
	}
	return left + inside*min(max(seconds/d.f.Span, 0), 1)
}

// panel draws the i-th panel below y and returns its lower end.
func (d *drawing) panel(y float64, i int, p Panel) float64 {
	d.text(left, y+headroom-10, "head", "", p.Title)
	if len(p.Lines) > 1 {
		d.legend(y+headroom-10, i, p.Lines)
	}
	y += headroom
	s := valueScale(p)
	bottom := y + p.Height
	at := func(v float64) float64 { return bottom - p.Height*min(max(v/s.top, 0), 1) }
	for k := 0; float64(k)*s.step <= s.top*1.0001; k++ {
		v := float64(k) * s.step
		d.rule("grid", left, at(v), width-right, at(v))
		d.text(left-8, at(v)+4, "", "end", s.label(v))
	}
	d.instants("grid", y, bottom)
	for k, line := range p.Lines {
		if len(line.Points) > 0 {
			d.line(colourOf(i, k, len(p.Lines)), line, at, bottom, len(p.Lines) == 1)
		}
	}
	d.rule("axis", left, bottom, width-right, bottom)
	return bottom
}

// colourOf gives the lines of one panel different colours, and the only lines of two panels too.
func colourOf(panel, line, lines int) int {
	if lines == 1 {
		return panel % colours
	}
	return line % colours
}

// line draws a line as steps, with the area below it if area is set.
func (d *drawing) line(colour int, l Line, at func(float64) float64, bottom float64, area bool) {
	var path strings.Builder
	for i, p := range l.Points {
		if i == 0 {
			fmt.Fprintf(&path, "M%s %s", num(d.x(p.X)), num(at(p.Y)))
			continue
		}
		fmt.Fprintf(&path, "H%sV%s", num(d.x(p.X)), num(at(p.Y)))
	}
	fmt.Fprintf(&path, "H%s", num(width-right))
	if area {
		d.printf(`<path class="area f%d" d="%sV%sH%sZ"/>`+"\n", colour, path.String(), num(bottom),
			num(d.x(l.Points[0].X)))
	}
	d.printf(`<path class="line s%d" d="%s"/>`+"\n", colour, path.String())
}

// legend names the lines, right-aligned.
func (d *drawing) legend(y float64, panel int, lines []Line) {
	x := width - right
	for k := len(lines) - 1; k >= 0; k-- {
		x = d.key(x, y, lines[k].Name, fmt.Sprintf("f%d", colourOf(panel, k, len(lines))))
	}
}

// key explains a colour, ending at x or before, and returns the right end for the previous key.
func (d *drawing) key(x, y float64, name, class string) float64 {
	x -= textWidth(name)
	d.text(x, y, "", "", name)
	d.printf(`<rect class="%s" x="%s" y="%s" width="14" height="4" rx="1"/>`+"\n", class, num(x-20), num(y-6))
	return x - 36
}

// textWidth guesses how wide a text is.
func textWidth(s string) float64 { return 6.5 * float64(len([]rune(s))) }

// instants draws a rule at each of the time axis' marks.
func (d *drawing) instants(class string, from, to float64) {
	for k := 0; float64(k)*d.scale.step <= d.f.Span*1.0001; k++ {
		x := d.x(float64(k) * d.scale.step)
		d.rule(class, x, from, x, to)
	}
}

// timeAxis draws the marks and the name of the time axis.
func (d *drawing) timeAxis(y float64) {
	for k := 0; float64(k)*d.scale.step <= d.f.Span*1.0001; k++ {
		v := float64(k) * d.scale.step
		d.rule("axis", d.x(v), y, d.x(v), y+5)
		d.text(d.x(v), y+18, "", "middle", d.scale.label(v))
	}
	d.text(left+inside/2, y+36, "", "middle", "virtual time in "+d.scale.unit+" since "+d.f.Since)
}

// escape makes a text fit for XML, which forbids some control characters.
func escape(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}
