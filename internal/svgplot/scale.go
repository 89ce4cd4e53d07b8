package svgplot

import (
	"fmt"
	"math"
	"strconv"
)

// scale is an axis of values: its marks are step apart, and it ends at top.
type scale struct {
	top, step float64
	// divisor turns a value into the number on its label.
	divisor float64
	unit    string
}

func (s scale) label(v float64) string { return number(math.Round(v/s.divisor*1e6)/1e6) + s.unit }

// widest is the width of the widest label.
func (s scale) widest() (most float64) {
	for k := 0; float64(k)*s.step <= s.top*1.0001; k++ {
		most = max(most, textWidth(s.label(float64(k)*s.step)))
	}
	return most
}

// valueScale is for a panel: from 0 to a mark that is no less than any value.
func valueScale(p Panel) scale {
	most := 0.0
	for _, l := range append([]Line{p.Limit}, p.Lines...) {
		for _, point := range l.Points {
			most = max(most, point.Y)
		}
	}
	if p.Stack {
		_, heights := sums(p)
		for _, line := range heights {
			for _, v := range line {
				most = max(most, v)
			}
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
	if !p.Share && most >= 1 {
		s.step = max(1, s.step) // most values are counts
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

// number writes a value for people: with commas between thousands, and large and small ones in powers of ten.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1e9 || v < 1e-4:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case v < 1000:
		return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
	}
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
