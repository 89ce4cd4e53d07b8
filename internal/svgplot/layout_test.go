package svgplot

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/internal/svgplot/svgtest"
)

// drawn draws something and checks what holds for all drawings.
func drawn(t rapid.TB, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	svgtest.Check(t, b.String(), TextWidth)
	return b.String()
}

// longName is the longest name of an object. Names of one owner differ at their ends.
func longName(i int) string {
	return strings.Repeat("research-training-", 20)[:250] + fmt.Sprintf("%03d", i)
}

// nasty returns figures in which texts have little room.
func nasty() map[string]Figure {
	start := time.Date(2025, 11, 30, 22, 10, 7, 123456789, time.UTC)
	made := func(groups, points int, span time.Duration, name func(int) string) Figure {
		f := Figure{Title: name(0) + " on " + name(1), Subtitle: strings.Repeat(name(2)+", 12 nodes; ", 9),
			Start: start, Span: span, Axis: "time, UTC"}
		p := Panel{Title: "Held of " + name(3), Stack: true, Height: 120,
			Limit: Line{Name: "capacity", Points: []Point{{0, 5e7}}}}
		for g := range groups {
			l := Line{Name: name(g)}
			for i := range points {
				at := span.Seconds() * float64(i) / float64(points)
				l.Points = append(l.Points, Point{at, float64((g + i) % 7 * 1e5)})
			}
			p.Lines = append(p.Lines, l)
		}
		lines := p
		lines.Stack, lines.Share = false, true
		f.Panels = []Panel{p, lines}
		f.Strip = Strip{Title: "Reservations of " + name(4), Waiting: "made", Taken: "reserved",
			Bars: []Bar{{name(5), 0, span.Seconds() / 3, span.Seconds()}}}
		for k, lane := range []string{"nodes lost", "preemptions", name(6)} {
			l := Lane{Name: lane, Guides: k == 0}
			for i := range points {
				at := span.Seconds() * float64(i*i%97) / 96
				l.Marks = append(l.Marks, Mark{X: at, Count: i * 1000, Label: name(i), Hollow: i%3 == 2})
			}
			f.Lanes = append(f.Lanes, l)
		}
		for i := range 5 {
			f.Notes = append(f.Notes, Note{"12-01 22:10:07", name(i) + " " + name(i)})
		}
		return f
	}
	short := func(i int) string { return fmt.Sprintf("team-%d", i) }
	wide := func(i int) string { return strings.Repeat("漢字🚀", 30) + fmt.Sprint(i) }
	empty := made(3, 4, time.Hour, short)
	for i := range empty.Panels {
		empty.Panels[i].Limit.Points = []Point{{0, 0}}
		for k := range empty.Panels[i].Lines {
			empty.Panels[i].Lines[k].Points = []Point{{0, 0}}
		}
	}
	return map[string]Figure{
		"names of 253 characters": made(9, 24, 26*time.Hour, longName),
		"wide characters":         made(9, 24, 90*time.Minute, wide),
		"1 group":                 made(1, 24, 90*time.Minute, short),
		"40 groups":               made(40, 24, 8*time.Hour, short),
		"40 long groups":          made(40, 200, 8*time.Hour, longName),
		"no group":                made(0, 0, 8*time.Hour, short),
		"1 entry":                 made(2, 1, 0, short),
		"5 microseconds":          made(2, 3, 5*time.Microsecond, short),
		"3 seconds":               made(2, 24, 3*time.Second, short),
		"3 days":                  made(2, 24, 72*time.Hour, short),
		"400 days":                made(2, 240, 400*24*time.Hour, short),
		"200 years":               made(2, 240, 200*365*24*time.Hour, short),
		"zero capacity":           empty,
		"nothing":                 {},
	}
}

func TestNoTextLeavesThePictureOrMeetsAnother(t *testing.T) {
	for name, f := range nasty() {
		t.Run(name, func(t *testing.T) {
			first := drawn(t, func(w io.Writer) error { return WriteSVG(w, f) })
			if again := drawn(t, func(w io.Writer) error { return WriteSVG(w, f) }); first != again {
				t.Error("the same figure has other bytes")
			}
		})
	}
	drawn(t, func(w io.Writer) error { return WriteDots(w, nastyDots()) })
	drawn(t, func(w io.Writer) error { return WriteCurves(w, nastyCurves()) })
}

func nastyDots() Dots {
	d := Dots{Title: longName(0), Subtitle: strings.Repeat("each mark is ten times the one before; ", 20),
		Axis: longName(1), Series: []string{longName(2), "ours", "theirs", longName(3)}}
	for i := range 6 {
		g := DotGroup{Name: longName(i)}
		for k := range i {
			g.Values = append(g.Values, Dot{[]float64{0, 1, 1e7, 1e-30, 99}[k], longName(k)})
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

func nastyCurves() Curves {
	c := Curves{Title: longName(0), Subtitle: longName(1), X: longName(2), Y: longName(3)}
	for k := range 12 {
		l := Line{Name: longName(k)}
		for i := range 40 {
			l.Points = append(l.Points, Point{1000 + float64(i*k), float64(k) * 1e8})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}
