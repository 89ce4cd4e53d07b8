package boltlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// predecessor returns the facts of the segment before f as far as f tells them.
func (f Facts) predecessor() Facts {
	if f.First == 1 {
		return Facts{}
	}
	return Facts{Last: f.First - 1, Hash: f.Previous, Sealed: true, SealedTree: f.Tree}
}

// before returns the facts of the segment before the first of paths, which are the log's own segments.
func (b *beginning) before(paths []string) Facts {
	if b == nil {
		return Facts{}
	}
	if len(paths) == 0 {
		return b.facts()
	}
	first, _ := parseName(filepath.Base(paths[0]))
	if first > b.Origin.Seq {
		return b.facts()
	}
	// Archiving was interrupted: the segments that still exist are as good as ever.
	facts, err := factsOf(paths[0])
	if err != nil {
		facts = Facts{First: first} // readers report the fault
	}
	return facts.predecessor()
}

// agrees returns an error if the end of the log's own segment f contradicts ORIGIN in dir.
func (b *beginning) agrees(dir string, f Facts) error {
	if b == nil || !f.Sealed || f.Last != b.Origin.Seq || f.Hash == b.Origin.Hash {
		return nil
	}
	return &eventlog.DamagedError{
		Path: filepath.Join(dir, originName),
		Seq:  f.Last,
		Err: fmt.Errorf(
			"it says that the record of entry %d has the hash %x, but it has %x",
			f.Last,
			b.Origin.Hash,
			f.Hash,
		),
	}
}

// recall finds the archived segments before next, in o.Archives or in the directories that b names, as far back as
// they follow one another, in order. The error says why there are no further ones, if there should be.
func (o Options) recall(b *beginning, next Facts) (segments []Facts, err error) {
	if b == nil {
		return nil, nil
	}
	base := b.base()
	paths, listErr := o.archivedPaths(b, next.Last+1)
	for next.Last > base {
		facts, left, err := lastThatEnds(paths, next)
		if err == nil && facts.Path == "" {
			err = notThere(fmt.Sprintf("the segment that ends with entry %d", next.Last), listErr)
		}
		if err == nil {
			err = facts.Sound()
		}
		if err != nil {
			return segments, err
		}
		if facts.SealedTree != nil && next.SealedTree != nil && !facts.SealedTree.Equal(*next.SealedTree) {
			return segments, fmt.Errorf("%s has another hash tree than what follows it", facts.Path)
		}
		segments = slices.Insert(segments, 0, facts)
		next, paths = facts.predecessor(), left
	}
	return segments, nil
}

// lastThatEnds returns the facts of the last of paths that ends at the same place as end, and the paths before it;
// none if there is none. paths are in the order of their first entries. It skips the others, which belong to another
// log. If there is none, it returns the error of a damaged one that may have been it, or of one with a colliding name.
func lastThatEnds(paths []string, end Facts) (facts Facts, left []string, err error) {
	var another error
	for i, path := range slices.Backward(paths) {
		facts, ferr := factsOf(path)
		if ferr == nil && facts.Sealed && facts.Extra == 0 && facts.Last == end.Last && facts.Hash == end.Hash {
			return facts, paths[:i], nil
		}
		if ferr == nil {
			ferr = facts.Sound()
		}
		if err = cmp.Or(err, ferr); ferr == nil && facts.Last >= end.Last && another == nil {
			another = fmt.Errorf(
				"%s is not the segment that ends with entry %d and a record of hash %x",
				path,
				end.Last,
				end.Hash,
			)
		}
	}
	return Facts{}, nil, cmp.Or(err, another)
}

// archivedPaths returns the files in o.Archives, or in the directories that b names, with names of segments that begin
// before entry end, in the order of their first entries.
func (o Options) archivedPaths(b *beginning, end uint64) ([]string, error) {
	dirs := slices.Concat(o.Archives, b.dirs())
	var paths []string
	var errs []error
	for i, dir := range dirs {
		if slices.Contains(dirs[:i], dir) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			errs = append(errs, err)
		}
		for _, e := range entries {
			first, ok := parseName(e.Name())
			if ok && first < end {
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return paths, errors.Join(errs...)
}

// First returns the number of the first readable entry, or, in an empty log, the number that its first entry will
// have. It is 1 unless earlier entries were archived and are not found, or the log was made from a part of another.
func (l *Log) First() uint64 {
	for {
		l.mu.Lock()
		if len(l.segments) == 0 {
			defer l.mu.Unlock()
			return l.begin.before(nil).Last + 1
		}
		first := l.segments[0]
		open := len(l.segments) == 1 && l.tail != nil // independent of its file
		l.mu.Unlock()
		if open {
			return first.First
		}
		if _, err := os.Stat(first.Path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return first.First
		}
		if l.relocate(first) != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.firstLocked()
		}
	}
}

// firstLocked is First without looking for archived segments. l.mu is held.
func (l *Log) firstLocked() uint64 {
	if len(l.segments) == 0 {
		return l.begin.before(nil).Last + 1
	}
	return l.segments[0].First
}

// archived returns the error for an entry before the first.
func (l *Log) archived(seq uint64) error {
	first := l.First()
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &eventlog.ArchivedError{Path: l.path, Seq: seq, First: first, Err: l.absent}
	if l.begin != nil && seq > l.begin.base() {
		e.Dirs = slices.Concat(l.opts.Archives, l.begin.dirs())
	}
	return e
}

// relocate finds the segment again that was archived since the log was opened. If it cannot, the log begins after it
// from now on.
func (l *Log) relocate(lost Facts) error {
	begin, err := readBeginning(l.path)
	if err != nil {
		return err
	}
	if begin == nil || begin.Origin.Seq < lost.Last {
		return &eventlog.DamagedError{Path: lost.Path, Seq: lost.First, Err: errors.New("the segment is missing")}
	}
	found, why := l.opts.find(begin, lost)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin = begin
	i := slices.IndexFunc(l.segments, func(f Facts) bool { return f.First == lost.First })
	switch {
	case i < 0: // another goroutine was here
	case why == nil:
		l.segments[i] = found
	default:
		l.segments, l.absent = slices.Clone(l.segments[i+1:]), why
	}
	return nil
}

// find finds an archived segment by its facts.
func (o Options) find(b *beginning, lost Facts) (Facts, error) {
	paths, listErr := o.archivedPaths(b, lost.Last+1)
	facts, _, err := lastThatEnds(paths, lost)
	if err == nil && facts.Path == "" {
		err = notThere("segment "+filepath.Base(lost.Path), listErr)
	}
	return facts, err
}

// notThere is the error for something missing, with the reason err if that has one.
func notThere(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s is not there: %w", what, err)
	}
	return fmt.Errorf("%s is not there", what)
}

// OwnFirst returns the number of the first entry in the log's own directory, or, in an empty log, of the entry that
// will be the first. It does not matter whether earlier, archived ones are found. OwnFirst reads it from the disk:
// other processes archive while the log is open.
func (l *Log) OwnFirst() (uint64, error) {
	begin, err := readBeginning(l.path)
	if err != nil || begin == nil {
		return 1, err
	}
	return begin.Origin.Seq + 1, nil
}
