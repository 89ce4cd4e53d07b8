package explain_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestExplanationsByAnIndexAreThoseOfTheWholeLog asks for every pod and gang of a simulation at many points.
func TestExplanationsByAnIndexAreThoseOfTheWholeLog(t *testing.T) {
	r := replaytest.Record(t, 7)
	source := recorded(r, 0)
	source.Lookup = replaytest.NewIndex(t, r.Log, 50)
	whole, quick := replaytest.NewSource(r.Log, plugins.NewRegistry()).Log(), source.Log()
	for at := uint64(1); at <= r.Last+24; at += 25 {
		opts := explain.Options{AtSeq: min(at, r.Last)}
		for _, name := range append(slices.Clone(r.Pods), r.Pods[0]+"-none", "none/none") {
			want, got := explainPod(whole, name, opts), explainPod(quick, name, opts)
			if got != want {
				t.Fatalf("pod %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
		for _, name := range append(slices.Clone(r.Groups), r.Groups[0]+"-none", "none/none") {
			want, got := explainGroup(whole, name, opts), explainGroup(quick, name, opts)
			if got != want {
				t.Fatalf("group %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
	}
	t.Logf("%d entries, %d states, %d picked", source.Entries, source.Restored, source.Lookup.Picked)
}

// suggestions are the names that a NotFoundError has beside the one that is missing.
var suggestions = regexp.MustCompile(`; did you mean [^?]*\?`)

func timeOf(entries []eventlog.Entry, seq uint64) eventlog.Time { return entries[seq-1].Time }

// TestExplanationsByAnIndexAreThoseOfAnyLog asks for every pod and gang of random histories.
func TestExplanationsByAnIndexAreThoseOfAnyLog(t *testing.T) {
	asked, entries, restored := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		s.Configure(configurationOfHistories)
		s.Step("node n0 cpu=4 gpu=2")
		for range rapid.IntRange(5, 30).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		if rapid.Bool().Draw(rt, "all end") {
			for _, p := range s.Machine().Cluster().Pods().All() {
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
		span := rapid.IntRange(1, 40).Draw(rt, "span")
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
			for _, p := range m.Cluster().Pods().All() {
				pods[p.Object.Namespace+"/"+p.Object.Name] = true
			}
			for _, name := range m.Cluster().Gangs().Names() {
				groups[name.String()] = true
			}
		}
		opts := explain.Options{AtSeq: rapid.Uint64Range(last/2, last).Draw(rt, "at")}
		if rapid.Bool().Draw(rt, "at a time") {
			opts.AtTime = timeOf(s.Entries(), opts.AtSeq)
			opts.AtSeq = 0
		}
		source := indexed(rt, s, span, states)
		whole, quick := wholeLog(s.Log()), source.Log()
		defer func() { entries, restored = entries+source.Entries, restored+source.Restored }()
		ofQuick := opts
		alike := func(text string) string { return text }
		if back := rapid.Uint64Range(0, 20).Draw(rt, "recent"); back > 0 {
			explain.LookBack(&ofQuick, back)
			alike = func(text string) string { return suggestions.ReplaceAllString(text, "") }
		}
		for _, name := range append(slices.Sorted(maps.Keys(pods)), "ml/other-", "none/g-0") {
			asked++
			want := alike(explainPod(whole, name, opts))
			got := alike(explainPod(quick, name, ofQuick))
			if got != want {
				rt.Fatalf("pod %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, opts.AtSeq, got, want)
			}
		}
		for _, name := range append(slices.Sorted(maps.Keys(groups)), "ml/other-", "none/g", "ml/c", "ml/c-none") {
			asked++
			want := alike(explainGroup(whole, name, opts))
			got := alike(explainGroup(quick, name, ofQuick))
			if got != want {
				rt.Fatalf("group %s at entry %d, by the index:\n%s\nfrom the whole log:\n%s", name, opts.AtSeq, got,
					want)
			}
		}
	})
	t.Logf("%d asked, %d entries, %d states", asked, entries, restored)
}
