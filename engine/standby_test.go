package engine_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// standbyOptions are the options of a standby and of the engine that it becomes.
func standbyOptions(t testing.TB, store snapshot.Store) engine.Options {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
		Snapshots: store, SnapshotEvery: 5,
	}
}

// follow has a standby follow the log to entry last. It returns the entries that the standby reports, now and later.
func follow(t testing.TB, s *engine.Standby, log engine.FollowedLog, last uint64) *[]uint64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := &[]uint64{}
	if s.Seq() == last {
		cancel()
	}
	err := s.Follow(ctx, log, func(e eventlog.Entry) error {
		*told = append(*told, e.Seq)
		if e.Seq == last {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || s.Seq() != last {
		t.Fatalf("at entry %d, error %v, want %d", s.Seq(), err, last)
	}
	return told
}

// TestAStandbyThatTakesOverGoesOnAsAnEngineThatReadTheLog lets a standby follow the story up to each of its moments,
// and take over one moment later. From then on it decides like an engine that has read the whole log.
func TestAStandbyThatTakesOverGoesOnAsAnEngineThatReadTheLog(t *testing.T) {
	story := gangStory()
	for at := range story {
		w := newWorld(t)
		for _, m := range story[:at/2] {
			w.mustStep(m)
		}
		store := &memoryStore{kept: map[uint64][]byte{}}
		s := engine.NewStandby(standbyOptions(t, store))
		if err := s.Recover(t.Context(), w.log.kept); err != nil {
			t.Fatal(err)
		}
		recovered := s.Seq()
		for _, m := range story[at/2 : at] {
			w.mustStep(m)
		}
		last := w.engine.Machine().Seq()
		told := follow(t, s, w.log.kept, last)
		if uint64(len(*told)) != last-recovered {
			t.Errorf("moment %d: told of %v, want the entries %d to %d", at, *told, recovered+1, last)
		}
		if s.Machine().Hash() != w.engine.Machine().Hash() {
			t.Fatalf("moment %d: the standby's state is not the leader's", at)
		}
		if at > 0 && at < len(story) { // one moment more, which the standby does not receive
			w.mustStep(story[at])
		}
		missed := w.engine.Machine().Seq() - last
		all := w.entries()
		opts := standbyOptions(t, store)
		opts.Standby = s
		counted := &countingLog{Memory: w.log.kept}
		taken, err := engine.Open(t.Context(), counted, w.now, opts)
		if err != nil {
			t.Fatal(err)
		}
		if counted.read != missed {
			t.Errorf("moment %d: it has read %d entries to take over, want %d", at, counted.read, missed)
		}
		if n := uint64(len(*told)); n != last-recovered+missed {
			t.Errorf("moment %d: told of %v, want the entries that were read to take over, too", at, *told)
		}
		other := eventlog.NewMemory()
		if err := other.Append(t.Context(), 0, all); err != nil {
			t.Fatal(err)
		}
		opts.Standby, opts.Snapshots = nil, nil
		anew, err := engine.Open(t.Context(), other, w.now, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range story[min(at+1, len(story)):] {
			w.now = w.now.Add(m.after)
			_, err := taken.Step(t.Context(), w.now, m.inputs)
			_, aerr := anew.Step(t.Context(), w.now, m.inputs)
			if err != nil || aerr != nil || taken.Machine().Hash() != anew.Machine().Hash() {
				t.Fatalf("moment %d: %v, %v, or not the decisions of an engine that read the log", at, err, aerr)
			}
		}
		if err := errors.Join(taken.Close(), anew.Close()); err != nil {
			t.Error(err)
		}
	}
}

// countingLog counts the entries that are read.
type countingLog struct {
	*eventlog.Memory
	read uint64
}

func (l *countingLog) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range l.Memory.Read(ctx, from) {
			l.read++
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestAStandbyWritesSnapshots follows a story. An engine restores the snapshots that it has written.
func TestAStandbyWritesSnapshots(t *testing.T) {
	w := newWorld(t)
	store := &memoryStore{kept: map[uint64][]byte{}}
	opts := standbyOptions(t, store)
	s := engine.NewStandby(opts)
	if err := s.Recover(t.Context(), w.log.kept); err != nil {
		t.Fatal(err)
	}
	for _, m := range gangStory() {
		w.mustStep(m)
		follow(t, s, w.log.kept, w.engine.Machine().Seq())
		s.AwaitSnapshot()
	}
	s.Close()
	seqs, _ := store.List()
	if len(seqs) < 5 {
		t.Fatalf("snapshots of entries %v, want one for each 5 of %d", seqs, s.Seq())
	}
	last := seqs[len(seqs)-1]
	e, err := engine.Open(t.Context(), w.log.kept, w.now, standbyOptions(t, store))
	if err != nil || e.Recovery().Snapshot != last || len(e.Recovery().Refused) > 0 {
		t.Fatalf("recovery %v, error %v, want from the snapshot of entry %d", e.Recovery(), err, last)
	}
}

// TestAStandbyDoesNotTakeOverAnotherLog has a standby followed one log, and opens another one: one that ends earlier,
// and one in which its last entry is another one.
func TestAStandbyDoesNotTakeOverAnotherLog(t *testing.T) {
	for name, c := range map[string]struct {
		other []moment
		want  string
	}{
		"shorter": {nil, "are missing"},
		"another": {[]moment{{0, []eventlog.Payload{node("m1", "4")}}, {0, []eventlog.Payload{node("m2", "4")}}},
			"replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			w, other := newWorld(t), newWorld(t)
			w.mustStep(moment{0, []eventlog.Payload{node("n1", "4")}})
			s := engine.NewStandby(standbyOptions(t, nil))
			if err := s.Recover(t.Context(), w.log.kept); err != nil {
				t.Fatal(err)
			}
			for _, m := range c.other {
				other.mustStep(m)
			}
			before := other.engine.Machine().Seq()
			opts := standbyOptions(t, nil)
			opts.Standby = s
			_, err := engine.Open(t.Context(), chained{other.log.kept}, w.now, opts)
			var damaged *eventlog.DamagedError
			if !errors.As(err, &damaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want damage, %q", err, c.want)
			}
			if last, _ := other.log.kept.Last(); last != before {
				t.Errorf("the other log was appended to: its last entry is %d, was %d", last, before)
			}
			if last, _ := other.log.kept.Last(); last >= s.Seq() {
				if err := s.Follow(t.Context(), chained{other.log.kept}, nil); !errors.As(err, &damaged) {
					t.Errorf("it follows the other log: %v", err)
				}
			}
		})
	}
}
