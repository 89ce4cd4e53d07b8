package logs

import (
	"context"
	"errors"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
	"github.com/rollcall-sched/rollcall/snapshot"
)

const (
	// serveTime is the time that Open waits for a log that is written to and not served. A scheduler serves it shortly
	// after it has opened it, and closes it shortly after it has stopped serving it.
	serveTime = time.Second
	// serveEvery is the pause between two attempts.
	serveEvery = 20 * time.Millisecond
)

// openDirectory opens the log in a directory, and joins to it the records of the scheduler that is writing to it, if
// there is one.
func (s *Source) openDirectory(ctx context.Context) error {
	opts := boltlog.DefaultOptions()
	opts.Archives = s.opts.Archives
	for began := time.Now(); ; time.Sleep(serveEvery) {
		log, err := opts.OpenReadOnly(s.path)
		if err != nil {
			return explainAbsence(s.path, err)
		}
		s.reader, s.stored = log, log
		if s.live = log.Live(); !s.live {
			if err := findLoss(log); err != nil {
				return errors.Join(err, log.Close())
			}
			return nil
		}
		s.joined, err = localapi.Join(ctx, s.path, log,
			func() (localapi.Sealed, error) { return opts.OpenReadOnly(s.path) })
		if err == nil {
			s.reader = s.joined
			return nil
		}
		if !errors.Is(err, localapi.ErrNotServed) || time.Since(began) > serveTime {
			s.unserved = err
			return nil
		}
		if err := log.Close(); err != nil {
			return err
		}
	}
}

// findLoss makes reading end with damage if the log, which has no writer, ends before an entry of which there is a
// snapshot. If that is unknown, reading ends with another error.
func findLoss(log *boltlog.Log) error {
	last, err := log.Last()
	if err != nil {
		return err
	}
	series := snapshot.Series{Store: SnapshotsOf(log.Path())}
	lost, _, err := series.Beyond(last)
	if lost != nil {
		log.Lacks(lost)
	}
	log.EndUnknown(AdviseOnUnknownEnd(log.Path(), err))
	return nil
}

// Live reports whether a scheduler was writing to the log when it was opened.
func (s *Source) Live() bool { return s.live }

// Unserved returns the reason why only the sealed entries of a log with a writer are read; nil if all are.
func (s *Source) Unserved() error { return s.unserved }

// Behind returns the reason why a log in a stream may have acknowledged entries that are not read; nil if it has none.
func (s *Source) Behind() error {
	if s.stream == nil {
		return nil
	}
	return s.stream.Behind()
}

// A Writer is the process that sends the entries that are not sealed yet.
type Writer struct {
	PID     int
	Version string
	// Ended reports whether it ended before it had sent all requested entries; the rest was read from its files.
	Ended bool
}

// Writer returns the process that sends the entries that are not sealed yet; false if there is none.
func (s *Source) Writer() (Writer, bool) {
	if s.joined == nil {
		return Writer{}, false
	}
	info := s.joined.Info()
	return Writer{PID: info.PID, Version: info.Version, Ended: s.joined.Reopened()}, true
}

// reportWriter reports up to which entry a log with a writer is read.
func (s *Source) reportWriter() error {
	last, err := s.Last()
	switch {
	case err != nil:
		return err
	case !s.live:
	case s.unserved == nil:
		s.opts.report("the log is being written to: read up to entry %d", last)
	default:
		if !errors.Is(s.unserved, localapi.ErrNotServed) {
			s.opts.report("%v", s.unserved)
		}
		s.opts.report("the log is being written to: read up to entry %d, which is the last that is sealed", last)
	}
	return nil
}
