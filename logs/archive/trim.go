package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
)

// TrimOptions say what is taken out of a stream, and how the log is read for it.
type TrimOptions struct {
	logs.Options
	// Before is the point before which entries are taken out.
	Before Point
	// Copy is the name of the log that has them, too.
	Copy string
}

// Trimmed says what Trim has done.
type Trimmed struct {
	Path string `json:"path"`
	// Before is the entry that TrimOptions.Before means, and Snapshot that of the snapshot that makes what goes
	// dispensable; 0 if nothing is that old.
	Before   uint64 `json:"before"`
	Snapshot uint64 `json:"snapshot"`
	Copy     string `json:"copy"`
	// From is the entry with which the log began, and First the one with which it begins now.
	From  uint64 `json:"from"`
	First uint64 `json:"first"`
	// Messages is how many messages of the stream went, and Bytes what it is smaller by.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Trim takes old entries out of the stream of a log in NATS JetStream, which a copy has and a snapshot means. Both are
// compared with the log first. A writer may have the log.
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

// limit returns the entry before which entries may go: that of the point, or the one behind the newest snapshot before
// that, which is compared with the entries.
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

// compare reads the copy's records of what is to go, and returns an error unless they are the log's.
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
