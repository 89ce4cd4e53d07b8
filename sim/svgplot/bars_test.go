package svgplot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checked checks the properties of every file, whatever it shows.
func checked(t rapid.TB, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
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

func TestABarIsAsLongAsItsValuesLogarithm(t *testing.T) {
	got := checked(t, func(w io.Writer) error {
		return WriteBars(w,
			Bars{Title: "Pods a second", Subtitle: "two & two", Series: []string{"theirs", "ours"}, Groups: []BarGroup{
				{Name: "one shape", Values: []BarValue{{100, "100"}, {10000, "10,000"}}},
				{Name: "spread", Values: []BarValue{{10, "10"}, {1000, "× 100"}}},
			}})
	})
	for _, want := range []string{
		`>two &amp; two</text>`, `>theirs</text>`, `>ours</text>`, `>one shape</text>`, `>× 100</text>`,
		`>10</text>`, `>100</text>`, `>1,000</text>`, `>10,000</text>`, // the marks
		`<rect class="f0" x="134" y="114" width="244" height="16"/>`, // a third of the axis from 10 to 10,000
		`<rect class="f1" x="134" y="133" width="732" height="16"/>`, // all of it
		`<rect class="f0" x="134" y="166" width="1" height="16"/>`,   // its beginning
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestACurveIsALineOnTwoLogarithmicAxes(t *testing.T) {
	got := checked(t, func(w io.Writer) error {
		return WriteCurves(w, Curves{Title: "Growth", X: "nodes", Y: "pods/s", Lines: []Line{
			{Name: "1 shape", Points: []Point{{100, 10000}, {1000, 1000}, {10000, 100}}},
			{Name: "20 shapes", Points: []Point{{100, 1000}}},
		}})
	})
	for _, want := range []string{
		`>1 shape</text>`, `>20 shapes</text>`, `>pods/s</text>`, `>nodes</text>`, `>1,000</text>`,
		`d="M84 100L500 260L916 420"`, `>1,000 nodes, 1,000 pods/s</title>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestBarsAndCurvesOfAnyValuesCanBeDrawn(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(-10, 1e9),
		rapid.SampledFrom([]float64{0, 1, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, 1e300}))
	rapid.Check(t, func(t *rapid.T) {
		var bars Bars
		var curves Curves
		for range rapid.IntRange(0, 4).Draw(t, "groups") {
			g, l := BarGroup{Name: rapid.String().Draw(t, "name")}, Line{Name: "<line>"}
			for range rapid.IntRange(0, 4).Draw(t, "values") {
				v := value.Draw(t, "value")
				g.Values, l.Points = append(g.Values, BarValue{v, "label"}),
					append(l.Points, Point{value.Draw(t, "x"), v})
			}
			bars.Groups, curves.Lines = append(bars.Groups, g), append(curves.Lines, l)
		}
		bars.Series = []string{"a", "b", "c", "d"}
		checked(t, func(w io.Writer) error { return WriteBars(w, bars) })
		checked(t, func(w io.Writer) error { return WriteCurves(w, curves) })
	})
}
