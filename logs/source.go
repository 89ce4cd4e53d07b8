package logs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/localapi"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A Source is a log or a bundle that is open for reading, with its snapshots. What it yields ends with the entry that
// was last when it was opened. The methods that only read entries are safe for concurrent use.
type Source struct {
	reader
	path      string
	opts      Options
	snapshots snapshot.Series
	known     uint64 // the entry behind which the state is known, once Base was asked

	bundle   *bundle.Bundle   // nil unless it is one
	stored   *boltlog.Log     // the log as far as it is sealed, or all of it without a writer; nil for a bundle
	joined   *localapi.Joined // nil unless the writer tells the rest
	stream   *jetstream.Log   // nil unless it is in NATS JetStream
	beside   *inBucket        // the snapshots of one in NATS JetStream; nil for others
	looked   bool             // for snapshots of entries behind the end of one in NATS JetStream
	index    *Index           // once it was asked for
	live     bool             // a writer has it
	unserved error            // why it can be read only as far as it is sealed; nil if it continues
}

// reader is what logs, logs beside their writer, and bundles have in common.
type reader interface {
	eventlog.Reader
	Close() error
}

var (
	_ reader          = (*boltlog.Log)(nil)
	_ reader          = (*localapi.Joined)(nil)
	_ reader          = (*bundle.Bundle)(nil)
	_ reader          = (*jetstream.Log)(nil)
	_ eventlog.Reader = (*Source)(nil)
)

// Registry returns the plugins with which states of the log are made.
func (s *Source) Registry() framework.Registry { return s.opts.Registry }

// Path returns where the log is.
func (s *Source) Path() string { return s.path }

// A Size is how much a log or a bundle takes, without archived files and snapshots.
type Size struct {
	// Files is how many there are; of a log in a stream, how many messages.
	Files int
	// Bytes is the time that the files are together. A log's last one is up to 4 MiB longer than what was written to
	// it.
	Bytes int64
	// First is the first entry that is in these files.
	First uint64
}

// Size returns how much the log or the bundle takes.
func (s *Source) Size() (Size, error) {
	if s.stream != nil {
		messages, bytes, err := s.stream.Size(context.Background())
		return Size{int(messages), int64(bytes), s.First()}, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return Size{}, err
	}
	if info.Mode().IsRegular() {
		return Size{1, info.Size(), s.First()}, nil
	}
	segments, err := boltlog.OwnFiles(s.path)
	if err != nil || len(segments) == 0 {
		return Size{}, err
	}
	size := Size{Files: len(segments), First: segments[0].First}
	for _, f := range segments {
		size.Bytes += f.Bytes
	}
	return size, nil
}

// Report tells a person what is no error, by Options.Report.
func (s *Source) Report(format string, args ...any) { s.opts.report(format, args...) }

// Progress tells how far work on the log has come, by Options.Progress.
func (s *Source) Progress(work string, at, last uint64) { s.opts.progress(work, at, last) }

// IsStream reports whether it is in NATS JetStream.
func (s *Source) IsStream() bool { return s.stream != nil }

// IsBundle reports whether it is a bundle.
func (s *Source) IsBundle() bool { return s.bundle != nil }

// Manifest returns what a bundle says about itself; nil for a log.
func (s *Source) Manifest() *bundle.Manifest {
	if s.bundle == nil {
		return nil
	}
	m := s.bundle.Manifest()
	return &m
}

// Read implements eventlog.Reader. The error says what can be done about it.
func (s *Source) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range s.reader.Read(ctx, from) {
			if !yield(e, s.Advise(err)) {
				return
			}
		}
	}
}

// Archivable reports whether there may be segments to archive before an entry.
func (s *Source) Archivable(before uint64) bool {
	switch {
	case s.joined != nil:
		return s.joined.Archivable(before)
	case s.stored != nil:
		return s.stored.Archivable(before)
	}
	return false // a bundle has no segments
}

// DamageBehind returns the damage that is known to be behind entry last, the log's last one; nil for none.
func (s *Source) DamageBehind(last uint64) error {
	for _, err := range s.reader.Read(context.Background(), last+1) {
		return err
	}
	return nil
}

// MustHave returns an error if the log ends before entry at: the damage that is known to be behind its end, or a
// *RequestError.
func (s *Source) MustHave(at uint64) error {
	last, err := s.Last()
	if err != nil || at <= last {
		return err
	}
	if damage := s.DamageBehind(last); damage != nil {
		return s.Advise(damage)
	}
	return s.Beyond(at, last)
}

// Beyond is the error for an entry that was asked for behind the log's last one.
func (s *Source) Beyond(at, last uint64) error {
	return Refuse("there is no entry %d in %s: the last that can be read is %d", at, s.path, last)
}

// whyLater returns why the log begins with a later entry than 1.
func (s *Source) whyLater() error {
	for _, err := range s.Read(context.Background(), 1) {
		if err != nil {
			return err
		}
		break
	}
	return fmt.Errorf("%s begins with entry %d", s.path, s.First())
}

// ReportFirst reports why what is read of a log begins with a later entry than 1. Of a bundle that is to be expected.
func (s *Source) ReportFirst() {
	if s.bundle == nil {
		s.opts.report("%v", s.whyLater())
	}
}

// damagedArchive returns the damage of the archived part of a log, if it is there. That it is not there is no damage.
func (s *Source) damagedArchive() error {
	if s.First() == 1 {
		return nil
	}
	for _, err := range s.Read(context.Background(), 1) {
		var damaged *eventlog.DamagedError
		if errors.As(err, &damaged) {
			return err
		}
		break
	}
	return nil
}
