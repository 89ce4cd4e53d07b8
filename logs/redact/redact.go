package redact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// MinKey is the least number of bytes of a key.
const MinKey = 16

// A Source is the log that is redacted. *logs.Source is one.
type Source interface {
	// Read yields the entries from an entry on.
	Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
	// RecordHash returns the hash of an entry's record.
	RecordHash(ctx context.Context, seq uint64) ([32]byte, error)
	// Registry has the plugins that the configurations of the log name.
	Registry() framework.Registry
	// Progress takes the last entry that was read.
	Progress(work string, at, last uint64)
}

// Options say how to redact.
type Options struct {
	// Key makes the pseudonyms, at least MinKey bytes.
	Key []byte
	// Kept says that the caller keeps the key, so that it can make the same pseudonyms again.
	Kept bool
	// KeepLabels are keys of labels and taints whose values are kept. Plugins of others may give them a meaning.
	KeepLabels []string
	// At is the time of the redaction, RFC 3339.
	At string
	// Dir is the directory for the temporary log.
	Dir string
}

// A Redaction is a range of a log with pseudonyms. Close removes its temporary log.
type Redaction struct {
	// Report says what was done.
	Report Report
	names  *Names
	log    *boltlog.Log
	dir    string
}

// Report says what was replaced and what was kept.
type Report struct {
	// Decisions is the number of decisions that were made again and found to be the same.
	Decisions uint64 `json:"decisions"`
	// NotCompared is the number of decisions that this program does not make in the log either.
	NotCompared uint64 `json:"notCompared,omitempty"`
	// Replaced has the number of different texts that were replaced, by their kind.
	Replaced map[string]int `json:"replaced"`
	// Expressions is the number of different CEL expressions, which are kept as they are. Attributes is the number of
	// texts of device attributes that are kept because an expression reads them.
	Expressions int `json:"expressionsKept"`
	Attributes  int `json:"attributesKept"`
	// Numeric is the number of label keys whose numbers are kept, because a selector compares them.
	Numeric int `json:"numericLabelsKept"`
	// Arguments has the number of texts that were kept in the arguments of plugins whose arguments are not known here.
	Arguments map[string]int `json:"argumentsKept,omitempty"`
}

// Redact returns a redaction of the range that plan describes, and changes plan to describe the redacted range: its
// snapshot, its configuration, and its Redacted. The range is read twice. An error of the type *DiffersError
// says that a decision would be another one with pseudonyms.
func Redact(ctx context.Context, log Source, plan *bundle.Plan, opts Options) (_ *Redaction, err error) {
	if len(opts.Key) < MinKey {
		return nil, fmt.Errorf("the key has %d bytes: want at least %d", len(opts.Key), MinKey)
	}
	r := &Redaction{names: NewNames(opts.Key)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	w := newWalker(r.names)
	w.keptLabels = set(opts.KeepLabels...)
	head, original, err := w.collect(ctx, log, plan)
	if err != nil {
		return nil, err
	}
	if err := r.names.Assign(); err != nil {
		return nil, err
	}
	plan.Redacted = &bundle.Redacted{At: opts.At, FromSeq: head.Seq, FromHash: hex.EncodeToString(head.Hash[:]),
		KeyKept: opts.Kept, KeptLabels: opts.KeepLabels}
	w.replace = true
	redacted, origin, err := w.begin(log, plan)
	if err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp(opts.Dir, ".redacted.*.tmp"); err != nil {
		return nil, err
	}
	if r.log, err = boltlog.DefaultOptions().CreateFrom(filepath.Join(r.dir, "log"), origin); err != nil {
		return nil, err
	}
	l := &lockstep{walker: w, original: original, redacted: redacted}
	if err := r.fill(ctx, log, plan, l); err != nil {
		return nil, err
	}
	r.Report = Report{Decisions: l.decisions, NotCompared: l.others,
		Replaced: r.names.Counts(), Expressions: len(w.expressions),
		Attributes: w.keptAttributes, Numeric: len(w.numeric), Arguments: w.keptArguments}
	return r, nil
}

// Log returns the redacted log, which holds the entries of the range.
func (r *Redaction) Log() eventlog.RecordReader { return r.log }

// Names returns the replaced texts with their pseudonyms, sorted by the texts.
func (r *Redaction) Names() []Replaced { return r.names.Replaced() }

// Close removes the temporary log.
func (r *Redaction) Close() error {
	var err error
	if r.log != nil {
		err = r.log.Close()
	}
	if r.dir != "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

// damagedBehind is written in the place of an error about damage, which names files.
const damagedBehind = "the log is damaged behind this entry"

// collect visits all texts of the range, and of the state before it. It returns the end of the range, which damage
// may shorten, and the Machine before the range.
func (w *walker) collect(ctx context.Context, log Source, plan *bundle.Plan) (eventlog.Chain, *scheduler.Machine,
	error) {
	original := scheduler.New(log.Registry())
	if len(plan.Snapshot) > 0 {
		s, err := snapshot.Decode(plan.Snapshot)
		if err != nil {
			return eventlog.Chain{}, nil, err
		}
		if original, err = s.RestoreReplacing(log.Registry(), w.stateField); err != nil {
			return eventlog.Chain{}, nil, err
		}
	}
	last := plan.First - 1
	for e, err := range log.Read(ctx, plan.First) {
		var damaged *eventlog.DamagedError
		if errors.As(err, &damaged) && plan.UntilDamage && last >= plan.First {
			plan.Last, plan.Damage = last, damagedBehind
			break
		}
		if err != nil {
			return eventlog.Chain{}, nil, err
		}
		if w.payload(e.Payload); w.err != nil {
			return eventlog.Chain{}, nil, fmt.Errorf("entry %d: %w", e.Seq, w.err)
		}
		log.Progress("reading names", e.Seq, plan.Last)
		if last = e.Seq; last == plan.Last {
			break
		}
	}
	if last < plan.First {
		return eventlog.Chain{}, nil, errNoEntries
	}
	if plan.Damage != "" || last < plan.Last {
		plan.Damage = damagedBehind
	}
	hash, err := log.RecordHash(ctx, last)
	return eventlog.Chain{Seq: last, Hash: hash}, original, err
}

// begin returns the redacted Machine before the range and the place in the new chain, and puts both into plan.
func (w *walker) begin(log Source, plan *bundle.Plan) (*scheduler.Machine, eventlog.Origin, error) {
	if len(plan.Snapshot) == 0 {
		return scheduler.New(log.Registry()), eventlog.Origin{}, nil
	}
	s, err := snapshot.Decode(plan.Snapshot)
	if err != nil {
		return nil, eventlog.Origin{}, err
	}
	m, err := s.RestoreReplacing(log.Registry(), w.stateField)
	if err != nil {
		return nil, eventlog.Origin{}, err
	}
	origin, err := plan.Redacted.Origin(m.Seq())
	if err != nil {
		return nil, origin, err
	}
	if plan.Snapshot, err = snapshot.Encode(m, origin.Hash); err != nil {
		return nil, origin, err
	}
	plan.Config = m.Config()
	return m, origin, nil
}

// batch is the number of entries in one transaction of the temporary log.
const batch = 2000

// fill writes the redacted entries into the temporary log.
func (r *Redaction) fill(ctx context.Context, log Source, plan *bundle.Plan, l *lockstep) error {
	entries := make([]eventlog.Entry, 0, batch)
	for e, err := range log.Read(ctx, plan.First) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		out, err := l.next(e)
		if err != nil {
			return err
		}
		entries = append(entries, out)
		log.Progress("redacting", e.Seq, plan.Last)
		if len(entries) < batch && e.Seq < plan.Last {
			continue
		}
		if err := r.log.Append(ctx, entries[0].Seq-1, entries); err != nil {
			return err
		}
		if entries = entries[:0]; e.Seq == plan.Last {
			return nil
		}
	}
	return fmt.Errorf("the log ends before entry %d", plan.Last)
}
