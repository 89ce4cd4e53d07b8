package verify

import (
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A Report is the result of Run.
type Report struct {
	Path     string `json:"path"`
	Whole    bool   `json:"whole"`
	Segments int    `json:"segments"`
	// First is the first checked entry, and Entries the number of good entries from there on: in a damaged log, the
	// readable ones.
	First   uint64 `json:"first"`
	Entries uint64 `json:"entries"`
	// Absent says why entries before First were not checked: they are archived and were not found.
	Absent string `json:"absent,omitempty"`
	// Hash is the last good entry's hash: a reader that keeps it can check later that no entry up to here was changed.
	// Root is the root of the hash tree over all entries up to it, as in a checkpoint.
	Hash string `json:"hash,omitempty"`
	Root string `json:"root,omitempty"`
	// Snapshots are the ones in the log's directory, in the bucket beside its stream, or in the bundle.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// Index is the index of the log; nil if it has no part.
	Index *Index `json:"index,omitempty"`
	// Unlisted says why the snapshots in the bucket beside a stream were not checked. The log is whole without them.
	Unlisted string `json:"unlisted,omitempty"`
	// Stateless says that no state can be made from the entries: the earlier ones are missing, and there is no
	// snapshot.
	Stateless bool `json:"stateless,omitempty"`
	// Checkpoints are the signed checkpoints that the log agrees with, Mismatches the ones that it contradicts, and
	// NotCompared the ones that could not be compared. If there is one of the last two kinds, Whole is false.
	Checkpoints []audit.CheckpointReport `json:"checkpoints,omitempty"`
	Mismatches  []audit.Mismatch         `json:"mismatches,omitempty"`
	NotCompared []audit.NotCompared      `json:"notCompared,omitempty"`
	Live        bool                     `json:"live"`
	// Tail are the last entries of a log with a writer, and Unread says why none or not all of them could be read. In
	// that case Whole is false, and the entries after Entries are unknown.
	Tail   *Tail  `json:"tail,omitempty"`
	Unread string `json:"unread,omitempty"`
	// Failed says why nothing, or not all, of the log could be checked: then Whole is false. It is only set if the log
	// was to be compared with checkpoints; otherwise there is no report.
	Failed string `json:"failed,omitempty"`
	// EndUnknown says why the log may have had more entries: then Whole is false, though the Entries are good.
	EndUnknown string  `json:"doubt,omitempty"`
	Damage     *Damage `json:"damage,omitempty"`
	Findings

	// Advice says what to do about the damage, if there is anything to do.
	Advice string `json:"-"`

	damage *eventlog.DamagedError
	cause  error // of Failed
}

// Findings are the speed of a check, and the part about a recorder's log.
type Findings struct {
	Speed
	Recorded
}

// Recorded is the part of a Report about a recorder's log.
type Recorded struct {
	// Recorder says that there are entries of a recorder.
	Recorder bool `json:"recorder,omitempty"`
	// Missing says when changes may be missing. The log is whole nevertheless.
	Missing []history.Missing `json:"missing,omitempty"`
}

// Speed is the speed of the check of a log's entries.
type Speed struct {
	Seconds          float64 `json:"seconds"`
	EntriesPerSecond float64 `json:"entriesPerSecond"`
}

// Damage is the place of the damage in a log.
type Damage struct {
	Path   string `json:"path"`
	Seq    uint64 `json:"seq"`
	Reason string `json:"reason"`
}

// Tail describes the entries of a log that are not sealed and come from its writer.
type Tail struct {
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	// Ended says that the writer ended before it had sent all of them; the rest was read from its files.
	Ended bool `json:"ended,omitempty"`
}

// A Snapshot is the result of checking a snapshot.
type Snapshot struct {
	Seq uint64 `json:"seq"`
	// State is one of the constants below.
	State string `json:"state"`
	// Hash is the hash of the snapshot's state. Replay compares the state with the one that the entries make.
	Hash string `json:"hash,omitempty"`
	// Reason says why it is not good, or not compared.
	Reason string `json:"reason,omitempty"`

	advice string // how to remove it
}

// The states of a snapshot.
const (
	SnapshotGood    = "good"         // whole, and its entry is the one in the log
	SnapshotBad     = "bad"          // damaged, or of another log
	SnapshotNewer   = "newer"        // whole, of a format that this program does not read
	SnapshotUnknown = "not compared" // whole, but its entry cannot be read
	SnapshotUnread  = "unreadable"   // nothing is known about it
)

// Last returns the last entry that was found good, First-1 if there is none.
func (r *Report) Last() uint64 { return r.First + r.Entries - 1 }

// Err returns an error if the log is damaged, if one of its snapshots or a part of its index is bad, or if it
// contradicts a checkpoint; nil otherwise. Damage is an *eventlog.DamagedError, and a contradiction an
// *audit.MismatchError.
func (r *Report) Err() error {
	if r.cause != nil {
		return r.failure()
	}
	if m := r.Mismatch(); m != nil {
		err := error(m)
		if r.damage != nil {
			err = errors.Join(r.damage, m)
		}
		return errors.Join(err, r.unread(), r.endUnknown(), r.notCompared())
	}
	if r.damage != nil {
		return errors.Join(r.damage, r.notCompared())
	}
	if err := errors.Join(r.unread(), r.endUnknown(), r.notCompared()); err != nil {
		return err
	}
	return errors.Join(r.stateless(), r.badSnapshots(), r.badIndex())
}

// failure is the error that has kept the log from being checked, with the facts found so far.
func (r *Report) failure() error {
	if m := r.Mismatch(); m != nil {
		return errors.Join(r.cause, m, r.notCompared())
	}
	if len(r.Checkpoints) == 0 {
		return fmt.Errorf("%w\nThe log was compared with none of the checkpoints", r.cause)
	}
	return errors.Join(r.cause, r.notCompared())
}

// rest says why there may be entries after the last good one. A log that has lost its end has none.
func (r *Report) rest() audit.Rest {
	var lost *snapshot.LostError
	switch {
	case r.damage != nil && errors.As(r.damage.Err, &lost):
		return audit.Rest{}
	case r.damage != nil:
		return audit.Rest{Kind: audit.Damaged, Reason: fmt.Sprintf("it is damaged at entry %d", r.damage.Seq)}
	case r.Unread != "":
		return audit.Rest{Kind: audit.BeingWritten, Reason: r.Unread}
	case r.Live:
		return audit.Rest{Kind: audit.BeingWritten, Reason: "it is being written to"}
	}
	return audit.Rest{}
}

// Mismatch returns the contradiction between the log and a checkpoint; nil if none is known.
func (r *Report) Mismatch() *audit.MismatchError {
	if len(r.Mismatches) == 0 {
		return nil
	}
	return &audit.MismatchError{Path: r.Path, Mismatches: r.Mismatches, Agree: r.Checkpoints}
}

// notCompared is the error for checkpoints that could not be compared.
func (r *Report) notCompared() error {
	var list []error
	for _, c := range r.NotCompared {
		err := fmt.Errorf("%s cannot be compared with the checkpoint of %d entries of %s: %s", r.Path, c.Size, c.Origin,
			c.Reason)
		if c.Size+1 < r.First {
			err = fmt.Errorf("%w\nBring the entries before back, or say with --archive where they are, "+
				"or compare with a checkpoint of %d entries or more", err, r.First-1)
		}
		list = append(list, err)
	}
	return errors.Join(list...)
}

// found writes the damage into the report, or that there is none.
func (r *Report) found(damage *eventlog.DamagedError) {
	r.damage = damage
	if r.Whole = damage == nil && r.Unread == "" && r.EndUnknown == ""; damage == nil {
		return
	}
	r.Damage = &Damage{Path: damage.Path, Seq: damage.Seq, Reason: damage.Err.Error()}
	var lost *snapshot.LostError
	var again *eventlog.MadeAgainError
	if errors.As(damage.Err, &lost) {
		r.Advice = logs.AdviceOnLoss(r.Path, lost)
	} else if damage.Seq > r.First && !errors.As(damage.Err, &again) {
		r.Advice = logs.AdviceOnDamage(r.Path, r.First, damage.Seq)
	}
}

// unread is the error for a log that could not be read to its end.
func (r *Report) unread() error {
	if r.Unread == "" {
		return nil
	}
	why, when := "because it is being written to, and its end could not be had", "its writer has ended"
	if logs.InStream(r.Path) {
		why, when = "because its stream may have more", "the servers answer"
	}
	return fmt.Errorf("only a part of %s was checked, %s (%s): verify it again when %s", r.Path, why, r.Unread, when)
}

// endUnknown is the error for a log that may have had more entries.
func (r *Report) endUnknown() error {
	if r.EndUnknown == "" {
		return nil
	}
	return logs.AdviseOnUnknownEnd(r.Path, errors.New(r.EndUnknown))
}

// stateless is the error for a log from whose entries no state can be made.
func (r *Report) stateless() error {
	if !r.Stateless {
		return nil
	}
	return fmt.Errorf(
		"%s: its entries %d to %d are whole, but those before are not there, nor a snapshot of entry %d or a "+
			"later one: no state can be made of them. "+
			"Bring the archived segments back, or say with --archive where they are",
		r.Path,
		r.First,
		r.Last(),
		r.First-1,
	)
}

// badSnapshots is the error for snapshots of a log that is whole itself.
func (r *Report) badSnapshots() error {
	var bad []error
	if r.Unlisted != "" {
		bad = append(bad,
			fmt.Errorf("%s: the log is whole, but its snapshots were not checked: %s", r.Path, r.Unlisted))
	}
	for _, s := range r.Snapshots {
		switch s.State {
		case SnapshotUnread:
			bad = append(bad, fmt.Errorf("%s: the snapshot of entry %d: %s", r.Path, s.Seq, s.Reason))
		case SnapshotBad:
			bad = append(
				bad,
				fmt.Errorf("%s: the log is whole, but its snapshot of entry %d is not used: %s; %s",
					r.Path, s.Seq, s.Reason, s.advice),
			)
		}
	}
	return errors.Join(bad...)
}

// badIndex is the error for parts of the index of a log that is whole itself.
func (r *Report) badIndex() error {
	if r.Index == nil {
		return nil
	}
	if why := r.Index.Unlisted; why != "" {
		return fmt.Errorf("%s: the log is whole, but its index was not checked: %s", r.Path, why)
	}
	var bad []error
	advice := "rollcall log index " + r.Path
	again := false
	for _, p := range r.Index.Others {
		what := fmt.Sprintf("the log is whole, but the index of its entries %d to %d", p.First, p.Last)
		switch p.State {
		case IndexUnread:
			bad = append(bad, fmt.Errorf("%s: %s was not checked: %s", r.Path, what, p.Reason))
		case IndexDamaged:
			again = true
			bad = append(bad, fmt.Errorf("%s: %s is not used: %s", r.Path, what, p.Reason))
		case IndexWrong:
			again, advice = true, "explain and log info may have answered wrongly. rollcall log index --check "+r.Path
			bad = append(bad, fmt.Errorf("%s: %s is wrong: %s", r.Path, what, p.Reason))
		}
	}
	if again {
		bad = append(bad, errors.New(advice+" makes it again from the entries"))
	}
	return errors.Join(bad...)
}
