package replay_test

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// inParts is a log in memory that is verified in parts.
type inParts struct {
	entries []eventlog.Entry
	states  map[uint64][]byte
	hashes  map[uint64][32]byte
}

func recordInParts(t *testing.T) *inParts {
	t.Helper()
	r := replaytest.Record(t, 20)
	p := &inParts{states: r.Snapshots, hashes: map[uint64][32]byte{}}
	for e, err := range r.Log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		p.entries = append(p.entries, e)
	}
	for seq := range r.Snapshots {
		p.hashes[seq] = p.load(t, seq).StateHash
	}
	return p
}

func (p *inParts) load(t *testing.T, seq uint64) *snapshot.Snapshot {
	t.Helper()
	snap, err := snapshot.Decode(p.states[seq])
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func (p *inParts) read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, e := range p.entries[from-1:] {
			if err := ctx.Err(); err != nil {
				yield(eventlog.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// verify verifies the log in one part and in several, behind an entry, and compares the reports.
func (p *inParts) verify(t *testing.T, workers int, behind uint64) (replay.Report, int) {
	t.Helper()
	begin := func() (*scheduler.Machine, error) {
		if behind == 0 {
			return nil, nil
		}
		return p.load(t, behind).Restore(plugins.NewRegistry())
	}
	opts := replay.Options{Registry: plugins.NewRegistry(), Keep: 3, States: p.hashes}
	whole := opts
	whole.Start, _ = begin()
	want, err := replay.Verify(t.Context(), p.read(t.Context(), behind+1), whole)
	if err != nil {
		t.Fatal(err)
	}
	got, parts, err := replay.VerifyParallel(t.Context(), replay.Parallel{
		Workers: workers, Begin: begin, Read: p.read, Last: uint64(len(p.entries)),
		Load: func(seq uint64) (*snapshot.Snapshot, error) { return p.load(t, seq), nil },
	}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("in %d parts:\n%+v\nin one:\n%+v", parts, got, want)
	}
	return want, parts
}

func TestAReportOfManyPartsIsThatOfOne(t *testing.T) {
	p := recordInParts(t)
	for workers := range 5 {
		for _, behind := range []uint64{0, 40} {
			report, parts := p.verify(t, workers, behind)
			if workers > 1 && parts < 2 || workers < 2 && parts != 1 {
				t.Errorf("%d workers behind entry %d: %d parts", workers, behind, parts)
			}
			if !report.Identical() || len(report.OtherStates) > 0 {
				t.Errorf("%+v", report)
			}
		}
	}
}

// altered returns the log with another decision in the place of some, so that the states behind it are others, too.
func (p *inParts) altered(change func(*eventlog.Decision), at ...int) *inParts {
	q := &inParts{entries: slices.Clone(p.entries), states: p.states, hashes: p.hashes}
	var decisions []int
	for i, e := range p.entries {
		if d, ok := e.Payload.(*eventlog.Decision); ok && d.Node != "" {
			decisions = append(decisions, i)
		}
	}
	for _, n := range at {
		i := decisions[n%len(decisions)]
		d := *p.entries[i].Payload.(*eventlog.Decision)
		change(&d)
		q.entries[i].Payload = &d
	}
	return q
}

func TestAReportOfManyPartsHasTheDivergencesOfOne(t *testing.T) {
	p := recordInParts(t)
	scored := p.altered(func(d *eventlog.Decision) { d.Score++ }, 3, 4, 10, 20, 30) // which is no state
	if report, parts := scored.verify(t, 3, 0); report.Diverged != 5 || len(report.Divergences) != 3 || parts < 2 {
		t.Errorf("%d parts: %+v", parts, report)
	}
	unknown := p.altered(func(d *eventlog.Decision) { d.UID = "nobody" }, 12)
	if report, _ := unknown.verify(t, 3, 0); report.Hash != "" {
		t.Errorf("nothing ends the replay: %+v", report)
	}
}

// A part whose snapshot is not what the entries before it make does not count: what is behind it is verified from the
// state that they do make.
func TestAPartThatBeginsWithAWrongStateDoesNotCount(t *testing.T) {
	p := recordInParts(t)
	labelled := &inParts{entries: slices.Clone(p.entries), states: p.states, hashes: p.hashes}
	for i, e := range p.entries {
		up, ok := e.Payload.(*eventlog.Upserted)
		if !ok || up.Resource != eventlog.Pods {
			continue
		}
		pod := up.Object.(*v1.Pod).DeepCopy()
		pod.Annotations = map[string]string{"it": "is another one"}
		labelled.entries[i].Payload = &eventlog.Upserted{Resource: up.Resource, Object: pod}
		break
	}
	report, _ := labelled.verify(t, 2, 0)
	if len(report.OtherStates) == 0 {
		t.Errorf("all snapshots are of the altered log: %+v", report)
	}
	for seq := range p.hashes {
		q := &inParts{entries: p.entries, states: p.states, hashes: map[uint64][32]byte{}}
		for other, hash := range p.hashes {
			q.hashes[other] = hash
		}
		q.hashes[seq] = [32]byte{1}
		if report, _ := q.verify(t, 2, 0); fmt.Sprint(report.OtherStates) != fmt.Sprint([]uint64{seq}) {
			t.Errorf("the state of entry %d is wrong: %+v", seq, report)
		}
	}
}
