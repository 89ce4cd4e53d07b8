package proof

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// A Checkpoint states the size and the hashes of a log at one moment.
type Checkpoint struct {
	// Origin names the log: it is the name of the key that signs its checkpoints. One key is for one log.
	Origin string
	// Size is the log's number of entries, at least 1.
	Size uint64
	// Root is the root of the hash tree over them.
	Root tlog.Hash
	// Chain is the hash of the last one's record in the log's chain, which log verify prints.
	Chain [32]byte
}

// maxCheckpoint is the largest size of a signed checkpoint in bytes. Package note also refuses larger ones.
const maxCheckpoint = 1 << 16

// CheckpointMemory returns the largest number of bytes that reading a checkpoint of the given size allocates.
func CheckpointMemory(size int) uint64 { return 64<<10 + 32*uint64(min(size, maxCheckpoint)) }

// chainPrefix begins the line with the chain's hash, an extension of the format.
const chainPrefix = "chain "

// text returns the signed text: the three lines of C2SP's tlog-checkpoint, and ours.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%v\n%s%x\n", c.Origin, c.Size, c.Root, chainPrefix, c.Chain)
}

// Sign returns the checkpoint as a signed note. The signer's name must be the checkpoint's origin.
func (c Checkpoint) Sign(signer note.Signer) ([]byte, error) {
	if signer.Name() != c.Origin {
		return nil, fmt.Errorf("sign checkpoint: the key is %q's, the checkpoint %q's", signer.Name(), c.Origin)
	}
	if c.Size == 0 || c.Size > merkle.MaxSize {
		return nil, fmt.Errorf("sign checkpoint: a log of %d entries has none", c.Size)
	}
	return note.Sign(&note.Note{Text: c.text()}, signer)
}

// OpenCheckpoint reads a signed checkpoint, and checks that a key among known has signed it which has its origin's
// name. Further signatures, of keys that are not known, are skipped; a wrong one of a known key is an error.
func OpenCheckpoint(msg []byte, known note.Verifiers) (Checkpoint, error) {
	if len(msg) > maxCheckpoint {
		return Checkpoint{}, fmt.Errorf("checkpoint: %d bytes are too many", len(msg))
	}
	n, err := note.Open(msg, known)
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		return Checkpoint{}, errors.New("checkpoint: no key that was given has signed it")
	case errors.As(err, &invalid):
		return Checkpoint{}, fmt.Errorf(
			"checkpoint: the signature of %q is not of this text: one of the two was changed",
			invalid.Name,
		)
	case err != nil:
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	c, err := parseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	signed := false
	for _, s := range n.Sigs {
		signed = signed || s.Name == c.Origin
	}
	if !signed {
		return Checkpoint{}, fmt.Errorf(
			"checkpoint: it is of the log %q, but the key with that name has not signed it",
			c.Origin,
		)
	}
	// Package note reads the last character of a signature loosely.
	for _, s := range append(n.Sigs, n.UnverifiedSigs...) {
		if raw, err := base64.StdEncoding.Strict().
			DecodeString(s.Base64); err != nil ||
			base64.StdEncoding.EncodeToString(raw) != s.Base64 {
			return Checkpoint{}, fmt.Errorf("checkpoint: the signature of %q is not written as signatures are", s.Name)
		}
	}
	return c, nil
}

// readCheckpoint reads a signed checkpoint without asking who signed it.
func readCheckpoint(msg []byte) (Checkpoint, error) {
	text, _, ok := strings.Cut(string(msg), "\n\n")
	if len(msg) > maxCheckpoint || !ok {
		return Checkpoint{}, errors.New("checkpoint: it is not a signed note")
	}
	c, err := parseCheckpoint(text + "\n")
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	return c, nil
}

// parseCheckpoint reads the signed text. It ignores unknown lines at the end: they are signed too, and extend the
// format.
func parseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 4 || lines[0] == "" {
		return Checkpoint{}, fmt.Errorf(
			"it has %d lines, want the log's name, its size, the root and the chain's hash",
			len(lines),
		)
	}
	c := Checkpoint{Origin: lines[0]}
	var err error
	if c.Size, err = strconv.ParseUint(lines[1], 10, 64); err != nil || strconv.FormatUint(c.Size, 10) != lines[1] ||
		c.Size == 0 || c.Size > merkle.MaxSize {
		return Checkpoint{}, fmt.Errorf("its size %q is not a number from 1 to %d", lines[1], uint64(merkle.MaxSize))
	}
	if c.Root, err = tlog.ParseHash(lines[2]); err != nil || c.Root.String() != lines[2] {
		return Checkpoint{}, fmt.Errorf("its root %q is not a hash", lines[2])
	}
	digits, ok := strings.CutPrefix(lines[3], chainPrefix)
	chain, err := hex.DecodeString(digits)
	if !ok || err != nil || len(chain) != 32 || hex.EncodeToString(chain) != digits {
		return Checkpoint{}, fmt.Errorf("its fourth line %q is not the chain's hash", lines[3])
	}
	c.Chain = [32]byte(chain)
	return c, nil
}
