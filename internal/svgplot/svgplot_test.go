package svgplot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

func figure(t rapid.TB, f Figure) string {
	t.Helper()
	return drawn(t, func(w io.Writer) error { return WriteSVG(w, f) })
}

func wantTexts(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %s in\n%s", w, got)
		}
	}
}

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestAFigureHasItsPanelsAxesLegendAndReservations(t *testing.T) {
	got := figure(t, Figure{
		Title: "jobs.swf on 16x16cpu", Subtitle: "12 pods", Start: newYear, Span: 2 * time.Hour,
		Axis: "virtual time, UTC",
		Panels: []Panel{
			{Title: "Utilisation", Share: true, Height: 200, Lines: []Line{
				{Name: "cpu", Points: []Point{{0, 0.5}, {3600, 1}}},
				{Name: "nvidia.com/gpu", Points: []Point{{1800, 0.25}}},
			}},
			{Title: "Pods", Height: 100, Lines: []Line{{Name: "pods", Points: []Point{{0, 0}, {60, 7}}}}},
		},
		Strip: Strip{Title: "Reservations", Waiting: "made", Taken: "reserved",
			Bars: []Bar{{Label: "ml/a", Made: 0, From: 3600, Until: 9000}}},
	})
	wantTexts(t, got, `>jobs.swf on 16x16cpu</text>`, `>12 pods</text>`, `>cpu</text>`, `>nvidia.com/gpu</text>`,
		`>0%</text>`, `>100%</text>`, `>virtual time, UTC</text>`, `>00:00</text>`, `>01:45</text>`,
		`>2026-01-01</text>`, `prefers-color-scheme:dark`,
		`<path class="line s1" d="M64 187H520V87H976"/>`,           // half of 200 pixels, and from the middle on all
		`<path class="line s2" d="M292 237H976"/>`,                 // a quarter, from a quarter on
		`<path class="area f2" d="M64 421H71.6V351H976V421H64Z"/>`, // 7 of 10
		`<title>ml/a</title>`, `>Reservations</text>`, `>made</text>`, `>reserved</text>`,
		`<rect class="bar waits" x="64" y="459" width="456" height="9">`,
		`<rect class="bar taken" x="520" y="474" width="456" height="9">`, // cut off at the end
	)
}

func TestAStackHasAreasOnTopOfEachOther(t *testing.T) {
	got := figure(t, Figure{Start: newYear, Span: 10 * time.Second, Panels: []Panel{{Stack: true, Height: 100,
		Lines: []Line{
			{Name: "ml", Points: []Point{{0, 2}, {5, 4}}},
			{Name: "none", Points: []Point{{0, 0}, {5, 0}}},
			{Name: "web", Points: []Point{{0, 6}, {5, 1}}, Colour: Grey},
		}, Limit: Line{Name: "capacity", Points: []Point{{0, 10}}}}}})
	wantTexts(t, got,
		`<path class="part f1" d="M64 150H520V130H976V170H64Z"><title>ml</title>`,
		`<path class="part f9" d="M64 90H520V120H976V130H520V150H64Z"><title>web</title>`,
		`<path class="limit" d="M64 70H976"/>`, `>capacity</text>`, `>none</text>`)
	if strings.Contains(got, `<title>none`) {
		t.Error("an area of no height is drawn")
	}
}

func TestALaneHasItsMarksAndALineThroughThePanels(t *testing.T) {
	f := Figure{Start: newYear, Span: 100 * time.Second, Panels: []Panel{{Height: 100}}, Lanes: []Lane{
		{Name: "nodes lost", Guides: true, Marks: []Mark{{X: 25, Count: 8, Label: "8 nodes lost"},
			{X: 25.1, Count: 2, Label: "2 more"}, {X: 50, Count: 1, Hollow: true}}}}}
	got := figure(t, f)
	wantTexts(t, got, `>nodes lost</text>`, `<title>8 nodes lost; 2 more</title>`, `>10</text>`,
		`<circle class="mark hollow" cx="533`, `<line class="guide"`)
	for i := range maxGuides {
		f.Lanes[0].Marks = append(f.Lanes[0].Marks, Mark{X: float64(i * 5), Label: "more"})
	}
	f.Lanes[0].Marks = append(f.Lanes[0].Marks, Mark{X: 98})
	if strings.Contains(figure(t, f), `<line class="guide"`) {
		t.Error("too many marks have lines through the panels")
	}
}

func TestALongTextIsWrappedOrShortenedAndKeptForThePointer(t *testing.T) {
	got := figure(t, Figure{Title: longName(7), Subtitle: strings.Repeat("word ", 60),
		Notes: []Note{{Text: longName(8)}}})
	wantTexts(t, got, "<title>"+longName(7)+"</title>", "…", "007</text>", "<title>"+longName(8)+"</title>")
	if n := strings.Count(got, `x="24"`); n != 1+2+1+0 && n != 1+3+1 {
		t.Errorf("%d lines of text at the left", n)
	}
}

func TestTextsAreEscaped(t *testing.T) {
	got := figure(t, Figure{Title: `<script>alert("x")</script>&`, Subtitle: "a\x00b\xff",
		Strip: Strip{Bars: []Bar{{Label: "</title>"}}}})
	wantTexts(t, got, "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&amp;", "<title>&lt;/title&gt;</title>",
		"ab\uFFFD")
}

func TestAFigureWithoutReservationsHasNoStripForThem(t *testing.T) {
	if got := figure(t, Figure{Strip: Strip{Title: "Reservations"}}); strings.Contains(got, "Reservations") {
		t.Error(got)
	}
}

func TestWhateverIsDrawnIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 2), rapid.Float64Range(0, 1e12))
		span := rapid.OneOf(rapid.Int64Range(0, 1e4), rapid.Int64Range(0, 1e12), rapid.Int64Range(0, 9e18))
		f := Figure{Title: rapid.String().Draw(t, "title"), Axis: rapid.String().Draw(t, "axis"),
			Start: time.Unix(0, rapid.Int64Range(0, 2e18).Draw(t, "start")).UTC(),
			Span:  time.Duration(span.Draw(t, "span"))}
		for range rapid.IntRange(0, 3).Draw(t, "panels") {
			p := Panel{Title: rapid.String().Draw(t, "panel"), Share: rapid.Bool().Draw(t, "share"),
				Stack: rapid.Bool().Draw(t, "stack"), Height: 100}
			for range rapid.IntRange(0, 7).Draw(t, "lines") {
				l := Line{Name: rapid.String().Draw(t, "name")}
				for range rapid.IntRange(0, 5).Draw(t, "points") {
					l.Points = append(l.Points, Point{number.Draw(t, "x"), number.Draw(t, "y")})
				}
				p.Lines = append(p.Lines, l)
			}
			f.Panels = append(f.Panels, p)
		}
		for range rapid.IntRange(0, 3).Draw(t, "bars") {
			f.Strip.Bars = append(f.Strip.Bars,
				Bar{rapid.String().Draw(t, "label"), number.Draw(t, "made"), number.Draw(t, "from"),
					number.Draw(t, "until")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "lanes") {
			l := Lane{Name: rapid.String().Draw(t, "lane"), Guides: rapid.Bool().Draw(t, "guides")}
			for range rapid.IntRange(0, 9).Draw(t, "marks") {
				l.Marks = append(l.Marks, Mark{number.Draw(t, "x"), rapid.Int().Draw(t, "count"),
					rapid.String().Draw(t, "label"), rapid.Bool().Draw(t, "hollow")})
			}
			f.Lanes = append(f.Lanes, l)
		}
		if text := figure(t, f); strings.Count(text, "<line") > 300 {
			t.Fatalf("%d rules", strings.Count(text, "<line"))
		}
	})
}

func TestManyBarsBecomeFew(t *testing.T) {
	f := Figure{Span: 1e6 * time.Second}
	for i := range 60_000 { // none in the last four tenths
		at := float64(i * 10)
		f.Strip.Bars = append(f.Strip.Bars, Bar{"ml/a", at, at + 1, at + 2})
	}
	text := figure(t, f)
	const inside = width - leastLeft - margin
	if n := strings.Count(text, "<rect"); n > 2*int(inside)+10 {
		t.Errorf("%d bars are drawn", n)
	}
	if want := fmt.Sprintf(`width="%s"`, num(math.Ceil(inside*0.6))); !strings.Contains(text, want) {
		t.Errorf("no bar with %s", want)
	}
}

func TestAxesHaveRoundMarks(t *testing.T) {
	for _, c := range []struct {
		from        string
		span        time.Duration
		first, last string
		marks       int
	}{
		{"2026-01-01T13:25:00Z", 0, "13:25:00 2026-01-01", "13:25:00 2026-01-01", 1},
		{"2026-01-01T13:25:00Z", 1500 * time.Microsecond, "13:25:00.0000 2026-01-01", "13:25:00.0014 2026-01-01", 8},
		{"2026-01-01T13:25:00.7Z", 3 * time.Second, "13:25:01.0 2026-01-01", "13:25:03.5 2026-01-01", 6},
		{"2026-01-01T23:59:30Z", 65 * time.Minute, "00:00 2026-01-02", "01:00 2026-01-02", 7},
		{"2026-01-01T00:00:00Z", 24 * time.Hour, "00:00 2026-01-01", "00:00 2026-01-02", 9},
		{"2025-12-30T13:00:00Z", 5 * day, "Dec 31 2025", "Jan 4 2026", 5},
		{"2025-12-30T13:00:00Z", 60 * day, "Jan 5 2026", "Feb 23 2026", 8},
		{"2025-12-30T13:00:00Z", 400 * day, "Jan 2026", "Jan 2027", 7},
		{"2025-12-30T13:00:00Z", 36500 * day, "2040 ", "2120 ", 5},
	} {
		start, err := time.Parse(time.RFC3339Nano, c.from)
		if err != nil {
			t.Fatal(err)
		}
		all := ticksOf(start, c.span)
		if len(all) == 0 {
			t.Errorf("%s: no marks", c.span)
			continue
		}
		first, last := all[0].label+" "+all[0].day, all[len(all)-1].label+" "+all[len(all)-1].day
		if first != c.first || last != c.last || len(all) != c.marks {
			t.Errorf("%s: %d marks from %q to %q, want %d from %q to %q", c.span, len(all), first, last, c.marks,
				c.first, c.last)
		}
	}
	for _, c := range []struct {
		most      float64
		share     bool
		top, step float64
	}{
		{0, false, 1, 1}, {1, false, 1, 1}, {3, false, 3, 1}, {7, false, 10, 5}, {20350, false, 30000, 10000},
		{0.3, false, 0.3, 0.1}, {1, true, 1, 0.25}, {0.6, true, 1, 0.25}, {1.3, true, 1.5, 0.5},
	} {
		s := valueScale(Panel{Share: c.share, Height: 100, Lines: []Line{{Points: []Point{{0, c.most}}}}})
		if math.Abs(s.top-c.top) > 1e-9 || math.Abs(s.step-c.step) > 1e-9 {
			t.Errorf("up to %g: to %g by %g, want %g by %g", c.most, s.top, s.step, c.top, c.step)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAFullDiskIsAnError(t *testing.T) {
	if err := WriteSVG(full{}, Figure{Title: "a"}); err == nil {
		t.Error("no error")
	}
}

func TestADotIsWhereItsValuesLogarithmIs(t *testing.T) {
	got := drawn(t, func(w io.Writer) error {
		return WriteDots(w,
			Dots{Title: "Pods a second", Subtitle: "two & two", Axis: "pods/s", Series: []string{"theirs", "ours"},
				Groups: []DotGroup{
					{Name: "one shape", Values: []Dot{{100, "100"}, {10000, "10,000"}}},
					{Name: "spread", Values: []Dot{{10, "10"}, {1000, "× 100"}}},
				}})
	})
	wantTexts(t, got, `>two &amp; two</text>`, `>theirs</text>`, `>ours</text>`, `>one shape</text>`, `>× 100</text>`,
		`>10</text>`, `>100</text>`, `>1,000</text>`, `>10,000</text>`, `>pods/s</text>`)
	var at []float64
	for _, line := range strings.Split(got, "\n") {
		var series int
		var x, y float64
		if n, _ := fmt.Sscanf(line, `<circle class="f%d" cx="%g" cy="%g"`, &series, &x, &y); n == 3 {
			at = append(at, x)
		}
	}
	if len(at) != 4 {
		t.Fatalf("%d dots, want 4", len(at))
	}
	if low, decade := at[2], at[0]-at[2]; math.Abs(at[3]-low-2*decade) > 0.05 || math.Abs(at[1]-low-3*decade) > 0.05 {
		t.Errorf("the dots are at %v: want equal distances for each power of ten", at)
	}
}

func TestACurveIsALineOnTwoLogarithmicAxes(t *testing.T) {
	got := drawn(t, func(w io.Writer) error {
		return WriteCurves(w, Curves{Title: "Growth", X: "nodes", Y: "pods/s", Lines: []Line{
			{Name: "1 shape", Points: []Point{{100, 10000}, {1000, 1000}, {10000, 100}}},
			{Name: "20 shapes", Points: []Point{{100, 1000}}},
		}})
	})
	wantTexts(t, got, `>1 shape</text>`, `>20 shapes</text>`, `>pods/s</text>`, `>nodes</text>`, `>1,000</text>`,
		`d="M98.32 70L507.16 230L916 390"`, `>1,000 nodes, 1,000 pods/s</title>`)
}

func TestDotsAndCurvesOfAnyValuesCanBeDrawn(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(-10, 1e9),
		rapid.SampledFrom([]float64{0, 1, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, 1e300}))
	rapid.Check(t, func(t *rapid.T) {
		var dots Dots
		var curves Curves
		for range rapid.IntRange(0, 4).Draw(t, "groups") {
			g, l := DotGroup{Name: rapid.String().Draw(t, "name")}, Line{Name: "<line>"}
			for range rapid.IntRange(0, 4).Draw(t, "values") {
				v := value.Draw(t, "value")
				g.Values, l.Points = append(g.Values, Dot{v, "label"}), append(l.Points, Point{value.Draw(t, "x"), v})
			}
			dots.Groups, curves.Lines = append(dots.Groups, g), append(curves.Lines, l)
		}
		dots.Series = []string{"a", "b", "c", "d"}
		drawn(t, func(w io.Writer) error { return WriteDots(w, dots) })
		drawn(t, func(w io.Writer) error { return WriteCurves(w, curves) })
	})
}
