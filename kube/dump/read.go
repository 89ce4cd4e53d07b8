package dump

import (
	"context"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// readAhead is the number of entries that Read decodes at once, and the number of such batches that wait.
const (
	readAhead    = 256
	readyBatches = 8
)

// read is a batch of entries, and the error behind them.
type read struct {
	entries []eventlog.Entry
	err     error
}

// Read implements eventlog.Reader. Entries are decoded in another goroutine while the reader works on those before.
func (d *Dump) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		batches := make(chan read, readyBatches)
		go d.readInto(ctx, from, batches)
		for b := range batches {
			for _, e := range b.entries {
				if !yield(e, nil) {
					return
				}
			}
			if b.err != nil {
				yield(eventlog.Entry{}, b.err)
				return
			}
		}
		if ctx.Err() != nil {
			yield(eventlog.Entry{}, context.Cause(ctx))
		}
	}
}

// readInto sends the entries from one on, until they end or ctx does.
func (d *Dump) readInto(ctx context.Context, from uint64, batches chan<- read) {
	defer close(batches)
	var b read
	for e, err := range d.Memory.Read(ctx, from) {
		if b.err = err; err == nil {
			b.entries = append(b.entries, e)
		}
		if err == nil && len(b.entries) < readAhead {
			continue
		}
		select {
		case batches <- b:
			b = read{}
		case <-ctx.Done():
			return
		}
	}
	if len(b.entries) > 0 {
		select {
		case batches <- b:
		case <-ctx.Done():
		}
	}
}
