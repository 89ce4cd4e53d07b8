package logs

import (
	"context"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// EntryAt returns the entry that a moment means, 0 for a moment that names no place. It reports the entry chosen for a
// time.
func (s *Source) EntryAt(ctx context.Context, m *history.Moment) (uint64, error) {
	seq, at, err := m.In(ctx, s)
	if err != nil || at == 0 {
		return seq, err
	}
	p, err := history.New(s, history.Options{}).Resolve(ctx, m)
	if err != nil {
		return 0, err
	}
	s.ReportMoment(m, at, eventlog.Entry{Seq: p.Seq, Time: p.Time})
	return p.Seq, nil
}

// ReportMoment reports the entry that was chosen for a time.
func (s *Source) ReportMoment(m *history.Moment, at eventlog.Time, taken eventlog.Entry) {
	s.Report("%s is %s: taken for it is entry %d, of %s", m, shortTime(at), taken.Seq, shortTime(taken.Time))
}

// ReportRange reports the entries that were chosen for the two ends of a range, where these are times. first is 0 if
// no entry is in the range.
func (s *Source) ReportRange(ctx context.Context, from, to *history.Moment, first, last uint64) error {
	for _, end := range []struct {
		m   *history.Moment
		seq uint64
	}{{from, first}, {to, last}} {
		_, at, err := end.m.In(ctx, s)
		switch {
		case err != nil:
			return err
		case at == 0:
			continue
		case first == 0:
			s.Report("%s is %s: no entry of the log is in that range", end.m, shortTime(at))
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
