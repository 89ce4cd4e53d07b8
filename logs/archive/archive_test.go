package archive

import (
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// snapshotSeqs returns the entries of which a log has snapshots.
func snapshotSeqs(t testing.TB, log string) []uint64 {
	t.Helper()
	seqs, err := logs.SnapshotsOf(log).List()
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// TestArchivingEnsuresThatItsSnapshotExists loses it in the last moment.
func TestArchivingEnsuresThatItsSnapshotExists(t *testing.T) {
	path := logstest.Segmented(t, []eventlog.Entry{}, 1)
	dir := logs.SnapshotsOf(path)
	f := &Report{Path: path, Snapshot: 30, Last: 20}
	for _, step := range []struct{ there, want []uint64 }{{[]uint64{10, 40}, []uint64{10, 30, 40}}, {[]uint64{25},
		[]uint64{25}}, {[]uint64{20}, []uint64{20}}} {
		for _, seq := range snapshotSeqs(t, path) {
			if err := dir.Drop(seq); err != nil {
				t.Fatal(err)
			}
		}
		for _, seq := range step.there {
			if err := dir.Add(seq, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.keepSnapshot([]byte("it")); err != nil {
			t.Fatal(err)
		}
		if got := snapshotSeqs(t, path); !slices.Equal(got, step.want) {
			t.Errorf("beside snapshots of entries %d there are %d, want %d", step.there, got, step.want)
		}
	}
}
