package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// list finds the log's segments. If the log has a writer, it first opens the writer's entries too, before it lists the
// segments, so that no entry is missed in between.
func (v *verifier) list(ctx context.Context) (*boltlog.Files, error) {
	files, err := v.opts.Files(v.report.Path)
	if err != nil || !files.Live {
		return files, err
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if err := v.open(ctx); err != nil && len(v.opts.Signed) > 0 {
		v.unopened = err // the readable entries are compared all the same
	} else if err != nil {
		return nil, err
	}
	if files, err = v.opts.Files(v.report.Path); err == nil && !files.Live { // its writer has ended
		v.close()
	}
	return files, err
}

// open opens the log as a whole, unless it is open.
func (v *verifier) open(ctx context.Context) (err error) {
	if v.log == nil {
		v.log, err = v.opts.OpenUnexamined(ctx, v.report.Path)
	}
	return err
}

// close closes the log that open has opened.
func (v *verifier) close() {
	if v.log != nil {
		_ = v.log.Close() // it was only read
		v.log = nil
	}
}

// tail checks the entries after the sealed segments, which were all found good: each alone, and that they continue the
// segments.
func (v *verifier) tail(ctx context.Context) error {
	if v.log.Unserved() != nil {
		v.report.Unread = v.log.Unserved().Error()
		return nil
	}
	last, err := v.log.Last()
	if err != nil {
		return err
	}
	next := v.report.First + v.report.Entries
	if next > last {
		return nil // they were sealed meanwhile
	}
	if w, ok := v.log.Writer(); ok {
		v.report.Tail = &Tail{First: next, Last: next - 1, PID: w.PID, Version: w.Version}
	}
	v.indexTail(ctx, next)
	err = v.read(ctx, next, last)
	if t := v.report.Tail; t != nil {
		w, _ := v.log.Writer()
		t.Last, t.Ended = v.report.Last(), w.Ended
	}
	if v.report.First+v.report.Entries > next {
		v.report.Hash = fmt.Sprintf("%x", v.prev.Hash)
		if v.tree != nil {
			v.report.Root = v.tree.Root().String()
		}
	}
	return err
}

// read checks the entries from next to last.
func (v *verifier) read(ctx context.Context, next, last uint64) error {
	for r, err := range v.log.Records(ctx, next) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var damage *eventlog.DamagedError
		if errors.As(err, &damage) {
			return err
		}
		if err != nil {
			v.report.Unread = err.Error()
			return nil
		}
		if err := v.goOn(r.Bytes); err != nil {
			return eventlog.DamageAt(v.report.Path, v.report.First+v.report.Entries, err)
		}
		if v.opts.Checked != nil {
			v.opts.Checked(Progress{Share: 1, Entry: r.Seq, Told: true, Last: last})
		}
	}
	if end := v.report.Last(); end < last {
		v.report.Unread = fmt.Sprintf("its writer said that there are %d entries, and told %d", last, end)
	}
	return nil
}

// goOn checks a record that must be the next one, and makes it the last. It does not rely on the checks of the reader.
func (v *verifier) goOn(rec []byte) error {
	e, prev, err := eventlog.DecodeRecord(rec)
	if err != nil {
		return err
	}
	h, at := e.Header(), v.report.First+v.report.Entries
	switch {
	case h.Seq != at:
		return fmt.Errorf("its record is that of entry %d", h.Seq)
	case prev != v.prev.Hash:
		return fmt.Errorf("it follows a record of hash %x, but the one before it has %x", prev, v.prev.Hash)
	case v.prev.Last.Seq == 0 && at > 1: // the one before it was not read
	default:
		if err := h.Follows(v.prev.Last); err != nil {
			return err
		}
	}
	v.report.Recorder = v.report.Recorder || e.Kind() == eventlog.KindWatched
	v.prev.Last, v.prev.Hash = h, eventlog.HashRecord(rec)
	if v.tree != nil {
		v.tree.Add(v.prev.Hash)
	}
	v.report.Entries++
	v.index.add(v.maker.entry(e, v.prev.Hash))
	return nil
}
