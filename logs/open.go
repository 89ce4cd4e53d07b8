package logs

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Options are the options for reading a log. With the zero value, Open reports nothing and has no plugins.
type Options struct {
	// Archives are directories with archived segments. They are searched before the ones that the log names. If there
	// are any, it is an error if an archived segment is not found.
	Archives []string
	// Registry holds the plugins that the log's configurations may name. If one is missing, the log can be read, but
	// no state can be made and no snapshot used.
	Registry framework.Registry
	// Report, if not nil, gets notes for a person that are no errors, a sentence at a time.
	Report func(message string)
	// Dump says how dumps are read. Its notes and its progress go to Report and Progress.
	Dump dump.Options
	// Progress, if not nil, gets the progress of long work now and then.
	Progress Progress
}

// Progress gets the progress of long work: at entry at of last, or of an unknown number if last is 0. work names the
// work on the entries; "" means that they are read. It is called for every entry, and has to be cheap.
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

// Open opens an existing log, a bundle or a dump. If a scheduler is writing to the log, Open reads up to the present
// last entry, or up to the last sealed one if the scheduler does not answer. Report gets that entry. When ctx ends, so
// does reading from the scheduler.
//
// A bundle is checked from end to end. The last archived segment of a log is checked as well: damage there is an
// error.
func (o Options) Open(ctx context.Context, name string) (*Source, error) {
	s, err := o.OpenUnexamined(ctx, name)
	if err != nil || s.IsBundle() || s.Dumped != nil {
		return s, err
	}
	if err := errors.Join(s.damagedArchive(), s.reportWriter()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenUnexamined is Open for a reader that looks for damage itself. Damage of archived segments is no error, and
// Report does not get the last readable entry of a log with a writer.
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
	} else if dump.Is(path) {
		d, err := o.openDump(ctx, path)
		if err != nil {
			return nil, err
		}
		s.reader, s.Dumped, store = d, d, noSnapshots{}
	} else if err := s.openDirectory(ctx); err != nil {
		return nil, err
	}
	s.snapshots = snapshot.Series{Store: store, Position: s.positionIn(ctx), Registry: o.Registry}
	return s, nil
}

// Files finds the segments of the log with a name, for a reader that reads them one by one.
func (o Options) Files(name string) (*boltlog.Files, error) {
	path, err := Path(name)
	if err != nil {
		return nil, err
	}
	files, err := boltlog.Options{Archives: o.Archives}.List(path)
	return files, explainAbsence(path, err)
}
