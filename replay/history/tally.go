package history

import (
	"context"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// A Tally counts the contents of a log.
type Tally struct {
	// Entries counts all entries, from First to Last.
	Entries     uint64
	First, Last Point
	// Kinds counts entries, Resources objects that were taken in, Outcomes Decisions.
	Kinds     map[eventlog.Kind]uint64
	Resources map[eventlog.Resource]uint64
	Outcomes  map[eventlog.Outcome]uint64
	// Epochs are the entries that begin an epoch, in order.
	Epochs []eventlog.Entry
}

// Tally counts a log from end to end. If the log has an index, it reads the entries that begin epochs and no others.
func (l *Log) Tally(ctx context.Context) (*Tally, error) {
	t := &Tally{Kinds: map[eventlog.Kind]uint64{}, Resources: map[eventlog.Resource]uint64{},
		Outcomes: map[eventlog.Outcome]uint64{}}
	x, err := l.source.Index(ctx)
	if err != nil {
		return nil, err
	}
	entries := l.Entries(ctx, Query{})
	if x != nil {
		entries = x.Pick(ctx, t.addUp(x.Facts()))
	}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if x == nil {
			t.count(e)
		}
		if e.Kind() == eventlog.KindEpochStarted {
			t.Epochs = append(t.Epochs, e)
		}
	}
	if x == nil {
		return t, nil
	}
	return t, l.damageAt(ctx, t.Last.Seq+1)
}

// addUp adds up the counts of an index, and returns the entries that begin epochs.
func (t *Tally) addUp(parts []index.Facts) (epochs []uint64) {
	for _, f := range parts {
		if t.Entries == 0 {
			t.First = Point{f.First, f.From}
		}
		t.Entries += f.Last - f.First + 1
		t.Last = Point{f.Last, f.To}
		add(t.Kinds, f.Kinds)
		add(t.Resources, f.Resources)
		add(t.Outcomes, f.Outcomes)
		epochs = append(epochs, f.Epochs...)
	}
	return epochs
}

func add[K comparable](sums, counts map[K]uint64) {
	// any order: sums
	for k, n := range counts {
		sums[k] += n
	}
}

// count counts an entry in.
func (t *Tally) count(e eventlog.Entry) {
	if t.Entries++; t.Entries == 1 {
		t.First = pointOf(e)
	}
	t.Last = pointOf(e)
	t.Kinds[e.Kind()]++
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		t.Resources[p.Resource]++
	case *eventlog.Decision:
		t.Outcomes[p.Outcome]++
	}
}
