package watch

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// recording is the log of a recorder of a fake API server.
type recording struct {
	t       *testing.T
	server  *apiServer
	entries []eventlog.Entry
	state   map[string]eventlog.Object
	reports []string
}

// recordsUntil runs a recorder of the log until its entries end with the wanted ones.
func (r *recording) recordsUntil(want ...string) {
	r.t.Helper()
	r.add(&eventlog.EpochStarted{ID: "e", Config: []byte(`{"recording":true}`)})
	at := len(r.entries)
	last := uint64(at)
	recorded, err := ReadRecorded(1, last-1, r.read)
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := New(Options{Client: r.server.client(), Config: r.server.config(), Known: r.objects(), Recording: true,
		Recorded: recorded, Report: func(message string) { r.reports = append(r.reports, message) }})
	if err != nil {
		r.t.Fatal(err)
	}
	w.timing = timing{poll: 20 * time.Millisecond, retry: time.Millisecond, most: 10 * time.Millisecond,
		healthy: time.Hour}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	}()
	patience := time.After(10 * time.Second)
	for {
		r.add(w.Take()...)
		got := r.story(at)
		if len(got) >= len(want) && slices.Equal(got[len(got)-len(want):], want) {
			return
		}
		select {
		case <-patience:
			r.t.Fatalf("the log has\n%s\nwant at its end\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		case <-w.Synced():
		}
		select {
		case <-w.Changed():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (r *recording) add(inputs ...eventlog.Payload) {
	for _, p := range inputs {
		at := eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, len(r.entries), 0, time.UTC))
		r.entries = append(r.entries, eventlog.Entry{Seq: uint64(len(r.entries) + 1), Time: at, Payload: p})
		switch p := p.(type) {
		case *eventlog.Upserted:
			key := keyFor(p.Resource, p.Object.GetNamespace(), p.Object.GetName())
			r.state[key] = p.Object
			if pod, ok := p.Object.(*corev1.Pod); ok && isFinished(pod) {
				delete(r.state, key)
			}
		case *eventlog.Deleted:
			delete(r.state, keyFor(p.Resource, p.Namespace, p.Name))
		}
	}
}

func (r *recording) read(from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, e := range r.entries[from-1:] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (r *recording) objects() iter.Seq2[eventlog.Resource, eventlog.Object] {
	return func(yield func(eventlog.Resource, eventlog.Object) bool) {
		for _, obj := range r.state {
			if !yield(resourceOf(obj), obj) {
				return
			}
		}
	}
}

// story returns the changes of pods behind a number of entries, and the resources of which changes may be missing.
func (r *recording) story(from int) (lines []string) {
	for _, e := range r.entries[from:] {
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			if pod, ok := p.Object.(*corev1.Pod); ok {
				lines = append(lines, fmt.Sprintf("%s %s %s%s", pod.Name, pod.UID, pod.Spec.NodeName, pod.Status.Phase))
			}
		case *eventlog.Deleted:
			if p.Resource == eventlog.Pods {
				lines = append(lines, fmt.Sprintf("%s %s deleted", p.Name, p.UID))
			}
		case *eventlog.Watched:
			for _, m := range p.Missing {
				lines = append(lines, fmt.Sprintf("%s may be missing: %s", m.Resource, m.Reason))
			}
		}
	}
	return lines
}

func recordedPod(name, uid, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: node, SchedulerName: "default-scheduler"},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func newRecording(t *testing.T) *recording {
	r := &recording{t: t, server: newServer(t), state: map[string]eventlog.Object{}}
	t.Cleanup(r.server.close)
	return r
}

// While the recorder is away, pods come, are bound, end and go. The next recorder has all of it, in order. It lists
// nothing.
func TestChangesWhileTheRecorderIsAwayAreInTheRecord(t *testing.T) {
	r := newRecording(t)
	s := r.server
	s.put(recordedPod("a", "1", "", ""), recordedPod("b", "2", "n1", ""))
	r.recordsUntil("a 1 ", "b 2 n1")
	s.put(recordedPod("c", "3", "", ""))
	s.put(recordedPod("a", "1", "n1", ""))
	s.put(recordedPod("c", "3", "n2", ""))
	s.put(recordedPod("c", "3", "n2", corev1.PodRunning))
	s.put(recordedPod("c", "3", "n2", corev1.PodFailed))
	s.delete(eventlog.Pods, "default", "c")
	s.put(recordedPod("c", "4", "", ""))
	s.delete(eventlog.Pods, "default", "b")
	lists := s.times("list", eventlog.Pods)
	r.recordsUntil("c 3 ", "a 1 n1", "c 3 n2", "c 3 n2Running", "c 3 n2Failed", "c 3 deleted", "c 4 ", "b 2 deleted")
	if again := s.times("list", eventlog.Pods); again != lists {
		t.Errorf("pods were listed %d times more", again-lists)
	}
	// Nothing has happened since.
	r.recordsUntil()
	if n := len(r.story(0)); n != 10 {
		t.Errorf("the log has %d changes, want 10:\n%s", n, strings.Join(r.story(0), "\n"))
	}
}

// The API server has forgotten the changes since the recorder went: the log says so, and has the state.
func TestTheRecordSaysWhichChangesMayBeMissing(t *testing.T) {
	r := newRecording(t)
	s := r.server
	s.put(recordedPod("a", "1", "", ""))
	r.recordsUntil("a 1 ")
	s.put(recordedPod("b", "2", "", ""))
	s.put(recordedPod("b", "2", "n1", ""))
	s.breakWatches(eventlog.Pods, true)
	const missing = "pods may be missing: " + reasonExpired
	r.recordsUntil("b 2 n1", missing)
	var last *eventlog.Watched
	for _, e := range r.entries {
		if p, ok := e.Payload.(*eventlog.Watched); ok && len(p.Missing) > 0 {
			last = p
		}
	}
	if len(last.Missing) != 1 || last.Missing[0].Since >= eventlog.TimeOf(time.Now()) || last.Missing[0].Since == 0 {
		t.Errorf("missing is %+v", last.Missing)
	}
}

// An API server of Kubernetes 1.31 lacks some APIs. The recorder says so, and records the rest.
func TestARecorderSaysWhichAPIsAnOlderServerLacks(t *testing.T) {
	r := newRecording(t)
	for _, res := range []eventlog.Resource{eventlog.ResourceClaims, eventlog.ResourceSlices, eventlog.DeviceClasses,
		eventlog.DeviceTaintRules, eventlog.PodGroups, eventlog.CompositePodGroups} {
		r.server.absent[res] = true
	}
	r.server.put(recordedPod("a", "1", "n1", ""))
	r.recordsUntil("a 1 n1")
	all := strings.Join(r.reports, "\n")
	for _, want := range []string{
		"resourceclaims.resource.k8s.io: the API server does not have them, which came with Kubernetes 1.34",
		"devicetaintrules.resource.k8s.io: the API server does not have them, which came with Kubernetes 1.37",
		"podgroups.scheduling.k8s.io (the API server's feature gate GenericWorkload is off, or it is older than 1.37)",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the recorder says\n%s\nwant\n%s", all, want)
		}
	}
}

// A log that a scheduler wrote, or that was torn within a batch, has no position to continue from.
func TestARecordIsContinuedOnlyFromACertainPosition(t *testing.T) {
	epoch := func(recording bool) *eventlog.EpochStarted {
		return &eventlog.EpochStarted{Config: []byte(fmt.Sprintf(`{"recording":%v}`, recording))}
	}
	at := func(full bool, versions ...string) *eventlog.Watched {
		p := &eventlog.Watched{Full: full}
		for i := 0; i < len(versions); i += 2 {
			p.Positions = append(p.Positions,
				eventlog.Position{Resource: eventlog.Resource(versions[i]), Version: versions[i+1]})
		}
		return p
	}
	pod := &eventlog.Upserted{Resource: eventlog.Pods, Object: recordedPod("a", "1", "", "")}
	many := []eventlog.Payload{epoch(true), at(true, "nodes", "5", "pods", "6")}
	for i := range 1000 {
		many = append(many, pod, at(false, "pods", fmt.Sprint(7+i)))
	}
	node := &eventlog.Upserted{Resource: eventlog.Nodes, Object: node("n", "1", heartbeat)}
	batch := append([]eventlog.Payload{epoch(true), at(true, "nodes", "5", "pods", "6"), node},
		slices.Repeat([]eventlog.Payload{pod}, 300)...)
	for name, tc := range map[string]struct {
		log  []eventlog.Payload
		want string
	}{
		"new": {nil, "map[]"},
		"positions": {
			[]eventlog.Payload{epoch(true), at(true, "nodes", "5", "pods", "6"), at(false, "pods", "7")},
			"map[nodes:5 pods:7]",
		},
		"long": {many, "map[nodes:5 pods:1006]"},
		"torn": {
			[]eventlog.Payload{epoch(true), at(true, "nodes", "5", "pods", "6"), pod}, "map[nodes:5 pods:]",
		},
		"torn in a long batch": {batch, "map[nodes: pods:]"},
		"behind a long batch": {
			slices.Concat(batch, []eventlog.Payload{at(false, "nodes", "7", "pods", "8"), pod}), "map[nodes:7 pods:]",
		},
		"of a scheduler": {[]eventlog.Payload{epoch(true), at(true, "pods", "6"), epoch(false), pod}, "map[pods:]"},
		"after a scheduler": {
			[]eventlog.Payload{epoch(true), at(true, "pods", "6"), epoch(false), epoch(true), at(true, "nodes", "9")},
			"map[nodes:9]",
		},
	} {
		r := &recording{t: t, state: map[string]eventlog.Object{}}
		r.add(tc.log...)
		got, err := ReadRecorded(1, uint64(len(r.entries)), r.read)
		if err != nil || fmt.Sprint(got.Positions) != tc.want {
			t.Errorf("%s: %v, %v, want %s", name, got.Positions, err, tc.want)
		}
		if len(tc.log) > 0 != !got.Until.IsZero() {
			t.Errorf("%s: until %v", name, got.Until)
		}
	}
}
