package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Options say how a log is opened for reading. The zero value opens it silently, and has no plugins.
type Options struct {
	// Archives are directories with archived segments, searched before those that the log names. If there are any,
	// it is an error that an archived segment is not found.
	Archives []string
	// Registry holds the plugins that the log's configurations may name. Without one of them no state can be made and
	// no snapshot used: the log can be read, and that is all.
	Registry framework.Registry
	// Report, if it is not nil, is told what a person should know and what is no error, a sentence at a time.
	Report func(message string)
	// Progress, if it is not nil, is told now and then how far long work has come.
	Progress Progress
}

// Progress is told how far long work has come: at entry at of last, or of an unknown number if last is 0. work says
// what is done with the entries; "" says that they are read. It is called for every entry, and has to be cheap.
type Progress func(work string, at, last uint64)

func (o *Options) report(format string, args ...any) {
	if o.Report != nil {
		o.Report(fmt.Sprintf(format, args...))
	}
}

func (o *Options) progress(work string, at, last uint64) {
	if o.Progress != nil {
		o.Progress(work, at, last)
	}
}

// Open opens an existing log or a bundle. If a scheduler is writing to the log it is read as far as it goes by now,
// or as far as it is sealed if that scheduler does not answer; how far that is goes to Report. When ctx ends, so does
// reading what the scheduler tells.
//
// A bundle is checked from end to end. So is the last archived segment of a log: damage there is an error.
func (o Options) Open(ctx context.Context, name string) (*Source, error) {
	s, err := o.OpenUnexamined(ctx, name)
	if err != nil || s.IsBundle() {
		return s, err
	}
	if err := errors.Join(s.damagedArchive(), s.reportWriter()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenUnexamined is Open for a reader that looks for damage itself: damage of archived segments is no error, and
// Report is not told how far the log can be read beside its writer.
func (o Options) OpenUnexamined(ctx context.Context, name string) (*Source, error) {
	if InStream(name) {
		return o.openStream(ctx, name)
	}
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	s := &Source{path: path, opts: o}
	var store snapshot.Store = SnapshotsOf(path)
	if bundle.Is(path) {
		b, err := bundle.Open(path, func(seq uint64) { o.progress("checking the bundle", seq, 0) })
		if err != nil {
			return nil, err
		}
		s.reader, s.bundle, store = b, b, bundled{b}
	} else if err := s.openDirectory(ctx); err != nil {
		return nil, err
	}
	s.snapshots = snapshot.Series{Store: store, Position: s.positionIn(ctx), Registry: o.Registry}
	return s, nil
}

// Files finds the segments of the log with a name, for a reader that looks at them one by one.
func (o Options) Files(name string) (*boltlog.Files, error) {
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	files, err := boltlog.Options{Archives: o.Archives}.List(path)
	return files, explainAbsence(path, err)
}
