package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// Format is the version of the layout that Write writes, and the highest that Open reads. Version numbers are never
// reused. All versions begin with the same eight bytes and the version, and end with the SHA-256 of everything before
// it.
//
//	1  the first format
const Format = 1

const (
	magic = "rollbndl"
	// maxManifest is the largest size of a manifest in bytes; most of it is the configuration.
	maxManifest = 16 << 20
	// One byte of the file may unpack to at most maxRatio bytes of records, with maxRatioFloor bytes in addition.
	// Every record has 36 bytes that no packing makes smaller: real ones stay below a twentieth of the limit.
	maxRatio      = 1000
	maxRatioFloor = 1 << 20
	// window is the zstd window in bytes, hence about the memory that packing and unpacking take.
	window = 4 << 20
)

// Manifest describes a bundle.
type Manifest struct {
	// Version is the version of the program that wrote the bundle.
	Version string `json:"version"`
	// From is the first requested entry. The bundle has the entries from First on, because the state before First was
	// known.
	From uint64 `json:"from"`
	// First and Last are the first and the last entry, FirstTime and LastTime their times.
	First     uint64 `json:"first"`
	Last      uint64 `json:"last"`
	FirstTime string `json:"firstTime"`
	LastTime  string `json:"lastTime"`
	// Epoch is the last entry's epoch; EpochVersion is the version of the program that wrote it, "" if the epoch began
	// before First.
	Epoch        uint64 `json:"epoch"`
	EpochVersion string `json:"epochVersion,omitempty"`
	// Config is the effective KubeSchedulerConfiguration at the last entry.
	Config json.RawMessage `json:"config,omitempty"`
	// Origin is the place in the log's chain and tree just before First.
	Origin eventlog.Origin `json:"origin"`
	// LastHash is the hash of the last entry's record, in hexadecimal, and Root the root of the log's hash tree up to
	// it, in base64 as in checkpoints.
	LastHash string `json:"lastHash"`
	Root     string `json:"root"`
	// Damage describes the damage after Last in the log that the bundle was made from, if the bundle ends there
	// because of it.
	Damage string `json:"damage,omitempty"`
	// Redacted says that the names in the bundle are pseudonyms; nil if they are not. Then the chain of the records is
	// a new one.
	Redacted *Redacted `json:"redacted,omitempty"`
	// Snapshot is the size of the snapshot in bytes, 0 if there is none, because Origin is the log's beginning.
	Snapshot uint64 `json:"snapshotBytes"`
	// Records is the size of the records and their lengths, before packing.
	Records uint64 `json:"recordBytes"`
	// Digest is the SHA-256 of the snapshot and the records with their lengths, hexadecimal.
	Digest string `json:"digest"`
}

// Entries is the number of entries of the bundle.
func (m *Manifest) Entries() uint64 { return m.Last - m.First + 1 }

// check returns an error if a manifest is invalid, as far as it shows without the rest of the file.
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
	return m.checkRedacted()
}

// encode returns the manifest as it is in a file.
func (m *Manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // the configuration is kept byte by byte
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
		Origin json.RawMessage `json:"origin"` // repeated fields are decoded once
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
	// Err has the details.
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: the bundle is damaged: its %s: %v", e.Path, e.Check, e.Err)
}

// Unwrap returns the details.
func (e *DamagedError) Unwrap() error { return e.Err }

// FormatError says that a newer program wrote the bundle.
type FormatError struct {
	Path string
	// Format is the bundle's format; this program reads up to the constant Format.
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

// A tally follows records in order: it checks each against the one before it, and collects the facts of a manifest.
type tally struct {
	header eventlog.Header // the last record's
	end    eventlog.Chain
	tree   merkle.Tree // up to end
	first  eventlog.Header
	begun  *eventlog.EpochStarted // the last one
	bytes  uint64
}

// newTally returns the tally of the records after origin.
func newTally(origin eventlog.Origin) tally {
	return tally{end: origin.End(), tree: origin.Tree.Clone()}
}

// take adds the next record.
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
