package svgplot

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
)

// style has a class for everything that has a colour. The first colours are the ones of Okabe and Ito, which people
// with colour blindness can tell apart, a little lighter on dark ground.
const style = `
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#57606a}
.title{font-size:16px;font-weight:600;fill:#1f2328}
.head{font-weight:600;fill:#1f2328}
.over{paint-order:stroke;stroke:#ffffff;stroke-width:4px;stroke-linejoin:round}
.ground{fill:#ffffff}
.grid{stroke:#d8dee4;stroke-width:1;shape-rendering:crispEdges}
.axis{stroke:#8c959f;stroke-width:1;shape-rendering:crispEdges}
.guide{stroke:#1f2328;stroke-width:1;stroke-dasharray:2 3;opacity:.75}
.line{fill:none;stroke-width:1.25;stroke-linejoin:round}
.limit{fill:none;stroke:#1f2328;stroke-width:1.25;stroke-dasharray:5 3}
.area{stroke:none;opacity:.13}
.part{stroke:none;opacity:.85}
.pale{stroke:none;opacity:.5}
.mark{fill:#1f2328;stroke:#1f2328;stroke-width:1.25}
.hollow{fill:#ffffff}
.s1{stroke:#0072b2}.f1{fill:#0072b2}
.s2{stroke:#d55e00}.f2{fill:#d55e00}
.s3{stroke:#009e73}.f3{fill:#009e73}
.s4{stroke:#cc79a7}.f4{fill:#cc79a7}
.s5{stroke:#a97700}.f5{fill:#a97700}
.s6{stroke:#56b4e9}.f6{fill:#56b4e9}
.s7{stroke:#6f4fb0}.f7{fill:#6f4fb0}
.s8{stroke:#8aa62b}.f8{fill:#8aa62b}
.s9{stroke:#8c959f}.f9{fill:#8c959f}
.s10{stroke:#c9d1d9}.f10{fill:#c9d1d9}
.s11{stroke:#32383f}.f11{fill:#32383f}
.bar{stroke:#ffffff;stroke-width:.5}
.waits{fill:#a97700;opacity:.4}
.taken{fill:#a97700}
@media (prefers-color-scheme:dark){
text{fill:#9198a1}
.title,.head{fill:#f0f6fc}
.over{stroke:#0d1117}
.ground{fill:#0d1117}
.grid{stroke:#262c36}
.axis{stroke:#656c76}
.guide{stroke:#f0f6fc}
.limit{stroke:#f0f6fc}
.area{opacity:.2}
.mark{fill:#f0f6fc;stroke:#f0f6fc}
.hollow{fill:#0d1117}
.s1{stroke:#3f8fd6}.f1{fill:#3f8fd6}
.s2{stroke:#f0883e}.f2{fill:#f0883e}
.s3{stroke:#2fbf91}.f3{fill:#2fbf91}
.s4{stroke:#e29cc4}.f4{fill:#e29cc4}
.s5{stroke:#e3b341}.f5{fill:#e3b341}
.s6{stroke:#8fd0ff}.f6{fill:#8fd0ff}
.s7{stroke:#a78bfa}.f7{fill:#a78bfa}
.s8{stroke:#b5cf5a}.f8{fill:#b5cf5a}
.s9{stroke:#656c76}.f9{fill:#656c76}
.s10{stroke:#3d444d}.f10{fill:#3d444d}
.s11{stroke:#b7bdc8}.f11{fill:#b7bdc8}
.bar{stroke:#0d1117}
.waits,.taken{fill:#e3b341}
}
`

// drawing is the state while a figure is drawn, from top to bottom.
type drawing struct {
	body   bytes.Buffer
	y      float64 // up to where it is drawn
	left   float64 // where the inside of panels begins
	f      Figure
	ticks  []tick
	guides []float64
}

// heading draws the title and the subtitle.
func (d *drawing) heading(title, subtitle string) {
	d.y = 28
	d.labelled(margin, d.y, "title", "", title, shortened(plain(title), width-2*margin, titleSize))
	for _, line := range wrapped(plain(subtitle), width-2*margin) {
		d.y += lineHeight
		d.text(margin, d.y, "", "", line)
	}
	d.y += 8
}

// writeTo writes the file.
func (d *drawing) writeTo(w io.Writer, title, subtitle string) error {
	var b bytes.Buffer
	height := num(math.Ceil(d.y + 6))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" `+
		`role="img">`+"\n", num(width), height)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n<style>%s</style>\n", escape(title), escape(subtitle), style)
	fmt.Fprintf(&b, `<rect class="ground" width="%s" height="%s"/>`+"\n", num(width), height)
	b.Write(d.body.Bytes())
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.body, format, args...) }

// text draws a text that was found to fit.
func (d *drawing) text(x, y float64, class, anchor, text string) {
	d.labelled(x, y, class, anchor, text, text)
}

// labelled draws the short form of a full text, which is shown under a pointing device.
func (d *drawing) labelled(x, y float64, class, anchor, full, text string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	more := ""
	if text != full && text != plain(full) {
		more = "<title>" + escape(full) + "</title>"
	}
	d.printf(`<text%s%s x="%s" y="%s">%s%s</text>`+"\n", class, anchor, num(x), num(y), more, escape(text))
}

// name draws a name that is shortened to a width.
func (d *drawing) name(x, y float64, class, anchor, name string, most float64) {
	d.labelled(x, y, class, anchor, name, shortened(plain(name), most, fontSize))
}

// cut draws the beginning of a text.
func (d *drawing) cut(x, y float64, class, text string, most float64) {
	d.labelled(x, y, class, "", text, cutOff(plain(text), most))
}

func (d *drawing) rule(class string, x1, y1, x2, y2 float64) {
	d.printf(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

// num writes a coordinate: hundredths of a pixel are enough.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
