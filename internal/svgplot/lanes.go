package svgplot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxGuides is the number of marks of a lane beyond which no line goes through the panels.
const maxGuides = 20

// markWidth is the width of a mark. Marks that are nearer to each other are one mark.
const markWidth = 8.0

// placed is a mark in its place.
type placed struct {
	x      float64
	count  int
	labels []string
}

// placedOf returns the marks of a lane, filled or hollow ones, ascending.
func (d *drawing) placedOf(lane Lane, hollow bool) (all []placed) {
	marks := slices.Clone(lane.Marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	for _, m := range marks {
		if m.Hollow != hollow {
			continue
		}
		x := d.x(m.X)
		if n := len(all); n > 0 && x-all[n-1].x < markWidth {
			all[n-1].count += m.Count
			all[n-1].labels = append(all[n-1].labels, m.Label)
			continue
		}
		all = append(all, placed{x, m.Count, []string{m.Label}})
	}
	return all
}

// guide notes the lines of a lane through the panels.
func (d *drawing) guide(lane Lane) {
	if all := d.placedOf(lane, false); lane.Guides && len(all) <= maxGuides {
		for _, m := range all {
			d.guides = append(d.guides, m.x)
		}
	}
}

// lanes draws the rows of marks.
func (d *drawing) lanes() {
	d.y += 12
	top := d.y
	d.instants("grid", top, top+laneHeight*float64(len(d.f.Lanes)))
	for _, x := range d.guides {
		d.rule("guide", x, top, x, top+laneHeight*float64(len(d.f.Lanes)))
	}
	for _, lane := range d.f.Lanes {
		y := d.y + laneHeight/2
		d.rule("grid", d.left, y, width-margin, y)
		d.name(d.left-10, y+4, "", "end", lane.Name, d.left-20)
		filled, hollow := d.placedOf(lane, false), d.placedOf(lane, true)
		for i, m := range filled {
			d.mark("mark", m, y)
			room := width - 2.0
			if i+1 < len(filled) {
				room = filled[i+1].x - markWidth
			}
			for _, h := range hollow {
				if h.x > m.x-markWidth {
					room = min(room, h.x-markWidth)
				}
			}
			if count := fmt.Sprint(m.count); m.count > 1 && m.x+markWidth+textWidth(count) < room {
				d.text(m.x+markWidth, y+4, "over", "", count)
			}
		}
		for _, m := range hollow {
			d.mark("mark hollow", m, y)
		}
		d.y += laneHeight
	}
	d.rule("axis", d.left, d.y, width-margin, d.y)
}

// mark draws a mark with its label.
func (d *drawing) mark(class string, m placed, y float64) {
	const most = 5
	label := strings.Join(m.labels[:min(most, len(m.labels))], "; ")
	if len(m.labels) > most {
		label += fmt.Sprintf("; and %d more", len(m.labels)-most)
	}
	d.printf(`<circle class="%s" cx="%s" cy="%s" r="%s">`, class, num(m.x), num(y), num(markWidth/2))
	if label != "" {
		d.printf("<title>%s</title>", escape(label))
	}
	d.printf("</circle>\n")
}
