package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/proof"
)

func newLogCheckpoint() *cobra.Command {
	var open reading
	var key string
	var at uint64
	cmd := &cobra.Command{
		Use:   "checkpoint LOG|BUNDLE --key FILE",
		Short: "Sign what a log is now",
		Long: `Prints a checkpoint: which log, how many entries it has, the root of the hash tree over them, and the
hash of the last one, signed. Whoever keeps it can tell later whether any of these entries was
changed, removed or added. It is a signed note as of C2SP's tlog-checkpoint. Entries before the
live segment are not read: rollcall log verify does that. A log that is known to be damaged, or to have
lost its end, is signed only up to an entry before that which --at names. A log that is being written to is signed as
far as it goes by now, or as far as it is sealed if its writer does not serve it.`,
		Example: "  rollcall log checkpoint jobs.log --key gpu-west.key > gpu-west.2026-03-01",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return usageError{errors.New("--key is needed: the private key that rollcall log keygen has made")}
			}
			if cmd.Flags().Changed("at") && at == 0 {
				return usageError{errors.New("--at is 0: entries are numbered from 1")}
			}
			return checkpoint(cmd, open, args[0], key, at)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the file with the private key")
	cmd.Flags().Uint64Var(&at, "at", 0, "the last entry of the checkpoint; default: the log's last")
	open.register(cmd)
	return cmd
}

func checkpoint(cmd *cobra.Command, open reading, path, key string, at uint64) error {
	content, err := os.ReadFile(key)
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	signer, err := proof.ReadSigner(content)
	if err != nil {
		return fmt.Errorf("read the key in %s: %w", key, err)
	}
	return proving(open, path, func(p *proof.Prover, end logEnd) error {
		at, err := end.reach(at)
		if err != nil {
			return err
		}
		if at == 0 {
			return fmt.Errorf("%s is empty: there is nothing to sign yet", path)
		}
		c, err := p.Checkpoint(signer.Name(), at)
		if err != nil {
			return err
		}
		msg, err := c.Sign(signer)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(msg)
		return err
	})
}

// A logEnd is where a log ends of which something is to be signed or proven.
type logEnd struct {
	path   string
	last   uint64 // the last entry that can be read
	damage error  // what is wrong with the log behind that; nil for nothing that is known
}

// reach returns the entry at, or the log's last one if at is 0, unless the log has it not. Of a log that is known to be
// damaged the last one is not: then at has to be said, and that there is damage is said on stderr.
func (e logEnd) reach(at uint64) (uint64, error) {
	switch {
	case e.damage != nil && (at == 0 || at > e.last):
		return 0, e.damage
	case e.damage != nil:
		fmt.Fprintf(os.Stderr, "rollcall: this is of the first %d entries; behind entry %d the log cannot be read: %v\n", at, e.last, e.damage)
	case at == 0:
		return e.last, nil
	case at > e.last:
		return 0, beyond(e.path, at, e.last)
	}
	return at, nil
}

// beyond says that a log ends earlier than was asked for.
func beyond(path string, at, last uint64) error {
	return usageError{fmt.Errorf("there is no entry %d in %s: the last that can be read is %d", at, path, last)}
}

// mustHave returns an error if the log ends before entry at: that it is damaged there, or bad usage.
func (s *source) mustHave(at uint64) error {
	last, err := s.Last()
	if err != nil || at <= last {
		return err
	}
	if damage := s.damageBehind(last); damage != nil {
		return s.advise(damage)
	}
	return beyond(s.path, at, last)
}

// proving opens a log for f, which is told where it ends, and shows how far it has come.
func proving(open reading, path string, f func(p *proof.Prover, end logEnd) error) error {
	log, err := open.open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	last, err := log.Last()
	if err != nil {
		return err
	}
	shown := newProgress()
	p := &proof.Prover{Log: provable{log}, Progress: func(seq uint64) { shown.show("entry %d of %d", seq, last) }}
	err = f(p, logEnd{path, last, log.damageBehind(last)})
	shown.done()
	return log.advise(err)
}

// provable is a log as proofs are made of it.
type provable struct{ *source }

var _ proof.Source = provable{}

// KnownTree implements proof.Source.
func (p provable) KnownTree(size uint64) (merkle.Tree, error) {
	if log, ok := p.records.(*boltlog.Log); ok {
		return log.KnownTree(size)
	}
	origin, err := p.OriginAt(min(size, p.First()-1)) // a bundle knows that of its beginning
	return origin.Tree, err
}

// Hashes implements proof.Source.
func (p provable) Hashes(from uint64) iter.Seq2[[32]byte, error] {
	return func(yield func([32]byte, error) bool) {
		for r, err := range p.Records(from) {
			if !yield(r.Hash, err) {
				return
			}
		}
	}
}

// Record implements proof.Source.
func (p provable) Record(seq uint64) ([]byte, error) {
	for r, err := range p.Records(seq) {
		return slices.Clone(r.Bytes), err
	}
	return nil, io.ErrUnexpectedEOF // the hash of it was read before
}
