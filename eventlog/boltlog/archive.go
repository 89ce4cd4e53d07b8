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
	// archiveLockName is the file whose lock gives the right to archive segments of a log.
	archiveLockName = "ORIGIN.lock"
	// intoLockName is the file, in the target directory, whose lock gives the right to put segments there.
	intoLockName = "ARCHIVE.lock"
)

// Archived is the result of Archive. The zero Archived means that no segment was moved.
type Archived struct {
	// Part is the range of entries, and their new directory, an absolute path.
	Part
	// Segments is the number of files, and Bytes their total size.
	Segments int
	Bytes    int64
}

// Archive moves the sealed segments of the log at path whose entries are all before before to dir. It makes dir, and
// the directories above it, if needed. The log then begins with its next segment. Its directory records the place of
// the archived ones, and every opener of the log finds them there while they exist.
//
// A writer or readers may have the log open: sealed segments are never written to, and readers find them again. If the
// log has no writer, none can open it meanwhile. progress, if not nil, gets the number of bytes brought to dir so far,
// and the total.
//
// Each segment is whole and durable in dir, and its new place is durable in the log's directory, before the first file
// is removed. So after a crash at any step the log can be read as before, and Archive with the same arguments does the
// rest.
//
// Archive returns the errors of OpenReadOnly, ErrInUse if another process is archiving, and ErrInside if dir is the
// log's directory or lies in it. It returns fs.ErrExist if dir is a log itself or has segments of another. A damaged
// log is not archived.
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

// withOldest calls f with the oldest sealed segments of the log at path, whose entries are all before before, and the
// place after them. It does not call f if there are none. Meanwhile no other process can archive.
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

// Remove is like Archive, for entries that are not kept: it removes the segments, and Archived.Dir is empty. From then
// on the log begins after them, like a log that was made from a part of another. Earlier archived segments stay in
// their place, and are no longer part of the log.
//
// The log's new beginning is durable before the first file is removed, so that a crash leaves a whole log. Remove with
// the same arguments does the rest.
func Remove(path string, before uint64) (done Archived, err error) {
	err = withOldest(path, before, func(l *Log, segments []Facts, end eventlog.Origin) error {
		next := &beginning{Origin: end}
		if b := l.begin; b != nil && b.Origin.Seq > end.Seq { // an earlier call began to remove or archive more
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

// ErrInside says that a log's segments cannot be moved to its own directory.
var ErrInside = errors.New("it is the log's own directory, or lies in it: name one outside of it")

// outside returns an error, ErrInside, if dir, which need not exist, is the log at path or lies in it, whatever the
// spelling of the two paths.
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

// archivable returns the segments in the log's own directory that may be moved. Two kinds belong to the writer: the
// last segment, even if it is sealed, and a segment that Open may still have to repair.
func (l *Log) archivable(before uint64) []Facts {
	var out []Facts
	for i, f := range l.segments {
		if filepath.Dir(f.Path) != filepath.Clean(l.path) {
			continue // archived before
		}
		last := i == len(l.segments)-1 && !l.live // if there is a writer, the live segment follows the last of these
		if last || !f.Sealed || f.Extra != 0 || f.Last >= before {
			break
		}
		out = append(out, f)
	}
	return out
}

// Archivable reports whether there are segments that Archive would move, as far as the open log shows.
func (l *Log) Archivable(before uint64) bool { return len(l.archivable(before)) > 0 }

// with returns the content of ORIGIN after part, which ends at end, was archived too.
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
	// An interrupted archiving may have removed more than is requested now.
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

// prepare makes dir, durably, and removes the remains of a crash from it. It locks dir for one archiver until the
// returned file is closed.
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

// makeDurably makes the directory dir, and those above it, unless they exist.
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

// mayShare returns an error, fs.ErrExist, if no segments of this log may be put into dir: it has segments of another
// log, and their names would collide.
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

// says reports whether ORIGIN records that an entry was archived in dir.
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

// stageOne gives the file from a second name, or copies it to another file system, where a second name is not
// possible. An existing file must have the same content.
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

// copyFile makes a durable copy without a durable name, and reads it back to check it.
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

// sameFile returns an error, fs.ErrExist, unless the two files have the same content. The second one is durable
// afterwards.
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

// sameContent reports whether two files of the same size have the same bytes.
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

// discard removes the segments from the log's directory, the first one first, each durably before the next: the
// remaining ones have no gap. It removes none that is not in dir too.
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

// standsTwice returns an error unless the second file exists independently of the first one's name.
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
