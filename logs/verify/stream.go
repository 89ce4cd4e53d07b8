package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// runStream is Run for a log in NATS JetStream. It reads and decodes every entry, and checks the chain, the order of
// entries, and the hash trees that the log knows. It also checks each snapshot in the bucket beside the stream.
func runStream(ctx context.Context, name string, opts Options) (*Report, error) {
	log, err := opts.OpenUnexamined(ctx, name)
	if err != nil {
		return nil, err
	}
	v := verifier{opts: opts, report: &Report{Path: log.Path(), First: log.First()}, log: log}
	defer v.close()
	began := time.Now()
	err = v.stream(ctx)
	r := v.report
	r.Seconds = time.Since(began).Seconds()
	r.EntriesPerSecond = float64(r.Entries) / r.Seconds
	var damage *eventlog.DamagedError
	if err != nil && !errors.As(err, &damage) {
		return nil, err
	}
	if behind := log.Behind(); behind != nil {
		r.Unread = behind.Error()
	}
	r.found(damage)
	if damage == nil {
		if err := v.checkBeside(); err != nil {
			return nil, err
		}
	}
	if len(opts.Signed) > 0 {
		err = v.compare(ctx)
		return r, err
	}
	return r, nil
}

// stream checks the entries one after the other.
func (v *verifier) stream(ctx context.Context) error {
	r := v.report
	last, err := v.log.Last()
	if err != nil {
		return err
	}
	origin, err := eventlog.OriginAt(ctx, v.log, r.First-1)
	if err != nil {
		return err
	}
	tree, prev := origin.Tree.Clone(), eventlog.Header{}
	for rec, err := range v.log.Records(ctx, r.First) {
		if err != nil {
			return err
		}
		e, _, err := eventlog.DecodeRecord(rec.Bytes)
		if err != nil {
			return eventlog.DamageAt(r.Path, rec.Seq, err)
		}
		if prev.Seq > 0 || rec.Seq == 1 {
			if err := e.Header().Follows(prev); err != nil {
				return &eventlog.DamagedError{Path: r.Path, Seq: rec.Seq, Err: err}
			}
		}
		prev = e.Header()
		r.Recorder = r.Recorder || e.Kind() == eventlog.KindWatched
		tree.Add(rec.Hash)
		r.Entries++
		r.Hash, r.Root = fmt.Sprintf("%x", rec.Hash), ""
		v.log.Progress("", e.Seq, last)
		if err := v.compareTree(ctx, tree, e.Seq == last); err != nil {
			return err
		}
	}
	r.Root = tree.Root().String()
	return nil
}

// treesEvery is the number of entries between two comparisons of trees that a log knows. Trees are also compared at
// its end.
const treesEvery = 4096

// compareTree compares the tree that the log knows at a place with the tree of its entries.
func (v *verifier) compareTree(ctx context.Context, tree merkle.Tree, last bool) error {
	if tree.Size%treesEvery != 0 && !last {
		return nil
	}
	known, err := eventlog.TreeAt(ctx, v.log, tree.Size)
	if err != nil {
		return err
	}
	if !known.Equal(tree) {
		return &eventlog.DamagedError{Path: v.report.Path, Seq: tree.Size, Err: fmt.Errorf(
			"the hash tree over the first %d entries has the root %v, but the log says %v", tree.Size, tree.Root(),
			known.Root())}
	}
	return nil
}
