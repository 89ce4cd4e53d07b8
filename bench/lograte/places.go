package lograte

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
)

// A place holds the logs to measure, and the files or streams to compare them with.
type place interface {
	// shown is the place's name, raw the name of the things that logs are compared with.
	shown() string
	raw() string
	// begin makes a log, and a raw end to compare it with, for one size of batch.
	begin(ctx context.Context, size int) (log eventlog.Log, raw rawEnd, err error)
	// reopen opens the log of a size again, for reading.
	reopen(ctx context.Context, size int) (eventlog.Log, error)
	// remove removes everything that begin made.
	remove() error
}

// A rawEnd takes bytes and makes them durable.
type rawEnd interface {
	write(ctx context.Context, data []byte) error
	Close() error
}

// place makes the place that the options name.
func (o *Options) place() (place, error) {
	if o.Log != "" {
		at, err := jetstream.Parse(o.Log)
		if err != nil {
			return nil, err
		}
		return &streams{at: at}, nil
	}
	work, err := os.MkdirTemp(o.Dir, "rollcall-bench-")
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	return &directory{dir: o.Dir, work: work}, nil
}

// A directory is a place on a file system.
type directory struct{ dir, work string }

func (d *directory) shown() string { return d.dir }
func (d *directory) raw() string   { return "append+fdatasync" }
func (d *directory) remove() error { return os.RemoveAll(d.work) }

func (d *directory) path(size int) string { return filepath.Join(d.work, fmt.Sprint(size), "log") }

func (d *directory) begin(_ context.Context, size int) (eventlog.Log, rawEnd, error) {
	path := d.path(size)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, err
	}
	log, err := boltlog.Create(path)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(path), "raw"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, syncedFile{file}, nil
}

func (d *directory) reopen(_ context.Context, size int) (eventlog.Log, error) {
	return boltlog.OpenReadOnly(d.path(size))
}

// A syncedFile is synced after each write.
type syncedFile struct{ *os.File }

func (f syncedFile) write(_ context.Context, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	return syncData(f.File)
}

// streams are a place in NATS JetStream: for each size one stream with the log, and one with plain messages.
type streams struct {
	at   *jetstream.Address
	made []*jetstream.Address
}

func (s *streams) shown() string { return s.at.String() }
func (s *streams) raw() string   { return "plain publish" }

// named returns the address of a stream beside the one that was named.
func (s *streams) named(kind string, size int) *jetstream.Address {
	at := *s.at
	at.Stream = fmt.Sprintf("%s-bench-%s-%d", s.at.Stream, kind, size)
	return &at
}

func (s *streams) begin(ctx context.Context, size int) (eventlog.Log, rawEnd, error) {
	at, plain := s.named("log", size), s.named("plain", size)
	log, err := at.Create(ctx, eventlog.Origin{})
	if err != nil {
		return nil, nil, err
	}
	s.made = append(s.made, at)
	bare, err := plain.CreateBare(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	s.made = append(s.made, plain)
	return log, bareEnd{bare}, nil
}

func (s *streams) reopen(ctx context.Context, size int) (eventlog.Log, error) {
	return s.named("log", size).OpenReadOnly(ctx)
}

func (s *streams) remove() (err error) {
	for _, at := range s.made {
		err = errors.Join(err, at.Remove(context.Background())) // also when the measurement was broken off
	}
	return err
}

type bareEnd struct{ *jetstream.Bare }

// write publishes data in as few messages as possible, all at once.
func (b bareEnd) write(ctx context.Context, data []byte) error {
	errs := make([]error, (len(data)+b.Most()-1)/b.Most())
	var all sync.WaitGroup
	for i := range errs {
		piece := data[i*b.Most() : min(len(data), (i+1)*b.Most())]
		all.Go(func() { errs[i] = b.Publish(ctx, piece) })
	}
	all.Wait()
	return errors.Join(errs...)
}
