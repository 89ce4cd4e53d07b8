package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
)

// TrimOptions select the entries to remove from a stream, and configure the reading of the log.
type TrimOptions struct {
	logs.Options
	// Before is the point before which entries are removed.
	Before Point
	// Copy is the name of the log that also has them.
	Copy string
}

// Trimmed is the result of Trim.
type Trimmed struct {
	Path string `json:"path"`
	// Before is the entry that TrimOptions.Before means, and Snapshot the entry of the snapshot that makes the removed
	// entries dispensable; 0 if no entry is that old.
	Before   uint64 `json:"before"`
	Snapshot uint64 `json:"snapshot"`
	Copy     string `json:"copy"`
	// From was the log's first entry, and First is its first entry now.
	From  uint64 `json:"from"`
	First uint64 `json:"first"`
	// Messages is the number of removed messages of the stream, and Bytes the decrease of its size.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Trim removes old entries from the stream of a log in NATS JetStream, if a copy has them and a snapshot covers them.
// It compares both with the log first. The log may have a writer.
func Trim(ctx context.Context, name string, opts TrimOptions) (*Trimmed, error) {
	if !logs.InStream(name) {
		return nil, logs.Refuse("%s is in no stream: rollcall log archive moves the old segments of a log in a "+
			"directory", logs.Shown(name))
	}
	log, err := opts.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &Trimmed{Path: log.Path(), Copy: logs.Shown(opts.Copy), From: log.First(), First: log.First()}
	before, err := r.limit(ctx, log, opts.Before)
	if err != nil || before <= r.From {
		return r, err
	}
	if err := r.compare(ctx, log, before-1, opts); err != nil {
		return nil, err
	}
	done, err := logs.Trim(ctx, name, before)
	if err != nil {
		return nil, err
	}
	r.First, r.Messages, r.Bytes = done.First, done.Messages, done.Bytes
	return r, nil
}

// limit returns the entry before which entries may be removed: the point's entry, or the entry after the newest
// snapshot before that, which it compares with the entries.
func (r *Trimmed) limit(ctx context.Context, log *logs.Source, point Point) (uint64, error) {
	var err error
	if r.Before, err = point.find(ctx, log); err != nil || r.Before <= log.First() {
		return 0, err
	}
	last, err := log.Last()
	if err != nil {
		return 0, err
	}
	m := log.Newest(1, min(r.Before, last))
	if m == nil {
		return 0, fmt.Errorf("nothing is taken out: there is no snapshot of entry %d or one before it that could "+
			"stand for the entries; write one with rollcall log snapshot %s --at %d", r.Before, r.Path,
			min(r.Before-1, last))
	}
	r.Snapshot = m.Seq()
	if err := log.Confirm(ctx, m); err != nil {
		return 0, fmt.Errorf("nothing is taken out: %w", err)
	}
	return min(r.Before, r.Snapshot+1), nil
}

// compare reads the copy's records of the entries to remove, and returns an error unless they are the log's.
func (r *Trimmed) compare(ctx context.Context, log *logs.Source, last uint64, opts TrimOptions) error {
	advice := fmt.Sprintf("run rollcall log copy %s %s first", r.Path, r.Copy)
	other, err := opts.Open(ctx, opts.Copy)
	if err != nil {
		return fmt.Errorf("nothing is taken out: the copy: %w; %s", err, advice)
	}
	defer other.Close()
	end, err := other.Last()
	if err != nil {
		return err
	}
	if other.First() > r.From || end < last {
		return logs.Refuse("nothing is taken out: %s has entries %d to %d, and %d to %d are to go: %s", r.Copy,
			other.First(), end, r.From, last, advice)
	}
	want, err := eventlog.OriginAt(ctx, log, last)
	if err != nil {
		return log.Advise(err)
	}
	for record, err := range other.Records(ctx, r.From) {
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return fmt.Errorf("nothing is taken out: the copy: %w", err)
		}
		if record.Seq%10000 == 0 {
			log.Progress("comparing the copy", record.Seq, last)
		}
		if record.Seq < last {
			continue
		}
		if record.Hash != want.Hash {
			return logs.Refuse("nothing is taken out: %s is another log: its entry %d is another one", r.Copy, last)
		}
		return nil
	}
	return fmt.Errorf("nothing is taken out: the copy ends before entry %d", last)
}
