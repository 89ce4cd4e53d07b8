package svgplot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// drawn draws a figure and makes sure that it is XML, that nothing in it is not a number, and that it refers to
// nothing.
func drawn(t rapid.TB, f Figure) string {
	t.Helper()
	var b strings.Builder
	if err := WriteSVG(&b, f); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
	}
	for _, bad := range []string{"NaN", "Inf", "href", "url(", "<script", "@import"} {
		if strings.Contains(b.String(), bad) {
			t.Fatalf("%s in\n%s", bad, b.String())
		}
	}
	return b.String()
}

func TestAFigureHasItsPanelsAxesLegendAndReservations(t *testing.T) {
	got := drawn(t, Figure{
		Title: "jobs.swf on 16x16cpu", Subtitle: "12 pods", Since: "2026-01-01T00:00:00Z", Span: 7200,
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
	for _, want := range []string{
		`>jobs.swf on 16x16cpu</text>`, `>12 pods</text>`, `>cpu</text>`, `>nvidia.com/gpu</text>`, `>0%</text>`,
		`>100%</text>`, `>virtual time in minutes since 2026-01-01T00:00:00Z</text>`,
		`prefers-color-scheme:dark`,
		`<path class="line s0" d="M64 200H520V100H976"/>`,          // half of 200 pixels, and from the middle on all
		`<path class="line s1" d="M292 250H976"/>`,                 // a quarter, from a quarter on
		`<path class="area f1" d="M64 436H71.6V366H976V436H64Z"/>`, // 7 of 10
		`<title>ml/a</title>`, `>Reservations</text>`, `>made</text>`, `>reserved</text>`,
		`<rect class="bar waits" x="64" y="476" width="456" height="9">`,
		`<rect class="bar taken" x="520" y="491" width="456" height="9">`, // cut off at the end
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestTextsAreEscaped(t *testing.T) {
	got := drawn(t, Figure{Title: `<script>alert("x")</script>&`, Subtitle: "a\x00b\xff",
		Strip: Strip{Bars: []Bar{{Label: "</title>"}}}})
	if !strings.Contains(got, "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&amp;") ||
		!strings.Contains(got, "<title>&lt;/title&gt;</title>") || !strings.Contains(got, "ab\uFFFD") {
		t.Error(got)
	}
}

func TestAFigureWithoutReservationsHasNoStripForThem(t *testing.T) {
	if got := drawn(t, Figure{Strip: Strip{Title: "Reservations"}}); strings.Contains(got, "Reservations") {
		t.Error(got)
	}
}

func TestWhateverIsDrawnIsXMLWithNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 2), rapid.Float64Range(0, 1e12))
		f := Figure{Title: rapid.String().Draw(t, "title"), Since: rapid.String().Draw(t, "since"),
			Span: number.Draw(t, "span")}
		for range rapid.IntRange(0, 3).Draw(t, "panels") {
			p := Panel{Title: rapid.String().Draw(t, "panel"), Share: rapid.Bool().Draw(t, "share"), Height: 100}
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
		if text := drawn(t, f); strings.Count(text, "<line") > 200 {
			t.Fatalf("%d rules", strings.Count(text, "<line"))
		}
	})
}

func TestManyBarsBecomeFew(t *testing.T) {
	f := Figure{Span: 1e6}
	for i := range 100_000 {
		at := float64(i * 10)
		f.Strip.Bars = append(f.Strip.Bars, Bar{"ml/a", at, at + 1, at + 2})
	}
	f.Strip.Bars = f.Strip.Bars[:60_000] // none in the last four tenths
	text := drawn(t, f)
	if n := strings.Count(text, "<rect"); n > 2*int(inside)+10 {
		t.Errorf("%d bars are drawn", n)
	}
	if want := fmt.Sprintf(`width="%s"`, num(math.Ceil(inside*0.6))); !strings.Contains(text, want) {
		t.Errorf("no bar with %s", want)
	}
}

func TestAxesHaveRoundMarks(t *testing.T) {
	for _, c := range []struct {
		span       float64
		unit, last string
		marks      int
	}{
		{0, "seconds", "0", 1}, {1, "seconds", "1", 2}, {90, "seconds", "90", 10}, {600, "minutes", "10", 11},
		{3 * 3600, "hours", "3", 4},
		{86400, "hours", "24", 13}, {100 * 86400, "days", "100", 11}, {8971362, "days", "100", 11},
		{36500 * 86400, "days", "35000", 8},
	} {
		s := timeScale(c.span)
		marks, last := 0, ""
		for k := 0; float64(k)*s.step <= c.span*1.0001; k++ {
			marks, last = marks+1, s.label(float64(k)*s.step)
		}
		if s.unit != c.unit || last != c.last || marks != c.marks {
			t.Errorf("%g s: %d marks to %s %s, want %d to %s %s", c.span, marks, last, s.unit, c.marks, c.last, c.unit)
		}
	}
	for _, c := range []struct {
		most      float64
		share     bool
		top, step float64
	}{
		{0, false, 1, 1}, {1, false, 1, 1}, {3, false, 3, 1}, {7, false, 10, 5}, {20350, false, 30000, 10000},
		{1, true, 1, 0.25}, {0.6, true, 1, 0.25}, {1.3, true, 1.5, 0.5},
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
