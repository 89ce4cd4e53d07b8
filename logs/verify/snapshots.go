package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// checkSnapshots checks the snapshots of a log whose segments were checked. If the log's first entries are missing,
// and no snapshot is good, that is damage too.
func (v *verifier) checkSnapshots(ctx context.Context) error {
	if err := v.open(ctx); err != nil {
		if v.report.damage != nil {
			return nil // there is nothing to compare with
		}
		return err
	}
	series, err := v.findSnapshots()
	if err != nil || v.report.damage != nil || v.log.Live() || v.report.First == 1 {
		return err
	}
	v.report.found(v.needed(series))
	return nil
}

// findSnapshots adds the snapshots of a log to the report.
func (v *verifier) findSnapshots() (*snapshot.Series, error) {
	series := v.log.Snapshots()
	position := func(seq uint64) ([32]byte, error) { return v.log.RecordHash(context.Background(), seq) }
	seqs, err := series.Store.List()
	if err != nil && v.log.IsStream() {
		v.report.Unlisted = err.Error()
		return series, nil
	}
	if err != nil {
		v.report.EndUnknown = cmp.Or(v.report.EndUnknown, err.Error())
		v.report.found(v.report.damage)
		return series, nil
	}
	first, last := v.report.First, v.report.Last()
	for _, seq := range seqs {
		found := Snapshot{Seq: seq, State: SnapshotGood, advice: v.log.RemoveSnapshot(seq)}
		if seq+1 < first || seq > last {
			found.State, found.Reason = SnapshotUnknown, "its entry cannot be read"
			series.Position = nil
		} else {
			series.Position = position
		}
		snap, err := series.Load(seq)
		var newer *snapshot.NewerFormatError
		switch {
		case errors.Is(err, fs.ErrNotExist): // a writer has dropped it meanwhile
			continue
		case errors.As(err, &newer):
			found.State, found.Reason = SnapshotNewer, err.Error()
		case errors.Is(err, snapshot.ErrUnreadable):
			found.State, found.Reason = SnapshotUnread, err.Error()
		case err != nil:
			found.State, found.Reason = SnapshotBad, err.Error()
		default:
			found.Hash = fmt.Sprintf("%x", snap.StateHash)
		}
		v.report.Snapshots = append(v.report.Snapshots, found)
	}
	series.Position = position
	return series, nil
}

// checkBeside checks the snapshots beside a log in a stream whose entries are good. A snapshot of a later entry shows
// that the log has lost its end.
func (v *verifier) checkBeside() error {
	series, err := v.findSnapshots()
	if err != nil {
		return err
	}
	last := v.report.Last()
	lost, _, err := series.Beyond(last)
	if lost != nil {
		v.report.found(&eventlog.DamagedError{Path: v.report.Path, Seq: last + 1, Err: lost})
	}
	return err
}

// needed returns the damage of a log that begins later than with entry 1, if none of the snapshots that it could begin
// with is good. If there are no snapshots at all, it notes that in the report.
func (v *verifier) needed(series *snapshot.Series) *eventlog.DamagedError {
	first, last := v.report.First, v.report.Last()
	m, refused := series.Oldest(first-1, last)
	if m != nil {
		return nil
	}
	if len(refused) == 0 {
		v.report.Stateless = true
		return nil
	}
	if err := errors.Join(refused...); errors.Is(err, snapshot.ErrUnreadable) {
		v.report.EndUnknown = cmp.Or(v.report.EndUnknown, err.Error())
		return nil
	}
	return &eventlog.DamagedError{
		Path: v.report.Path,
		Seq:  first,
		Err: fmt.Errorf("the entries before it are not there, "+
			"and no snapshot of entry %d or a later one that is good: %w", first-1, errors.Join(refused...)),
	}
}
