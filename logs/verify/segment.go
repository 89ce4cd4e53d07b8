package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// segmentReport is the result of the check of one segment.
type segmentReport struct {
	Facts boltlog.Facts
	// First and Last are the headers of its first and last entry, zero if there is none.
	First, Last eventlog.Header
	// Hash is the last record's hash.
	Hash [32]byte
	// Spans are the hash tree's spans of the entries.
	Spans []merkle.Span
	// Watched says that there is an entry of a recorder.
	Watched bool
}

// segmentLine is a line printed by the process that checks a segment: the progress, or the result.
type segmentLine struct {
	At, First, Last uint64         // entries up to At are good
	Opened          *boltlog.Facts // at the beginning
	Report          *segmentReport // at the end, as far as it is known
	Damage          *Damage        // at the end
	Unreadable      *Damage        // at the end: the system could not read the file
	Err             string         // at the end: the segment could not be checked
	Index           []index.Digest // the parts of the index that end with entry At
}

// A segmentChecker checks segments in a process of its own, one after the other, because a damaged one may crash that
// process.
type segmentChecker struct {
	child     *exec.Cmd
	copied    string         // the path of the segment whose copy the process has open, as copiedFile
	paths     io.WriteCloser // of the segments to check, a line each
	lines     *json.Decoder
	complaint bytes.Buffer
	index     *indexCheck
}

// copiedFile is the number of the open file with the copy of a segment, in the process that checks.
const copiedFile = 3

func newSegmentChecker(
	ctx context.Context, files *boltlog.Files, command func(context.Context) (*exec.Cmd, error), index *indexCheck,
) (*segmentChecker, error) {
	child, err := command(ctx)
	if err != nil {
		return nil, err
	}
	c := &segmentChecker{child: child, index: index}
	c.child.Stderr = &c.complaint
	if files.Tail != nil {
		c.copied = files.Paths[len(files.Paths)-1]
		c.child.ExtraFiles = []*os.File{files.Tail}
	}
	if c.paths, err = c.child.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = json.NewDecoder(stdout)
	if err := c.child.Start(); err != nil {
		return nil, err
	}
	for _, r := range index.ranges(0) {
		if _, err := fmt.Fprintf(c.paths, "%s%d %d\n", indexLine, r.First, r.Last); err != nil {
			break // it has ended, which is found with the first segment
		}
	}
	return c, nil
}

// indexLine begins the lines with the ranges of the parts of the index, which come before the paths.
const indexLine = "index "

// close ends the process. Its last output does not matter: check has the answers.
func (c *segmentChecker) close() {
	_ = c.paths.Close()
	_ = c.child.Wait()
}

// check checks the segment at path in the other process. A report may come with an *eventlog.DamagedError. A crash of
// the process is damage too, and ends the use of the checker.
func (c *segmentChecker) check(
	ctx context.Context,
	path string,
	progress func(at, first, last uint64),
) (segmentReport, error) {
	var end segmentLine
	var opened *boltlog.Facts
	_, err := fmt.Fprintf(c.paths, "%q %t\n", path, path == c.copied)
	for err == nil && end.Report == nil {
		var line segmentLine
		if err = c.lines.Decode(&line); err != nil {
			break
		}
		if line.Opened != nil {
			opened = line.Opened
		}
		c.index.add(line.Index)
		if end = line; line.Report == nil {
			progress(line.At, line.First, line.Last)
		}
	}
	if err != nil {
		_ = c.paths.Close()
		err = errors.Join(c.child.Wait(), errors.New("it ended early"))
	}
	if ctx.Err() != nil {
		return segmentReport{}, ctx.Err()
	}
	if end.Report == nil && opened != nil {
		end.Report = &segmentReport{Facts: *opened}
	}
	return end.result(path, err, c.complaint.Bytes())
}

// result returns the result of a process whose last line was l, and which ended with err.
func (l segmentLine) result(path string, err error, complaint []byte) (segmentReport, error) {
	var report segmentReport
	if l.Report != nil {
		report = *l.Report
	}
	switch {
	case err == nil && l.Unreadable != nil:
		u := l.Unreadable
		return report, &eventlog.UnreadableError{Path: u.Path, Seq: u.Seq, Err: errors.New(u.Reason)}
	case err == nil && l.Err != "":
		return report, errors.New(l.Err)
	case err == nil && l.Damage != nil:
		return report, &eventlog.DamagedError{Path: l.Damage.Path, Seq: l.Damage.Seq, Err: errors.New(l.Damage.Reason)}
	case err == nil && l.Report != nil:
		return report, nil
	}
	if cause := boltlog.CheckReadable(path, l.At+1); cause != nil { // a page that cannot be read is a fault
		return report, cause
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(complaint), []byte("\n"))
	seq := l.At + 1
	if l.Last == 0 { // it reached no entry
		if seq = 1; filepath.Ext(path) == ".seg" {
			_, _ = fmt.Sscanf(filepath.Base(path), "%d.seg", &seq)
		}
	}
	return report, &eventlog.DamagedError{Path: path, Seq: seq,
		Err: fmt.Errorf("the process that checked it crashed (%v): %s", err, first)}
}

// CheckSegments checks the segments that a Run in another process names on in, and answers on out. It also makes the
// parts of the index that the Run names first. It is called by the process of Options.Checker, and returns when in
// ends.
func CheckSegments(in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	lines := json.NewEncoder(w)
	say := func(l segmentLine) {
		_ = lines.Encode(l)
		_ = w.Flush() // if this fails there is no reader for the answer
	}
	paths := bufio.NewScanner(in)
	var ranges []index.Range
	var maker *partMaker
	for paths.Scan() {
		if text, ok := strings.CutPrefix(paths.Text(), indexLine); ok {
			var r index.Range
			if _, err := fmt.Sscanf(text, "%d %d", &r.First, &r.Last); err != nil {
				return fmt.Errorf("%s: want the first and the last entry of a part: %w", paths.Text(), err)
			}
			ranges = append(ranges, r)
			continue
		}
		if maker == nil {
			maker = newPartMaker(ranges)
		}
		var path string
		var copied bool
		if _, err := fmt.Sscanf(paths.Text(), "%q %t", &path, &copied); err != nil {
			return fmt.Errorf("%s: want a quoted path, and whether it was copied: %w", paths.Text(), err)
		}
		answer(path, copied, maker, say)
	}
	return paths.Err()
}

// answer checks one segment, and writes the result.
func answer(path string, copied bool, maker *partMaker, say func(segmentLine)) {
	report, err := checkSegment(path, copied, maker, say)
	end := segmentLine{At: report.Last.Seq, First: report.Facts.First, Last: report.Facts.Last, Report: &report}
	var unreadable *eventlog.UnreadableError
	var damage *eventlog.DamagedError
	if errors.As(err, &unreadable) {
		end.Unreadable = &Damage{Path: unreadable.Path, Seq: unreadable.Seq, Reason: unreadable.Err.Error()}
	} else if errors.As(err, &damage) {
		end.Damage = &Damage{Path: damage.Path, Seq: damage.Seq, Reason: damage.Err.Error()}
	} else if err != nil {
		end.Err = err.Error()
	}
	say(end)
}

// checkSegment checks all of the segment at path that can be checked without its neighbours.
func checkSegment(
	path string, copied bool, maker *partMaker, say func(segmentLine),
) (report segmentReport, err error) {
	var s *boltlog.Segment
	if copied {
		s, err = boltlog.OpenSegmentCopy(path, os.NewFile(copiedFile, path))
	} else {
		s, err = boltlog.OpenSegment(path)
	}
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	report.Facts = s.Facts
	say(segmentLine{At: s.First - 1, First: s.First, Last: s.Last, Opened: &s.Facts})
	for part := range checkParts(s, maker) {
		if report.First.Seq == 0 {
			report.First = part.first
		}
		if part.err != nil {
			return report, part.err
		}
		report.Last, report.Hash = part.last, part.hash
		report.Spans = append(report.Spans, part.span)
		report.Watched = report.Watched || part.watched
		line := segmentLine{At: part.last.Seq, First: s.First, Last: s.Last}
		if part.index != nil {
			line.Index = maker.add(part.index, part.hash)
		}
		say(line)
	}
	if err := s.Sound(); err != nil {
		return report, err
	}
	return report, s.Check()
}

// partSize is the number of entries checked together. It is a power of two, and parts end at its multiples, so that
// most parts are one subtree of the hash tree.
const partSize = 8192

// A part is a range of a segment's entries.
type part struct {
	first, last eventlog.Header
	hash        [32]byte // the last record's
	span        merkle.Span
	watched     bool           // it has an entry of a recorder
	index       *index.Builder // nil if no part of the index is to be made
	err         error
}

// checkParts checks a segment's parts, several at a time, and yields them in order. No part of the index begins or ends
// within one. The caller may stop early: the process ends then.
func checkParts(s *boltlog.Segment, maker *partMaker) func(yield func(part) bool) {
	return func(yield func(part) bool) {
		ahead := 2 * runtime.GOMAXPROCS(0)
		parts := make(chan chan part, ahead)
		running := make(chan struct{}, runtime.GOMAXPROCS(0))
		go func() {
			defer close(parts)
			for from := s.First; from <= s.Last; {
				upTo := maker.end(from, min(from-(from-1)%partSize+partSize-1, s.Last))
				result := make(chan part, 1)
				parts <- result
				running <- struct{}{}
				go func(from uint64) {
					result <- checkPart(s, from, upTo, !maker.idle())
					<-running
				}(from)
				from = upTo + 1
			}
		}()
		for result := range parts {
			if !yield(<-result) {
				return
			}
		}
	}
}

// checkPart checks the entries from from to to, and makes their index if indexed says so. It also reads the entry
// before them, which they must follow; the part that has that entry reports its faults.
func checkPart(s *boltlog.Segment, from, to uint64, indexed bool) (p part) {
	p.span = merkle.NewSpan(from - 1)
	if indexed {
		p.index = &index.Builder{}
	}
	var decoder eventlog.Decoder
	for r, err := range s.Records(context.Background(), max(from-1, s.First), to) {
		var e eventlog.Entry
		if err == nil {
			if e, _, err = decoder.Record(r.Bytes); err != nil {
				err = eventlog.DamageAt(s.Path, r.Seq, err)
			}
		}
		if err != nil {
			p.err = err
			return p
		}
		h := e.Header()
		p.watched = p.watched || e.Kind() == eventlog.KindWatched
		if p.last.Seq != 0 {
			if err := h.Follows(p.last); err != nil {
				p.err = &eventlog.DamagedError{Path: s.Path, Seq: h.Seq, Err: err}
				return p
			}
		}
		if p.last = h; h.Seq == from {
			p.first = h
		}
		if h.Seq >= from {
			p.span.Add(r.Hash)
			if indexed && p.err == nil {
				p.err = p.index.Add(e)
			}
		}
		p.hash = r.Hash
	}
	return p
}
