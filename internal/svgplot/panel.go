package svgplot

import (
	"fmt"
	"slices"
	"strings"
)

// panel draws the i-th panel.
func (d *drawing) panel(i int, p Panel) {
	var keys []key
	if len(p.Lines) > 1 || p.Stack && len(p.Lines) > 0 {
		for k, l := range p.Lines {
			keys = append(keys, key{l.Name, "f" + colourOf(i, k, p), p.Stack, p.Pale})
		}
	}
	if len(p.Limit.Points) > 0 {
		keys = append(keys, key{name: p.Limit.Name})
	}
	d.title(p.Title, keys)
	s := valueScale(p)
	top, bottom := d.y, d.y+p.Height
	at := func(v float64) float64 { return bottom - p.Height*min(max(v/s.top, 0), 1) }
	for k := 0; float64(k)*s.step <= s.top*1.0001; k++ {
		v := float64(k) * s.step
		d.rule("grid", d.left, at(v), width-margin, at(v))
		d.name(d.left-8, at(v)+4, "", "end", s.label(v), d.left-16)
	}
	d.instants("grid", top, bottom)
	if p.Stack {
		d.stack(i, p, at)
	} else {
		for k, line := range p.Lines {
			d.line(colourOf(i, k, p), line, at, bottom, len(p.Lines) == 1)
		}
	}
	if len(p.Limit.Points) > 0 {
		d.printf(`<path class="limit" d="%s"/>`+"\n", d.steps(p.Limit, at))
	}
	for _, x := range d.guides {
		d.rule("guide", x, top, x, bottom)
	}
	d.rule("axis", d.left, bottom, width-margin, bottom)
	d.y = bottom
}

// colourOf gives the lines of one panel different colours, and the only lines of two panels too.
func colourOf(panel, line int, p Panel) string {
	c := int(p.Lines[line].Colour)
	if c == 0 && len(p.Lines) == 1 {
		c = 1 + panel%Colours
	} else if c == 0 {
		c = 1 + line%Colours
	}
	return fmt.Sprint(c)
}

// steps is a line's path.
func (d *drawing) steps(l Line, at func(float64) float64) string {
	var path strings.Builder
	for i, p := range l.Points {
		if i == 0 {
			fmt.Fprintf(&path, "M%s %s", num(d.x(p.X)), num(at(p.Y)))
			continue
		}
		fmt.Fprintf(&path, "H%sV%s", num(d.x(p.X)), num(at(p.Y)))
	}
	return path.String() + "H" + num(width-margin)
}

// line draws a line as steps, with the area below it if area is set.
func (d *drawing) line(colour string, l Line, at func(float64) float64, bottom float64, area bool) {
	if len(l.Points) == 0 {
		return
	}
	path := d.steps(l, at)
	if area {
		d.printf(`<path class="area f%s" d="%sV%sH%sZ"/>`+"\n", colour, path, num(bottom), num(d.x(l.Points[0].X)))
	}
	d.printf(`<path class="line s%s" d="%s"/>`+"\n", colour, path)
}

// sums returns the instants at which a line of a panel changes, and for each line its sum with the ones below it.
func sums(p Panel) (xs []float64, heights [][]float64) {
	for _, l := range p.Lines {
		for _, point := range l.Points {
			xs = append(xs, point.X)
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	below := make([]float64, len(xs))
	for _, l := range p.Lines {
		height := slices.Clone(below)
		next, value := 0, 0.0
		for i, x := range xs {
			for next < len(l.Points) && l.Points[next].X <= x {
				value = l.Points[next].Y
				next++
			}
			height[i] += max(0, value)
		}
		heights = append(heights, height)
		below = height
	}
	return xs, heights
}

// stack draws areas on top of each other.
func (d *drawing) stack(panel int, p Panel, at func(float64) float64) {
	xs, heights := sums(p)
	class := "part"
	if p.Pale {
		class = "pale"
	}
	for k := range p.Lines {
		if len(xs) == 0 || slices.Equal(heights[k], below(heights, k)) {
			continue
		}
		var path strings.Builder
		fmt.Fprintf(&path, "M%s %s", num(d.x(xs[0])), num(at(heights[k][0])))
		for i := 1; i < len(xs); i++ {
			if heights[k][i] != heights[k][i-1] {
				fmt.Fprintf(&path, "H%sV%s", num(d.x(xs[i])), num(at(heights[k][i])))
			}
		}
		under := below(heights, k)
		last := len(xs) - 1
		fmt.Fprintf(&path, "H%sV%s", num(width-margin), num(at(under[last])))
		for i := last; i > 0; i-- {
			if under[i] != under[i-1] {
				fmt.Fprintf(&path, "H%sV%s", num(d.x(xs[i])), num(at(under[i-1])))
			}
		}
		fmt.Fprintf(&path, "H%sZ", num(d.x(xs[0])))
		d.printf(`<path class="%s f%s" d="%s"><title>%s</title></path>`+"\n", class, colourOf(panel, k, p),
			path.String(), escape(p.Lines[k].Name))
	}
}

// below returns the sums below a line.
func below(heights [][]float64, k int) []float64 {
	if k == 0 {
		return make([]float64, len(heights[0]))
	}
	return heights[k-1]
}

// key explains a colour. Without a class it is the limit.
type key struct {
	name, class string
	block, pale bool
}

// The measures of a legend.
const (
	keyRoom  = 20.0 // for the colour
	keyGap   = 18.0
	mostName = 300.0
)

func (k key) width() float64 {
	return keyRoom + min(mostName, textWidth(plain(k.name)))
}

// title draws the title of a panel and its legend: beside it if there is room, or else in rows below it.
func (d *drawing) title(title string, keys []key) {
	d.y += headroom - 10
	if title != "" {
		d.name(d.left, d.y, "head", "", title, d.inside())
	}
	room := 0.0
	for _, k := range keys {
		room += k.width() + keyGap
	}
	x := width - margin - room + keyGap
	if len(keys) > 0 && x < d.left+textWidth(plain(title))+keyGap {
		x = d.left
		d.y += lineHeight
	}
	for _, k := range keys {
		if x > d.left && x+k.width() > width-margin+0.01 {
			x = d.left
			d.y += lineHeight
		}
		d.key(x, k)
		x += k.width() + keyGap
	}
	d.y += 10
}

func (d *drawing) key(x float64, k key) {
	switch {
	case k.class == "":
		d.printf(`<path class="limit" d="M%s %sh14"/>`+"\n", num(x), num(d.y-4))
	case k.block:
		class := "part "
		if k.pale {
			class = "pale "
		}
		d.printf(`<rect class="%s" x="%s" y="%s" width="14" height="10"/>`+"\n", class+k.class, num(x), num(d.y-9))
	default:
		d.printf(`<rect class="%s" x="%s" y="%s" width="14" height="4" rx="1"/>`+"\n", k.class, num(x), num(d.y-6))
	}
	d.name(x+keyRoom, d.y, "", "", k.name, mostName)
}
