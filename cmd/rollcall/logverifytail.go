package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/localapi"
)

// tailFacts say which entries of a log that is being written to are not sealed, but told by the writer.
type tailFacts struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	// Ended says that the writer has ended meanwhile: it has not told all of them, the rest was read as it has left it.
	Ended bool `json:"ended,omitempty"`
}

// list finds the log's segments, and if a writer has the log, opens what that one tells of it too: before the segments
// are listed, so that nothing is left out between the two.
func (v *verifier) list() (*boltlog.Files, error) {
	files, err := v.open.list(v.facts.Path)
	if err != nil || !files.Live {
		return files, err
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if v.live, err = v.open.quietly(v.facts.Path); err != nil {
		return nil, err
	}
	if files, err = v.open.list(v.facts.Path); err == nil && !files.Live { // its writer has ended
		v.close()
		v.live = liveLog{}
	}
	return files, err
}

// reopen opens the log as a whole, unless list has.
func (v *verifier) reopen() (err error) {
	if v.live.records == nil {
		v.live, err = v.open.quietly(v.facts.Path)
	}
	return err
}

// close lets go of what list has opened.
func (v *verifier) close() {
	if v.live.records != nil {
		_ = v.live.Close() // it was only read
	}
}

// tail checks the entries behind the sealed segments, which were all found good: each for itself, and that they go on
// where those end.
func (v *verifier) tail(ctx context.Context) error {
	if v.live.unread != nil {
		v.facts.Unread = v.live.unread.Error()
		return nil
	}
	last, err := v.live.Last()
	if err != nil {
		return err
	}
	next := v.facts.First + v.facts.Entries
	if next > last {
		return nil // they were sealed meanwhile
	}
	joined, ok := v.live.records.(*localapi.Joined)
	if ok {
		v.facts.Tail = &tailFacts{First: next, Last: next - 1, PID: joined.Info().PID, Version: joined.Info().Version}
	}
	err = v.read(ctx, next, last)
	if t := v.facts.Tail; t != nil {
		t.Last, t.Ended = v.facts.First+v.facts.Entries-1, joined.Reopened()
	}
	if v.facts.First+v.facts.Entries > next {
		v.facts.Hash = fmt.Sprintf("%x", v.prev.Hash)
		if v.tree != nil {
			v.facts.Root = v.tree.Root().String()
		}
	}
	return err
}

// read checks the entries from next to last.
func (v *verifier) read(ctx context.Context, next, last uint64) error {
	for r, err := range v.live.Records(next) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var damage *eventlog.DamagedError
		if errors.As(err, &damage) {
			return err
		}
		if err != nil {
			v.facts.Unread = err.Error()
			return nil
		}
		if err := v.goOn(r.Bytes); err != nil {
			return &eventlog.DamagedError{Path: v.facts.Path, Seq: v.facts.First + v.facts.Entries, Err: err}
		}
		v.shown.show("entry %d of %d, which its writer tells", r.Seq, last)
	}
	if end := v.facts.First + v.facts.Entries - 1; end < last {
		v.facts.Unread = fmt.Sprintf("its writer said that there are %d entries, and told %d", last, end)
	}
	return nil
}

// goOn checks a record that is to be the next one, and makes it the last. Nothing is left to whoever has read it.
func (v *verifier) goOn(rec []byte) error {
	e, prev, err := eventlog.DecodeRecord(rec)
	if err != nil {
		return err
	}
	h, at := e.Header(), v.facts.First+v.facts.Entries
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
	v.prev.Last, v.prev.Hash = h, eventlog.HashRecord(rec)
	if v.tree != nil {
		v.tree.Add(v.prev.Hash)
	}
	v.facts.Entries++
	return nil
}

// unread is the error for a log that could not be read to its end.
func (v *verifier) unread() error {
	if v.facts.Unread == "" {
		return nil
	}
	return fmt.Errorf("only a part of %s was checked, because it is being written to, and its end could not be had (%s): "+
		"verify it again when its writer has ended", v.facts.Path, v.facts.Unread)
}

// writeTail says of a log that is being written to how far it was checked.
func (f *verifyFacts) writeTail(w io.Writer) error {
	last := f.First + f.Entries - 1
	if t := f.Tail; t != nil && t.Last >= t.First {
		state := "is writing to the log; verify it again, when it has ended,"
		if t.Ended {
			state = "has ended before it had told them all; verify the log again"
		}
		fmt.Fprintf(w, "tail      entries %d to %d were told by process %d (%s), which %s\n"+
			"          for the structure of the file to be checked too\n", t.First, t.Last, t.PID, t.Version, state)
	}
	var err error
	switch {
	case f.Unread != "" && f.Entries == 0:
		_, err = fmt.Fprintf(w, "NOT CHECKED, because it is being written to, and nothing of it could be read\n  %s\n", f.Unread)
	case f.Unread != "":
		_, err = fmt.Fprintf(w, "NOT CHECKED behind entry %d; entries %d to %d are good\n  %s\n", last, f.First, last, f.Unread)
	case f.Damage == nil:
		_, err = fmt.Fprintf(w, "whole up to entry %d\n", last)
	}
	return err
}
