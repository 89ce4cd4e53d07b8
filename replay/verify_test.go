package replay_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// gangLog is a small recorded log: gangs that fit, that must wait, and of which one is released; single pods;
// time that makes work.
func gangLog(t *testing.T) []eventlog.Entry {
	t.Helper()
	s := transcripts.New(t)
	for _, line := range []string{
		"node n1 cpu=4", "node n2 cpu=4", "node n3 cpu=2",
		"group ml/red min=3", "pod ml/red-0 cpu=3 group=red", "pod ml/red-1 cpu=3 group=red",
		"pod ml/red-2 cpu=2 group=red",
		"pod ml/wide cpu=9", "group ml/blue min=2", "pod ml/blue-0 cpu=3 group=blue", "pod ml/blue-1 cpu=3 group=blue",
		"advance 5s", "pod ml/single cpu=1", "delete pods ml/red-0", "delete pods ml/red-1", "delete pods ml/red-2",
		"advance 1m",
		"group ml/green min=3", "pod ml/green-0 cpu=1 group=green", "pod ml/green-1 cpu=1 group=green",
		"pod ml/green-2 cpu=2 group=green",
		"node n4 cpu=16", "advance 10s", "advance 6m",
		// Several inputs of one step: only before the first of them was there nothing left to decide.
		"pod ml/x cpu=1; node n5 cpu=1; pod ml/y cpu=1",
	} {
		s.Step(line)
	}
	return s.Entries()
}

// verify decides the entries again. They go through a log first, as a person who changed them would have written them.
func verify(t testing.TB, entries []eventlog.Entry) replay.Report {
	t.Helper()
	log := eventlog.NewMemory()
	if err := log.Append(context.Background(), 0, entries); err != nil {
		t.Fatal(err)
	}
	report, err := replay.Verify(
		context.Background(),
		log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()},
	)
	if err != nil {
		t.Fatal(err)
	}
	if report.Diverged < uint64(len(report.Divergences)) || report.Identical() != (len(report.Divergences) == 0) {
		t.Fatalf("the report contradicts itself: %+v", report)
	}
	return report
}

// wantFirst has the report's first divergence be of that kind, at that entry, on that pod, in that field.
func wantFirst(t *testing.T, report replay.Report, kind replay.Kind, seq uint64, pod, field string) replay.Divergence {
	t.Helper()
	if report.Identical() {
		t.Fatalf("identical, want %s at entry %d", kind, seq)
	}
	d := report.Divergences[0]
	if d.Kind != kind || d.Seq != seq || d.Pod != pod || d.Field != field {
		t.Fatalf("the first divergence is %s at entry %d on pod %q in %q (%s), want %s at entry %d on pod %q in %q",
			d.Kind, d.Seq, d.Pod, d.Field, d, kind, seq, pod, field)
	}
	return d
}

// decisions returns the places of the entries that hold decisions.
func decisions(entries []eventlog.Entry) []int {
	var at []int
	for i, e := range entries {
		if e.Kind() == eventlog.KindDecision {
			at = append(at, i)
		}
	}
	return at
}

// with returns the entries with one decision changed.
func with(entries []eventlog.Entry, at int, change func(*eventlog.Decision)) []eventlog.Entry {
	out := slices.Clone(entries)
	d := *entries[at].Payload.(*eventlog.Decision)
	d.Rejections, d.WaitFor, d.Approvals = slices.Clone(d.Rejections), slices.Clone(d.WaitFor),
		slices.Clone(d.Approvals)
	d.Allowed, d.Rejected, d.Victims = slices.Clone(d.Allowed), slices.Clone(d.Rejected), slices.Clone(d.Victims)
	change(&d)
	out[at].Payload = &d
	return out
}

// renumbered gives the entries sequence numbers without a gap, and the decisions cycles, as a forger would.
func renumbered(entries []eventlog.Entry) []eventlog.Entry {
	out := slices.Clone(entries)
	cycle := uint64(0)
	for i := range out {
		out[i].Seq = uint64(i + 1)
		if d, ok := out[i].Payload.(*eventlog.Decision); ok {
			cycle++
			forged := *d
			forged.Cycle = cycle
			out[i].Payload = &forged
		}
	}
	return out
}

func TestARecordedLogIsIdenticalHoweverOftenItIsDecidedAgain(t *testing.T) {
	entries := gangLog(t)
	first := verify(t, entries)
	if !first.Identical() || first.Undecided {
		t.Fatalf("a log that nobody changed diverges: %+v", first)
	}
	if n := len(decisions(entries)); first.Entries != uint64(len(entries)) || first.LastSeq != first.Entries ||
		first.Decisions != uint64(n) {
		t.Errorf("checked are %d entries up to %d and %d decisions, the log has %d and %d", first.Entries,
			first.LastSeq, first.Decisions, len(entries), n)
	}
	if second := verify(t, entries); !reflect.DeepEqual(first, second) {
		t.Errorf("the same log in the same process gives %+v, then %+v", first, second)
	}
}

// TestEveryChangedFieldIsNamed changes one field of each decision that has it, and nothing else.
func TestEveryChangedFieldIsNamed(t *testing.T) {
	entries := gangLog(t)
	for _, c := range []struct {
		field  string
		change func(*eventlog.Decision)
	}{
		{"cycle", func(d *eventlog.Decision) { d.Cycle += 3 }},
		{"pod", func(d *eventlog.Decision) { d.Name += "x" }},
		{"pod", func(d *eventlog.Decision) { d.Namespace = "other" }},
		{"uid", func(d *eventlog.Decision) { d.UID = otherPod(entries, d.UID) }},
		{"group", func(d *eventlog.Decision) { d.Group += "x" }},
		{"outcome", func(d *eventlog.Decision) { d.Outcome = eventlog.Error }},
		{"node", func(d *eventlog.Decision) {
			d.Node = map[string]string{"": "n1", "n1": "n2", "n2": "n1", "n3": "n1", "n4": "n1"}[d.Node]
		}},
		{"node", func(d *eventlog.Decision) { d.Node = "nowhere" }},
		{"score", func(d *eventlog.Decision) { d.Score-- }},
		{"evaluated", func(d *eventlog.Decision) { d.Evaluated++ }},
		{"feasible", func(d *eventlog.Decision) { d.Feasible++ }},
		{"rejections", func(d *eventlog.Decision) {
			d.Rejections = append(d.Rejections,
				eventlog.Rejection{Plugin: "ZZZ"})
		}},
		{"waitUntil", func(d *eventlog.Decision) { d.WaitUntil++ }},
		{"waitFor", func(d *eventlog.Decision) { d.WaitFor = append(d.WaitFor, "ZZZ") }},
		{"approvals", func(d *eventlog.Decision) {
			d.Approvals = append(d.Approvals, eventlog.Approval{UID: d.UID, Plugin: "ZZZ"})
		}},
		{"allowed", func(d *eventlog.Decision) { d.Allowed = append(d.Allowed, d.UID) }},
		{"rejected", func(d *eventlog.Decision) { d.Rejected = append(d.Rejected, d.UID) }},
		{"victims", func(d *eventlog.Decision) { d.Victims = append(d.Victims, d.UID) }},
		{"nominated", func(d *eventlog.Decision) { d.Nominated = "n1" }},
		{"volumes", func(d *eventlog.Decision) { d.Volumes = []eventlog.VolumeClaim{{Claim: "c"}} }},
	} {
		t.Run(c.field, func(t *testing.T) {
			for _, at := range decisions(entries) {
				changed := with(entries, at, c.change)
				d := changed[at].Payload.(*eventlog.Decision)
				wantFirst(t, verify(t, changed), replay.Differs, entries[at].Seq, d.Namespace+"/"+d.Name, c.field)
			}
		})
	}
}

// otherPod returns the UID of a pod that is not the one given.
func otherPod(entries []eventlog.Entry, uid types.UID) types.UID {
	for _, e := range entries {
		if d, ok := e.Payload.(*eventlog.Decision); ok && d.UID != uid {
			return d.UID
		}
	}
	return ""
}

func TestAChangedNodeIsToldWithBothValues(t *testing.T) {
	entries := gangLog(t)
	at := decisions(entries)[0]
	d := wantFirst(t, verify(t, with(entries, at, func(d *eventlog.Decision) { d.Node = "n3" })), replay.Differs,
		entries[at].Seq, "ml/red-0", "node")
	if d.Recorded != `"n3"` || d.Decided != `"n1"` {
		t.Errorf("recorded %s, decided %s, want n3 and n1", d.Recorded, d.Decided)
	}
	for _, want := range []string{"ml/red-0", "node", "n3", "n1"} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("%q does not say %s", d, want)
		}
	}
}

func TestOneDivergenceDoesNotBecomeMany(t *testing.T) {
	entries := gangLog(t)
	for _, at := range decisions(entries) {
		report := verify(t, with(entries, at, func(d *eventlog.Decision) { d.Score++ }))
		if report.Diverged != 1 || report.Entries != uint64(len(entries)) || report.Hash == "" {
			t.Errorf("with another score at entry %d there are %d divergences in %d entries, want 1 in %d",
				entries[at].Seq, report.Diverged, report.Entries, len(entries))
		}
	}
}

// TestARemovedDecisionIsMissing removes one decision. The last one of a step is missing before the next step's input. A
// decision with others behind it is missing before the others, whose cycles show it.
func TestARemovedDecisionIsMissing(t *testing.T) {
	entries := gangLog(t)
	lasts, others := 0, 0
	for _, at := range decisions(entries) {
		if at+1 == len(entries) {
			continue
		}
		removed := entries[at].Payload.(*eventlog.Decision)
		pod := removed.Namespace + "/" + removed.Name
		without := append(slices.Clone(entries[:at]), entries[at+1:]...)
		if next, ok := entries[at+1].Payload.(*eventlog.Decision); !ok {
			lasts++
			wantFirst(t, verify(t, renumbered(without)), replay.Missing, entries[at].Seq, pod, "")
		} else if next.UID != removed.UID {
			others++
			for i := range without {
				without[i].Seq = uint64(i + 1)
			}
			wantFirst(t, verify(t, without), replay.Missing, entries[at].Seq, pod, "")
			wantFirst(t, verify(t, renumbered(without)), replay.Differs, entries[at].Seq, next.Namespace+"/"+next.Name,
				"pod")
		}
	}
	if lasts == 0 || others == 0 {
		t.Fatalf("removed were %d last decisions of a step and %d others: nothing was tested", lasts, others)
	}
}

// TestAnInsertedDecisionIsExtra puts a decision of the log in a second time, where nothing was to be decided and
// where another decision was.
func TestAnInsertedDecisionIsExtra(t *testing.T) {
	entries := gangLog(t)
	for _, at := range decisions(entries) {
		d := entries[at].Payload.(*eventlog.Decision)
		pod := d.Namespace + "/" + d.Name
		twice := slices.Insert(slices.Clone(entries), at+1, entries[at])
		for i := range twice {
			twice[i].Seq = uint64(i + 1)
		}
		wantFirst(t, verify(t, twice), replay.Extra, entries[at].Seq+1, pod, "")
		if at+1 < len(entries) && entries[at+1].Kind() != eventlog.KindDecision {
			wantFirst(t, verify(t, renumbered(twice)), replay.Extra, entries[at].Seq+1, pod, "")
		}
	}
}

func TestAnUnusableEntryEndsTheReplay(t *testing.T) {
	entries := gangLog(t)
	at := decisions(entries)[1]
	for _, c := range []struct {
		name    string
		entries []eventlog.Entry
		seq     uint64
		pod     string
		want    string
	}{
		{"a decision on a pod that never was", with(entries, at, func(d *eventlog.Decision) { d.UID = "nobody" }),
			entries[at].Seq, "ml/red-1", "no entry has brought such a pod"},
		{"no epoch", renumbered(entries[1:]), 1, "", "EpochStarted"},
		{"time that goes back", func() []eventlog.Entry {
			bad := slices.Clone(entries)
			bad[2].Time--
			return bad
		}(), 3, "", "before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := verify(t, c.entries)
			if report.Identical() {
				t.Fatal("identical")
			}
			d := report.Divergences[len(report.Divergences)-1]
			if d.Kind != replay.Unusable || d.Seq != c.seq || d.Pod != c.pod || !strings.Contains(d.String(), c.want) ||
				report.LastSeq != c.seq-1 {
				t.Errorf("the last divergence is %+v after entry %d, want an unusable entry %d on pod %q with %q", d,
					report.LastSeq, c.seq, c.pod, c.want)
			}
		})
	}
}

// TestAChangedInputShowsWhereADecisionDependsOnIt changes an input of the log.
func TestAChangedInputShowsWhereADecisionDependsOnIt(t *testing.T) {
	entries := gangLog(t)
	first := entries[decisions(entries)[0]]
	for i, e := range entries {
		up, ok := e.Payload.(*eventlog.Upserted)
		if !ok || up.Object.GetName() != "n1" {
			continue
		}
		smaller := up.Object.DeepCopyObject().(*v1.Node)
		smaller.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("3500m")
		changed := slices.Clone(entries)
		changed[i].Payload = &eventlog.Upserted{Resource: up.Resource, Object: smaller}
		wantFirst(t, verify(t, changed), replay.Differs, first.Seq, "ml/red-0", "node")
		return
	}
	t.Fatal("no node n1 in the log")
}

// TestNothingBesidesTheLogIsRead replays a log whose configuration is not the default one.
func TestNothingBesidesTheLogIsRead(t *testing.T) {
	s := transcripts.New(t)
	s.Configure(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
`)
	for _, line := range []string{"node n1 cpu=8", "node n2 cpu=4", "pod ml/a cpu=1 scheduler=packer",
		"pod ml/b cpu=1 scheduler=default-scheduler"} {
		s.Step(line)
	}
	report, err := replay.Verify(
		context.Background(),
		s.Log().Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()},
	)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Identical() || report.Decisions != 1 {
		t.Errorf("report is %+v, want one decision, identical", report)
	}
}

func TestALogThatEndsInTheMiddleIsUndecidedAndNoDivergence(t *testing.T) {
	entries := gangLog(t)
	for _, at := range decisions(entries) {
		report := verify(t, entries[:at])
		if !report.Identical() || !report.Undecided {
			t.Errorf("the log up to entry %d: identical %v, undecided %v, want both", at, report.Identical(),
				report.Undecided)
		}
	}
	if report := verify(t, nil); !report.Identical() || report.Undecided || report.Entries != 0 {
		t.Errorf("an empty log gives %+v", report)
	}
}

// TestNoTamperingGoesUnnoticedOrPanics changes decisions in ways that make no sense.
func TestNoTamperingGoesUnnoticedOrPanics(t *testing.T) {
	entries := gangLog(t)
	var uids []types.UID
	for _, e := range entries {
		if up, ok := e.Payload.(*eventlog.Upserted); ok && up.Resource == eventlog.Pods {
			uids = append(uids, up.Object.GetUID())
		}
	}
	at := rapid.SampledFrom(decisions(entries))
	uid := rapid.SampledFrom(append(uids, "nobody"))
	count := rapid.SampledFrom([]int64{-1 << 63, -1, 0, 1, 1 << 40, 1<<63 - 1})
	rapid.Check(t, func(r *rapid.T) {
		changed := with(entries, at.Draw(r, "decision"), func(d *eventlog.Decision) {
			original := *d
			for reflect.DeepEqual(original, *d) {
				switch rapid.IntRange(0, 9).Draw(r, "field") {
				case 0:
					d.Outcome = eventlog.Outcome(rapid.IntRange(1, 4).Draw(r, "outcome"))
				case 1:
					d.Node = rapid.SampledFrom([]string{"", "n1", "n2", "n3", "nowhere"}).Draw(r, "node")
				case 2:
					d.Evaluated = count.Draw(r, "evaluated")
				case 3:
					d.UID = uid.Draw(r, "uid")
				case 4:
					d.Allowed = append(d.Allowed, uid.Draw(r, "allowed"))
				case 5:
					d.Rejected = append(d.Rejected, uid.Draw(r, "rejected"))
				case 6:
					d.Victims = append(d.Victims, uid.Draw(r, "victim"))
				case 7:
					d.WaitFor = rapid.SliceOfN(rapid.SampledFrom([]string{"Coscheduling", "ZZZ", ""}), 1, 2).Draw(r,
						"waitFor")
				case 8:
					d.WaitUntil = eventlog.Time(count.Draw(r, "waitUntil"))
				case 9:
					d.Volumes = append(d.Volumes, eventlog.VolumeClaim{Claim: "c", Volume: "v"})
				}
			}
		})
		log := eventlog.NewMemory()
		if err := log.Append(context.Background(), 0, changed); err != nil {
			return // the format does not hold it
		}
		report, err := replay.Verify(
			context.Background(),
			log.Read(context.Background(), 1),
			replay.Options{Registry: plugins.NewRegistry()},
		)
		if err != nil {
			r.Fatal(err)
		}
		if report.Identical() {
			r.Fatal("identical")
		}
	})
}

// TestNoRearrangementPanics removes entries, doubles them, and swaps them. The effect of a removed input cannot be
// known, but any log is read to its end.
func TestNoRearrangementPanics(t *testing.T) {
	entries := gangLog(t)
	rapid.Check(t, func(r *rapid.T) {
		changed := slices.Clone(entries)
		for range rapid.IntRange(1, 4).Draw(r, "changes") {
			at := rapid.IntRange(1, len(changed)-1)
			i := at.Draw(r, "entry")
			switch rapid.IntRange(0, 2).Draw(r, "change") {
			case 0:
				changed = slices.Delete(changed, i, i+1)
			case 1:
				changed = slices.Insert(changed, i, changed[i])
			case 2:
				j := at.Draw(r, "with")
				changed[i], changed[j] = changed[j], changed[i]
			}
		}
		for i := range changed {
			changed[i].Time = entries[0].Time
		}
		verify(t, renumbered(changed))
	})
}

func TestVerifyReturnsWhatReadingSays(t *testing.T) {
	entries := gangLog(t)
	damage := &eventlog.DamagedError{Seq: 3, Err: errors.New("torn")}
	var read iter.Seq2[eventlog.Entry, error] = func(yield func(eventlog.Entry, error) bool) {
		_ = yield(entries[0], nil) && yield(entries[1], nil) && yield(eventlog.Entry{}, damage)
	}
	report, err := replay.Verify(context.Background(), read, replay.Options{Registry: plugins.NewRegistry()})
	if !errors.Is(err, damage) || report.LastSeq != 2 {
		t.Errorf("the error is %v after entry %d, want the damage after 2", err, report.LastSeq)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := replay.Verify(ctx, read, replay.Options{Registry: plugins.NewRegistry()}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled, the error is %v", err)
	}
}

func TestNotMoreDivergencesAreKeptThanAskedFor(t *testing.T) {
	entries := gangLog(t)
	for _, at := range decisions(entries) {
		entries = with(entries, at, func(d *eventlog.Decision) { d.Score += 5 })
	}
	report, err := replay.Verify(context.Background(), func(yield func(eventlog.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}, replay.Options{Registry: plugins.NewRegistry(), Keep: 2})
	if err != nil || len(report.Divergences) != 2 || report.Diverged != uint64(len(decisions(entries))) {
		t.Errorf("kept are %d of %d divergences (%v), want 2 of %d", len(report.Divergences), report.Diverged, err,
			len(decisions(entries)))
	}
}
