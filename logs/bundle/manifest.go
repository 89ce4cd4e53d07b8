package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// Format is the version of the layout that Write writes, and the highest that Open reads. Versions are a ladder:
// none is ever reused. All versions begin with the same eight bytes and the version, and end with the SHA-256
// of all that is before it.
//
//	1  the first format
const Format = 1

const (
	magic = "rollbndl"
	// maxManifest is the size in bytes that no manifest exceeds; a configuration is the most of it.
	maxManifest = 16 << 20
	// maxRatio is how many bytes of records one byte of the file may unpack to, beside maxRatioFloor of them. Every
	// record has 36 bytes that no packing makes smaller: real ones stay below a twentieth of it.
	maxRatio      = 1000
	maxRatioFloor = 1 << 20
	// window is the zstd window in bytes, hence about the memory that packing and unpacking take.
	window = 4 << 20
)

// Manifest is what a bundle says of itself.
type Manifest struct {
	// Version is that of the binary that wrote the bundle.
	Version string `json:"version"`
	// From is the first entry that was asked for. Entries from First on are there, because the state before First
	// was known.
	From uint64 `json:"from"`
	// First and Last are the first and the last entry, FirstTime and LastTime their times.
	First     uint64 `json:"first"`
	Last      uint64 `json:"last"`
	FirstTime string `json:"firstTime"`
	LastTime  string `json:"lastTime"`
	// Epoch is the last entry's; EpochVersion is the binary's that wrote it, "" if the epoch began before First.
	Epoch        uint64 `json:"epoch"`
	EpochVersion string `json:"epochVersion,omitempty"`
	// Config is the effective KubeSchedulerConfiguration at the last entry.
	Config json.RawMessage `json:"config,omitempty"`
	// Origin is the place in the log's chain and tree behind which First stands.
	Origin eventlog.Origin `json:"origin"`
	// LastHash is the hash of the last entry's record, hexadecimal, and Root that of the log's hash tree up to it,
	// in base64 as checkpoints have it.
	LastHash string `json:"lastHash"`
	Root     string `json:"root"`
	// Damage says what stands behind Last in the log that the bundle was made of, if that is why it ends there.
	Damage string `json:"damage,omitempty"`
	// Snapshot is the size of the snapshot in bytes, 0 if there is none, because Origin is the log's beginning.
	Snapshot uint64 `json:"snapshotBytes"`
	// Records is the size of the records and their lengths, before packing.
	Records uint64 `json:"recordBytes"`
	// Digest is the SHA-256 of the snapshot and the records with their lengths, hexadecimal.
	Digest string `json:"digest"`
}

// Entries is how many entries the bundle has.
func (m *Manifest) Entries() uint64 { return m.Last - m.First + 1 }

// check says what is wrong with a manifest, as far as it shows without the rest of the file.
func (m *Manifest) check() error {
	switch {
	case m.Origin.Seq+1 != m.First:
		return fmt.Errorf("the first entry is %d, but its origin is behind entry %d", m.First, m.Origin.Seq)
	case m.Last < m.First:
		return fmt.Errorf("the last entry is %d, the first %d", m.Last, m.First)
	case m.From < m.First || m.From > m.Last:
		return fmt.Errorf("entry %d was asked for, which is not among entries %d to %d", m.From, m.First, m.Last)
	case (m.Snapshot > 0) != (m.Origin.Seq > 0):
		return fmt.Errorf("a snapshot of %d bytes for a beginning behind entry %d", m.Snapshot, m.Origin.Seq)
	case m.Entries() > m.Records:
		return fmt.Errorf("%d entries in %d bytes", m.Entries(), m.Records)
	}
	return nil
}

// encode returns the manifest as it stands in a file.
func (m *Manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // the configuration stands there byte by byte
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	if buf.Len() > maxManifest {
		return nil, fmt.Errorf("a manifest of %d bytes is larger than the %d that are read", buf.Len(), maxManifest)
	}
	return buf.Bytes(), nil
}

// decodeManifest is the inverse of encode, and accepts nothing else.
func decodeManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	type fields Manifest
	in := struct {
		*fields
		Origin json.RawMessage `json:"origin"` // what is there a thousand times is decoded once
	}{fields: (*fields)(m)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(in.Origin, &m.Origin); err != nil {
		return nil, err
	}
	if again, err := m.encode(); err != nil {
		return nil, err
	} else if !bytes.Equal(again, data) {
		return nil, errors.New("it is not written as this program writes it")
	}
	return m, m.check()
}

// ErrNotABundle says that a file is no bundle.
var ErrNotABundle = errors.New("not a Rollcall bundle")

// DamagedError says that a file is not a whole bundle.
type DamagedError struct {
	// Path is the file.
	Path string
	// Check is the check that failed: "length", "checksum", "manifest", "snapshot", "records" or "digest".
	Check string
	// Err says more.
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: the bundle is damaged: its %s: %v", e.Path, e.Check, e.Err)
}

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// FormatError says that a newer program wrote the bundle.
type FormatError struct {
	Path string
	// Format is the bundle's; this program reads up to the constant Format.
	Format uint32
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf(
		"%s: the bundle has format %d, written by a newer version of Rollcall: this one reads up to %d",
		e.Path,
		e.Format,
		Format,
	)
}

// A tally follows records in order: it checks each against the one before it, and sums up what a manifest says.
type tally struct {
	header eventlog.Header // the last record's
	end    eventlog.Chain
	tree   merkle.Tree // up to end
	first  eventlog.Header
	begun  *eventlog.EpochStarted // the last one
	bytes  uint64
}

// newTally returns the tally of the records behind origin.
func newTally(origin eventlog.Origin) tally {
	return tally{end: origin.End(), tree: origin.Tree.Clone()}
}

// take counts the next record in.
func (t *tally) take(rec []byte) (eventlog.Entry, error) {
	before := t.end.Seq
	e, err := t.end.Entry(rec)
	h := eventlog.Header{}
	if err == nil {
		h = e.Header()
		if t.header.Seq > 0 || before == 0 {
			err = h.Follows(t.header)
		}
	}
	if format := new(eventlog.FormatError); errors.As(err, &format) {
		return e, &eventlog.FormatError{Seq: before + 1, Format: format.Format}
	}
	if err != nil {
		return e, fmt.Errorf("entry %d: %w", before+1, err)
	}
	if t.header = h; t.first.Seq == 0 {
		t.first = h
	}
	if p, ok := e.Payload.(*eventlog.EpochStarted); ok {
		t.begun = p
	}
	t.tree.Add(t.end.Hash)
	t.bytes += lengthSize + uint64(len(rec))
	return e, nil
}
