package svgplot

import (
	"strings"
	"time"
)

// tick is a mark of the time axis. label is its time, and day what the time is of: a date, or a year. day is the same
// for neighbours.
type tick struct {
	x          float64 // seconds behind the start
	label, day string
}

// maxTicks is the largest number of marks of a time axis.
const maxTicks = 10

const day = 24 * time.Hour

// steps are the distances of marks that are shorter than a day.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// StepFor returns a round length of time of which a span has at most so many; 0 for no span.
func StepFor(span time.Duration, most int) time.Duration {
	if span <= 0 {
		return 0
	}
	for step := time.Nanosecond; step < time.Second; step *= 10 {
		for _, times := range []time.Duration{1, 2, 5} {
			if enough(span, times*step, most) {
				return times * step
			}
		}
	}
	for _, step := range steps {
		if enough(span, step, most) {
			return step
		}
	}
	for _, days := range []time.Duration{1, 2, 7, 14, 28} {
		if enough(span, days*day, most) {
			return days * day
		}
	}
	step := 70 * day
	for !enough(span, step, most) {
		step *= 2
	}
	return step
}

func enough(span, step time.Duration, most int) bool { return span/step < time.Duration(most) }

// ticksOf returns the marks of the axis.
func ticksOf(start time.Time, span time.Duration) []tick {
	step := StepFor(span, maxTicks)
	switch {
	case step == 0:
		return []tick{{0, start.Format("15:04:05.999999999"), start.Format(time.DateOnly)}}
	case step < time.Second:
		digits := 0
		for s := step; s < time.Second; s *= 10 {
			digits++
		}
		return evenTicks(start, span, step, "15:04:05."+strings.Repeat("0", digits), time.DateOnly)
	case step < time.Minute:
		return evenTicks(start, span, step, time.TimeOnly, time.DateOnly)
	case step < day:
		return evenTicks(start, span, step, "15:04", time.DateOnly)
	case step <= 14*day:
		return evenTicks(start, span, step, "Jan 2", "2006")
	}
	return monthTicks(start, span)
}

// evenTicks returns a mark at each multiple of a step.
func evenTicks(start time.Time, span, step time.Duration, label, day string) (all []tick) {
	for at := start.Add(step - 1).Truncate(step); !at.After(start.Add(span)); at = at.Add(step) {
		all = append(all, tick{at.Sub(start).Seconds(), at.Format(label), at.Format(day)})
	}
	return all
}

// monthTicks returns marks at the beginnings of months or years.
func monthTicks(start time.Time, span time.Duration) (all []tick) {
	end := start.Add(span)
	months := func(t time.Time) int { return 12*t.Year() + int(t.Month()) - 1 }
	step := 1
	for _, step = range []int{1, 2, 3, 6, 12, 24, 60, 120, 240, 600} {
		if (months(end)-months(start))/step < maxTicks {
			break
		}
	}
	for m := months(start) / step * step; m <= months(end); m += step {
		at := time.Date(m/12, time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC)
		switch {
		case at.Before(start) || at.After(end):
		case step < 12:
			all = append(all, tick{at.Sub(start).Seconds(), at.Format("Jan"), at.Format("2006")})
		default:
			all = append(all, tick{at.Sub(start).Seconds(), at.Format("2006"), ""})
		}
	}
	return all
}

// instants draws a rule at each of the time axis' marks.
func (d *drawing) instants(class string, from, to float64) {
	for _, t := range d.ticks {
		d.rule(class, d.x(t.x), from, d.x(t.x), to)
	}
}

// timeAxis draws the marks, with the days below them where another one begins, and the name of the axis.
func (d *drawing) timeAxis() {
	labels, days := row{end: margin}, row{end: margin}
	day := d.f.Start.Format(time.DateOnly)
	if len(d.ticks) > 0 && len(d.ticks[0].day) == len("2006") {
		day = d.f.Start.Format("2006")
	}
	if len(d.ticks) > 0 && d.ticks[0].day != "" && d.ticks[0].day != day {
		days.begin(d, d.left, d.y+18+lineHeight, day)
	}
	shown := ""
	for _, t := range d.ticks {
		x := d.x(t.x)
		d.rule("axis", x, d.y, x, d.y+5)
		labels.centred(d, x, d.y+18, t.label)
		if t.day != "" && t.day != shown && days.centred(d, x, d.y+18+lineHeight, t.day) {
			shown = t.day
		}
	}
	d.y += 18 + 2*lineHeight
	if d.f.Axis != "" {
		d.text(d.left+d.inside()/2, d.y, "", "middle", cutOff(plain(d.f.Axis), d.inside()))
	}
	d.y += lineHeight + 4
}

// row is a line of texts that do not meet each other.
type row struct {
	end float64 // where the last text ends
}

// gap is the least distance of two texts.
const gap = 8.0

// centred draws a text around x if there is room. At the edge of the picture it is moved inwards.
func (r *row) centred(d *drawing, x, y float64, text string) bool {
	half := textWidth(text) / 2
	if x = min(x, width-2-half); x-half < r.end {
		return false
	}
	d.text(x, y, "", "middle", text)
	r.end = x + half + gap
	return true
}

// begin draws a text that begins at x if there is room.
func (r *row) begin(d *drawing, x, y float64, text string) bool {
	long := textWidth(text)
	if x < r.end || x+long > width-2 {
		return false
	}
	d.text(x, y, "", "", text)
	r.end = x + long + gap
	return true
}
