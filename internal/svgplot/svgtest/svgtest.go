// Package svgtest checks pictures of internal/svgplot in tests.
//
// It owns the reading of the pictures: where each text is. It draws nothing.
//
// Start reading at Check.
package svgtest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The sizes of fonts, in pixels.
const (
	fontSize  = 12.0
	titleSize = 16.0
)

// TB is the part of a test, or of a rapid property, that a check needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Check checks what holds for all pictures: it is XML, nothing in it is not a number, it refers to nothing, no text
// leaves the picture, and no two texts meet. measure returns how wide a text of a size may be. It returns the size of
// the picture.
func Check(t TB, text string, measure func(text string, size float64) float64) (width, height float64) {
	t.Helper()
	for _, bad := range []string{"NaN", "Inf", "href", "url(", "<script", "@import"} {
		if strings.Contains(text, bad) {
			t.Fatalf("%s in\n%s", bad, text)
		}
	}
	p := picture{measure: measure}
	if err := p.read(text); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for i, a := range p.boxes {
		if a.left < 0 || a.right > p.width || a.top < 0 || a.bottom > p.height {
			t.Fatalf("the text %q leaves the picture of %g by %g: %+v", a.text, p.width, p.height, a)
		}
		for _, other := range p.boxes[:i] {
			if a.left < other.right && other.left < a.right && a.top < other.bottom && other.top < a.bottom {
				t.Fatalf("%q is over %q: %+v, %+v", a.text, other.text, a, other)
			}
		}
	}
	return p.width, p.height
}

// box is the place of a text.
type box struct {
	left, right, top, bottom float64
	text                     string
}

// picture is a file that is read.
type picture struct {
	measure       func(text string, size float64) float64
	width, height float64
	boxes         []box

	open   *box // the text that is read
	depth  int  // of elements within it
	x      float64
	size   float64
	anchor string
}

// read finds the texts of a file.
func (p *picture) read(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && p.height > 0:
			return nil
		case err != nil:
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := p.begin(token); err != nil {
				return err
			}
		case xml.EndElement:
			p.end()
		case xml.CharData:
			if p.open != nil && p.depth == 0 {
				p.open.text += string(token)
			}
		}
	}
}

func (p *picture) begin(e xml.StartElement) error {
	if p.open != nil {
		p.depth++
		return nil
	}
	values := map[string]string{}
	for _, a := range e.Attr {
		values[a.Name.Local] = a.Value
	}
	var y float64
	var err error
	switch e.Name.Local {
	case "svg":
		p.width, p.height, err = numbers(values["width"], values["height"])
	case "text":
		if p.size = fontSize; values["class"] == "title" {
			p.size = titleSize
		}
		p.x, y, err = numbers(values["x"], values["y"])
		p.anchor, p.depth = values["text-anchor"], 0
		p.open = &box{top: y - 0.9*p.size, bottom: y + 0.25*p.size}
	}
	return err
}

func (p *picture) end() {
	if p.open == nil {
		return
	}
	if p.depth--; p.depth >= 0 {
		return
	}
	long := p.measure(p.open.text, p.size)
	p.open.left = p.x
	switch p.anchor {
	case "middle":
		p.open.left -= long / 2
	case "end":
		p.open.left -= long
	}
	p.open.right = p.open.left + long
	p.boxes, p.open = append(p.boxes, *p.open), nil
}

func numbers(a, b string) (x, y float64, err error) {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	if errors.Join(errA, errB) != nil {
		return 0, 0, fmt.Errorf("%q or %q is no number", a, b)
	}
	return x, y, nil
}
