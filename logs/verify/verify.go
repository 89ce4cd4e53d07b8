package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Options configure a verification.
type Options struct {
	logs.Options
	// Signed are signed checkpoints of the log to compare it with, from the smallest to the largest.
	Signed []proof.Checkpoint
	// Checker makes the command that checks segments: its process calls CheckSegments with its standard input and
	// output.
	Checker func(ctx context.Context) (*exec.Cmd, error)
	// Checked, if not nil, gets the progress now and then.
	Checked func(Progress)
}

// Progress is the progress of a verification.
type Progress struct {
	// Share is the share of the segments' bytes that is checked, if the entries of one segment are equally large.
	Share float64
	// Segment is the segment under way, of Segments.
	Segment, Segments int
	// Entry is the last one checked.
	Entry uint64
	// Told says that the segments are checked, and that the writer's entries up to Last are being checked.
	Told bool
	Last uint64
}

// Run verifies the log or the bundle with a name. An error says that it could not be verified; its faults are in the
// Report, and in Report.Err. The faults of a bundle have no place in a log, and are an error. If there are signed
// checkpoints to compare with, Run always returns a Report, which names each of them. An error then means that the
// name is invalid, or that ctx has ended.
func Run(ctx context.Context, name string, opts Options) (*Report, error) {
	if logs.InStream(name) {
		return runStream(ctx, name, opts)
	}
	path, err := logs.Path(name)
	if err != nil {
		return nil, err
	}
	if dir, ok := boltlog.SegmentOf(path); ok {
		return nil, logs.Refuse(
			"%s is a file of a log, which cannot be checked without the one before it: verify the log, %s",
			path,
			dir,
		)
	}
	v := verifier{opts: opts, report: &Report{Path: path}}
	defer v.close()
	if bundle.Is(path) {
		err = v.bundle(ctx)
	} else if err = v.run(ctx); err == nil {
		err = v.checkSnapshots(ctx)
	}
	if err == nil && len(opts.Signed) > 0 {
		err = v.compare(ctx)
	}
	if err != nil && len(opts.Signed) > 0 && ctx.Err() == nil {
		return v.report, v.failed(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return v.report, nil
}

// A verifier checks the segments of a log one after the other, and each against the one before it.
type verifier struct {
	opts   Options
	report *Report
	prev   segmentReport
	tree   *merkle.Tree // over the entries checked and those before; nil if it is not known
	sizes  []int64      // of the segments' files, in bytes
	at     int          // the segment under way
	before int64        // bytes of the segments before it
	total  int64

	checker *segmentChecker
	index   indexCheck
	maker   *partMaker   // of the parts of the index that need entries from the writer
	good    goodEntries  // the good entries of the segments checked
	log     *logs.Source // as a whole; nil as long as it is not open
	// unopened is the reason why log is not open although it has a writer, such as an unreadable segment.
	unopened error
}

// run checks the segments, and then the entries that a writer sends.
func (v *verifier) run(ctx context.Context) error {
	files, err := v.list(ctx)
	if err != nil {
		return err
	}
	defer files.Close()
	v.measure(files.Paths)
	v.report.Live = files.Live
	v.report.First = files.Before.Last + 1
	if files.Absent != nil {
		var unreadable *eventlog.UnreadableError
		var damage *eventlog.DamagedError
		if errors.As(files.Absent, &unreadable) {
			return files.Absent
		}
		if errors.As(files.Absent, &damage) {
			v.report.found(damage)
			return nil
		}
		v.report.Absent = files.Absent.Error()
	}
	v.prev = segmentReport{Facts: files.Before, Hash: files.Before.Hash}
	if v.tree = files.Before.SealedTree; v.tree == nil && files.Before.Last == 0 {
		v.tree = &merkle.Tree{}
	}
	v.good = goodEntries{first: v.report.First, before: files.Before.Hash}
	v.index = loadIndex(v.report.Path)
	began := time.Now()
	err = v.segments(ctx, files)
	if err == nil && v.unopened != nil {
		return v.unopened
	}
	if err == nil && files.Live {
		err = v.tail(ctx)
	}
	v.report.Seconds = time.Since(began).Seconds()
	var damage *eventlog.DamagedError
	if !errors.As(err, &damage) && err != nil {
		return err
	}
	if damage == nil && !files.Live {
		damage = v.loss()
	}
	v.report.found(damage)
	v.report.Index = v.index.result(v.report.First, v.report.Last())
	v.report.EntriesPerSecond = float64(v.report.Entries) / v.report.Seconds
	if files.Live && v.opts.Report != nil {
		v.opts.Report(fmt.Sprintf("the log is being written to: read up to entry %d", v.report.Last()))
	}
	return nil
}

// measure reads the sizes of the segments, for the progress. Errors are found when the segment is checked.
func (v *verifier) measure(paths []string) {
	for _, path := range paths {
		size := int64(0)
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		v.sizes = append(v.sizes, size)
		v.total += size
	}
}

// segments checks all segments.
func (v *verifier) segments(ctx context.Context, files *boltlog.Files) (err error) {
	if v.checker, err = newSegmentChecker(ctx, files, v.opts.Checker, &v.index); err != nil {
		return err
	}
	defer v.checker.close()
	for i, path := range files.Paths {
		v.at = i
		if err := v.segment(ctx, path); err != nil {
			return err
		}
		v.before += v.sizes[i]
	}
	return nil
}

// loss returns the damage of a log without a writer that is whole in itself but had more entries.
func (v *verifier) loss() *eventlog.DamagedError {
	last := v.report.Last()
	series := snapshot.Series{Store: logs.SnapshotsOf(v.report.Path)}
	lost, _, err := series.Beyond(last)
	if err != nil {
		v.report.EndUnknown = err.Error()
	}
	if lost == nil {
		return nil
	}
	return &eventlog.DamagedError{Path: v.report.Path, Seq: last + 1, Err: lost}
}

// bundle verifies a bundle: opening it checks all of it.
func (v *verifier) bundle(ctx context.Context) error {
	began := time.Now()
	if err := v.open(ctx); err != nil {
		return err
	}
	r := v.report
	r.Seconds = time.Since(began).Seconds()
	last, err := v.log.Last()
	if err != nil {
		return err
	}
	end, err := eventlog.OriginAt(ctx, v.log, last)
	if err != nil {
		return err
	}
	r.First, r.Entries = v.log.First(), last+1-v.log.First()
	r.EntriesPerSecond = float64(r.Entries) / r.Seconds
	if _, err := v.findSnapshots(); err != nil {
		return err
	}
	r.Hash, r.Root = fmt.Sprintf("%x", end.Hash), end.Tree.Root().String()
	r.found(nil)
	return nil
}

// compare compares the good entries of the log with signed checkpoints.
func (v *verifier) compare(ctx context.Context) error {
	r := v.report
	var found audit.Comparison
	if err := v.open(ctx); err == nil {
		if found, err = audit.Compare(ctx, v.log, v.opts.Signed, r.Last(), r.rest()); err != nil {
			return err
		}
	} else if r.damage != nil { // it is damaged so that it cannot even be opened
		found.NotCompared = audit.NotComparedWith(v.opts.Signed, err)
	} else {
		return err
	}
	r.Checkpoints, r.Mismatches, r.NotCompared = found.Agree, found.Mismatches, found.NotCompared
	for i := range r.NotCompared {
		c := &r.NotCompared[i]
		if r.Absent != "" && c.Size+1 < r.First {
			c.Reason += ": " + r.Absent
		}
		var damage *eventlog.DamagedError
		if r.damage == nil && errors.As(c.Err, &damage) {
			r.found(damage)
		}
	}
	r.Whole = r.Whole && len(r.Mismatches) == 0 && len(r.NotCompared) == 0
	return nil
}

// segment checks the next segment.
func (v *verifier) segment(ctx context.Context, path string) error {
	report, err := v.checker.check(ctx, path, v.progress)
	var damage *eventlog.DamagedError
	if err != nil && !errors.As(err, &damage) {
		v.readInPart(report, err)
		return err
	}
	if report.Facts.Path == "" { // it could not even be opened
		report.Facts = boltlog.Facts{Path: path, First: damage.Seq, Previous: v.prev.Hash}
	}
	if v.prev.Facts.MayPrecede(report.Facts, v.prev.Hash) {
		v.prev.Facts.Sealed, v.prev.Facts.Hash = true, v.prev.Hash
	}
	if err := report.Facts.Follows(v.prev.Facts); err != nil {
		return err
	}
	if err := v.follows(report); err != nil {
		return err
	}
	if damage != nil {
		v.report.Entries = damage.Seq - v.report.First
		return damage
	}
	before := v.tree
	if before == nil {
		before = report.Facts.Tree
	}
	if err := v.grow(report); err != nil {
		v.report.Entries = report.Facts.First - v.report.First
		return err
	}
	v.good.add(path, before, report.Facts.First, report.Facts.Last)
	v.report.Segments++
	v.report.Entries = report.Facts.Last + 1 - v.report.First
	v.report.Recorder = v.report.Recorder || report.Watched
	if report.First.Seq == 0 { // an empty segment
		report.Last, report.Hash = v.prev.Last, v.prev.Hash
	}
	if v.prev = report; report.Facts.Last > 0 {
		v.report.Hash = fmt.Sprintf("%x", report.Hash)
	}
	if v.tree != nil {
		v.report.Root = v.tree.Root().String()
	}
	return nil
}

// follows returns an error if the first entry of a segment does not follow the last one before it.
func (v *verifier) follows(report segmentReport) error {
	if report.First.Seq == 0 || (v.prev.Last.Seq == 0 && report.First.Seq > 1) {
		return nil // there is none, or the one before it was not read
	}
	if err := report.First.Follows(v.prev.Last); err != nil {
		return &eventlog.DamagedError{Path: report.Facts.Path, Seq: report.First.Seq, Err: err}
	}
	return nil
}

// grow adds a segment's entries to the tree, and compares it with the segment's own tree.
func (v *verifier) grow(report segmentReport) error {
	damaged := func(seq uint64, tree *merkle.Tree, where string) error {
		return &eventlog.DamagedError{Path: report.Facts.Path, Seq: seq, Err: fmt.Errorf(
			"the hash tree over the first %d entries has the root %v, but %s says %v",
			v.tree.Size,
			v.tree.Root(),
			where,
			tree.Root(),
		)}
	}
	if v.tree == nil {
		if report.Facts.Tree == nil {
			return nil
		}
		v.tree = report.Facts.Tree
	}
	if tree := report.Facts.Tree; tree != nil && !tree.Equal(*v.tree) {
		return damaged(report.Facts.First, tree, "the segment")
	}
	grown := v.tree.Clone()
	for _, span := range report.Spans {
		if err := grown.Join(span); err != nil {
			return fmt.Errorf("compute the hash tree of %s: %w", report.Facts.Path, err)
		}
	}
	v.tree = &grown
	if tree := report.Facts.SealedTree; tree != nil && !tree.Equal(grown) {
		return damaged(report.Facts.First, tree, "the seal")
	}
	return nil
}

// progress reports the progress: at entry at of a segment with entries first to last.
func (v *verifier) progress(at, first, last uint64) {
	if v.opts.Checked == nil {
		return
	}
	done := float64(v.before)
	if last >= first {
		done += float64(v.sizes[v.at]) * float64(at+1-first) / float64(last+1-first)
	}
	v.opts.Checked(
		Progress{Share: done / float64(max(1, v.total)), Segment: v.at + 1, Segments: len(v.sizes), Entry: at},
	)
}
