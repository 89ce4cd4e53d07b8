package audit

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
)

// ReadSigner reads the private key in a file.
func ReadSigner(file string) (note.Signer, error) {
	content, err := readSome(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	signer, err := proof.ReadSigner(content)
	if err != nil {
		return nil, fmt.Errorf("read the key in %s: %w", file, err)
	}
	return signer, nil
}

// Checkpoint returns the signed checkpoint of the log's first at entries, of all if at is 0. For a log that is known to
// be damaged, at has to be given.
func Checkpoint(log *logs.Source, signer note.Signer, at uint64) ([]byte, error) {
	var msg []byte
	err := proving(log, func(p *proof.Prover, end logEnd) error {
		at, err := end.reach(at)
		if err != nil {
			return err
		}
		if at == 0 {
			return fmt.Errorf("%s is empty: there is nothing to sign yet", log.Path())
		}
		c, err := p.Checkpoint(context.Background(), signer.Name(), at)
		if err != nil {
			return err
		}
		msg, err = c.Sign(signer)
		return err
	})
	return msg, err
}

// A logEnd is the end of a log, up to which entries are signed or proven.
type logEnd struct {
	log    *logs.Source
	last   uint64 // the last entry that can be read
	damage error  // what is wrong with the log behind that; nil for nothing that is known
}

// reach returns the entry at, or the log's last one if at is 0; an error if the log does not reach it. If the log is
// known to be damaged it has no last one: then at has to be given, and the damage is reported.
func (e logEnd) reach(at uint64) (uint64, error) {
	switch {
	case e.damage != nil && (at == 0 || at > e.last):
		return 0, e.damage
	case e.damage != nil:
		e.log.Report(
			"this is of the first %d entries; behind entry %d the log cannot be read: %v",
			at,
			e.last,
			e.damage,
		)
	case at == 0:
		return e.last, nil
	case at > e.last:
		return 0, e.log.Beyond(at, e.last)
	}
	return at, nil
}

// proving calls f with a prover for a log, and where the log ends.
func proving(log *logs.Source, f func(p *proof.Prover, end logEnd) error) error {
	last, err := log.Last()
	if err != nil {
		return err
	}
	p := &proof.Prover{Log: log, Progress: func(seq uint64) { log.Progress("", seq, last) }}
	return log.Advise(f(p, logEnd{log, last, log.DamageBehind(last)}))
}
