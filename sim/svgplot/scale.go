package svgplot

import (
	"math"
	"strconv"
)

// scale is an axis: its marks are step apart, and it ends at top.
type scale struct {
	top, step float64
	// divisor turns a value into the number on its label.
	divisor float64
	unit    string
}

func (s scale) label(v float64) string {
	return strconv.FormatFloat(math.Round(v/s.divisor*1e6)/1e6, 'f', -1, 64) + suffix(s.unit)
}

// suffix is the text after each number. The unit of time is in the axis' name.
func suffix(unit string) string {
	if unit == "%" {
		return unit
	}
	return ""
}

// timeScale is for a time axis that ends at span seconds, with about ten marks at whole numbers of a unit.
func timeScale(span float64) scale {
	units := []struct {
		name    string
		seconds float64
		steps   []float64
	}{
		{"days", 86400, []float64{1, 2, 5}},
		{"hours", 3600, []float64{1, 2, 3, 6, 12}},
		{"minutes", 60, []float64{1, 2, 5, 10, 15, 30}},
		{"seconds", 1, []float64{1, 2, 5, 10, 15, 30}},
	}
	const marks = 12
	for i, u := range units {
		last := i == len(units)-1
		if span < 3*u.seconds && !last {
			continue
		}
		for _, step := range u.steps {
			if span <= marks*step*u.seconds {
				return scale{span, step * u.seconds, u.seconds, u.name}
			}
		}
		return scale{span, niceStep(span/u.seconds, marks) * u.seconds, u.seconds, u.name}
	}
	return scale{span, 1, 1, "seconds"}
}

// valueScale is for a panel: from 0 to a mark that is no less than any value.
func valueScale(p Panel) scale {
	most := 0.0
	for _, l := range p.Lines {
		for _, point := range l.Points {
			most = max(most, point.Y)
		}
	}
	if p.Share && most > 0.5 && most <= 1 {
		return scale{1, 0.25, 0.01, "%"}
	}
	s := scale{divisor: 1}
	if p.Share {
		s.divisor, s.unit = 0.01, "%"
		most = max(most, 0.001) // an axis without values has marks too
	}
	marks := max(2, p.Height/32)
	s.step = niceStep(most/s.divisor, marks) * s.divisor
	if !p.Share {
		s.step = max(1, s.step) // counts are whole numbers
	}
	s.top = s.step * max(1, math.Ceil(most/s.step-1e-9))
	return s
}

// niceStep is the least of 1, 2 and 5 times a power of ten with which span takes at most most steps; 1 for a span of
// 0.
func niceStep(span, most float64) float64 {
	if span <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(span/most)))
	for _, times := range []float64{1, 2, 5, 10} {
		if span <= most*step*times*1.0001 {
			return step * times
		}
	}
	return step * 10
}

// num writes a coordinate: hundredths of a pixel are enough.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
