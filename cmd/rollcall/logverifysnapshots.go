package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// verifiedSnapshot is what "rollcall log verify" finds of a snapshot.
type verifiedSnapshot struct {
	Seq uint64 `json:"seq"`
	// State is one of the constants below.
	State string `json:"state"`
	// Hash is that of the state that the snapshot has, which replay compares with what the entries make.
	Hash string `json:"hash,omitempty"`
	// Reason says why it is not good, or not compared.
	Reason string `json:"reason,omitempty"`
}

// The states of a snapshot.
const (
	snapshotGood    = "good"         // whole, and its entry is the one in the log
	snapshotBad     = "bad"          // damaged, or of another log
	snapshotNewer   = "newer"        // whole, of a format that this program does not read
	snapshotUnknown = "not compared" // whole, but its entry cannot be read
	snapshotUnread  = "unreadable"   // nothing is known of it
)

// compareSnapshots looks at the snapshots of a log whose segments were checked, with the damage that was found in them,
// nil for none. It returns that, or, as damage too, that the log's first entries are not there and no snapshot that
// is good.
func (v *verifier) compareSnapshots(damage *eventlog.DamagedError) (*eventlog.DamagedError, error) {
	err := v.reopen()
	if err != nil && damage != nil {
		return damage, nil // there is nothing to compare with
	}
	if err != nil {
		return nil, err
	}
	series, err := v.findSnapshots(v.live)
	if err != nil || damage != nil || v.live.live || v.facts.First == 1 {
		return damage, err
	}
	damage = v.needed(series)
	v.found(damage)
	return damage, nil
}

// findSnapshots puts into the facts what it finds of the snapshots of a log.
func (v *verifier) findSnapshots(log records) (*snapshot.Series, error) {
	series := &snapshot.Series{Store: storeOf(v.facts.Path, log), Position: log.RecordHash, Registry: plugins.NewRegistry()}
	seqs, err := series.Store.List()
	if err != nil {
		v.facts.Doubt = cmp.Or(v.facts.Doubt, err.Error())
		v.found(nil)
		return series, nil
	}
	first, last := v.facts.First, v.facts.First+v.facts.Entries-1
	for _, seq := range seqs {
		found := verifiedSnapshot{Seq: seq, State: snapshotGood}
		if seq+1 < first || seq > last {
			found.State, found.Reason = snapshotUnknown, "its entry cannot be read"
			series.Position = nil
		} else {
			series.Position = log.RecordHash
		}
		snap, err := series.Load(seq)
		var newer *snapshot.NewerFormatError
		switch {
		case errors.Is(err, fs.ErrNotExist): // a writer has dropped it meanwhile
			continue
		case errors.As(err, &newer):
			found.State, found.Reason = snapshotNewer, err.Error()
		case errors.Is(err, snapshot.ErrUnreadable):
			found.State, found.Reason = snapshotUnread, err.Error()
		case err != nil:
			found.State, found.Reason = snapshotBad, err.Error()
		default:
			found.Hash = fmt.Sprintf("%x", snap.StateHash)
		}
		v.facts.Snapshots = append(v.facts.Snapshots, found)
	}
	series.Position = log.RecordHash
	return series, nil
}

// needed says what is wrong with a log that begins later than with entry 1 if no snapshot of those that could be
// begun with is good. That there is none at all is noted in the facts.
func (v *verifier) needed(series *snapshot.Series) *eventlog.DamagedError {
	first, last := v.facts.First, v.facts.First+v.facts.Entries-1
	m, refused := series.Oldest(first-1, last)
	if m != nil {
		return nil
	}
	if len(refused) == 0 {
		v.facts.Stateless = true
		return nil
	}
	if err := errors.Join(refused...); errors.Is(err, snapshot.ErrUnreadable) {
		v.facts.Doubt = cmp.Or(v.facts.Doubt, err.Error())
		return nil
	}
	return &eventlog.DamagedError{Path: v.facts.Path, Seq: first, Err: fmt.Errorf(
		"the entries before it are not there, and no snapshot of entry %d or a later one that is good: %w", first-1, errors.Join(refused...))}
}

// doubt is the error for a log of which it is not known whether it had more entries.
func (v *verifier) doubt() error {
	if v.facts.Doubt == "" {
		return nil
	}
	return adviseOnDoubt(v.facts.Path, errors.New(v.facts.Doubt))
}

// stateless is the error for a log of whose entries no state can be made.
func (f *verifyFacts) stateless() error {
	if !f.Stateless {
		return nil
	}
	return fmt.Errorf("%s: its entries %d to %d are whole, but those before are not there, nor a snapshot of entry %d or a later one: no state can be made of them. "+
		"Bring the archived segments back, or say with --archive where they are", f.Path, f.First, f.First+f.Entries-1, f.First-1)
}

// badSnapshots is the error for snapshots of a log that is whole itself.
func (f *verifyFacts) badSnapshots() error {
	var bad []error
	for _, s := range f.Snapshots {
		switch s.State {
		case snapshotUnread:
			bad = append(bad, fmt.Errorf("%s: the snapshot of entry %d: %s", f.Path, s.Seq, s.Reason))
		case snapshotBad:
			bad = append(bad, fmt.Errorf("%s: the log is whole, but its snapshot of entry %d is not used: %s; remove %s",
				f.Path, s.Seq, s.Reason, snapshotsOf(f.Path).File(s.Seq)))
		}
	}
	return errors.Join(bad...)
}

func (f *verifyFacts) writeSnapshots(w io.Writer) {
	for _, s := range f.Snapshots {
		switch s.State {
		case snapshotGood:
			fmt.Fprintf(w, "snapshot  of entry %d, good, state %s\n", s.Seq, s.Hash)
		case snapshotBad:
			fmt.Fprintf(w, "snapshot  of entry %d, BAD: %s\n", s.Seq, s.Reason)
		case snapshotUnread:
			fmt.Fprintf(w, "snapshot  of entry %d, NOT KNOWN: %s\n", s.Seq, s.Reason)
		default:
			fmt.Fprintf(w, "snapshot  of entry %d, not compared: %s\n", s.Seq, s.Reason)
		}
	}
}
