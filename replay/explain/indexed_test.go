package explain_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// indexOf is an index of a log in memory, in parts of so many entries.
type indexOf struct {
	log    *eventlog.Memory
	parts  []*index.Part
	picked int
}

func newIndex(t testing.TB, log *eventlog.Memory, span int) *indexOf {
	t.Helper()
	x := &indexOf{log: log}
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

func (x *indexOf) Last() (uint64, error) { return x.log.Last() }

func (x *indexOf) Until(ctx context.Context, at eventlog.Time) (seq uint64, err error) {
	for e, err := range x.log.Read(ctx, 1) {
		if err != nil || e.Time > at {
			return seq, err
		}
		seq = e.Seq
	}
	return seq, nil
}

func (x *indexOf) Naming(_ context.Context, keys ...index.Key) (seqs []uint64, err error) {
	slices.Sort(keys)
	for _, p := range x.parts {
		seqs = p.Naming(slices.Compact(keys), seqs)
	}
	slices.Sort(seqs)
	return slices.Compact(seqs), nil
}

func (x *indexOf) Pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, seq := range seqs {
			x.picked++
			for e, err := range x.log.Read(ctx, seq) {
				if !yield(e, err) || err != nil {
					return
				}
				break
			}
		}
	}
}

// TestExplanationsByAnIndexAreThoseOfTheWholeLog asks for every pod and gang of a simulation at many points.
func TestExplanationsByAnIndexAreThoseOfTheWholeLog(t *testing.T) {
	r := replaytest.Record(t, 7)
	x := newIndex(t, r.Log, 50)
	var leaps explain.Counted
	for at := uint64(1); at <= r.Last+24; at += 25 {
		opts := explain.Options{Registry: plugins.NewRegistry(), AtSeq: min(at, r.Last)}
		quick := opts
		quick.Index, quick.Snapshots = x, slices.Sorted(maps.Keys(r.Snapshots))
		quick.Restore = func(last uint64) (*scheduler.Machine, error) { return r.Restore(t, 0, last), nil }
		leaps.Watch(&quick)
		for _, name := range append(slices.Clone(r.Pods), r.Pods[0]+"-none", "none/none") {
			want, got := explainPod(r.Log.Read, name, opts), explainPod(leaps.Read(r.Log.Read), name, quick)
			if got != want {
				t.Fatalf("pod %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
		for _, name := range append(slices.Clone(r.Groups), r.Groups[0]+"-none", "none/none") {
			want, got := explainGroup(r.Log.Read, name, opts), explainGroup(leaps.Read(r.Log.Read), name, quick)
			if got != want {
				t.Fatalf("group %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
	}
	t.Logf("%+v, %d picked", leaps, x.picked)
}

// suggestions are the names that a NotFoundError has beside the one that is missing.
var suggestions = regexp.MustCompile(`; did you mean [^?]*\?`)

func timeOf(entries []eventlog.Entry, seq uint64) eventlog.Time { return entries[seq-1].Time }

// TestExplanationsByAnIndexAreThoseOfAnyLog asks for every pod and gang of random histories.
func TestExplanationsByAnIndexAreThoseOfAnyLog(t *testing.T) {
	var leaps explain.Counted
	asked := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		s.Configure(configurationOfHistories)
		s.Step("node n0 cpu=4 gpu=2")
		for range rapid.IntRange(5, 30).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		if rapid.Bool().Draw(rt, "all end") {
			for _, p := range s.Machine().Cluster().AllPods() {
				s.Step("delete pods " + p.Object.Namespace + "/" + p.Object.Name)
			}
		}
		for i := range rapid.IntRange(5, 30).Draw(rt, "others") { // that mostly name none of the gangs
			kinds := []string{"pod", "pod", "pod", "advance 40s", "gone", "node", "any"}
			step := rapid.SampledFrom(kinds).Draw(rt, "other")
			switch step {
			case "pod":
				step = fmt.Sprintf("pod ml/other-%d cpu=1", i)
			case "gone":
				step = fmt.Sprintf("delete nodes n%d", rapid.IntRange(0, 3).Draw(rt, "gone"))
			case "node":
				step = fmt.Sprintf("node n%d cpu=4 gpu=2", rapid.IntRange(0, 3).Draw(rt, "again"))
			}
			if step == "any" {
				drawStep(rt, s)
			} else {
				s.Step(step)
			}
		}
		last, err := s.Log().Last()
		if err != nil {
			rt.Fatal(err)
		}
		x := newIndex(t, s.Log(), rapid.IntRange(1, 40).Draw(rt, "span"))
		states := map[uint64][]byte{}
		m := scheduler.New(transcripts.Registry())
		every := rapid.Uint64Range(1, 9).Draw(rt, "snapshots")
		pods, groups := map[string]bool{}, map[string]bool{}
		for _, e := range s.Entries() {
			if err := m.Apply(e); err != nil {
				rt.Fatal(err)
			}
			if e.Seq%every == 0 {
				if states[e.Seq], err = snapshot.Encode(m, [32]byte{}); err != nil {
					rt.Fatal(err)
				}
			}
			for _, p := range m.Cluster().AllPods() {
				pods[p.Object.Namespace+"/"+p.Object.Name] = true
			}
			for _, name := range m.Cluster().GroupNames() {
				groups[name.String()] = true
			}
		}
		opts := explain.Options{Registry: transcripts.Registry(), AtSeq: rapid.Uint64Range(last/2, last).Draw(rt, "at")}
		if rapid.Bool().Draw(rt, "at a time") {
			opts.AtTime = timeOf(s.Entries(), opts.AtSeq)
			opts.AtSeq = 0
		}
		quick := leaping(opts, x, states, &leaps)
		alike := func(text string) string { return text }
		if back := rapid.Uint64Range(0, 20).Draw(rt, "recent"); back > 0 {
			explain.LookBack(&quick, back)
			alike = func(text string) string { return suggestions.ReplaceAllString(text, "") } // those of late alone
		}
		for _, name := range append(slices.Sorted(maps.Keys(pods)), "ml/other-", "none/g-0") {
			asked++
			want := alike(explainPod(s.Log().Read, name, opts))
			got := alike(explainPod(leaps.Read(s.Log().Read), name, quick))
			if got != want {
				rt.Fatalf("pod %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, opts.AtSeq, got, want)
			}
		}
		for _, name := range append(slices.Sorted(maps.Keys(groups)), "ml/other-", "none/g", "ml/c", "ml/c-none") {
			asked++
			want := alike(explainGroup(s.Log().Read, name, opts))
			got := alike(explainGroup(leaps.Read(s.Log().Read), name, quick))
			if got != want {
				rt.Fatalf("group %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, opts.AtSeq, got,
					want)
			}
		}
	})
	t.Logf("%d asked, %+v", asked, leaps)
}
