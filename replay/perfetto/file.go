package perfetto

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// micros is a time or a duration in microseconds, with nanoseconds as decimals.
type micros int64

// MarshalJSON returns a number.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", int64(m)/1000, int64(m)%1000), nil
}

// A traceEvent is an element of the file's list. Its fields have the names of the Trace Event Format.
type traceEvent struct {
	Name  string `json:"name"`
	Phase string `json:"ph"`
	// Category is gang, pod or the like.
	Category string  `json:"cat,omitempty"`
	Time     micros  `json:"ts"`
	Duration *micros `json:"dur,omitempty"`
	Process  int     `json:"pid"`
	Track    int     `json:"tid"`
	// Scope is, of an instant, t for its track and p for all tracks of its group.
	Scope string `json:"s,omitempty"`
	Args  any    `json:"args,omitempty"`
}

// A file is the trace as it is written.
type file struct {
	w     *bufio.Writer
	empty bool
	err   error
}

func newFile(w io.Writer) *file {
	f := &file{w: bufio.NewWriterSize(w, 1<<16), empty: true}
	_, f.err = f.w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[` + "\n")
	return f
}

// add writes an event.
func (f *file) add(e *traceEvent) {
	if f.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		f.err = err
		return
	}
	if !f.empty {
		_, _ = f.w.WriteString(",\n") // an error stays with the writer
	}
	f.empty = false
	_, f.err = f.w.Write(line)
}

// slice writes a slice of a track.
func (f *file) slice(process, track int, name, category string, from, to eventlog.Time, args any) {
	d := micros(to - from)
	f.add(&traceEvent{Name: name, Phase: "X", Category: category, Time: micros(from), Duration: &d, Process: process,
		Track: track, Args: args})
}

// named gives a group of tracks, or with a track's number above 0 that track, its name and its place.
func (f *file) named(process, track, place int, name string) {
	what, sort := "process_name", "process_sort_index"
	if track > 0 {
		what, sort = "thread_name", "thread_sort_index"
	}
	about := func(what string, args any) {
		f.add(&traceEvent{Name: what, Phase: "M", Process: process, Track: track, Args: args})
	}
	about(what, map[string]string{"name": name})
	about(sort, map[string]int{"sort_index": place})
}

// end writes the file's end, with facts about the trace.
func (f *file) end(about map[string]string) error {
	if f.err != nil {
		return f.err
	}
	facts, err := json.Marshal(about)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f.w, "\n],\"otherData\":%s}\n", facts); err != nil {
		return err
	}
	return f.w.Flush()
}
