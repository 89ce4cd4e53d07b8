package termwidth

import (
	"bytes"
	"errors"
	"io"
)

// A Writer fits what is written to the width of a terminal, line by line. It holds back a table until its end, and a
// line that has not ended: Flush writes them. Without a terminal it hands everything on at once, as it is.
type Writer struct {
	to    io.Writer
	width int // 0: to is no terminal
	line  []byte
	table *table
	err   error
}

// NewWriter returns a Writer to w, with the width that Width returns.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w, width: Width(w)} }

// Fit lets write write to w through a Writer, and flushes it, also after an error.
func Fit(w io.Writer, write func(io.Writer) error) error {
	fitted := NewWriter(w)
	err := write(fitted)
	return errors.Join(err, fitted.Flush())
}

// FitWithin is Fit for lines of at most so many columns, wherever they go: to a wider terminal, or to no terminal.
func FitWithin(w io.Writer, columns int, write func(io.Writer) error) error {
	fitted := NewWriter(w)
	if fitted.width == 0 || fitted.width > columns {
		fitted.width = columns
	}
	err := write(fitted)
	return errors.Join(err, fitted.Flush())
}

// Write implements io.Writer. The error may come from an earlier call.
func (w *Writer) Write(p []byte) (int, error) {
	if w.width == 0 {
		return w.to.Write(p)
	}
	w.line = append(w.line, p...)
	for w.err == nil {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		if !whole {
			break
		}
		w.take(string(line))
		w.line = rest
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Flush writes what was held back.
func (w *Writer) Flush() error {
	w.endTable()
	if len(w.line) > 0 {
		w.write(WrapLine(string(w.line), w.width))
		w.line = nil
	}
	return w.err
}

// take takes a whole line.
func (w *Writer) take(line string) {
	if w.table != nil {
		if w.table.take(line) {
			return
		}
		w.endTable()
	}
	if w.table = tableBelow(line); w.table == nil {
		w.write(WrapLine(line, w.width) + "\n")
	}
}

func (w *Writer) endTable() {
	if w.table == nil {
		return
	}
	for _, line := range w.table.fit(w.width) {
		w.write(line + "\n")
	}
	w.table = nil
}

func (w *Writer) write(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.to, text)
	}
}
