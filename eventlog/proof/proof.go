package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// Format is the version of proofs of an entry or of a log's growth. Version numbers are never reused, and all versions
// can be read.
const Format = 1

// A Proof is about an entry, a log's growth, or a placement: exactly one of the three.
type Proof struct {
	// Format is the version.
	Format int `json:"format"`
	// Inclusion proves that an entry is in a log.
	Inclusion *Inclusion `json:"inclusion,omitempty"`
	// Consistency proves that a log is the beginning of a later one.
	Consistency *Consistency `json:"consistency,omitempty"`
	// Placement proves how a pod came to its node.
	Placement *Placement `json:"placement,omitempty"`
	// Checkpoints are signed checkpoints that the proof refers to, if its maker had them.
	Checkpoints []string `json:"checkpoints,omitempty"`
}

// An Inclusion proves that entry Seq of the log of Size entries is the one in Record.
type Inclusion struct {
	Seq    uint64      `json:"seq"`
	Size   uint64      `json:"size"`
	Root   tlog.Hash   `json:"root"`
	Hashes []tlog.Hash `json:"hashes"`
	// Record is the entry as the log has it (eventlog.DecodeRecord).
	Record []byte `json:"record"`
}

// A Consistency proves that the log of To entries begins with the log of From entries.
type Consistency struct {
	From     uint64      `json:"from"`
	FromRoot tlog.Hash   `json:"fromRoot"`
	To       uint64      `json:"to"`
	ToRoot   tlog.Hash   `json:"toRoot"`
	Hashes   []tlog.Hash `json:"hashes"`
}

const (
	// maxProof is the size in bytes that no proof exceeds: a record in base64, and the rest.
	maxProof = eventlog.MaxRecord/3*4 + 1<<18
	// maxHashes is more than any proof about a tree of merkle.MaxSize entries has.
	maxHashes = 2 * 64
	// maxCheckpoints is the largest number of checkpoints of a proof.
	maxCheckpoints = 2
	// maxValues is the largest number of values in a proof.
	maxValues = maxEntries*(maxHashes+4) + maxCheckpoints + 16
)

// CheckMemory returns the largest number of bytes that reading and checking a proof of the given size, with its
// checkpoints, allocates.
func CheckMemory(size int) uint64 { return 8<<20 + 16*uint64(size) + eventlog.DecodeMemory(size) }

// Encode returns the proof as a file's content.
func (p *Proof) Encode() ([]byte, error) {
	out, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write proof: %w", err)
	}
	return append(out, '\n'), nil
}

// Decode reads a proof. It accepts only the bytes that Encode writes. It proves nothing: Check does.
func Decode(content []byte) (*Proof, error) {
	p, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("read proof: %w", err)
	}
	return p, nil
}

func decode(content []byte) (*Proof, error) {
	if len(content) > maxProof {
		return nil, fmt.Errorf("%d bytes are more than %d", len(content), maxProof)
	}
	if n := countValues(content); n > maxValues {
		return nil, fmt.Errorf("it has %d values, and no proof has more than %d", n, maxValues)
	}
	var version struct{ Format int }
	if err := json.Unmarshal(content, &version); err != nil {
		return nil, fmt.Errorf("it is no proof, or it was cut short: %w", err)
	}
	if version.Format < Format || version.Format > FormatPlacement {
		return nil, fmt.Errorf("it has format %d, of another version of Rollcall: this one reads %d to %d",
			version.Format, Format, FormatPlacement)
	}
	p := &Proof{}
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return nil, err
	}
	if err := p.checkForm(); err != nil {
		return nil, err
	}
	again, err := p.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, content) {
		return nil, errors.New(
			"it is not written as rollcall log prove writes it: give it as it was, without any formatting",
		)
	}
	return p, nil
}

// countValues returns an upper bound of the number of values in content, if that is JSON.
func countValues(content []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// checkForm checks everything that package tlog relies on.
func (p *Proof) checkForm() error {
	claims := 0
	for _, there := range []bool{p.Inclusion != nil, p.Consistency != nil, p.Placement != nil} {
		if there {
			claims++
		}
	}
	switch {
	case claims != 1:
		return errors.New("it proves nothing, or too much")
	case (p.Placement != nil) != (p.Format == FormatPlacement):
		return fmt.Errorf("format %d is not for what it proves", p.Format)
	case len(p.Checkpoints) > maxCheckpoints:
		return fmt.Errorf("%d checkpoints are more than %d", len(p.Checkpoints), maxCheckpoints)
	}
	if i := p.Inclusion; i != nil {
		if i.Seq < 1 || i.Seq > i.Size || i.Size > merkle.MaxSize {
			return fmt.Errorf("entry %d of a log of %d entries", i.Seq, i.Size)
		}
		return checkHashes(i.Hashes)
	}
	if p.Placement != nil {
		return p.Placement.checkForm()
	}
	c := p.Consistency
	if c.From < 1 || c.From > c.To || c.To > merkle.MaxSize {
		return fmt.Errorf("growth from %d to %d entries", c.From, c.To)
	}
	return checkHashes(c.Hashes)
}

func checkHashes(hashes []tlog.Hash) error {
	if hashes == nil || len(hashes) > maxHashes {
		return fmt.Errorf("%d hashes, want up to %d", len(hashes), maxHashes)
	}
	return nil
}

// Sizes returns the sizes of the logs whose checkpoints are needed to check the proof.
func (p *Proof) Sizes() []uint64 {
	switch {
	case p.Inclusion != nil:
		return []uint64{p.Inclusion.Size}
	case p.Placement != nil:
		return []uint64{p.Placement.Size}
	}
	return []uint64{p.Consistency.From, p.Consistency.To}
}

// Proven is the result of a proof that holds.
type Proven struct {
	// Entry is the entry that is in the log; nil if the proof was not about an entry.
	Entry *eventlog.Entry
	// Placed is the placement of a pod; nil if the proof was not about a placement.
	Placed *Placed
	// Checkpoints are the checkpoints that the proof relies on, one for each of Proof.Sizes.
	Checkpoints []Checkpoint
}

// Check returns the facts that the proof shows to a reader who trusts the keys in known, or an error if it shows
// nothing. checkpoints are further signed checkpoints. Each must be about the same log, signed by a known key, and of
// one of the proof's sizes. The older one is before the newer one, both in the proof and in checkpoints.
func (p *Proof) Check(known note.Verifiers, checkpoints ...[]byte) (*Proven, error) {
	if err := p.checkForm(); err != nil {
		return nil, fmt.Errorf("check proof: %w", err)
	}
	opened, err := p.open(known, checkpoints)
	if err != nil {
		return nil, err
	}
	out := &Proven{}
	for i, size := range p.Sizes() {
		c, ok := opened[size]
		if !ok {
			return nil, &NoCheckpointError{Size: size}
		}
		if root := p.roots()[i]; c.Root != root {
			return nil, fmt.Errorf(
				"the proof is of a log whose first %d entries have the root %v, but the checkpoint says %v: it is "+
					"another log, or it was changed",
				size,
				root,
				c.Root,
			)
		}
		out.Checkpoints = append(out.Checkpoints, c)
	}
	switch {
	case p.Inclusion != nil:
		out.Entry, err = p.Inclusion.check(opened[p.Inclusion.Size])
	case p.Placement != nil:
		out.Placed, err = p.Placement.check(opened[p.Placement.Size])
	default:
		err = p.Consistency.check()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// NoCheckpointError says that a signed checkpoint is missing.
type NoCheckpointError struct{ Size uint64 }

// Error implements error.
func (e *NoCheckpointError) Error() string {
	return fmt.Sprintf("the proof rests on a checkpoint of %d entries, and none was given that is signed", e.Size)
}

func (p *Proof) roots() []tlog.Hash {
	switch {
	case p.Inclusion != nil:
		return []tlog.Hash{p.Inclusion.Root}
	case p.Placement != nil:
		return []tlog.Hash{p.Placement.Root}
	}
	return []tlog.Hash{p.Consistency.FromRoot, p.Consistency.ToRoot}
}

// open opens the checkpoints in the proof and in beside, by size.
func (p *Proof) open(known note.Verifiers, beside [][]byte) (map[uint64]Checkpoint, error) {
	var carried, given []Checkpoint
	for _, text := range p.Checkpoints {
		c, err := OpenCheckpoint([]byte(text), known)
		if err != nil {
			return nil, fmt.Errorf("in the proof: %w", err)
		}
		carried = append(carried, c)
	}
	for _, msg := range beside {
		c, err := OpenCheckpoint(msg, known)
		if err != nil {
			return nil, err
		}
		given = append(given, c)
	}
	all := append(slices.Clone(carried), given...)
	bySize := make(map[uint64]Checkpoint)
	for _, c := range all {
		switch other, ok := bySize[c.Size]; {
		case c.Origin != all[0].Origin:
			return nil, fmt.Errorf("there are checkpoints of two logs, %q and %q", all[0].Origin, c.Origin)
		case !p.speaksOf(c.Size):
			return nil, fmt.Errorf(
				"there is a checkpoint of %d entries, of which the proof does not speak: it speaks of %v",
				c.Size,
				p.Sizes(),
			)
		case ok && (other.Root != c.Root || other.Chain != c.Chain):
			return nil, NewForkError(other, c)
		}
		bySize[c.Size] = c
	}
	if err := exchanged(carried); err != nil {
		return nil, fmt.Errorf("in the proof: %w", err)
	}
	return bySize, exchanged(given)
}

// exchanged returns an error if a checkpoint is before an earlier one.
func exchanged(list []Checkpoint) error {
	for i := 1; i < len(list); i++ {
		if err := CheckOrder(list[i-1].Size, list[i].Size); err != nil {
			return err
		}
	}
	return nil
}

// CheckOrder returns an error if checkpoints of these sizes are exchanged: the second one has fewer entries, so it is
// older.
func CheckOrder(first, second uint64) error {
	if first <= second {
		return nil
	}
	return fmt.Errorf("the checkpoints are exchanged: the first one is of %d entries, and the second one of %d, so it "+
		"is older; a log grows from the older to the newer one, which comes last", first, second)
}

func (p *Proof) speaksOf(size uint64) bool {
	for _, s := range p.Sizes() {
		if s == size {
			return true
		}
	}
	return false
}

// ForkError says that two signed checkpoints of the same size differ: their signer has shown different logs to
// different people. The two together are the evidence.
type ForkError struct {
	Size   uint64
	Roots  [2]tlog.Hash
	Chains [2][32]byte
}

// NewForkError returns the error for two different checkpoints of the same size.
func NewForkError(a, b Checkpoint) *ForkError {
	return &ForkError{Size: a.Size, Roots: [2]tlog.Hash{a.Root, b.Root}, Chains: [2][32]byte{a.Chain, b.Chain}}
}

// Error implements error.
func (e *ForkError) Error() string {
	if e.Roots[0] == e.Roots[1] {
		return fmt.Sprintf(
			"there are two signed checkpoints of %d entries with the same root and different last records, %x and "+
				"%x: one of them is of no log, keep both",
			e.Size,
			e.Chains[0],
			e.Chains[1],
		)
	}
	return fmt.Sprintf(
		"there are two signed checkpoints of %d entries with different roots, %v and %v: the log was changed between "+
			"them, keep both",
		e.Size,
		e.Roots[0],
		e.Roots[1],
	)
}

// errProof says that the hashes do not match.
var errProof = errors.New("the proof does not hold: its hashes do not lead to the checkpoint's root")

// check checks an inclusion against the root of checkpoint c, and returns its entry.
func (i *Inclusion) check(c Checkpoint) (*eventlog.Entry, error) {
	// A record that the log's owner has not signed is not decoded.
	hash := eventlog.HashRecord(i.Record)
	if tlog.CheckRecord(i.Hashes, int64(i.Size), i.Root, int64(i.Seq)-1, merkle.LeafHash(hash)) != nil {
		return nil, errProof
	}
	if i.Seq == i.Size && hash != c.Chain {
		return nil, fmt.Errorf("entry %d has the hash %x, but the checkpoint says %x", i.Seq, hash, c.Chain)
	}
	e, _, err := eventlog.DecodeRecord(i.Record)
	if err != nil {
		return nil, fmt.Errorf("the proof's entry cannot be read: %w", err)
	}
	if e.Seq != i.Seq {
		return nil, fmt.Errorf("the proof is of entry %d, but what it shows is entry %d", i.Seq, e.Seq)
	}
	return &e, nil
}

func (c *Consistency) check() error {
	if tlog.CheckTree(c.Hashes, int64(c.To), c.ToRoot, int64(c.From), c.FromRoot) != nil {
		return errors.New("the proof does not hold: the later log does not begin with the earlier one")
	}
	return nil
}
