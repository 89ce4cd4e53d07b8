package logs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Moment is a place in a log in a form that a person types: an entry's number, a time, a time of day, or a duration
// before the log's last entry. Only an open log gives it a meaning. The zero Moment names no place.
type Moment struct {
	text  string
	seq   uint64
	time  time.Time
	day   bool          // clock is a time of day
	clock time.Duration // since midnight, in UTC
	ago   time.Duration // before the last entry
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

// In returns the entry's number, or the time, that the moment means in a log; the other of the two is 0. A time of day
// means its last occurrence in the log. The error is a *RequestError if the log has no such time.
func (m *Moment) In(ctx context.Context, log *Source) (seq uint64, at eventlog.Time, err error) {
	switch {
	case m.seq > 0 || !m.Given():
		return m.seq, 0, nil
	case !m.time.IsZero():
		return 0, eventlog.TimeOf(m.time), nil
	}
	first, last, err := log.span(ctx)
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
	day := last.Std().UTC().Truncate(24 * time.Hour).Add(m.clock)
	if day.After(last.Std()) {
		day = day.Add(-24 * time.Hour)
	}
	if day.Before(first.Std()) {
		return 0, 0, Refuse("%s is at no time of the log, which goes from %s to %s", m.text,
			first.Std().Format(time.RFC3339), last.Std().Format(time.RFC3339))
	}
	return 0, eventlog.TimeOf(day), nil
}

// Entry returns the entry that the moment means: for a time, the last entry that is not after it. It reports the entry
// chosen for a time.
func (m *Moment) Entry(ctx context.Context, log *Source) (uint64, error) {
	seq, at, err := m.In(ctx, log)
	if err != nil || at == 0 {
		return seq, err
	}
	taken := eventlog.Entry{}
	for e, err := range log.Read(ctx, log.First()) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		if e.Time > at {
			break
		}
		taken = eventlog.Entry{Seq: e.Seq, Time: e.Time}
	}
	if taken.Seq == 0 {
		return 0, Refuse("%s is before the first entry of the log", m.text)
	}
	log.ReportMoment(m, at, taken)
	return taken.Seq, nil
}

// ReportMoment reports the entry that was chosen for a time.
func (s *Source) ReportMoment(m *Moment, at eventlog.Time, taken eventlog.Entry) {
	s.Report("%s is %s: taken for it is entry %d, of %s", m.text, shortTime(at), taken.Seq, shortTime(taken.Time))
}

// ReportRange reports the entries that were chosen for the two ends of a range, where these are times. first is 0 if
// no entry is in the range.
func (s *Source) ReportRange(ctx context.Context, from, to *Moment, first, last uint64) error {
	for _, end := range []struct {
		m   *Moment
		seq uint64
	}{{from, first}, {to, last}} {
		_, at, err := end.m.In(ctx, s)
		switch {
		case err != nil:
			return err
		case at == 0:
			continue
		case first == 0:
			s.Report("%s is %s: no entry of the log is in that range", end.m.text, shortTime(at))
			continue
		}
		for e, err := range s.Read(ctx, end.seq) {
			if err != nil {
				return err
			}
			s.ReportMoment(end.m, at, e)
			break
		}
	}
	return nil
}

func shortTime(t eventlog.Time) string {
	return t.Std().UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
}

// span returns the times of the first and the last entry that can be read.
func (s *Source) span(ctx context.Context) (first, last eventlog.Time, err error) {
	end, err := s.Last()
	if err != nil {
		return 0, 0, err
	}
	for _, at := range []struct {
		seq  uint64
		time *eventlog.Time
	}{{s.First(), &first}, {end, &last}} {
		for e, err := range s.Read(ctx, at.seq) {
			if err != nil {
				return 0, 0, err
			}
			*at.time = e.Time
			break
		}
	}
	return first, last, nil
}
