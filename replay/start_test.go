package replay_test

import (
	"context"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
)

// TestReplayFromEverySnapshotEndsInTheSameState replays from each snapshot on, and once with a decision that was
// changed behind it.
func TestReplayFromEverySnapshotEndsInTheSameState(t *testing.T) {
	r := replaytest.Record(t, 10)
	whole, err := replay.Verify(
		context.Background(),
		r.Log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()},
	)
	if err != nil || !whole.Identical() {
		t.Fatalf("%+v, %v", whole, err)
	}
	for seq := range r.Snapshots {
		got, err := replay.Verify(
			context.Background(),
			r.From(seq)(context.Background(), seq+1),
			replay.Options{Registry: plugins.NewRegistry(), Start: r.Restore(t, seq, seq)},
		)
		if err != nil || !got.Identical() || got.Hash != whole.Hash || got.Start != seq || got.Entries != r.Last-seq {
			t.Errorf("from entry %d: %+v, %v", seq, got, err)
		}
		changed := func(yield func(eventlog.Entry, error) bool) {
			done := false
			for e, err := range r.Log.Read(context.Background(), seq+1) {
				if d, ok := e.Payload.(*eventlog.Decision); ok && !done {
					done = true
					other := *d
					other.Score++
					e.Payload = &other
				}
				if !yield(e, err) {
					return
				}
			}
		}
		got, err = replay.Verify(context.Background(), changed,
			replay.Options{Registry: plugins.NewRegistry(), Start: r.Restore(t, seq, seq)})
		if err != nil || got.Identical() && got.Decisions > 0 {
			t.Errorf("from entry %d, with a change: %+v, %v", seq, got, err)
		}
	}
}
