package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A recording is a simulated log with a snapshot every few entries.
type recording struct {
	log       *eventlog.Memory
	last      uint64
	snapshots map[uint64][]byte
	pods      []string
	groups    []string
}

func record(t testing.TB, every uint64) *recording {
	t.Helper()
	nodes, work, err := sim.Demo()
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{log: eventlog.NewMemory(), snapshots: map[uint64][]byte{}}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.Open(context.Background(), r.log, sim.Start, engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Run(context.Background(), eng, func(sim.Progress) {}); err != nil {
		t.Fatal(err)
	}
	m := scheduler.New(plugins.NewRegistry())
	for e, err := range r.log.Read(1) {
		if err == nil {
			err = m.Apply(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.see(e)
		if e.Seq%every == 0 {
			if r.snapshots[e.Seq], err = snapshot.Encode(m, [32]byte{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// see notes the names in an entry.
func (r *recording) see(e eventlog.Entry) {
	r.last = e.Seq
	up, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return
	}
	name := up.Object.GetNamespace() + "/" + up.Object.GetName()
	if _, ok := up.Object.(*v1.Pod); ok && !slices.Contains(r.pods, name) {
		r.pods = append(r.pods, name)
	}
	if strings.HasPrefix(string(up.Resource), "podgroups") && !slices.Contains(r.groups, name) {
		r.groups = append(r.groups, name)
	}
}

// restore returns the newest state from first to last of which there is a snapshot.
func (r *recording) restore(t testing.TB, first, last uint64) *scheduler.Machine {
	t.Helper()
	for seq := last; seq >= max(first, 1); seq-- {
		data, ok := r.snapshots[seq]
		if !ok {
			continue
		}
		s, err := snapshot.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Restore(plugins.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	return nil
}

// from returns a Reader of the entries behind base; it is an error to ask for others.
func (r *recording) from(base uint64) replay.Reader {
	return func(from uint64) iter.Seq2[eventlog.Entry, error] {
		if from <= base {
			return func(yield func(eventlog.Entry, error) bool) {
				yield(eventlog.Entry{}, fmt.Errorf("entry %d is not there", from))
			}
		}
		return r.log.Read(from)
	}
}

// TestReplayFromEverySnapshotEndsInTheSameState replays from each snapshot on, and once with a decision that was
// changed behind it.
func TestReplayFromEverySnapshotEndsInTheSameState(t *testing.T) {
	r := record(t, 10)
	whole, err := replay.Verify(context.Background(), r.log.Read(1), replay.Options{Registry: plugins.NewRegistry()})
	if err != nil || !whole.Identical() {
		t.Fatalf("%+v, %v", whole, err)
	}
	for seq := range r.snapshots {
		got, err := replay.Verify(context.Background(), r.from(seq)(seq+1), replay.Options{Registry: plugins.NewRegistry(), Start: r.restore(t, seq, seq)})
		if err != nil || !got.Identical() || got.Hash != whole.Hash || got.Start != seq || got.Entries != r.last-seq {
			t.Errorf("from entry %d: %+v, %v", seq, got, err)
		}
		changed := func(yield func(eventlog.Entry, error) bool) {
			done := false
			for e, err := range r.log.Read(seq + 1) {
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
		got, err = replay.Verify(context.Background(), changed, replay.Options{Registry: plugins.NewRegistry(), Start: r.restore(t, seq, seq)})
		if err != nil || got.Identical() && got.Decisions > 0 {
			t.Errorf("from entry %d, with a change: %+v, %v", seq, got, err)
		}
	}
}

// TestExplanationsFromASnapshotAreThoseOfTheWholeLog asks for every pod and gang at many points: the second reading
// begins at the newest snapshot that is old enough, and the answer is the same.
func TestExplanationsFromASnapshotAreThoseOfTheWholeLog(t *testing.T) {
	r := record(t, 5)
	began := map[bool]int{}
	for at := uint64(1); at <= r.last; at += 9 {
		opts := replay.ExplainOptions{Registry: plugins.NewRegistry(), AtSeq: at}
		quick := opts
		quick.Restore = func(last uint64) (*scheduler.Machine, error) {
			m := r.restore(t, 0, last)
			began[m != nil]++
			return m, nil
		}
		for _, name := range r.pods {
			want, got := explainPod(r.log.Read, name, opts), explainPod(r.log.Read, name, quick)
			if got != want {
				t.Fatalf("pod %s at entry %d, from a snapshot:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
		for _, name := range r.groups {
			want, got := explainGroup(r.log.Read, name, opts), explainGroup(r.log.Read, name, quick)
			if got != want {
				t.Fatalf("group %s at entry %d, from a snapshot:\n%s\nfrom the whole log:\n%s", name, at, got, want)
			}
		}
	}
	if began[true] < 100 {
		t.Errorf("%d explanations began at a snapshot, %d did not", began[true], began[false])
	}
}

// TestOfALogThatBeginsLaterWhatIsThereIsExplained asks a log of which only what follows a snapshot is there: where
// things stand is said as the whole log says it, decisions behind the snapshot too, and what lies before is said
// not to be known.
func TestOfALogThatBeginsLaterWhatIsThereIsExplained(t *testing.T) {
	r := record(t, 20)
	unknown, known := 0, 0
	for base := range r.snapshots {
		whole := replay.ExplainOptions{Registry: plugins.NewRegistry()}
		part := whole
		part.Base = base
		part.Restore = func(last uint64) (*scheduler.Machine, error) { return r.restore(t, base, last), nil }
		for _, name := range r.pods {
			namespace, pod, _ := strings.Cut(name, "/")
			want, err := replay.ExplainPod(context.Background(), r.log.Read, namespace, pod, whole)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay.ExplainPod(context.Background(), r.from(base), namespace, pod, part)
			if want.Gone != nil && want.Gone.Seq <= base {
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("what is known of it begins with entry %d", base+1)) {
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
			if got.Stage != want.Stage || got.Node != want.Node || got.At != want.At || asJSON(got.Queue) != asJSON(want.Queue) {
				t.Errorf("pod %s behind entry %d stands as %s, want %s", name, base, asJSON(got), asJSON(want))
			}
			switch {
			case want.Created.Seq > base && got.Created != want.Created:
				t.Errorf("pod %s behind entry %d was created at %v, want %v", name, base, got.Created, want.Created)
			case want.Decision != nil && want.Decision.Seq > base:
				known++
				if asJSON(got.Decision) != asJSON(want.Decision) {
					t.Errorf("pod %s behind entry %d has the decision %s, want %s", name, base, asJSON(got.Decision), asJSON(want.Decision))
				}
			case want.Decision != nil:
				unknown++
				var text strings.Builder
				if err := got.WriteText(&text); err != nil || got.Decision != nil || !strings.Contains(text.String(), fmt.Sprintf("before entry %d", base+1)) {
					t.Errorf("pod %s behind entry %d: %v\n%s", name, base, err, &text)
				}
			}
		}
		for _, name := range r.groups {
			r.checkGroupBehind(t, base, name, whole, part)
		}
	}
	if known < 20 || unknown < 20 {
		t.Errorf("%d decisions were there and %d were not: too few to show anything", known, unknown)
	}
}

func (r *recording) checkGroupBehind(t *testing.T, base uint64, name string, whole, part replay.ExplainOptions) {
	t.Helper()
	namespace, group, _ := strings.Cut(name, "/")
	want, err := replay.ExplainGroup(context.Background(), r.log.Read, namespace, group, whole)
	if err != nil {
		t.Fatal(err)
	}
	got, err := replay.ExplainGroup(context.Background(), r.from(base), namespace, group, part)
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
	if seen := want.History.FirstSeen; seen.Seq > base && got.History.FirstSeen != seen || seen.Seq <= base && got.History.FirstSeen.Seq != 0 {
		t.Errorf("group %s behind entry %d was first seen at %v, want %v", name, base, got.History.FirstSeen, seen)
	}
	for what, p := range map[string][2]*replay.Point{"complete": {got.History.Complete, want.History.Complete}, "placed": {got.History.Placed, want.History.Placed}} {
		// What came about before is so already, or is so no more and was so a second time.
		if p[0] != nil && p[1].Seq <= base && p[0].Seq == base+1 {
			t.Errorf("group %s behind entry %d is %s at %v, and was at %v", name, base, what, p[0], p[1])
		}
	}
	var text strings.Builder
	if err := got.WriteText(&text); err != nil || strings.Contains(text.String(), "0001-01-01") || strings.Contains(text.String(), "beginning,") {
		t.Errorf("group %s behind entry %d: %v\n%s", name, base, err, &text)
	}
}

// TestAPodThatCameWithItsNodeAndWentIsExplainedFromBefore has nothing decided on a pod, and a snapshot after it
// was gone, which knows nothing of it.
func TestAPodThatCameWithItsNodeAndWentIsExplainedFromBefore(t *testing.T) {
	r := record(t, 1<<60) // no snapshot but this one
	node, pod := "", &v1.Pod{}
	var entries []eventlog.Entry
	for e, err := range r.log.Read(1) {
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
		entries = append(entries, eventlog.Entry{Seq: uint64(len(entries)) + 1, Epoch: last.Epoch, Time: last.Time, Payload: p})
	}
	next(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	next(&eventlog.Tick{})
	log := eventlog.NewMemory()
	if err := log.Append(0, entries); err != nil {
		t.Fatal(err)
	}
	restore := func(last uint64) (*scheduler.Machine, error) {
		m := scheduler.New(plugins.NewRegistry())
		for e, err := range log.Read(1) {
			if err == nil && e.Seq <= last {
				err = m.Apply(e)
			}
			if err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	opts := replay.ExplainOptions{Registry: plugins.NewRegistry()}
	want := explainPod(log.Read, pod.Namespace+"/"+pod.Name, opts)
	opts.Restore = restore
	if got := explainPod(log.Read, pod.Namespace+"/"+pod.Name, opts); got != want || !strings.Contains(got, node) || node == "" {
		t.Errorf("from a snapshot:\n%s\nfrom the whole log:\n%s", got, want)
	}
}

// TestAPointBeforeWhatIsKnownIsRefused asks a log for the time before its first state.
func TestAPointBeforeWhatIsKnownIsRefused(t *testing.T) {
	r := record(t, 50)
	opts := replay.ExplainOptions{Registry: plugins.NewRegistry(), Base: 100,
		Restore: func(last uint64) (*scheduler.Machine, error) { return r.restore(t, 100, last), nil }}
	for name, change := range map[string]func(*replay.ExplainOptions){
		"by number": func(o *replay.ExplainOptions) { o.AtSeq = 99 },
		"by time":   func(o *replay.ExplainOptions) { o.AtTime = eventlog.TimeOf(sim.Start) },
	} {
		t.Run(name, func(t *testing.T) {
			opts := opts
			change(&opts)
			_, err := replay.ExplainPod(context.Background(), r.from(100), "default", "mistyped", opts)
			if err == nil || !strings.Contains(err.Error(), "is before what is known: the first state is that after entry 100") {
				t.Errorf("error %v", err)
			}
		})
	}
	opts.AtSeq = 100
	if _, err := replay.ExplainPod(context.Background(), r.from(100), "default", "mistyped", opts); err != nil && !strings.Contains(err.Error(), "mistyped") {
		t.Errorf("at the first state itself: %v", err)
	}
}

func explainPod(read replay.Reader, name string, opts replay.ExplainOptions) string {
	namespace, pod, _ := strings.Cut(name, "/")
	x, err := replay.ExplainPod(context.Background(), read, namespace, pod, opts)
	if err != nil {
		return err.Error()
	}
	return asJSON(x)
}

func explainGroup(read replay.Reader, name string, opts replay.ExplainOptions) string {
	namespace, group, _ := strings.Cut(name, "/")
	x, err := replay.ExplainGroup(context.Background(), read, namespace, group, opts)
	if err != nil {
		return err.Error()
	}
	return asJSON(x)
}

func asJSON(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
