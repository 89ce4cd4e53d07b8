package explain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// TestExplanationsFromASnapshotAreThoseOfTheWholeLog asks for every pod and gang at many points: the second reading
// begins at the newest snapshot that is old enough, and the answer is the same.
func TestExplanationsFromASnapshotAreThoseOfTheWholeLog(t *testing.T) {
	r := replaytest.Record(t, 5)
	began := map[bool]int{}
	source := recorded(r, 0)
	source.State = func(last uint64) (*scheduler.Machine, error) {
		m := r.Restore(t, 0, last)
		began[m != nil]++
		return m, nil
	}
	whole, quick := replaytest.NewSource(r.Log, plugins.NewRegistry()).Log(), source.Log()
	for at := uint64(1); at <= r.Last; at += 9 {
		opts := explain.Options{AtSeq: at}
		for _, name := range r.Pods {
			want, got := explainPod(whole, name, opts), explainPod(quick, name, opts)
			if got != want {
				t.Fatalf("pod %s at entry %d, from a snapshot:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
		for _, name := range r.Groups {
			want, got := explainGroup(whole, name, opts), explainGroup(quick, name, opts)
			if got != want {
				t.Fatalf("group %s at entry %d, from a snapshot:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
	}
	if began[true] < 100 {
		t.Errorf("%d explanations began at a snapshot, %d did not", began[true], began[false])
	}
}

// TestOfALogThatBeginsLaterWhatIsThereIsExplained asks a log that begins at a snapshot. The answer about the present
// equals the answer of the whole log, decisions after the snapshot included. It says that earlier history is not known.
func TestOfALogThatBeginsLaterWhatIsThereIsExplained(t *testing.T) {
	r := replaytest.Record(t, 20)
	unknown, known := 0, 0
	for base := range r.Snapshots {
		whole, part := replaytest.NewSource(r.Log, plugins.NewRegistry()).Log(), recorded(r, base).Log()
		for _, name := range r.Pods {
			namespace, pod, _ := strings.Cut(name, "/")
			want, err := explain.Pod(context.Background(), whole, namespace, pod, explain.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := explain.Pod(context.Background(), part, namespace, pod, explain.Options{})
			if want.Gone != nil && want.Gone.Seq <= base {
				if err == nil ||
					!strings.Contains(err.Error(), fmt.Sprintf("what is known of it begins with entry %d", base+1)) {
					t.Errorf("pod %s, gone before entry %d: %v", name, base, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("pod %s behind entry %d: %v", name, base, err)
			}
			if got.KnownFrom != base+1 {
				t.Errorf("pod %s behind entry %d is known from entry %d", name, base, got.KnownFrom)
			}
			if got.Stage != want.Stage || got.Node != want.Node || got.At != want.At ||
				asJSON(got.Queue) != asJSON(want.Queue) {
				t.Errorf("pod %s behind entry %d stands as %s, want %s", name, base, asJSON(got), asJSON(want))
			}
			switch {
			case want.Created.Seq > base && got.Created != want.Created:
				t.Errorf("pod %s behind entry %d was created at %v, want %v", name, base, got.Created, want.Created)
			case want.Decision != nil && want.Decision.Seq > base:
				known++
				if asJSON(got.Decision) != asJSON(want.Decision) {
					t.Errorf("pod %s behind entry %d has the decision %s, want %s", name, base, asJSON(got.Decision),
						asJSON(want.Decision))
				}
			case want.Decision != nil:
				unknown++
				var written strings.Builder
				err := render.Pod(&written, got)
				said := strings.Contains(written.String(), fmt.Sprintf("before entry %d", base+1))
				if err != nil || got.Decision != nil || !said {
					t.Errorf("pod %s behind entry %d: %v\n%s", name, base, err, &written)
				}
			}
		}
		for _, name := range r.Groups {
			checkGroupBehind(t, r, base, name, whole, part)
		}
	}
	if known < 20 || unknown < 20 {
		t.Errorf("%d decisions were there and %d were not: too few to show anything", known, unknown)
	}
}

func checkGroupBehind(t *testing.T, r *replaytest.Recording, base uint64, name string, whole, part *history.Log) {
	t.Helper()
	namespace, group, _ := strings.Cut(name, "/")
	want, err := explain.Group(context.Background(), whole, namespace, group, explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := explain.Group(context.Background(), part, namespace, group, explain.Options{})
	if want.Stage == "Gone" && err != nil {
		if !strings.Contains(err.Error(), fmt.Sprintf("what is known of it begins with entry %d", base+1)) {
			t.Errorf("group %s, gone before entry %d: %v", name, base, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("group %s behind entry %d: %v", name, base, err)
	}
	if got.Stage != want.Stage || asJSON(got.Members) != asJSON(want.Members) || got.KnownFrom != base+1 {
		t.Errorf("group %s behind entry %d: %s, want %s", name, base, asJSON(got), asJSON(want))
	}
	if seen := want.History.FirstSeen; seen.Seq > base && got.History.FirstSeen != seen || seen.Seq <= base &&
		got.History.FirstSeen.Seq != 0 {
		t.Errorf("group %s behind entry %d was first seen at %v, want %v", name, base, got.History.FirstSeen, seen)
	}
	for what, p := range map[string][2]*answer.Point{"complete": {got.History.Complete, want.History.Complete},
		"placed": {got.History.Placed, want.History.Placed}} {
		// A change before the snapshot is in effect already, or it was undone and came about again.
		if p[0] != nil && p[1].Seq <= base && p[0].Seq == base+1 {
			t.Errorf("group %s behind entry %d is %s at %v, and was at %v", name, base, what, p[0], p[1])
		}
	}
	var written strings.Builder
	if err := render.Group(&written, got); err != nil || strings.Contains(written.String(), "0001-01-01") ||
		strings.Contains(written.String(), "beginning,") {
		t.Errorf("group %s behind entry %d: %v\n%s", name, base, err, &written)
	}
}

// TestAPodThatCameWithItsNodeAndWentIsExplainedFromBefore has a pod without decisions, and a snapshot after it was
// gone, which does not have it.
func TestAPodThatCameWithItsNodeAndWentIsExplainedFromBefore(t *testing.T) {
	r := replaytest.Record(t, 1<<60) // no snapshot but this one
	node, pod := "", &v1.Pod{}
	var entries []eventlog.Entry
	for e, err := range r.Log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		up, ok := e.Payload.(*eventlog.Upserted)
		if !ok && e.Kind() != eventlog.KindEpochStarted {
			continue
		}
		if ok && up.Resource == eventlog.Nodes && node == "" {
			node = up.Object.GetName()
		} else if ok && up.Resource == eventlog.Pods {
			pod = up.Object.(*v1.Pod)
			pod.Spec.NodeName = node
		} else if ok {
			continue
		}
		e.Seq = uint64(len(entries)) + 1
		entries = append(entries, e)
		if pod.Name != "" {
			break
		}
	}
	last := entries[len(entries)-1]
	next := func(p eventlog.Payload) {
		entries = append(entries,
			eventlog.Entry{Seq: uint64(len(entries)) + 1, Epoch: last.Epoch, Time: last.Time, Payload: p})
	}
	next(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	next(&eventlog.Tick{})
	log := eventlog.NewMemory()
	if err := log.Append(context.Background(), 0, entries); err != nil {
		t.Fatal(err)
	}
	restore := func(last uint64) (*scheduler.Machine, error) {
		m := scheduler.New(plugins.NewRegistry())
		for e, err := range log.Read(context.Background(), 1) {
			if err == nil && e.Seq <= last {
				err = m.Apply(e)
			}
			if err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	source := replaytest.NewSource(log, plugins.NewRegistry())
	want := explainPod(source.Log(), pod.Namespace+"/"+pod.Name, explain.Options{})
	source.State = restore
	got := explainPod(source.Log(), pod.Namespace+"/"+pod.Name, explain.Options{})
	if got != want || !strings.Contains(got, node) || node == "" {
		t.Errorf("from a snapshot:\n%s\nfrom the whole log:\n%s", got, want)
	}
}

// TestAPointBeforeWhatIsKnownIsRefused asks a log for the time before its first state.
func TestAPointBeforeWhatIsKnownIsRefused(t *testing.T) {
	r := replaytest.Record(t, 50)
	part, opts := recorded(r, 100).Log(), explain.Options{}
	for name, change := range map[string]func(*explain.Options){
		"by number": func(o *explain.Options) { o.AtSeq = 99 },
		"by time":   func(o *explain.Options) { o.AtTime = eventlog.TimeOf(workload.Start) },
	} {
		t.Run(name, func(t *testing.T) {
			opts := opts
			change(&opts)
			_, err := explain.Pod(context.Background(), part, "default", "mistyped", opts)
			if err == nil ||
				!strings.Contains(err.Error(), "is before what is known: the first state is that after entry 100") {
				t.Errorf("error %v", err)
			}
		})
	}
	opts.AtSeq = 100
	if _, err := explain.Pod(context.Background(), part, "default", "mistyped", opts); err != nil &&
		!strings.Contains(err.Error(), "mistyped") {
		t.Errorf("at the first state itself: %v", err)
	}
}

func explainPod(log *history.Log, name string, opts explain.Options) string {
	namespace, pod, _ := strings.Cut(name, "/")
	x, err := explain.Pod(context.Background(), log, namespace, pod, opts)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	_ = render.Pod(&text, x)
	return asJSON(x) + "\n" + text.String()
}

func explainGroup(log *history.Log, name string, opts explain.Options) string {
	namespace, group, _ := strings.Cut(name, "/")
	x, err := explain.Group(context.Background(), log, namespace, group, opts)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	_ = render.Group(&text, x)
	return asJSON(x) + "\n" + text.String()
}

func asJSON(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
