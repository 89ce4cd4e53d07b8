package replaytest

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Source is a log in memory with the properties that a test gives it. It counts the reads.
type Source struct {
	history.Source
	// Known is the entry behind which the log can be read, End its last one; 0 means the log's own.
	Known, End uint64
	// Change is shown every decision before it is read; nil for nothing.
	Change func(*eventlog.Decision)
	// State is Restore, and States are the entries with a snapshot; nil for none.
	State  func(last uint64) (*scheduler.Machine, error)
	States []uint64
	// Lookup is the index; nil for none.
	Lookup *Index

	// Entries counts the entries that were read one after the other, Restored the states that were restored.
	Entries, Restored int
}

// NewSource returns a log in memory, whole, without an index and snapshots.
func NewSource(log *eventlog.Memory, registry framework.Registry) *Source {
	return &Source{Source: history.Plain(log, registry)}
}

// Log returns a Log that restores whatever state it may.
func (s *Source) Log() *history.Log { return history.New(s, history.Options{Jump: 1}) }

// Base implements history.Source.
func (s *Source) Base() (uint64, error) { return s.Known, nil }

// First implements history.Source.
func (s *Source) First() uint64 { return s.Known + 1 }

// Last implements history.Source.
func (s *Source) Last() (uint64, error) {
	if s.End > 0 {
		return s.End, nil
	}
	return s.Source.Last()
}

// Read implements history.Source.
func (s *Source) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		if from <= s.Known {
			panic("what is not there is read")
		}
		for e, err := range s.Source.Read(ctx, from) {
			if s.End > 0 && e.Seq > s.End {
				return
			}
			if d, ok := e.Payload.(*eventlog.Decision); ok && s.Change != nil {
				s.Change(d)
			}
			s.Entries++
			if !yield(e, err) {
				return
			}
		}
	}
}

// SnapshotSeqs implements history.Source.
func (s *Source) SnapshotSeqs() ([]uint64, error) { return s.States, nil }

// Restore implements history.Source.
func (s *Source) Restore(last uint64) (*scheduler.Machine, error) {
	if s.State == nil {
		return nil, nil
	}
	s.Restored++
	return s.State(last)
}

// Index implements history.Source.
func (s *Source) Index(context.Context) (index.Lookup, error) {
	if s.Lookup == nil {
		return nil, nil
	}
	return s.Lookup, nil
}

// Keep gives the log the snapshots in states, which are by their entries.
func (s *Source) Keep(states map[uint64][]byte, registry framework.Registry) {
	s.States = slices.Sorted(maps.Keys(states))
	s.State = func(last uint64) (*scheduler.Machine, error) {
		i, _ := slices.BinarySearch(s.States, last+1)
		if i == 0 || s.States[i-1] < s.Known {
			return nil, nil
		}
		snap, err := snapshot.Decode(states[s.States[i-1]])
		if err != nil {
			return nil, err
		}
		return snap.Restore(registry)
	}
}

// Fataler is a *testing.T or a *rapid.T.
type Fataler interface {
	Helper()
	Fatal(args ...any)
}

// An Index is one of a log in memory, in parts of so many entries.
type Index struct {
	log   *eventlog.Memory
	parts []*index.Part
	// Picked counts the entries that were read by their numbers.
	Picked int
}

// NewIndex makes an index in parts of so many entries.
func NewIndex(t Fataler, log *eventlog.Memory, span int) *Index {
	t.Helper()
	x := &Index{log: log}
	last, err := log.Last()
	if err != nil {
		t.Fatal(err)
	}
	var b index.Builder
	for e, err := range log.Read(context.Background(), 1) {
		if err == nil {
			err = b.Add(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() == span || e.Seq == last {
			x.parts = append(x.parts, b.Part([32]byte{}))
		}
	}
	return x
}

// Facts implements index.Lookup.
func (x *Index) Facts() (facts []index.Facts) {
	for _, p := range x.parts {
		facts = append(facts, p.Facts)
	}
	return facts
}

// Until implements index.Lookup.
func (x *Index) Until(ctx context.Context, at eventlog.Time) (seq uint64, err error) {
	for e, err := range x.log.Read(ctx, 1) {
		if err != nil || e.Time > at {
			return seq, err
		}
		seq = e.Seq
	}
	return seq, nil
}

// Naming implements index.Lookup.
func (x *Index) Naming(_ context.Context, keys ...index.Key) (seqs []uint64, err error) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, p := range x.parts {
		seqs = p.Naming(keys, seqs)
	}
	slices.Sort(seqs)
	return slices.Compact(seqs), nil
}

// Pick implements index.Lookup.
func (x *Index) Pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, seq := range seqs {
			x.Picked++
			for e, err := range x.log.Read(ctx, seq) {
				if !yield(e, err) || err != nil {
					return
				}
				break
			}
		}
	}
}

// Cut makes it the index of a log that ends with entry last, which is the last one of a part.
func (x *Index) Cut(last uint64) {
	x.parts = slices.DeleteFunc(x.parts, func(p *index.Part) bool { return p.Last > last })
}
