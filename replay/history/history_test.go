package history_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
)

var _ history.Source = (*logs.Source)(nil)

// naive reads every entry of a recording.
func naive(t *testing.T, r *replaytest.Recording) []eventlog.Entry {
	t.Helper()
	return all(t, r.Log.Read(context.Background(), 1))
}

func all(t *testing.T, read iter.Seq2[eventlog.Entry, error]) (entries []eventlog.Entry) {
	t.Helper()
	for e, err := range read {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// hashes returns the hash of the state after each entry, by applying all of them.
func hashes(t *testing.T, entries []eventlog.Entry) map[uint64][32]byte {
	t.Helper()
	m := scheduler.New(plugins.NewRegistry())
	out := map[uint64][32]byte{0: m.Hash()}
	for _, e := range entries {
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
		out[e.Seq] = m.Hash()
	}
	return out
}

// sources are a recording read in each way: with and without an index and snapshots.
func sources(t *testing.T, r *replaytest.Recording) []*replaytest.Source {
	plain := replaytest.NewSource(r.Log, plugins.NewRegistry())
	kept := replaytest.NewSource(r.Log, plugins.NewRegistry())
	kept.Keep(r.Snapshots, plugins.NewRegistry())
	quick := replaytest.NewSource(r.Log, plugins.NewRegistry())
	quick.Keep(r.Snapshots, plugins.NewRegistry())
	quick.Lookup = replaytest.NewIndex(t, r.Log, 32)
	return []*replaytest.Source{plain, kept, quick}
}

// TestTheStateAtAnEntryIsTheOneThatAllEntriesMake asks for states in any order. A caller that changes its Machine does
// not change the answer to the next one.
func TestTheStateAtAnEntryIsTheOneThatAllEntriesMake(t *testing.T) {
	r := replaytest.Record(t, 20)
	entries := naive(t, r)
	want := hashes(t, entries)
	logs := sources(t, r)
	rapid.Check(t, func(rt *rapid.T) {
		source := rapid.SampledFrom(logs).Draw(rt, "source")
		log := history.New(source, history.Options{Keep: rapid.IntRange(0, 3).Draw(rt, "keep")})
		for range rapid.IntRange(1, 6).Draw(rt, "questions") {
			at := rapid.Uint64Range(0, r.Last).Draw(rt, "at")
			m, err := log.At(context.Background(), at)
			if err != nil {
				rt.Fatal(err)
			}
			if m.Seq() != at || m.Hash() != want[at] {
				rt.Fatalf("the state after entry %d is another one, of entry %d", at, m.Seq())
			}
			for _, e := range entries[at:min(r.Last, at+rapid.Uint64Range(0, 3).Draw(rt, "spoil"))] {
				if err := m.Apply(e); err != nil {
					rt.Fatal(err)
				}
			}
		}
	})
}

// TestAKeptMachineSavesReading counts what is read when a state is asked for that is near one that was asked for.
func TestAKeptMachineSavesReading(t *testing.T) {
	r := replaytest.Record(t, 1<<40)
	source := replaytest.NewSource(r.Log, plugins.NewRegistry())
	log := history.New(source, history.Options{Keep: 2})
	for _, c := range []struct {
		at   uint64
		most int
	}{{r.Last - 5, int(r.Last)}, {r.Last - 5, 1}, {r.Last, 6}, {r.Last - 5, 1}, {10, 11}, {r.Last - 5, 1}} {
		before := source.Entries
		if _, err := log.At(t.Context(), c.at); err != nil {
			t.Fatal(err)
		}
		if read := source.Entries - before; read > c.most {
			t.Errorf("%d entries were read for the state after entry %d, want at most %d", read, c.at, c.most)
		}
	}
}

// drawQuery draws a query about names of the log.
func drawQuery(rt *rapid.T, entries []eventlog.Entry) (q history.Query) {
	last := uint64(len(entries))
	q.From = rapid.Uint64Range(0, last+2).Draw(rt, "from")
	if rapid.Bool().Draw(rt, "until an entry") {
		q.To.Seq = rapid.Uint64Range(1, last+2).Draw(rt, "to")
	}
	if rapid.Bool().Draw(rt, "until a time") {
		q.To.Time = rapid.SampledFrom(entries).Draw(rt, "until").Time
	}
	if rapid.Bool().Draw(rt, "since a time") {
		q.Since = rapid.SampledFrom(entries).Draw(rt, "since").Time
	}
	for range rapid.IntRange(0, 3).Draw(rt, "keys") {
		switch p := rapid.SampledFrom(entries).Draw(rt, "names").Payload.(type) {
		case *eventlog.Upserted:
			if pod, ok := p.Object.(*v1.Pod); ok {
				q.Keys = append(q.Keys, index.Pod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}))
			} else {
				q.Keys = append(q.Keys, index.Node(p.Object.GetName()))
			}
		case *eventlog.Decision:
			q.Keys = append(q.Keys, index.UID(p.UID))
		default:
			q.Keys = append(q.Keys, index.Barrier())
		}
	}
	kinds := []eventlog.Kind{eventlog.KindEpochStarted, eventlog.KindDecision, eventlog.KindBindResult}
	for range rapid.IntRange(0, 2).Draw(rt, "kinds") {
		q.Kinds = append(q.Kinds, rapid.SampledFrom(kinds).Draw(rt, "kind"))
	}
	return q
}

// matching is the naive answer to a query.
func matching(entries []eventlog.Entry, q history.Query) (seqs []uint64) {
	keys := slices.Sorted(slices.Values(q.Keys))
	for _, e := range entries {
		switch {
		case e.Seq < q.From, e.Time < q.Since, q.To.Seq > 0 && e.Seq > q.To.Seq, q.To.Time > 0 && e.Time > q.To.Time:
		case len(keys) > 0 && !index.Names(e, keys):
		case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind()):
		default:
			seqs = append(seqs, e.Seq)
		}
	}
	return seqs
}

// TestTheEntriesOfAQueryAreThoseThatReadingAllFinds compares each way of reading with looking at every entry.
func TestTheEntriesOfAQueryAreThoseThatReadingAllFinds(t *testing.T) {
	r := replaytest.Record(t, 50)
	entries := naive(t, r)
	logs := sources(t, r)
	rapid.Check(t, func(rt *rapid.T) {
		q := drawQuery(rt, entries)
		want := matching(entries, q)
		for i, source := range logs {
			var got []uint64
			for e, err := range history.New(source, history.Options{}).Entries(context.Background(), q) {
				if err != nil {
					rt.Fatal(err)
				}
				got = append(got, e.Seq)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("source %d: %+v yields\n%v\nwant\n%v", i, q, got, want)
			}
		}
	})
}

// TestAQueryByNamesReadsThoseEntries counts what is read of a log with an index.
func TestAQueryByNamesReadsThoseEntries(t *testing.T) {
	r := replaytest.Record(t, 1<<40)
	source := sources(t, r)[2]
	q := history.Query{Keys: []index.Key{index.Barrier()}, Kinds: []eventlog.Kind{eventlog.KindEpochStarted}}
	got := all(t, history.New(source, history.Options{}).Entries(t.Context(), q))
	if len(got) != 1 || source.Entries > 1 || source.Lookup.Picked > 5 {
		t.Errorf("%d entries, of %d that were read and %d that were picked", len(got), source.Entries,
			source.Lookup.Picked)
	}
}

// damaged is a log that cannot be read from one entry on.
type damaged struct {
	*replaytest.Source
	at uint64
}

var errDamage = errors.New("damage")

func (d damaged) Last() (uint64, error) { return d.at - 1, nil }

func (d damaged) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range d.Source.Read(ctx, from) {
			if e.Seq >= d.at {
				yield(eventlog.Entry{}, errDamage)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestDamageIsFoundWhereReadingTheLogWouldEnd asks for entries and states before and behind the first damaged entry.
func TestDamageIsFoundWhereReadingTheLogWouldEnd(t *testing.T) {
	r := replaytest.Record(t, 20)
	const at = 51
	for i, source := range sources(t, r) {
		if source.Lookup != nil {
			source.End = at - 1
			source.Lookup = replaytest.NewIndex(t, r.Log, 10)
			source.Lookup.Cut(at - 1)
			source.End = 0
		}
		log := history.New(damaged{source, at}, history.Options{})
		for _, q := range []history.Query{{}, {Keys: []index.Key{index.Barrier()}},
			{Kinds: []eventlog.Kind{eventlog.KindEpochStarted}}, {To: history.Bound{Seq: at - 1}}} {
			var last error
			for _, err := range log.Entries(t.Context(), q) {
				last = err
			}
			if !errors.Is(last, errDamage) {
				t.Errorf("source %d: %+v ends with %v", i, q, last)
			}
		}
		for e, err := range log.Entries(t.Context(), history.Query{To: history.Bound{Seq: at - 2}}) {
			if err != nil {
				t.Errorf("source %d, entry %d: %v", i, e.Seq, err)
			}
		}
		if _, err := log.At(t.Context(), at-1); err != nil {
			t.Errorf("source %d: %v", i, err)
		}
		if _, err := log.At(t.Context(), at); !errors.Is(err, errDamage) {
			t.Errorf("source %d: the state behind the damage: %v", i, err)
		}
		x, err := log.Extent(t.Context())
		if err != nil || x.Last != at-1 || !errors.Is(x.Damage, errDamage) {
			t.Errorf("source %d: %+v, %v", i, x, err)
		}
	}
}

// TestALogThatBeginsLaterIsKnownFromItsFirstState asks a log whose first entries are archived.
func TestALogThatBeginsLaterIsKnownFromItsFirstState(t *testing.T) {
	r := replaytest.Record(t, 50)
	want := hashes(t, naive(t, r))
	source := sources(t, r)[1]
	source.Known = 100
	log := history.New(source, history.Options{Keep: 1})
	for _, at := range []uint64{100, 101, 149, 150, 100} {
		if m, err := log.At(t.Context(), at); err != nil || m.Hash() != want[at] {
			t.Errorf("entry %d: %v", at, err)
		}
	}
	const refused = "entry 99 is before what is known: the first state is that after entry 100"
	if _, err := log.At(t.Context(), 99); err == nil || err.Error() != refused {
		t.Errorf("before that: %v", err)
	}
	beyond := fmt.Sprintf("entry %d is not in the log: its last one is %d", r.Last+1, r.Last)
	if _, err := log.At(t.Context(), r.Last+1); !errors.Is(err, history.ErrBeyond) || err.Error() != beyond {
		t.Errorf("behind its end: %v", err)
	}
	x, err := log.Extent(t.Context())
	if err != nil || x.First != 101 || x.Base != 100 || x.KnownFrom() != 101 || x.Last != r.Last {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestATallyIsTheSameWithAndWithoutAnIndex compares it with counting every entry.
func TestATallyIsTheSameWithAndWithoutAnIndex(t *testing.T) {
	r := replaytest.Record(t, 50)
	entries := naive(t, r)
	kinds, epochs := map[eventlog.Kind]uint64{}, 0
	for _, e := range entries {
		if kinds[e.Kind()]++; e.Kind() == eventlog.KindEpochStarted {
			epochs++
		}
	}
	var tallies []*history.Tally
	for i, source := range sources(t, r) {
		tally, err := history.New(source, history.Options{}).Tally(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(tally.Kinds, kinds) || len(tally.Epochs) != epochs || tally.Entries != r.Last ||
			tally.Last.Time != entries[len(entries)-1].Time {
			t.Errorf("source %d: %+v, want %v", i, tally, kinds)
		}
		tallies = append(tallies, tally)
	}
	if a, b := tallies[0], tallies[2]; !maps.Equal(a.Outcomes, b.Outcomes) || !maps.Equal(a.Resources, b.Resources) ||
		a.First != b.First {
		t.Errorf("without an index %+v, with one %+v", a, b)
	}
}

// indexless is a log whose index cannot be made, because the log is damaged behind the entries that are asked for.
type indexless struct{ *replaytest.Source }

func (indexless) Index(context.Context) (index.Lookup, error) { return nil, errDamage }

// TestDamageBehindTheRangeIsNoError asks for entries and a time in a log whose index cannot be made.
func TestDamageBehindTheRangeIsNoError(t *testing.T) {
	r := replaytest.Record(t, 20)
	entries := naive(t, r)
	log := history.New(indexless{sources(t, r)[0]}, history.Options{})
	to := history.Bound{Seq: 30}
	for _, q := range []history.Query{{To: to}, {To: to, Keys: []index.Key{index.Barrier()}},
		{To: to, Kinds: []eventlog.Kind{eventlog.KindDecision}}, {To: to, Since: entries[9].Time}} {
		all(t, log.Entries(t.Context(), q))
	}
	if p, err := log.Locate(t.Context(), history.Bound{Time: entries[29].Time}); err != nil || p.Seq < 30 {
		t.Errorf("the entry at a time is %d, %v", p.Seq, err)
	}
}
