package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/proof"
)

// checkFacts is what "rollcall log check" prints of what holds.
type checkFacts struct {
	// Proven is "inclusion", "consistency", or "checkpoint".
	Proven string `json:"proven"`
	// Entry is the entry's public form, if it is one that was proven.
	Entry       json.RawMessage   `json:"entry,omitempty"`
	Checkpoints []checkpointFacts `json:"checkpoints"`
}

// checkpointFacts is what commands print of a checkpoint.
type checkpointFacts struct {
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
	Root   string `json:"root"`
	Chain  string `json:"chain"`
}

func newLogCheck() *cobra.Command {
	var keys, checkpoints []string
	var out output
	cmd := &cobra.Command{
		Use:   "check PROOF|CHECKPOINT --key FILE",
		Short: "Check a proof or a checkpoint with a public key alone",
		Long: `Checks what rollcall log prove or rollcall log checkpoint has printed, without the log. It prints what is
proven: of an entry, the entry itself. If the proof does not hold, it says why, and the exit code is 1.

A proof rests on signed checkpoints. Those that it carries are used, and those given with --checkpoint:
use the ones that you kept yourself, because only they show that the log did not change since.`,
		Example: `  rollcall log check placement.proof --key gpu-west.key.pub
  rollcall log check february.proof --key gpu-west.key.pub --checkpoint gpu-west.2026-02-01`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(keys) == 0 {
				return usageError{errors.New("--key is needed: the public key of whoever signs the checkpoints")}
			}
			facts, err := check(args[0], keys, checkpoints)
			if err != nil {
				return fmt.Errorf("not proven: %w", err)
			}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a file with a public key; may be given more than once")
	cmd.Flags().StringArrayVar(&checkpoints, "checkpoint", nil, "a file with a signed checkpoint; may be given more than once")
	out.register(cmd)
	return cmd
}

// maxCheckFile is the size in bytes of files that are read to be checked: no proof is as large.
const maxCheckFile = 64 << 20

func check(path string, keys, checkpoints []string) (*checkFacts, error) {
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
	return newCheckFacts(proven)
}

// checkCheckpoint checks a checkpoint by itself.
func checkCheckpoint(path string, msg []byte, known note.Verifiers, more bool) (*checkFacts, error) {
	if more {
		return nil, usageError{fmt.Errorf("%s is not a proof: --checkpoint goes with one", path)}
	}
	c, err := proof.OpenCheckpoint(msg, known)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	facts, err := newCheckFacts(&proof.Proven{Checkpoints: []proof.Checkpoint{c}})
	if err == nil {
		facts.Proven = "checkpoint"
	}
	return facts, err
}

func newCheckFacts(p *proof.Proven) (*checkFacts, error) {
	f := &checkFacts{Proven: "consistency"}
	if p.Entry != nil {
		line, err := eventlog.AppendJSON(nil, *p.Entry)
		if err != nil {
			return nil, err
		}
		f.Proven, f.Entry = "inclusion", line
	}
	for _, c := range p.Checkpoints {
		f.Checkpoints = append(f.Checkpoints, newCheckpointFacts(c))
	}
	return f, nil
}

func newCheckpointFacts(c proof.Checkpoint) checkpointFacts {
	return checkpointFacts{c.Origin, c.Size, c.Root.String(), hex.EncodeToString(c.Chain[:])}
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

// readSome reads a file that someone else may have made, hence not all of it if it is huge.
func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxCheckFile))
}

func (f *checkFacts) writeText(w io.Writer) error {
	last := f.Checkpoints[len(f.Checkpoints)-1]
	switch f.Proven {
	case "inclusion":
		fmt.Fprintf(w, "proven: this entry is in the log %s of %d entries\n%s\n", last.Origin, last.Size, f.Entry)
	case "consistency":
		fmt.Fprintf(w, "proven: the log %s of %d entries begins with what it was when it had %d\n", last.Origin, last.Size, f.Checkpoints[0].Size)
	default:
		fmt.Fprintf(w, "signed: the log %s had %d entries\n", last.Origin, last.Size)
	}
	var err error
	for _, c := range f.Checkpoints {
		_, err = fmt.Fprintf(w, "checkpoint of %d entries: root %s, chain %s\n", c.Size, c.Root, c.Chain)
	}
	return err
}
