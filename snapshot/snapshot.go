package snapshot

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// FormatVersion is the version of the format that Encode writes, and the highest that Decode reads. Versions
// are a ladder: a rung is added for every change of the format, and none is ever reused. All versions begin
// with the same eight bytes and the version, and end with the SHA-256 of all that is before it.
//
//	1  the first format
const FormatVersion = 1

// The layout of a snapshot; integers are big endian:
//
//	"rollsnap" | version u32 | seq u64 | epoch u64 | time i64 | position [32] | state hash [32] | state size u64 |
//	state, gzip | SHA-256
const (
	magic         = "rollsnap"
	offsetVersion = 8
	offsetSeq     = 12
	offsetEpoch   = 20
	offsetTime    = 28
	offsetChain   = 36
	offsetHash    = 68
	offsetSize    = 100
	headerSize    = 108

	// gzipRatio is the largest number of bytes that gzip packs into one.
	gzipRatio = 1100
	// maxRatio is the largest number of bytes of state that one byte of a snapshot may unpack to, beside maxRatioFloor
	// of them: a state said to be larger is refused unread. Real snapshots reach a ratio of about 20. If a state
	// compresses better than the limit allows, Encode uses weaker compression.
	maxRatio      = 64
	maxRatioFloor = 1 << 20
)

// unpacked returns how many bytes of state so many packed ones may unpack to.
func unpacked(packed int) uint64 { return maxRatioFloor + maxRatio*uint64(packed) }

// MaxState is the size in bytes that no state exceeds: a snapshot that claims more is refused before anything
// is unpacked. 5,000 nodes with 100,000 pods take about a twenty-fifth of it.
const MaxState = 1 << 30

// DecodeMemory returns how many bytes Decode allocates at the most for a snapshot of so many bytes.
func DecodeMemory(size int) uint64 { return unpacked(size) + 1<<18 }

// DamagedError says that the bytes are not a whole snapshot.
type DamagedError struct {
	// Check is the check that failed: "length", "magic", "checksum", "compression", "state size" or "state hash"; of
	// one that is kept as an object, "object".
	Check string
	// Err says more, if there is more to say.
	Err error
}

// Error implements error.
func (e *DamagedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("the snapshot is damaged: its %s is wrong", e.Check)
	}
	return fmt.Sprintf("the snapshot is damaged: its %s is wrong: %v", e.Check, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// NewerFormatError says that a newer program wrote the snapshot.
type NewerFormatError struct {
	// Version is the snapshot's format, Highest the highest that this program reads.
	Version, Highest uint32
}

// Error implements error.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("the snapshot is of format %d: this program reads up to %d", e.Version, e.Highest)
}

// ErrOtherState says that the Machine restored from a snapshot is not the one that was written down.
var ErrOtherState = errors.New("the restored state is not the one of the snapshot")

// Snapshot is a decoded snapshot: whole, but not a Machine yet.
type Snapshot struct {
	// Seq is the last entry that the Machine had applied, Epoch and Time are that entry's.
	Seq, Epoch uint64
	Time       eventlog.Time
	// Position is the hash that Capture received for entry Seq: the log's own entry must have the same one.
	Position [32]byte
	// StateHash is the Machine's hash. It is known once a captured snapshot was encoded.
	StateHash [32]byte

	state []byte
}

// Capture copies the Machine's state. The rest of the work, Snapshot.Encode, no longer needs the Machine and may be
// done elsewhere while the Machine continues. position is the hash of the record of entry m.Seq(): the restorer of the
// snapshot recognises with it the log that the snapshot belongs to. The state is written over scratch if it fits; nil
// will do. The error wraps a *scheduler.NotStatefulError for a state that no snapshot can hold.
func Capture(m *scheduler.Machine, position [32]byte, scratch []byte) (*Snapshot, error) {
	if err := m.Restorable(); err != nil {
		return nil, fmt.Errorf("snapshot at entry %d: %w", m.Seq(), err)
	}
	state, err := m.AppendState(scratch[:0])
	if err != nil {
		return nil, fmt.Errorf("snapshot at entry %d: %w", m.Seq(), err)
	}
	return &Snapshot{Seq: m.Seq(), Epoch: m.Epoch(), Time: m.Now(), Position: position, state: state}, nil
}

// Release returns the memory of the state for another Capture. The snapshot is of no more use then.
func (s *Snapshot) Release() []byte {
	state := s.state
	s.state = nil
	return state
}

// Encode returns the snapshot in its format, and sets its StateHash.
func (s *Snapshot) Encode() ([]byte, error) {
	if len(s.state) > MaxState {
		return nil, fmt.Errorf(
			"snapshot at entry %d: a state of %d bytes is larger than the %d that are read",
			s.Seq,
			len(s.state),
			MaxState,
		)
	}
	s.StateHash = sha256.Sum256(s.state)
	out := append(make([]byte, 0, headerSize+len(s.state)/8), magic...)
	out = binary.BigEndian.AppendUint32(out, FormatVersion)
	out = binary.BigEndian.AppendUint64(out, s.Seq)
	out = binary.BigEndian.AppendUint64(out, s.Epoch)
	out = binary.BigEndian.AppendUint64(out, uint64(s.Time))
	out = append(out, s.Position[:]...)
	out = append(out, s.StateHash[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(len(s.state)))
	// States repeat themselves so much that more effort buys little.
	buf, err := pack(out, s.state, gzip.BestSpeed)
	if err == nil && uint64(len(s.state)) > unpacked(buf.Len()-headerSize) {
		buf, err = pack(out, s.state, gzip.HuffmanOnly) // at the most to an eighth
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot at entry %d: %w", s.Seq, err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return append(buf.Bytes(), sum[:]...), nil
}

// pack appends state, packed, to out.
func pack(out, state []byte, level int) (*bytes.Buffer, error) {
	buf := bytes.NewBuffer(out)
	zip, err := gzip.NewWriterLevel(buf, level)
	if err != nil {
		return nil, err
	}
	if _, err := zip.Write(state); err != nil {
		return nil, err
	}
	return buf, zip.Close()
}

// Encode is Capture and Snapshot.Encode in one.
func Encode(m *scheduler.Machine, position [32]byte) ([]byte, error) {
	s, err := Capture(m, position, nil)
	if err != nil {
		return nil, err
	}
	return s.Encode()
}

// Decode checks the snapshot and unpacks it. Its errors are *DamagedError and *NewerFormatError; no input
// makes it panic, or allocate more than DecodeMemory of its size.
func Decode(data []byte) (*Snapshot, error) {
	if err := checkFrame(data); err != nil {
		return nil, err
	}
	s := &Snapshot{
		Seq:   binary.BigEndian.Uint64(data[offsetSeq:]),
		Epoch: binary.BigEndian.Uint64(data[offsetEpoch:]),
		Time:  eventlog.Time(binary.BigEndian.Uint64(data[offsetTime:])),
	}
	copy(s.Position[:], data[offsetChain:])
	copy(s.StateHash[:], data[offsetHash:])
	packed, size := data[headerSize:len(data)-sha256.Size], binary.BigEndian.Uint64(data[offsetSize:])
	switch {
	case size > uint64(len(packed))*gzipRatio:
		return nil, &DamagedError{
			Check: "state size",
			Err:   fmt.Errorf("%d bytes cannot be packed into %d", size, len(packed)),
		}
	case size > MaxState:
		return nil, &DamagedError{
			Check: "state size",
			Err:   fmt.Errorf("%d bytes are more than the %d of any state", size, MaxState),
		}
	case size > unpacked(len(packed)):
		return nil, &DamagedError{
			Check: "state size",
			Err:   fmt.Errorf("%d bytes are packed into %d: no state is packed like that", size, len(packed)),
		}
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, &DamagedError{Check: "compression", Err: err}
	}
	s.state = make([]byte, size)
	if _, err := io.ReadFull(zip, s.state); err != nil {
		return nil, &DamagedError{Check: "compression", Err: err}
	}
	if n, err := io.ReadFull(zip, make([]byte, 1)); n != 0 {
		return nil, &DamagedError{Check: "state size"}
	} else if !errors.Is(err, io.EOF) {
		return nil, &DamagedError{Check: "compression", Err: err}
	}
	if sha256.Sum256(s.state) != s.StateHash {
		return nil, &DamagedError{Check: "state hash"}
	}
	return s, nil
}

// checkFrame checks the parts that all versions have in common, and then the version.
func checkFrame(data []byte) error {
	if len(data) < headerSize+sha256.Size {
		return &DamagedError{Check: "length", Err: fmt.Errorf("%d bytes are too few", len(data))}
	}
	if string(data[:len(magic)]) != magic {
		return &DamagedError{Check: "magic", Err: errors.New("it does not begin as a snapshot does")}
	}
	body := data[:len(data)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], data[len(body):]) {
		return &DamagedError{Check: "checksum"}
	}
	// The checksum is asked first: it tells a newer format from a flipped bit.
	if v := binary.BigEndian.Uint32(data[offsetVersion:]); v != FormatVersion {
		return &NewerFormatError{Version: v, Highest: FormatVersion}
	}
	return nil
}

// Config returns the configuration that the Machine had, nil if no epoch had begun, and the number of its behaviour, 0
// for the first. Unlike Restore, it needs no plugins.
func (s *Snapshot) Config() (config []byte, behaviour uint32, err error) {
	return scheduler.ConfigOf(s.state)
}

// Restore makes the Machine. The registry holds the plugins that its configuration may name. The error wraps
// ErrOtherState if the restored state differs from the state that was written down. It wraps a *scheduler.VersionError
// if another version of the program wrote the state.
func (s *Snapshot) Restore(registry framework.Registry) (*scheduler.Machine, error) {
	// It compares the whole encoding, of which StateHash is the digest.
	m, err := scheduler.Restore(registry, s.state)
	switch {
	case errors.Is(err, scheduler.ErrNotTheSame):
		return nil, fmt.Errorf("snapshot at entry %d: %w: %w", s.Seq, ErrOtherState, err)
	case err != nil:
		return nil, fmt.Errorf("snapshot at entry %d: %w", s.Seq, err)
	case m.Seq() != s.Seq || m.Epoch() != s.Epoch || m.Now() != s.Time:
		return nil, fmt.Errorf("snapshot at entry %d: %w: it is of entry %d", s.Seq, ErrOtherState, m.Seq())
	}
	return m, nil
}

// RestoreReplacing makes the Machine of the state with other texts, as scheduler.RestoreReplacing does.
func (s *Snapshot) RestoreReplacing(registry framework.Registry,
	replace func(field string, b []byte) ([]byte, error)) (*scheduler.Machine, error) {
	m, err := scheduler.RestoreReplacing(registry, s.state, replace)
	if err != nil {
		return nil, fmt.Errorf("snapshot at entry %d: %w", s.Seq, err)
	}
	return m, nil
}
