package history

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A RequestError says that a request is impossible, whatever the state of the log: the request has to change.
type RequestError struct{ Err error }

// Error implements error.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RequestError) Unwrap() error { return e.Err }

func refuse(format string, args ...any) error { return &RequestError{fmt.Errorf(format, args...)} }

// A Moment is a place in a log in a form that a person types: an entry's number, a time, a time of day, or a duration
// before the log's last entry. Only an open log gives it a meaning. The zero Moment names no place.
type Moment struct {
	text  string
	seq   uint64
	time  time.Time
	day   bool          // clock is a time of day
	clock time.Duration // since midnight, in UTC
	ago   time.Duration // before the last entry
	end   *Moment       // of the range that it begins; nil for none
}

// momentForms lists the forms of a Moment.
const momentForms = "an entry's number above 0, a time such as 2026-01-03T14:03:00Z or \"2026-01-03 14:03\" (UTC), " +
	"a time of day such as 14:03, or -5m for five minutes before the log's last entry"

// momentLayouts are the layouts of times without a zone, which are in UTC.
var momentLayouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02"}

// ParseMoment reads a moment.
func ParseMoment(text string) (Moment, error) {
	m := Moment{text: text}
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil && seq > 0 {
		m.seq = seq
		return m, nil
	}
	if age, found := strings.CutPrefix(text, "-"); found {
		var err error
		if m.ago, err = time.ParseDuration(age); err == nil && m.ago > 0 {
			return m, nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return m, m.setTime(t)
	}
	for _, layout := range momentLayouts {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return m, m.setTime(t)
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			m.day, m.clock = true, t.Sub(t.Truncate(24*time.Hour))
			return m, nil
		}
	}
	return Moment{}, errors.New("want " + momentForms)
}

// setTime sets a time that a log can have.
func (m *Moment) setTime(t time.Time) error {
	if t.Year() < 1970 || t.Year() > 2200 || t.UnixNano() <= 0 {
		return fmt.Errorf("%s is not a time that a log can have: want %s", m.text, momentForms)
	}
	m.time = t
	return nil
}

// Given reports whether it names a place.
func (m *Moment) Given() bool { return m.text != "" }

// String implements pflag.Value: the text that was given.
func (m *Moment) String() string { return m.text }

// Type implements pflag.Value.
func (m *Moment) Type() string { return "entry" }

// Set implements pflag.Value.
func (m *Moment) Set(text string) (err error) {
	*m, err = ParseMoment(text)
	return err
}

// Begins says that the moment begins a range, and where that ends: a time of day is then the last one before that.
func (m *Moment) Begins(end *Moment) { m.end = end }

// In returns the entry's number, or the time, that the moment means in a log; the other of the two is 0. A time of day
// means its last occurrence in the log, or in the range that it begins. The error is a *RequestError if the log has no
// such time.
func (m *Moment) In(ctx context.Context, log Reader) (seq uint64, at eventlog.Time, err error) {
	switch {
	case m.seq > 0 || !m.Given():
		return m.seq, 0, nil
	case !m.time.IsZero():
		return 0, eventlog.TimeOf(m.time), nil
	}
	first, last, err := span(ctx, log)
	if err != nil {
		return 0, 0, err
	}
	if m.ago > 0 {
		at := last.Std().Add(-m.ago)
		if at.UnixNano() <= 0 {
			at = first.Std()
		}
		return 0, eventlog.TimeOf(at), nil
	}
	latest := last
	if m.end != nil && m.end.Given() {
		_, until, err := m.end.In(ctx, log)
		if err != nil {
			return 0, 0, err
		}
		if until != 0 {
			latest = min(last, until)
		}
	}
	day := latest.Std().UTC().Truncate(24 * time.Hour).Add(m.clock)
	if day.After(latest.Std()) {
		day = day.Add(-24 * time.Hour)
	}
	if day.Before(first.Std()) && latest != last {
		return 0, 0, refuse("there is no entry in that range: %s is at no time of the log before %s, "+
			"which begins at %s", m.text,
			latest.Std().Format(time.RFC3339), first.Std().Format(time.RFC3339))
	}
	if day.Before(first.Std()) {
		return 0, 0, refuse("%s is at no time of the log, which goes from %s to %s", m.text,
			first.Std().Format(time.RFC3339), last.Std().Format(time.RFC3339))
	}
	return 0, eventlog.TimeOf(day), nil
}

// Resolve returns the last entry that is not behind a moment; the last entry of the log if the moment names no place.
// The error is a *RequestError if the log has no such time, and wraps ErrBeyond for an entry behind the last one.
func (l *Log) Resolve(ctx context.Context, m *Moment) (Point, error) {
	seq, at, err := m.In(ctx, l.source)
	if err != nil {
		return Point{}, err
	}
	p, err := l.Locate(ctx, Bound{seq, at})
	if err == nil && p.Seq == 0 && m.Given() {
		err = refuse("%s is before the first entry of the log", m.text)
	}
	return p, err
}

// Means is Moment.In for the log.
func (l *Log) Means(ctx context.Context, m *Moment) (seq uint64, at eventlog.Time, err error) {
	return m.In(ctx, l.source)
}

// Locate returns the last entry within a bound; the zero Point if there is none. Without an index, a time is found by
// reading the log up to it.
func (l *Log) Locate(ctx context.Context, b Bound) (p Point, err error) {
	last, err := l.source.Last()
	if err != nil {
		return p, err
	}
	if b.Seq > last {
		return p, &beyondError{b.Seq, last}
	}
	x := l.indexFor(ctx, Query{Since: b.Time})
	from := max(1, l.source.First())
	if x != nil || b.Time == 0 {
		if from, err = l.boundary(ctx, x, b); err != nil || from < max(1, l.source.First()) {
			return p, err
		}
		b = Bound{Seq: from}
	}
	for e, err := range l.source.Read(ctx, from) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return p, err
		}
		if b.excludes(e) {
			return p, nil
		}
		if p = pointOf(e); e.Seq == b.Seq {
			return p, nil
		}
		l.progress(e.Seq)
	}
	return p, nil
}

// FirstSince returns the first entry whose time is not before t. It is the one behind the last entry if there is none.
// Without an index a few entries are read: times never go back.
func (l *Log) FirstSince(ctx context.Context, t eventlog.Time) (uint64, error) {
	first := max(1, l.source.First())
	if x := l.indexFor(ctx, Query{Since: t}); x != nil {
		before, err := x.Until(ctx, t-1)
		return max(first, before+1), err
	}
	last, err := l.source.Last()
	if err != nil {
		return 0, err
	}
	var failed error
	n := sort.Search(int(max(first, last+1)-first), func(i int) bool {
		for e, err := range l.source.Read(ctx, first+uint64(i)) {
			if err != nil {
				failed = err
			}
			return err != nil || e.Time >= t
		}
		return true
	})
	return first + uint64(n), failed
}

// span returns the times of the first and the last entry that can be read.
func span(ctx context.Context, log Reader) (first, last eventlog.Time, err error) {
	end, err := log.Last()
	if err != nil {
		return 0, 0, err
	}
	for _, at := range []struct {
		seq  uint64
		time *eventlog.Time
	}{{log.First(), &first}, {end, &last}} {
		for e, err := range log.Read(ctx, at.seq) {
			if err != nil {
				return 0, 0, err
			}
			*at.time = e.Time
			break
		}
	}
	return first, last, nil
}
