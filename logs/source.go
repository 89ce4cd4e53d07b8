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
	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A Source is a log, a bundle or a dump that is open for reading, with its snapshots. It ends with the entry that was
// last when it was opened. The methods that only read entries are safe for concurrent use.
type Source struct {
	reader
	// Dumped is the dump that the log was made of; nil for a log that somebody has recorded.
	Dumped *dump.Dump

	path      string
	opts      Options
	snapshots snapshot.Series
	known     uint64 // the entry after which the state is known, once Base was called

	bundle   *bundle.Bundle   // nil unless it is one
	stored   *boltlog.Log     // the log as far as it is sealed, or all of it without a writer; nil for a bundle
	joined   *localapi.Joined // nil unless the writer sends the rest
	stream   *jetstream.Log   // nil unless it is in NATS JetStream
	beside   *inBucket        // the snapshots of one in NATS JetStream; nil for others
	looked   bool             // whether snapshots beyond the end of a log in NATS JetStream were searched
	index    *Index           // nil until it is needed
	live     bool             // a writer has it
	unserved error            // the reason why only sealed entries can be read; nil if all can
}

// reader is the common part of logs, logs beside their writer, and bundles.
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

// Registry returns the plugins for making states of the log.
func (s *Source) Registry() framework.Registry { return s.opts.Registry }

// Path returns the path or URL of the log.
func (s *Source) Path() string { return s.path }

// A Size is the size of a log or a bundle, without archived files and snapshots.
type Size struct {
	// Files is the number of files; for a log in a stream, the number of messages.
	Files int
	// Bytes is the total size of the files. A log's last file is up to 4 MiB longer than its content.
	Bytes int64
	// First is the first entry in these files.
	First uint64
}

// Size returns the size of the log or the bundle.
func (s *Source) Size() (Size, error) {
	if s.stream != nil {
		messages, bytes, err := s.stream.Size(context.Background())
		return Size{int(messages), int64(bytes), s.First()}, err
	}
	if s.Dumped != nil {
		return Size{First: s.First()}, nil
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

// Report reports a note for a person that is no error, through Options.Report.
func (s *Source) Report(format string, args ...any) { s.opts.report(format, args...) }

// Progress reports the progress of work on the log, through Options.Progress.
func (s *Source) Progress(work string, at, last uint64) { s.opts.progress(work, at, last) }

// IsStream reports whether it is in NATS JetStream.
func (s *Source) IsStream() bool { return s.stream != nil }

// IsBundle reports whether it is a bundle.
func (s *Source) IsBundle() bool { return s.bundle != nil }

// Manifest returns a bundle's manifest; nil for a log.
func (s *Source) Manifest() *bundle.Manifest {
	if s.bundle == nil {
		return nil
	}
	m := s.bundle.Manifest()
	return &m
}

// Read implements eventlog.Reader. Its errors come with advice.
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

// DamageBehind returns the known damage after entry last, the log's last one; nil for none.
func (s *Source) DamageBehind(last uint64) error {
	for _, err := range s.reader.Read(context.Background(), last+1) {
		return err
	}
	return nil
}

// MustHave returns an error if the log ends before entry at: the known damage after its end, or a *RequestError.
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

// Beyond is the error for a requested entry after the log's last one.
func (s *Source) Beyond(at, last uint64) error {
	return Refuse("there is no entry %d in %s: the last that can be read is %d", at, s.path, last)
}

// whyLater returns the reason why the log begins with a later entry than 1.
func (s *Source) whyLater() error {
	for _, err := range s.Read(context.Background(), 1) {
		if err != nil {
			return err
		}
		break
	}
	return fmt.Errorf("%s begins with entry %d", s.path, s.First())
}

// ReportFirst reports the reason why the readable part of a log begins with a later entry than 1. For a bundle that is
// normal, and not reported.
func (s *Source) ReportFirst() {
	if s.bundle == nil {
		s.opts.report("%v", s.whyLater())
	}
}

// damagedArchive returns the damage of the archived part of a log, if that part is present. A missing archive is not
// damage.
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
