package app

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
)

// plainf is fmt.Fprintf for people: texts, errors and what else has a String method are escaped by eventlog.Plain. They
// may be data of a log, which must not look like the program's own output. The format is the program's own.
func plainf(w io.Writer, format string, args ...any) (int, error) {
	plain := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case ownText:
			plain[i] = string(arg)
		case string:
			plain[i] = eventlog.Plain(arg)
		case error:
			plain[i] = eventlog.Plain(arg.Error())
		case fmt.Stringer:
			plain[i] = eventlog.Plain(arg.String())
		default:
			plain[i] = arg
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String { // such as a UID
				plain[i] = eventlog.Plain(v.String())
			}
		}
	}
	return fmt.Fprintf(w, format, plain...)
}

// sayf is plainf for notes and errors: the text is wrapped for a terminal.
func sayf(stderr io.Writer, format string, args ...any) {
	_ = termwidth.Fit(stderr, func(w io.Writer) error { // that nothing can be said cannot be said either
		_, err := plainf(w, format, args...)
		return err
	})
}

// ownText is text that the program has made, of several lines perhaps.
type ownText string

// plainLines escapes each line of a text, such as an error's. Advice is on lines of its own.
func plainLines(text string) ownText {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = eventlog.Plain(line)
	}
	return ownText(strings.Join(lines, "\n"))
}
