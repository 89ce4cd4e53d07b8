package boltlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

const (
	// archiveLockName is the file whose lock is the right to archive segments of a log.
	archiveLockName = "ORIGIN.lock"
	// intoLockName is the file in the directory that they are moved to whose lock is the right to put segments there.
	intoLockName = "ARCHIVE.lock"
)

// Archived says what Archive has moved. The zero Archived is nothing.
type Archived struct {
	// Part is the range of entries, and where they are now, an absolute path.
	Part
	// Segments is how many files, and Bytes their size together.
	Segments int
	Bytes    int64
}

// Archive moves the sealed segments of the log at path that have no entry from before on to dir, which is made, with
// the directories above it, if it is not there. The log then begins with its next segment; where the archived ones are
// is in the log's directory, and whoever opens the log finds them there as long as they are there.
//
// A writer or readers may have the log: sealed segments are written to by nobody, and readers find them again. If none
// has it, no writer is let in meanwhile. progress, if it is not nil, is told how many bytes of how many were brought
// to dir.
//
// Each segment stands whole and durable in dir, and what is archived durably in the log's directory, before the first
// file disappears: whatever step a crash interrupts, the log can be read as before, and Archive with the same
// arguments does the rest. Errors: those of OpenReadOnly; ErrInUse if someone else is archiving; ErrInside if dir is
// the log's directory or lies in it; and fs.ErrExist if dir is a log itself or has segments of another. A damaged log
// is not archived.
func Archive(path string, before uint64, dir string, progress func(done, total int64)) (Archived, error) {
	done, err := archive(path, before, dir, progress)
	if err != nil {
		return done, fmt.Errorf("archive segments of %s: %w", path, err)
	}
	return done, nil
}

func archive(path string, before uint64, dir string, progress func(done, total int64)) (done Archived, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return done, err
	}
	if _, err := segmentPaths(path); err != nil {
		return done, err
	}
	if err := outside(dir, path); err != nil {
		return done, err
	}
	err = withOldest(path, before, func(l *Log, segments []Facts, end eventlog.Origin) (err error) {
		done, err = l.archive(segments, end, dir, progress)
		return err
	})
	return done, err
}

// withOldest calls f with the oldest sealed segments of the log at path, those without an entry from before on, and the
// place behind them; it does not if there are none. Meanwhile nobody else archives.
func withOldest(path string, before uint64, f func(*Log, []Facts, eventlog.Origin) error) (err error) {
	lock, err := lockArchiving(filepath.Join(path, archiveLockName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	l, err := DefaultOptions().openReadOnly(path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if l.damage != nil {
		return l.damage
	}
	if err := removeLeftovers(path, originName); err != nil {
		return err
	}
	segments := l.archivable(before)
	if len(segments) == 0 {
		return nil
	}
	last := segments[len(segments)-1]
	end := eventlog.Origin{Seq: last.Last, Hash: last.Hash}
	if end.Tree, err = eventlog.TreeAt(context.Background(), l, end.Seq); err != nil {
		return fmt.Errorf("compute the hash tree: %w", err)
	}
	return f(l, segments, end)
}

// archive moves the segments, which end at end.
func (l *Log) archive(
	segments []Facts, end eventlog.Origin, dir string, progress func(done, total int64),
) (done Archived, err error) {
	into, err := prepare(dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	if err := l.mayShare(dir); err != nil {
		return done, err
	}
	sizes, err := stage(segments, dir, progress)
	if err != nil {
		return done, err
	}
	done = Archived{
		Part:     Part{First: segments[0].First, Last: end.Seq, Dir: dir},
		Segments: len(segments),
		Bytes:    sizes,
	}
	if err := l.begin.with(end, done.Part).write(l.path); err != nil {
		return Archived{}, err
	}
	return done, discard(segments, dir)
}

// Remove is Archive for entries that are not kept: the segments are removed, and Archived.Dir is empty. The log begins
// behind them from then on, as one that was made from a part of another. Archived segments that come before them are
// left where they are, and are no part of the log any more.
//
// Where the log begins is durable before the first file disappears, so that a crash leaves a whole log. Remove with the
// same arguments does the rest.
func Remove(path string, before uint64) (done Archived, err error) {
	err = withOldest(path, before, func(l *Log, segments []Facts, end eventlog.Origin) error {
		next := &beginning{Origin: end}
		if b := l.begin; b != nil && b.Origin.Seq > end.Seq { // more was begun to be removed, or archived, before
			next = b
		}
		if err := next.write(l.path); err != nil {
			return err
		}
		for _, f := range segments {
			info, err := os.Stat(f.Path)
			if err != nil {
				return err
			}
			if err := os.Remove(f.Path); err != nil {
				return err
			}
			if err := durable.Sync(l.path); err != nil {
				return err
			}
			done.Segments, done.Bytes = done.Segments+1, done.Bytes+info.Size()
		}
		done.First, done.Last = segments[0].First, end.Seq
		return nil
	})
	if err != nil {
		return done, fmt.Errorf("remove segments of %s: %w", path, err)
	}
	return done, nil
}

// ErrInside says that a log's segments cannot be moved to a directory because that is the log's own.
var ErrInside = errors.New("it is the log's own directory, or lies in it: name one outside of it")

// outside returns an error, ErrInside, if dir, which may not be there yet, is the log at path or lies in it, whatever
// names the two are known by.
func outside(dir, path string) error {
	log, err := os.Stat(path)
	if err != nil {
		return err
	}
	at, err := filepath.EvalSymlinks(dir)
	for above := dir; errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above); {
		above = filepath.Dir(above)
		at, err = filepath.EvalSymlinks(above)
	}
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(at); err == nil && os.SameFile(info, log) {
			return &fs.PathError{Op: "archive", Path: dir, Err: ErrInside}
		}
		if at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	return err
}

// lockArchiving locks the file at path, until it is closed.
func lockArchiving(path string) (*os.File, error) {
	f, err := regular.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := flock(f, true); errors.Is(err, errLocked) {
		return nil, errors.Join(fmt.Errorf("%w: someone else is archiving (%s)", eventlog.ErrInUse, path), f.Close())
	} else if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// archivable returns the segments in the log's own directory that may be moved. The last one never is, even if it
// is sealed, nor one that Open may still have to mend: those are a writer's.
func (l *Log) archivable(before uint64) []Facts {
	var out []Facts
	for i, f := range l.segments {
		if filepath.Dir(f.Path) != filepath.Clean(l.path) {
			continue // archived before
		}
		last := i == len(l.segments)-1 && !l.live // beside a writer the live segment is behind the last of these
		if last || !f.Sealed || f.Extra != 0 || f.Last >= before {
			break
		}
		out = append(out, f)
	}
	return out
}

// Archivable says whether there are segments that Archive would move, as far as is known without it.
func (l *Log) Archivable(before uint64) bool { return len(l.archivable(before)) > 0 }

// with returns what ORIGIN is to say when part, which ends at end, was archived too.
func (b *beginning) with(end eventlog.Origin, part Part) *beginning {
	next := &beginning{Origin: end}
	if b == nil {
		next.Archived = []Part{part}
		return next
	}
	for _, p := range b.Archived {
		if p.First >= part.First {
			break // archived again, after it was interrupted
		}
		p.Last = min(p.Last, part.First-1)
		next.Archived = append(next.Archived, p)
	}
	if n := len(next.Archived); n > 0 && next.Archived[n-1].Dir == part.Dir {
		next.Archived[n-1].Last = part.Last
	} else {
		next.Archived = append(next.Archived, part)
	}
	// Of an archiving that was interrupted more may be gone than is asked for now.
	if b.Origin.Seq > end.Seq {
		next.Origin = b.Origin
		for _, p := range b.Archived {
			if p.Last > part.Last {
				p.First = max(p.First, part.Last+1)
				next.Archived = append(next.Archived, p)
			}
		}
	}
	return next
}

// prepare makes dir, durably, locks it for one who archives, until what it returns is closed, and removes what a crash
// left in it.
func prepare(dir string) (*os.File, error) {
	if err := makeDurably(dir); err != nil {
		return nil, err
	}
	for _, name := range []string{lockName, originName} { // a copy of a log may lack either
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("%s is a log itself: %w", dir, fs.ErrExist)
		}
	}
	lock, err := lockArchiving(filepath.Join(dir, intoLockName))
	if err != nil {
		return nil, err
	}
	if err := removeLeftovers(dir, "*"+suffix); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// makeDurably makes the directory dir, and those above it, unless they are there.
func makeDurably(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDurably(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.Sync(parent)
}

// mayShare says, with fs.ErrExist, why no segments of this log may be put into dir: there are some of another, which
// would be in each other's way.
func (l *Log) mayShare(dir string) error {
	known := slices.Clone(l.segments)
	if len(known) > 0 && l.absent != nil { // they may have been moved here
		moved, _ := Options{Archives: []string{dir}}.recall(l.begin, known[0].predecessor())
		known = append(known, moved...)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		first, ok := parseName(e.Name())
		if !ok || l.begin.says(first, dir) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		facts, err := factsOf(path)
		ours := func(f Facts) bool { return f.First == facts.First && f.Last == facts.Last && f.Hash == facts.Hash }
		if err != nil || !slices.ContainsFunc(known, ours) {
			return &fs.PathError{
				Op:   "archive",
				Path: path,
				Err: fmt.Errorf(
					"it is a segment of another log: archive each log to a directory of its own: %w",
					fs.ErrExist,
				),
			}
		}
	}
	return nil
}

// says says whether an entry was archived in dir.
func (b *beginning) says(seq uint64, dir string) bool {
	return b != nil &&
		slices.ContainsFunc(b.Archived, func(p Part) bool { return p.Dir == dir && p.First <= seq && seq <= p.Last })
}

// stage brings the segments to dir, durably, and returns their size in bytes. They stay where they are.
func stage(segments []Facts, dir string, progress func(done, total int64)) (total int64, err error) {
	sizes := make([]int64, len(segments))
	for i, f := range segments {
		info, err := os.Stat(f.Path)
		if err != nil {
			return 0, err
		}
		sizes[i] = info.Size()
		total += sizes[i]
	}
	var done int64
	for i, f := range segments {
		if err := stageOne(f.Path, filepath.Join(dir, filepath.Base(f.Path))); err != nil {
			return 0, err
		}
		if done += sizes[i]; progress != nil {
			progress(done, total)
		}
	}
	return total, durable.Sync(dir)
}

// stageOne gives the file from a second name, or makes a copy of it if that is not possible: on another file system.
// What is there already must be the same.
func stageOne(from, to string) error {
	from, err := filepath.EvalSymlinks(from) // a link to a link may lead to nothing from there
	if err != nil {
		return err
	}
	err = os.Link(from, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = copyFile(from, to)
	}
	if errors.Is(err, fs.ErrExist) {
		return sameFile(from, to)
	}
	return err
}

// copyFile makes a copy that is durable except for its name, and that is what was read back.
func copyFile(from, to string) error {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*"+tmpSuffix)
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := sameFile(from, out.Name()); err != nil {
		return err
	}
	return durable.Publish(out.Name(), to)
}

// sameFile returns an error, fs.ErrExist, unless the two files have the same content. The second one is then
// durable.
func sameFile(a, b string) error {
	infoA, err := os.Stat(a)
	if err != nil {
		return err
	}
	infoB, err := os.Lstat(b)
	if err != nil {
		return err
	}
	if !infoB.Mode().IsRegular() {
		return &fs.PathError{Op: "archive", Path: b, Err: fmt.Errorf("it is no file of its own: %w", fs.ErrExist)}
	}
	if os.SameFile(infoA, infoB) {
		return nil
	}
	other := &fs.PathError{Op: "archive", Path: b, Err: fmt.Errorf("another segment has this name: %w", fs.ErrExist)}
	if infoA.Size() != infoB.Size() {
		return other
	}
	equal, err := sameContent(a, b)
	if err != nil {
		return err
	}
	if !equal {
		return other
	}
	return durable.Sync(b)
}

// sameContent says whether two files of the same size have the same bytes.
func sameContent(a, b string) (bool, error) {
	fa, err := regular.Open(a)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := regular.Open(b)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	bufA, bufB := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(fa, bufA)
		m, errB := io.ReadFull(fb, bufB)
		if !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if errors.Is(errA, io.EOF) || errors.Is(errA, io.ErrUnexpectedEOF) {
			return true, nil
		}
		if err := errors.Join(errA, errB); err != nil {
			return false, err
		}
	}
}

// discard removes the segments from the log's directory, the first one first, each durably before the next: what is
// left has no gap. None is removed that is not in dir too.
func discard(segments []Facts, dir string) error {
	for _, f := range segments {
		if err := standsTwice(f.Path, filepath.Join(dir, filepath.Base(f.Path))); err != nil {
			return err
		}
		if err := os.Remove(f.Path); err != nil {
			return err
		}
		if err := durable.Sync(filepath.Dir(f.Path)); err != nil {
			return err
		}
	}
	return nil
}

// standsTwice returns an error unless the second file is there whatever becomes of the first one's name.
func standsTwice(path, staged string) error {
	var infos [3]fs.FileInfo
	for i, p := range []string{filepath.Dir(path), filepath.Dir(staged), path} {
		var err error
		if infos[i], err = os.Stat(p); err != nil {
			return err
		}
	}
	second, err := os.Lstat(staged)
	if err != nil {
		return err
	}
	if os.SameFile(infos[0], infos[1]) || !second.Mode().IsRegular() || second.Size() != infos[2].Size() {
		return fmt.Errorf("%s is not removed: %s is no second file of the same entries", path, staged)
	}
	return nil
}
