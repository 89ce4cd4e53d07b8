package boltlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/internal/regular"
)

// Format is the version of the files' layout, the only one that this package reads and writes. Version numbers are
// never reused. Logs of versions 1 and 2 were written before the first release.
const Format = 3

// The buckets and the keys of bucketMeta.
var (
	bucketMeta = []byte("meta")
	bucketLog  = []byte("log")
	bucketSnap = []byte("snap")

	metaType     = []byte("type")
	metaFormat   = []byte("format")
	metaFirst    = []byte("first")
	metaPrevious = []byte("previous")
	metaSealed   = []byte("sealed")
	metaTree     = []byte("tree")
	metaLast     = []byte("last")
)

const (
	// fileType is the value of metaType.
	fileType = "rollcall log"
	// fileMode lets only the owner read the log: it shows the workloads of a whole cluster.
	fileMode = 0o600
	// suffix ends the names of segments.
	suffix = ".seg"
	// lockTimeout is the time that opening a file waits for another process to close it.
	lockTimeout = time.Second
	// initialMmapSize is address space, not memory. While the file is smaller, a writer that makes it grow need not
	// wait for readers.
	initialMmapSize = 1 << 30
	// pageSize divides the size of every bbolt file: it is the smallest page of any machine.
	pageSize = 4096
	// minSize is the size of a new file: four pages.
	minSize = 4 * pageSize
	// allocSize is the growth step of the file, in bytes.
	allocSize = 4 << 20
	// fillPercent is the share of bbolt's pages that is filled: keys only ever grow, so nothing is inserted into a
	// page later.
	fillPercent = 0.95
)

// Facts are a segment's facts about itself.
type Facts struct {
	// Path is the file.
	Path string
	// First is the number of the first entry, or the number that it will have.
	First uint64
	// Last is the number of the last entry, First-1 if there is none.
	Last uint64
	// Previous is the hash of the record before the first; all zeros if First is 1.
	Previous [32]byte
	// Sealed says that no more entries are appended.
	Sealed bool
	// Hash is the last record's hash in the seal, all zeros if there is none.
	Hash [32]byte
	// Tree is the hash tree over the entries before the first. SealedTree is the tree over all entries up to the last,
	// in the seal.
	Tree, SealedTree *merkle.Tree
	// Extra is the number of bytes after the part that bbolt uses. A sealed segment that has a successor has none.
	Extra int64
	// Overrun says that there are entries after the seal.
	Overrun bool
	// Halved says that one of the file's first two pages is damaged, and perhaps with it the last commit. The number
	// of its entries is unknown.
	Halved bool
	// Noted is the last entry according to the note of each Append, 0 if there is none. A damaged page may hide the
	// last entries, and only this note shows it.
	Noted uint64
}

// Sound returns an *eventlog.DamagedError if the segment has a fault after its last entry, or nil.
func (f Facts) Sound() error {
	var err error
	switch {
	case f.Overrun:
		err = errors.New("entries stand behind the seal")
	case f.Halved:
		err = errors.New(
			"one of the file's first two pages is damaged, and what was appended last may have been lost with it",
		)
	case f.Noted != f.Last && (f.Noted != 0 || f.Last >= f.First):
		err = fmt.Errorf("the segment's last entry is %d, but %d was noted as the last one", f.Last, f.Noted)
	case f.Extra%pageSize != 0:
		err = fmt.Errorf("%d bytes stand behind the file's end, which is no whole number of pages", f.Extra)
	default:
		return nil
	}
	return &eventlog.DamagedError{Path: f.Path, Seq: f.Last + 1, Err: err}
}

// Follows returns an *eventlog.DamagedError if f cannot be the successor of prev, or nil. The predecessor of a log's
// first segment is Files.Before: the zero Facts if the log is whole.
func (f Facts) Follows(prev Facts) error {
	damaged := func(path string, seq uint64, format string, args ...any) error {
		return &eventlog.DamagedError{Path: path, Seq: seq, Err: fmt.Errorf(format, args...)}
	}
	next := prev.Last + 1
	switch {
	case prev.Path != "" && !prev.Sealed:
		return damaged(prev.Path, next, "the segment is not sealed, but %s follows it", filepath.Base(f.Path))
	case prev.Extra != 0 && f.Last >= f.First: // before an empty segment, Open had no time yet to cut it off
		return damaged(prev.Path, next, "%d bytes stand behind the end of the sealed segment", prev.Extra)
	case f.First > next:
		return damaged(filepath.Join(filepath.Dir(f.Path), segmentName(next)), next,
			"the segment is missing: the next one begins with entry %d", f.First)
	case f.First < next:
		return damaged(f.Path, next, "the segment begins with entry %d, which is in the one before", f.First)
	case f.Previous != prev.Hash:
		return damaged(
			f.Path,
			next,
			"the segment follows a record of hash %x, but the one before it has %x",
			f.Previous,
			prev.Hash,
		)
	case f.Tree != nil && prev.SealedTree != nil && !f.Tree.Equal(*prev.SealedTree):
		return damaged(
			f.Path,
			next,
			"the segment follows a tree with root %v, but the one before it has %v",
			f.Tree.Root(),
			prev.SealedTree.Root(),
		)
	}
	return nil
}

// A Segment is one open file of a log.
type Segment struct {
	Facts
	db   *bolt.DB
	file *os.File     // db's
	used int64        // bytes that bbolt uses
	tree *merkle.Tree // over all entries up to the last, of a live segment; nil if it is not known

	reading sync.RWMutex // held by each view, and by update while no view may be under way
}

// segmentName returns the name of the segment whose first entry is first.
func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, suffix) }

// parseName is the inverse of segmentName.
func parseName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0 && segmentName(first) == name
}

// options never has NoSync: durability is the package's purpose.
func options(readOnly bool) *bolt.Options {
	o := &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, NoStatistics: true, ReadOnly: readOnly}
	if !readOnly {
		o.InitialMmapSize = initialMmapSize
	}
	return o
}

// OpenSegment opens one segment for reading. It does not check its neighbours (see Facts.Follows), and takes no lock
// of the log. Errors: fs.ErrNotExist, ErrInUse (it is being written to), ErrNotALog, a *FormatError, or an
// *eventlog.DamagedError.
func OpenSegment(path string) (*Segment, error) { return openSegment(path, true) }

// OpenSegmentCopy is OpenSegment for a segment of which copied is a copy (Files.Tail): it reads the copy, whatever
// happens to path. copied is closed with the segment, or if OpenSegmentCopy fails. A signal may interrupt flock(2) on
// the copy: that is an error, since a file without a name cannot be opened again.
func OpenSegmentCopy(path string, copied *os.File) (*Segment, error) {
	return openSegmentFile(path, true, copied)
}

// openSegmentFile opens the file at path, or copied in its place.
func openSegmentFile(path string, readOnly bool, copied *os.File) (*Segment, error) {
	s := &Segment{Facts: Facts{Path: path, First: 1}, file: copied}
	nominal, named := parseName(filepath.Base(path))
	if named {
		s.First = nominal
	}
	err := s.checkFile()
	if err == nil {
		err = s.openDB(readOnly)
	} else if err = fmt.Errorf("open log: %w", err); copied != nil {
		err = errors.Join(err, copied.Close())
	}
	if err == nil {
		if err = s.check(named); err != nil {
			err = errors.Join(err, s.close())
		}
	}
	if named && errors.Is(err, ErrNotALog) {
		return nil, &eventlog.DamagedError{Path: path, Seq: nominal, Err: err} // it was a log's segment
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// checkFile refuses files that bbolt would treat as new or explain badly.
func (s *Segment) checkFile() error {
	path := s.Path
	info, err := s.stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it is not a regular file", ErrNotALog)}
	case info.Size() < minSize:
		return &fs.PathError{
			Op:   "open",
			Path: path,
			Err:  fmt.Errorf("%w: it has only %d bytes", ErrNotALog, info.Size()),
		}
	}
	return nil
}

// stat returns the file info of the file that is read.
func (s *Segment) stat() (fs.FileInfo, error) {
	if s.file != nil {
		return s.file.Stat()
	}
	return os.Stat(s.Path)
}

// openDB opens the bbolt file.
func (s *Segment) openDB(readOnly bool) error {
	o := options(readOnly)
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		if s.file == nil {
			if readOnly {
				s.file, err = regular.Open(name)
			} else {
				s.file, err = regular.OpenFile(name, flag&^os.O_CREATE, mode)
			}
		}
		return s.file, err
	}
	err := guard(func() (err error) {
		s.db, err = bolt.Open(s.Path, fileMode, o)
		return err
	})
	var fault *faultError
	switch {
	case err == nil:
		s.db.AllocSize = allocSize
		return nil
	case errors.As(err, &fault):
		found := s.damaged(s.First, err)
		// bbolt's mapping of the file stays, and with it the lock, for as long as the process lives.
		return errors.Join(found, s.file.Close())
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open log %s: %w", s.Path, eventlog.ErrInUse)
	case errors.Is(err, bolterrors.ErrChecksum):
		return s.damaged(s.First, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch):
		if cause := readThrough(s.Path); cause != nil { // an unreadable page looks wrong to bbolt
			return &eventlog.UnreadableError{Path: s.Path, Seq: s.First, Err: cause}
		}
		return fmt.Errorf("open log %s: %w: %w", s.Path, ErrNotALog, err)
	}
	if cause := unreadable(nil, err); cause != nil && readOnly {
		return &eventlog.UnreadableError{Path: s.Path, Seq: s.First, Err: cause}
	}
	return fmt.Errorf("open log %s: %w", s.Path, err)
}

// check reads the facts.
func (s *Segment) check(named bool) error {
	nominal := s.First
	return s.view(nominal, func(tx *bolt.Tx) error {
		if named { // of another file it is not known yet that it is one
			if err := s.checkPages(tx); err != nil {
				return err
			}
		}
		if err := s.readMeta(tx); err != nil {
			return err
		}
		if !named {
			return s.damaged(nominal, errors.New("it is a segment of a log that does not have its name"))
		}
		if s.First != nominal {
			first := s.First
			return s.damaged(nominal, fmt.Errorf("the segment is another one: it begins with entry %d", first))
		}
		return s.findLast(tx.Bucket(bucketLog))
	})
}

// checkPages checks that the file has its full length, and that the pages that lead to the entries are good.
func (s *Segment) checkPages(tx *bolt.Tx) error {
	info, err := s.stat()
	if err != nil {
		return err
	}
	s.used, s.Extra = tx.Size(), info.Size()-tx.Size()
	if s.Extra < 0 {
		return s.damaged(s.First, fmt.Errorf("the file is cut short: it has %d bytes of %d", info.Size(), tx.Size()))
	}
	whole, err := metaPagesWhole(s.file, s.db.Info().PageSize)
	if err != nil {
		return s.damaged(s.First, err)
	}
	s.Halved = !whole
	return s.checkTree(tx, false)
}

func (s *Segment) checkTree(tx *bolt.Tx, toWrite bool) error {
	if err := s.checkBranches(int64(tx.ID()), s.used, toWrite); err != nil {
		return s.damaged(s.First, fmt.Errorf("the file's structure is damaged: %w", err))
	}
	return nil
}

// mayBeWritten checks that the segment at path can be opened for writing: bbolt would believe a damaged list of free
// pages, or panic and keep the file locked.
func mayBeWritten(path string) error {
	s, err := openSegment(path, true)
	if err != nil {
		return err
	}
	err = s.view(s.First, func(tx *bolt.Tx) error { return s.checkTree(tx, true) })
	return errors.Join(err, s.close())
}

// readMeta reads the bucket meta.
func (s *Segment) readMeta(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || string(meta.Get(metaType)) != fileType {
		return fmt.Errorf("open log %s: %w: it is a bbolt file of another kind", s.Path, ErrNotALog)
	}
	format := meta.Get(metaFormat)
	if len(format) != 4 {
		return s.damaged(s.First, errors.New("the format's version is missing"))
	}
	switch f := binary.BigEndian.Uint32(format); f {
	case Format:
	case 0:
		return s.damaged(s.First, errors.New("the format's version is 0: the first one is 1"))
	default:
		return &FormatError{Path: s.Path, Format: f}
	}
	if tx.Bucket(bucketLog) == nil {
		return s.damaged(s.First, errors.New("the bucket of entries is missing"))
	}
	first, previous, sealed := meta.Get(metaFirst), meta.Get(metaPrevious), meta.Get(metaSealed)
	if len(first) != 8 || len(previous) != 32 || (sealed != nil && len(sealed) < 40) {
		return s.damaged(s.First, errors.New("what the segment says of itself is missing or cut short"))
	}
	s.First = binary.BigEndian.Uint64(first)
	s.Previous = [32]byte(previous)
	if s.Sealed = sealed != nil; s.Sealed {
		s.Last, s.Hash = binary.BigEndian.Uint64(sealed), [32]byte(sealed[8:])
	}
	return errors.Join(s.readNoted(meta), s.readTrees(meta))
}

// readNoted reads the note of the last entry.
func (s *Segment) readNoted(meta *bolt.Bucket) error {
	noted := meta.Get(metaLast)
	if noted == nil {
		return nil
	}
	if len(noted) != 8 {
		return s.damaged(s.First, errors.New("the note of the last entry is damaged"))
	}
	s.Noted = binary.BigEndian.Uint64(noted)
	return nil
}

// readTrees reads the hash trees of the segment and its seal.
func (s *Segment) readTrees(meta *bolt.Bucket) error {
	sealed := meta.Get(metaSealed)
	nodes := meta.Get(metaTree)
	tree, err := merkle.Parse(s.First-1, nodes)
	if nodes == nil {
		err = errMissing
	}
	if err != nil {
		return s.damaged(s.First, fmt.Errorf("the tree before the segment: %w", err))
	}
	s.Tree = &tree
	if s.Sealed {
		tree, err := merkle.Parse(s.Last, sealed[40:])
		if err != nil {
			return s.damaged(s.First, fmt.Errorf("the tree in the seal: %w", err))
		}
		s.SealedTree = &tree
	}
	return nil
}

// findLast finds the last entry, and checks that it is the seal's.
func (s *Segment) findLast(b *bolt.Bucket) error {
	last := s.First - 1
	k, _ := b.Cursor().Last()
	if k != nil {
		if len(k) != 8 {
			return s.damaged(s.First, fmt.Errorf("a key of %d bytes", len(k)))
		}
		last = binary.BigEndian.Uint64(k)
	}
	switch {
	case last < s.First-1:
		return s.damaged(s.First, fmt.Errorf("the segment holds entry %d, which is not its", last))
	case s.Sealed && s.Last < s.First:
		return s.damaged(s.First, fmt.Errorf("the segment was sealed at entry %d", s.Last))
	case s.Sealed:
		s.Overrun = last > s.Last
	default:
		if s.Last = last; last < s.First {
			tree := s.Tree.Clone()
			s.tree = &tree
		}
	}
	return nil // readers report entries that are missing before the seal's last
}

// Check makes bbolt check the structure of the file: its pages form a tree and each is used once. An error is an
// *eventlog.DamagedError after the last entry; Read finds damage within the entries. On a damaged file bbolt may crash
// the process, so call this in a process that may crash.
func (s *Segment) Check() error {
	return s.view(s.Last+1, func(tx *bolt.Tx) error {
		first := s.checkOverflow(tx)
		if first == nil {
			for err := range tx.Check() {
				if first == nil {
					first = err
				}
			}
		}
		if first != nil {
			return s.damaged(s.Last+1, fmt.Errorf("the file's structure is damaged: %w", first))
		}
		return nil
	})
}

// Read yields the entries from from to to, both of the segment, in order. Log.Read describes its checks.
func (s *Segment) Read(ctx context.Context, from, to uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		c := cursor{ctx: ctx, next: from}
		for c.next <= to {
			if err := c.fill(s, to); err != nil {
				yield(eventlog.Entry{}, err)
				return
			}
			if !drain(&c, c.entry, yield) {
				return
			}
		}
	}
}

// Records yields the records of the entries from from to to, both of the segment, in order; see Log.Records.
func (s *Segment) Records(ctx context.Context, from, to uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		c := cursor{ctx: ctx, next: from}
		for c.next <= to {
			if err := c.fill(s, to); err != nil {
				yield(eventlog.Record{}, err)
				return
			}
			if !drain(&c, c.record, yield) {
				return
			}
		}
	}
}

// RecordHash returns the hash of an entry's record. It does not check the record: Read does.
func (s *Segment) RecordHash(seq uint64) ([32]byte, error) {
	rec, err := s.record(seq)
	return eventlog.HashRecord(rec), err
}

// record returns a copy of the record of an entry.
func (s *Segment) record(seq uint64) (rec []byte, err error) {
	err = s.view(seq, func(tx *bolt.Tx) error {
		got := tx.Bucket(bucketLog).Get(key(seq))
		if got == nil {
			return s.damaged(seq, errMissing)
		}
		rec = append(rec, got...)
		return nil
	})
	return rec, err
}

// update runs f in a transaction that is durable when update returns without an error. It may run f more than once.
func (s *Segment) update(f func(tx *bolt.Tx) error) error { return update(s.db, &s.reading, f) }

// view runs f in a read transaction; a fault is damage at entry seq. bolterrors.ErrDatabaseNotOpen says that the
// segment is closed.
func (s *Segment) view(seq uint64, f func(tx *bolt.Tx) error) error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	err := guard(func() error { return s.db.View(f) })
	var fault *faultError
	if errors.As(err, &fault) {
		return s.damaged(seq, err)
	}
	return err
}

// Close closes the file. It waits for reads in progress.
func (s *Segment) Close() error { return s.close() }

func (s *Segment) close() error {
	if err := closeDB(s.db); err != nil {
		return fmt.Errorf("close %s: %w", s.Path, err)
	}
	return nil
}

var errMissing = errors.New("it is missing")

// damaged returns err, found on the way to entry seq, as damage, unless the system could not read the file.
func (s *Segment) damaged(seq uint64, err error) error {
	if cause := unreadable(s.file, err); cause != nil {
		return &eventlog.UnreadableError{Path: s.Path, Seq: seq, Err: cause}
	}
	return eventlog.DamageAt(s.Path, seq, err)
}

func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
