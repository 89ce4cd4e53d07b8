package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// lengthSize is the size of a record's length before it.
const lengthSize = 4

// Plan describes the bundle to write.
type Plan struct {
	// First and Last are the first and the last entry. From is the first requested one, 0 for First.
	First, From, Last uint64
	// UntilDamage lets the bundle end before Last, where the log is damaged. Damage describes damage after Last that
	// is already known.
	UntilDamage bool
	Damage      string
	// Snapshot is the snapshot of entry First-1, empty for a range that begins with entry 1.
	Snapshot []byte
	// Config is the configuration at entry First-1.
	Config []byte
	// Redacted names the log of a redacted bundle; nil for any other bundle.
	Redacted *Redacted
	// Version is the program's version.
	Version string
	// Progress is called now and then with the last entry read, twice over the range; nil is not called.
	Progress func(seq uint64)
}

func (p *Plan) progress(seq uint64) {
	if p.Progress != nil && seq%10000 == 0 {
		p.Progress(seq)
	}
}

// Write writes the bundle that plan describes. It reads the range twice: the first time to compute the manifest, which
// comes before it. It returns the manifest and the size of the bundle in bytes. Its errors come from src and w.
func Write(
	ctx context.Context, w io.Writer, src eventlog.RecordReader, plan Plan,
) (m *Manifest, size uint64, err error) {
	whole := &counter{w: w}
	m, err = write(ctx, whole, src, &plan)
	return m, whole.n, err
}

func write(ctx context.Context, w io.Writer, src eventlog.RecordReader, plan *Plan) (*Manifest, error) {
	m, err := survey(ctx, src, plan)
	if err != nil {
		return nil, err
	}
	head, err := m.encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	begin := binary.BigEndian.AppendUint32([]byte(magic), Format)
	begin = binary.BigEndian.AppendUint32(begin, uint32(len(head)))
	if _, err := out.Write(append(begin, head...)); err != nil {
		return nil, err
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		return nil, err
	}
	if _, err := out.Write(plan.Snapshot); err != nil {
		return nil, err
	}
	if err := pack(ctx, out, src, m, plan); err != nil {
		return nil, err
	}
	_, err = w.Write(sum.Sum(nil))
	return m, err
}

// survey reads the range and computes the manifest.
func survey(ctx context.Context, src eventlog.RecordReader, plan *Plan) (*Manifest, error) {
	origin, err := eventlog.OriginAt(ctx, src, plan.First-1)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Version: plan.Version, From: max(plan.From, plan.First), First: plan.First, Config: plan.Config,
		Origin: origin, Redacted: plan.Redacted, Snapshot: uint64(len(plan.Snapshot))}
	t := newTally(origin)
	digest := sha256.New()
	digest.Write(plan.Snapshot)
	for rec, err := range src.Records(ctx, plan.First) {
		var damaged *eventlog.DamagedError
		if errors.As(err, &damaged) && plan.UntilDamage && t.first.Seq > 0 {
			m.Damage = damaged.Error()
			break
		}
		if err == nil {
			_, err = t.take(rec.Bytes)
		}
		if err != nil {
			return nil, err
		}
		digestRecord(digest, rec.Bytes)
		plan.progress(rec.Seq)
		if rec.Seq == plan.Last {
			break
		}
	}
	switch {
	case t.header.Seq == plan.Last && plan.Last > 0:
		m.Damage = plan.Damage
	case m.Damage == "":
		return nil, fmt.Errorf("the log ends with entry %d, before entry %d", t.end.Seq, plan.Last)
	}
	m.Last, m.Epoch, m.Records = t.header.Seq, t.header.Epoch, t.bytes
	m.FirstTime, m.LastTime = t.first.Time.String(), t.header.Time.String()
	if t.begun != nil {
		m.EpochVersion, m.Config = t.begun.Version, t.begun.Config
	}
	m.LastHash, m.Root = hex.EncodeToString(t.end.Hash[:]), root(&t)
	m.Digest = hex.EncodeToString(digest.Sum(nil))
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("cannot make a bundle: %w", err)
	}
	return m, nil
}

// root is the hash of the tree up to the last record taken.
func root(t *tally) string {
	return t.tree.Root().String()
}

func digestRecord(digest hash.Hash, rec []byte) {
	var length [lengthSize]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(rec)))
	digest.Write(length[:])
	digest.Write(rec)
}

// pack writes the records, and checks that they are the ones in the manifest.
func pack(ctx context.Context, w io.Writer, src eventlog.RecordReader, m *Manifest, plan *Plan) error {
	packed := &counter{w: w}
	zip, err := zstd.NewWriter(packed, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	digest := sha256.New()
	digest.Write(plan.Snapshot)
	var length [lengthSize]byte
	for rec, err := range src.Records(ctx, m.First) {
		if err != nil {
			return errors.Join(err, zip.Close())
		}
		binary.BigEndian.PutUint32(length[:], uint32(len(rec.Bytes)))
		digestRecord(digest, rec.Bytes)
		if _, err := zip.Write(length[:]); err != nil {
			return err
		}
		if _, err := zip.Write(rec.Bytes); err != nil {
			return err
		}
		plan.progress(rec.Seq)
		if rec.Seq == m.Last {
			break
		}
	}
	if err := zip.Close(); err != nil {
		return err
	}
	switch {
	case hex.EncodeToString(digest.Sum(nil)) != m.Digest:
		return errors.New("the log was changed while it was read")
	case m.Records > limit(packed.n):
		return fmt.Errorf(
			"%d bytes of records were packed into %d: that is more than is read again",
			m.Records,
			packed.n,
		)
	}
	return nil
}

// limit returns the number of bytes that may be unpacked from packed bytes.
func limit(packed uint64) uint64 { return maxRatioFloor + maxRatio*packed }

// counter counts the written bytes.
type counter struct {
	w io.Writer
	n uint64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += uint64(n)
	return n, err
}
