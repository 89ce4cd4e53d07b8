package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/internal/regular"
	"github.com/rollcall-sched/rollcall/logs"
)

// Checked has the facts that Check has proven.
type Checked struct {
	// Proven is "inclusion", "placement", "consistency", or "checkpoint".
	Proven string `json:"proven"`
	// Entry is the entry's public form, if it is one that was proven.
	Entry json.RawMessage `json:"entry,omitempty"`
	// Placement says how a pod came to its node, and Entries are the public forms of the entries that show it, if that
	// was proven.
	Placement   *PlacementReport   `json:"placement,omitempty"`
	Entries     []json.RawMessage  `json:"entries,omitempty"`
	Checkpoints []CheckpointReport `json:"checkpoints"`
}

// CheckpointReport has the content of a checkpoint.
type CheckpointReport struct {
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
	Root   string `json:"root"`
	Chain  string `json:"chain"`
}

// maxCheckFile is the size in bytes of files that are read to be checked: no proof is as large.
const maxCheckFile = 64 << 20

// Check checks the proof or the checkpoint in a file, without the log. keys are files with the public keys that may
// have signed, checkpoints files with more signed checkpoints than a proof carries.
func Check(path string, keys, checkpoints []string) (*Checked, error) {
	known, err := readKeys(keys)
	if err != nil {
		return nil, err
	}
	content, err := readSome(path)
	if err != nil {
		return nil, err
	}
	var given [][]byte
	for _, file := range checkpoints {
		msg, err := readSome(file)
		if err != nil {
			return nil, err
		}
		if _, err := proof.OpenCheckpoint(msg, known); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		given = append(given, msg)
	}
	if !bytes.HasPrefix(content, []byte("{")) {
		return checkCheckpoint(path, content, known, len(given) > 0)
	}
	p, err := proof.Decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	proven, err := p.Check(known, given...)
	var none *proof.NoCheckpointError
	if errors.As(err, &none) {
		err = fmt.Errorf("%w: name it with --checkpoint", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newChecked(proven)
}

// checkCheckpoint checks a checkpoint by itself.
func checkCheckpoint(path string, msg []byte, known note.Verifiers, more bool) (*Checked, error) {
	if more {
		return nil, logs.Refuse("%s is not a proof: --checkpoint goes with one", path)
	}
	c, err := proof.OpenCheckpoint(msg, known)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	facts, err := newChecked(&proof.Proven{Checkpoints: []proof.Checkpoint{c}})
	if err == nil {
		facts.Proven = "checkpoint"
	}
	return facts, err
}

func newChecked(p *proof.Proven) (*Checked, error) {
	f := &Checked{Proven: "consistency"}
	if p.Entry != nil {
		line, err := eventlog.AppendJSON(nil, *p.Entry)
		if err != nil {
			return nil, err
		}
		f.Proven, f.Entry = "inclusion", line
	}
	if p.Placed != nil {
		var entries []eventlog.Entry
		f.Proven = "placement"
		f.Placement, entries = reportPlaced(p.Placed)
		for _, e := range entries {
			line, err := eventlog.AppendJSON(nil, e)
			if err != nil {
				return nil, err
			}
			f.Entries = append(f.Entries, line)
		}
	}
	for _, c := range p.Checkpoints {
		f.Checkpoints = append(f.Checkpoints, ReportOf(c))
	}
	return f, nil
}

// ReportOf returns the content of a checkpoint.
func ReportOf(c proof.Checkpoint) CheckpointReport {
	return CheckpointReport{c.Origin, c.Size, c.Root.String(), hex.EncodeToString(c.Chain[:])}
}

// readKeys reads the public keys in files.
func readKeys(files []string) (note.Verifiers, error) {
	var list []note.Verifier
	for _, file := range files {
		content, err := readSome(file)
		if err != nil {
			return nil, err
		}
		v, err := proof.ReadVerifier(content)
		if err != nil {
			return nil, fmt.Errorf("read the key in %s: %w", file, err)
		}
		list = append(list, v)
	}
	return note.VerifierList(list...), nil
}

// readSome reads a file that another party may have made, hence a regular one that is not huge.
func readSome(path string) ([]byte, error) {
	return regular.ReadFile(path, maxCheckFile)
}
