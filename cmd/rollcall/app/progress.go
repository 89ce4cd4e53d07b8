package app

import (
	"fmt"
	"io"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
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
	if termwidth.IsTerminal(stderr) {
		p.w = stderr
	}
	return p
}

// note prints a message that is no error.
func (p *progress) note(message string) {
	p.done()
	printNote(p.notes, message)
}

func printNote(stderr io.Writer, message string) { sayf(stderr, "rollcall: %s\n", message) }

// show draws the line, at most ten times a second. It is cut to the terminal: what is left of a line that the terminal
// has broken would stay.
func (p *progress) show(format string, args ...any) {
	if p.w == nil || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	line := eventlog.Plain(fmt.Sprintf(format, args...))
	plainf(p.w, "\r\x1b[K%s", ownText(termwidth.Cut(line, termwidth.Screen(p.w)-1)))
}

// done removes the line and returns the time that the work took.
func (p *progress) done() time.Duration {
	if p.w != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = time.Time{} // a line that others have written since stays
	}
	return time.Since(p.began)
}
