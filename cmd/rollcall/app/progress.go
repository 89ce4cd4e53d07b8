package app

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows on a terminal the progress of long work, on one line that it draws again and again. In a pipe it is
// silent.
type progress struct {
	w     io.Writer // nil when silent
	notes io.Writer
	began time.Time
	drawn time.Time
}

func newProgress(stderr io.Writer) *progress {
	p := &progress{began: time.Now(), notes: stderr}
	if file, ok := stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.w = file
	}
	return p
}

// note prints a message that is no error.
func (p *progress) note(message string) {
	p.done()
	printNote(p.notes, message)
}

func printNote(stderr io.Writer, message string) { plainf(stderr, "rollcall: %s\n", message) }

// show draws the line, at most ten times a second.
func (p *progress) show(format string, args ...any) {
	if p.w == nil || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	plainf(p.w, "\r\x1b[K%s", fmt.Sprintf(format, args...))
}

// done removes the line and returns the time that the work took.
func (p *progress) done() time.Duration {
	if p.w != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	return time.Since(p.began)
}
