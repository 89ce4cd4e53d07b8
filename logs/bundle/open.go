package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/regular"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// headSize is the size of the part before the manifest, minSize the size of an empty bundle.
const (
	headSize = len(magic) + 4 + 4
	minSize  = headSize + 2*sha256.Size
)

// A Bundle is an open bundle: an eventlog.Reader of a log that does not grow. It is safe for concurrent use.
type Bundle struct {
	manifest Manifest
	name     string
	file     io.ReaderAt
	close    func() error
	snap     int64 // where the snapshot begins in the file,
	records  int64 // the packed records,
	end      int64 // and the last checksum
}

var _ eventlog.Reader = (*Bundle)(nil)

// Is reports whether the file at path is a bundle, by its first bytes. An unreadable file is none.
func Is(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(magic))
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == magic
}

// Open opens the bundle at path and checks it from end to end. progress, if not nil, is called now and then with the
// last entry checked. Errors: ErrNotABundle, a *FormatError, an *eventlog.FormatError, a *DamagedError, or an error of
// the file.
func Open(path string, progress func(seq uint64)) (*Bundle, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open bundle: %w", err), f.Close())
	}
	b, err := New(f, info.Size(), path, progress)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b.close = f.Close
	return b, nil
}

// New is Open for a bundle of the given size in bytes that is in file; name is for errors.
func New(file io.ReaderAt, size int64, name string, progress func(seq uint64)) (*Bundle, error) {
	b := &Bundle{name: name, file: file, close: func() error { return nil }, end: size - sha256.Size}
	if err := b.readHead(size); err != nil {
		return nil, err
	}
	if err := b.checkSum(); err != nil {
		return nil, err
	}
	if err := b.checkContent(progress); err != nil {
		return nil, err
	}
	return b, nil
}

// damaged returns err, found by a check, as damage, with two exceptions: the system could not read the file, or an
// entry is in another version's format.
func (b *Bundle) damaged(check string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return &eventlog.UnreadableError{Path: b.name, Err: err}
	}
	if format := new(eventlog.FormatError); errors.As(err, &format) {
		return &eventlog.FormatError{Path: b.name, Seq: format.Seq, Format: format.Format}
	}
	return &DamagedError{Path: b.name, Check: check, Err: err}
}

// readHead reads the part before the snapshot.
func (b *Bundle) readHead(size int64) error {
	begin := make([]byte, headSize)
	n, err := b.file.ReadAt(begin, 0)
	switch {
	case n < len(magic) || string(begin[:len(magic)]) != magic:
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read bundle %s: %w", b.name, err)
		}
		return fmt.Errorf("%s: %w", b.name, ErrNotABundle)
	case size < int64(minSize):
		return b.damaged("length", fmt.Errorf("%d bytes are too few", size))
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read bundle %s: %w", b.name, err)
	}
	format, length := binary.BigEndian.Uint32(begin[len(magic):]), int64(binary.BigEndian.Uint32(begin[len(magic)+4:]))
	if format != Format {
		// The checksum comes first: it tells a newer format from a flipped bit.
		if err := b.checkSum(); err != nil {
			return err
		}
		return &FormatError{Path: b.name, Format: format}
	}
	if length > maxManifest || length > size-int64(minSize) {
		return b.damaged("length", fmt.Errorf("a manifest of %d bytes in a file of %d", length, size))
	}
	head := make([]byte, int64(headSize)+length+sha256.Size)
	if _, err := b.file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read bundle %s: %w", b.name, err)
	}
	body, want := head[:len(head)-sha256.Size], head[len(head)-sha256.Size:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], want) {
		return b.damaged("manifest", errors.New("its checksum is wrong"))
	}
	m, err := decodeManifest(body[headSize:])
	if err != nil {
		return b.damaged("manifest", err)
	}
	b.manifest, b.snap = *m, int64(len(head))
	rest := uint64(b.end - b.snap)
	if m.Snapshot > rest {
		return b.damaged("manifest", fmt.Errorf("a snapshot of %d bytes in a file with %d left", m.Snapshot, rest))
	}
	b.records = b.snap + int64(m.Snapshot)
	if most := limit(rest - m.Snapshot); m.Records > most {
		return b.damaged(
			"manifest",
			fmt.Errorf("%d bytes of records cannot be packed into %d", m.Records, rest-m.Snapshot),
		)
	}
	return nil
}

// checkSum checks the file's last checksum.
func (b *Bundle) checkSum() error {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(b.file, 0, b.end)); err != nil {
		return fmt.Errorf("read bundle %s: %w", b.name, err)
	}
	want := make([]byte, sha256.Size)
	if _, err := b.file.ReadAt(want, b.end); err != nil {
		return fmt.Errorf("read bundle %s: %w", b.name, err)
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return b.damaged("checksum", errors.New("the file was changed or cut short"))
	}
	return nil
}

// checkContent reads the snapshot and all records, and compares them with the manifest.
func (b *Bundle) checkContent(progress func(seq uint64)) error {
	digest := sha256.New()
	snap, err := b.Snapshot()
	if err != nil {
		return err
	}
	digest.Write(snap)
	s, err := b.checkSnapshot(snap)
	if err != nil {
		return b.damaged("snapshot", err)
	}
	r, err := b.reader()
	if err != nil {
		return err
	}
	defer r.close()
	if s != nil {
		r.tally.header = eventlog.Header{Seq: s.Seq, Epoch: s.Epoch, Time: s.Time}
	}
	for r.tally.end.Seq < b.manifest.Last {
		rec, _, err := r.next()
		if err != nil {
			return err
		}
		digestRecord(digest, rec)
		if seq := r.tally.end.Seq; progress != nil && seq%10000 == 0 {
			progress(seq)
		}
	}
	if err := r.atEnd(); err != nil {
		return err
	}
	if hex.EncodeToString(digest.Sum(nil)) != b.manifest.Digest {
		return b.damaged("digest", errors.New("it is not that of the snapshot and the records"))
	}
	return b.checkClaims(&r.tally, s)
}

// checkClaims compares the manifest with the records.
func (b *Bundle) checkClaims(t *tally, s *snapshot.Snapshot) error {
	claims := []struct {
		what     string
		was, say any
	}{
		{"the first entry's time", t.first.Time.String(), b.manifest.FirstTime},
		{"the last entry's time", t.header.Time.String(), b.manifest.LastTime},
		{"the last entry's epoch", t.header.Epoch, b.manifest.Epoch},
		{"the last record's hash", hex.EncodeToString(t.end.Hash[:]), b.manifest.LastHash},
		{"the hash tree's root", root(t), b.manifest.Root},
		{"the size of the records", t.bytes, b.manifest.Records},
	}
	for _, c := range claims {
		if c.was != c.say {
			return b.damaged("manifest", fmt.Errorf("%s is %v, and it says %v", c.what, c.was, c.say))
		}
	}
	if t.begun != nil &&
		(t.begun.Version != b.manifest.EpochVersion || !bytes.Equal(t.begun.Config, b.manifest.Config)) ||
		t.begun == nil && b.manifest.EpochVersion != "" {
		return b.damaged("manifest", errors.New("version and configuration are not those of the last epoch"))
	}
	return nil
}

// Manifest returns the bundle's manifest, which was checked.
func (b *Bundle) Manifest() Manifest { return b.manifest }

// Snapshot returns the snapshot of the entry before the first one; empty if the bundle begins with entry 1.
func (b *Bundle) Snapshot() ([]byte, error) {
	snap := make([]byte, b.manifest.Snapshot)
	if _, err := b.file.ReadAt(snap, b.snap); err != nil && len(snap) > 0 {
		return nil, fmt.Errorf("read bundle %s: %w", b.name, err)
	}
	return snap, nil
}

// checkSnapshot checks that the snapshot is whole and that the records follow its place; nil if there is none.
func (b *Bundle) checkSnapshot(snap []byte) (*snapshot.Snapshot, error) {
	if len(snap) == 0 {
		return nil, nil
	}
	s, err := snapshot.Decode(snap)
	switch {
	case err != nil:
		return nil, err
	case s.Seq != b.manifest.Origin.Seq:
		return nil, fmt.Errorf("it is of entry %d, and the records begin with entry %d", s.Seq, b.manifest.First)
	case s.Position != b.manifest.Origin.Hash:
		return nil, fmt.Errorf("entry %d is another one here", s.Seq)
	}
	return s, nil
}
