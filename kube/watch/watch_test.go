package watch

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	xschedulingv1alpha1 "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

var hasty = timing{poll: time.Millisecond, retry: time.Millisecond, most: 5 * time.Millisecond, healthy: time.Hour}

// patience is the longest wait of a test for a change.
const patience = time.Minute

// watched is a Watch of a server, with the state of the test that takes from it.
type watched struct {
	*Watch
	t      testing.TB
	state  *logState
	stop   func()
	mu     sync.Mutex
	report []string
}

// watchServer runs a Watch that begins with known objects.
func watchServer(t testing.TB, s *apiServer, known *logState) *watched {
	t.Helper()
	return watchServerOf(t, s, known, nil)
}

// watchServerOf is watchServer with resources of plugins.
func watchServerOf(t testing.TB, s *apiServer, known *logState, own []eventlog.OwnResource) *watched {
	t.Helper()
	w := &watched{t: t, state: known}
	if known == nil {
		w.state = newLogState(t)
	}
	var err error
	w.Watch, err = New(Options{
		Client: s.client(), Config: s.config(), Own: own, Known: w.state.all(),
		Report: func(m string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.report = append(w.report, m)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.timing = hasty
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		w.stop()
		s.close()
	})
	return w
}

// await waits until the condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
		runtime.Gosched()
	}
}

// sync waits for the first lists, and takes.
func (w *watched) sync() []string {
	w.t.Helper()
	select {
	case <-w.Synced():
	case <-time.After(patience):
		w.t.Fatalf("not in sync; reports: %q", w.reports())
	}
	return w.take()
}

// take takes the waiting changes, and returns them as text.
func (w *watched) take() []string {
	w.t.Helper()
	return w.state.apply(w.Take())
}

// takeUntil takes until the last input is that one.
func (w *watched) takeUntil(last string) []string {
	w.t.Helper()
	var all []string
	for !slices.Contains(all, last) {
		select {
		case <-w.Changed():
		case <-time.After(patience):
			w.t.Fatalf("took %q, and %q did not come; reports: %q", all, last, w.reports())
		}
		all = append(all, w.take()...)
	}
	return all
}

func (w *watched) reports() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.report)
}

func (w *watched) awaitReport(part string) {
	w.t.Helper()
	await(w.t, "a report: "+part, func() bool {
		return slices.ContainsFunc(w.reports(), func(m string) bool { return strings.Contains(m, part) })
	})
}

// logState is the state of a reader who applies every input that was taken.
type logState struct {
	t    tester
	has  map[string]eventlog.Object
	text map[string][]byte
}

// tester has the methods that a test and a property have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
}

func newLogState(t tester) *logState {
	return &logState{t: t, has: map[string]eventlog.Object{}, text: map[string][]byte{}}
}

func keyFor(res eventlog.Resource, namespace, name string) string {
	return string(res) + " " + namespace + "/" + name
}

func (s *logState) all() iter.Seq2[eventlog.Resource, eventlog.Object] {
	return func(yield func(eventlog.Resource, eventlog.Object) bool) {
		for _, obj := range s.has {
			res := resourceOf(obj)
			if !yield(res, obj) {
				return
			}
		}
	}
}

// apply applies inputs as a Machine does, refuses inputs that change nothing, and returns them as text.
func (s *logState) apply(inputs []eventlog.Payload) []string {
	s.t.Helper()
	var lines []string
	encoder := eventlog.Encoder{Own: eventlog.NewOwnTrim(declaredQuotas)}
	for _, input := range inputs {
		switch p := input.(type) {
		case *eventlog.Deleted:
			key := keyFor(p.Resource, p.Namespace, p.Name)
			if was := s.has[key]; was == nil || was.GetUID() != p.UID {
				s.t.Errorf("deleted %s (%s), but there is %v", key, p.UID, was)
			}
			delete(s.has, key)
			delete(s.text, key)
			lines = append(lines, fmt.Sprintf("- %s %s", key, p.UID))
		case *eventlog.Upserted:
			logged, _, err := encoder.Logged(p)
			if err != nil {
				s.t.Errorf("%v", err)
				continue
			}
			lines = append(lines, s.upsert(p.Resource, logged.Object))
		}
	}
	return lines
}

func (s *logState) upsert(res eventlog.Resource, obj eventlog.Object) string {
	s.t.Helper()
	key := keyFor(res, obj.GetNamespace(), obj.GetName())
	was := s.has[key]
	if was != nil && was.GetUID() != obj.GetUID() {
		s.t.Errorf("upserted %s (%s), but the log has %s", key, obj.GetUID(), was.GetUID())
	}
	if pod, ok := obj.(*corev1.Pod); ok && isFinished(pod) {
		if was == nil {
			s.t.Errorf("upserted a finished pod that the log does not have: %s", key)
		}
		delete(s.has, key)
		delete(s.text, key)
		return fmt.Sprintf("+ %s %s %s", key, obj.GetUID(), pod.Status.Phase)
	}
	obj = cluster.BoundNumbers(obj)
	text, err := eventlog.AppendObject(nil, obj)
	if err != nil {
		s.t.Errorf("%v", err)
	}
	if was != nil && bytes.Equal(text, s.text[key]) {
		s.t.Errorf("an entry that changes nothing: %s", key)
	}
	s.has[key], s.text[key] = obj, text
	return fmt.Sprintf("+ %s %s", key, obj.GetUID())
}

// is reports as errors how the state differs from the objects, trimmed.
func (s *logState) is(objects ...eventlog.Object) {
	s.t.Helper()
	want := newLogState(s.t)
	for _, obj := range objects {
		res, _ := eventlog.ResourceOf(obj)
		if pod, ok := obj.(*corev1.Pod); !ok || !isFinished(pod) {
			want.upsert(res, eventlog.Trim(res, obj))
		}
	}
	for key, text := range want.text {
		if !bytes.Equal(text, s.text[key]) {
			s.t.Errorf("%s: the log has %v, want %v", key, s.has[key], want.has[key])
		}
	}
	for key := range s.text {
		if want.text[key] == nil {
			s.t.Errorf("%s: the log has it, and it is gone", key)
		}
	}
}

func node(name, uid string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func pod(name, uid string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "SECRET", Value: "hunter2"}}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func ended(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}
func heartbeat(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastHeartbeatTime: metav1.Now()}}
}
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestEveryResourceIsWatchedOnce(t *testing.T) {
	var names []eventlog.Resource
	for _, k := range kinds {
		names = append(names, k.resource)
	}
	if last := names[len(names)-2:]; !slices.Equal(last, []eventlog.Resource{eventlog.Nodes, eventlog.Pods}) {
		t.Errorf("the last ones are %v", last)
	}
	slices.Sort(names)
	if want := slices.Sorted(slices.Values(eventlog.Resources())); !slices.Equal(names, want) {
		t.Errorf("watched are %v, want %v", names, want)
	}
}

func TestTheFirstTakeBringsTheStateToWhatTheClusterHas(t *testing.T) {
	known := newLogState(t)
	for _, obj := range []eventlog.Object{
		node("n1", "1"), node("n2", "2"), node("n4", "4"), pod("a", "a1"), pod("b", "b1"), pod("c", "c1"),
		pod("d", "d1"),
	} {
		res, _ := eventlog.ResourceOf(obj)
		known.upsert(res, eventlog.Trim(res, obj))
	}
	s := newServer(t)
	s.put(pod("c", "c2"), pod("b", "b1", on("n1")), pod("a", "a1"), pod("e", "e1", ended(corev1.PodFailed)),
		pod("d", "d1", ended(corev1.PodSucceeded)),
		node("n3", "3"), node("n2", "2", heartbeat), node("n1", "1", cordoned),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "9"}})
	w := watchServer(t, s, known)
	if got := w.Take(); got != nil && !isClosed(w.Synced()) {
		t.Errorf("took %v before every list was in", got)
	}
	same(t, w.sync(),
		"+ namespaces /ns 9",
		"+ nodes /n1 1", "+ nodes /n2 2", "+ nodes /n3 3", "- nodes /n4 4",
		"+ pods ns/b b1", "- pods ns/c c1", "+ pods ns/c c2", "+ pods ns/d d1 Succeeded",
	)
	same(t, w.take())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAnObjectOfWhichNothingChangedThatSchedulingReadsMakesNoEntry(t *testing.T) {
	s := newServer(t)
	s.put(node("n1", "1", heartbeat))
	w := watchServer(t, s, nil)
	w.sync()
	s.put(node("n1", "1", heartbeat), node("n1", "1", heartbeat), node("n2", "2"))
	same(t, w.takeUntil("+ nodes /n2 2"), "+ nodes /n2 2")
	counts := w.Watch.ledger.counts(places[eventlog.Nodes])
	if want := (Counts{Lists: 1, Listed: 1, Events: 3, Unchanged: 2, Upserted: 2}); counts != want {
		t.Errorf("counts are %+v, want %+v", counts, want)
	}
}

// settled waits until the watch has seen all changes of nodes and pods so far, and takes nothing.
func (w *watched) settled(s *apiServer, uid string) {
	w.t.Helper()
	s.put(pod("zz", uid))
	await(w.t, "the last change", func() bool {
		_, ok := w.Pod(types.UID(uid))
		return ok
	})
}

func TestChangesThatWaitAreOneChange(t *testing.T) {
	s := newServer(t)
	s.put(pod("a", "a1"), pod("b", "b1"), pod("c", "c1"), pod("d", "d1"), pod("g", "g1"))
	w := watchServer(t, s, nil)
	w.sync()
	s.put(pod("a", "a1", on("n1")), pod("a", "a1")) // changes back
	s.delete(eventlog.Pods, "ns", "b")              // made again
	s.put(pod("b", "b2"), pod("b", "b2", on("n1")))
	s.put(pod("e", "e1")) // comes and goes
	s.delete(eventlog.Pods, "ns", "e")
	s.put(pod("c", "c1", on("n1")), pod("f", "f1"), pod("c", "c1", on("n2"))) // goes to the end
	s.delete(eventlog.Pods, "ns", "d")
	await(t, "the deletion", func() bool { _, ok := w.Pod("d1"); return !ok })
	if n := w.Waiting(); n != 4 { // b, c, d and f
		t.Errorf("%d objects wait", n)
	}
	s.put(pod("g", "g1", ended(corev1.PodSucceeded))) // finishes, and its name is used again
	s.delete(eventlog.Pods, "ns", "g")
	s.put(pod("g", "g2"))
	w.settled(s, "zz1")
	same(t, w.take(),
		"- pods ns/b b1", "+ pods ns/b b2", "+ pods ns/f f1", "+ pods ns/c c1", "- pods ns/d d1",
		"+ pods ns/g g1 Succeeded", "+ pods ns/g g2", "+ pods ns/zz zz1")
}

func TestAPodThatFinishedIsLoggedOnceAndNotDeleted(t *testing.T) {
	s := newServer(t)
	s.put(pod("a", "a1"), pod("b", "b1"), pod("c", "c1"))
	w := watchServer(t, s, nil)
	w.sync()
	s.put(pod("a", "a1", ended(corev1.PodSucceeded)))
	same(t, w.takeUntil("+ pods ns/a a1 Succeeded"), "+ pods ns/a a1 Succeeded")
	s.put(pod("a", "a1", ended(corev1.PodSucceeded), on("n1")))
	s.delete(eventlog.Pods, "ns", "a")
	s.delete(eventlog.Pods, "ns", "b", pod("b", "b1", ended(corev1.PodSucceeded))) // the last state is known
	s.delete(eventlog.Pods, "ns", "c")
	w.settled(s, "zz1")
	for _, uid := range []types.UID{"a1", "b1", "c1"} {
		if p, ok := w.Pod(uid); ok {
			t.Errorf("kept of a pod that is gone: %+v", p)
		}
	}
	same(t, w.take(), "+ pods ns/b b1 Succeeded", "- pods ns/c c1", "+ pods ns/zz zz1")
}

func TestADeletionThatNoWatchToldOfIsFoundByTheNextList(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streamed=%v", streams), func(t *testing.T) {
			s := newServer(t)
			s.noLists = !streams
			s.put(pod("a", "a1"), pod("b", "b1"), pod("c", "c1"))
			w := watchServer(t, s, nil)
			w.sync()
			s.edit(func() { s.stalled[eventlog.Pods] = true })
			s.delete(eventlog.Pods, "ns", "a")
			s.delete(eventlog.Pods, "ns", "b")
			s.put(pod("b", "b2"), pod("d", "d1"))
			s.breakWatches(eventlog.Pods, true) // the watch that resumes from here is answered with 410
			s.edit(func() { s.stalled[eventlog.Pods] = false })
			same(t, w.takeUntil("+ pods ns/d d1"),
				"- pods ns/a a1", "- pods ns/b b1", "+ pods ns/b b2", "+ pods ns/d d1")
			if _, ok := w.Pod("a1"); ok {
				t.Error("the pod that went is kept")
			}
			if got := w.Watch.ledger.counts(places[eventlog.Pods]).Lists; got != 2 {
				t.Errorf("%d lists", got)
			}
			if lists := s.times("list", eventlog.Pods); lists != map[bool]int{true: 0, false: 2}[streams] {
				t.Errorf("%d list requests", lists)
			}
		})
	}
}

func TestAWatchThatIsClosedGoesOnWhereItWas(t *testing.T) {
	s := newServer(t)
	s.put(pod("a", "a1"))
	w := watchServer(t, s, nil)
	w.sync()
	s.edit(func() { s.stalled[eventlog.Pods] = true })
	s.delete(eventlog.Pods, "ns", "a")
	s.put(pod("b", "b1"))
	s.breakWatches(eventlog.Pods, false)
	s.edit(func() { s.stalled[eventlog.Pods] = false })
	same(t, w.takeUntil("+ pods ns/b b1"), "- pods ns/a a1", "+ pods ns/b b1")
}

func TestResourcesThatTheServerLacksAreWaitedFor(t *testing.T) {
	s := newServer(t)
	for _, res := range gangKinds {
		s.absent[res] = true
	}
	s.absent[eventlog.ResourceSlices] = true
	w := watchServer(t, s, nil)
	w.sync()
	w.awaitReport("gangs are declared by labels and annotations of pods; not served, and waited for: " +
		"podgroups.scheduling.x-k8s.io (the custom resource definition is not installed), podgroups.scheduling.k8s.io")
	w.awaitReport("resourceslices.resource.k8s.io: the API server does not have them")
	group := &xschedulingv1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1"},
		Spec: xschedulingv1alpha1.PodGroupSpec{MinMember: 3}}
	s.put(group)
	s.edit(func() { s.absent[eventlog.XPodGroups] = false })
	same(t, w.takeUntil("+ podgroups.scheduling.x-k8s.io ns/g 1"), "+ podgroups.scheduling.x-k8s.io ns/g 1")
	w.awaitReport("podgroups.scheduling.x-k8s.io: the API server has them now: they are watched")
	w.state.is(group)
	if got := w.Whole(eventlog.XPodGroups, "ns", "g"); got == nil || got.GetResourceVersion() == "" {
		t.Errorf("kept is %v", got)
	}
	s.edit(func() { s.absent[eventlog.XPodGroups] = true })
	same(t, w.takeUntil("- podgroups.scheduling.x-k8s.io ns/g 1"), "- podgroups.scheduling.x-k8s.io ns/g 1")
	w.awaitReport("the 1 that were there count as deleted")
	for _, m := range w.reports() {
		if strings.Contains(m, "works again") || strings.Contains(m, "fails") {
			t.Errorf("reported: %s", m)
		}
	}
}

// PodGroups of Volcano and of KAI are waited for, and taken in without their status. One that no log can hold is
// reported.
func TestPodGroupsOfOtherSchedulersAreWatched(t *testing.T) {
	for _, c := range []struct {
		res          eventlog.Resource
		group, wrong map[string]any
		want         eventlog.Object
		why          string
	}{
		{
			eventlog.VolcanoPodGroups,
			map[string]any{"spec": map[string]any{"minMember": int64(3), "queue": "q"},
				"status": map[string]any{"phase": "Pending"}},
			map[string]any{"spec": map[string]any{"minMember": int64(3_000_000_000)}},
			&volcano.PodGroup{Spec: volcano.PodGroupSpec{MinMember: 3}},
			"cannot unmarshal number 3000000000",
		},
		{
			eventlog.KAIPodGroups,
			map[string]any{"spec": map[string]any{"minMember": int64(3), "queue": "q"},
				"status": map[string]any{"schedulingConditions": []any{map[string]any{"type": "x"}}}},
			map[string]any{"spec": map[string]any{"minMember": "three"}},
			&kai.PodGroup{Spec: kai.PodGroupSpec{MinMember: new(int32(3))}},
			"cannot unmarshal string",
		},
	} {
		t.Run(string(c.res), func(t *testing.T) {
			s := newServer(t)
			s.absent[c.res] = true
			w := watchServer(t, s, nil)
			w.sync()
			w.awaitReport(string(c.res) + " (the custom resource definition is not installed)")
			custom := func(name string, fields map[string]any) eventlog.Object {
				u := &unstructured.Unstructured{Object: apiruntime.DeepCopyJSON(fields)}
				u.SetGroupVersionKind(eventlog.KindFor(c.res))
				u.SetNamespace("ns")
				u.SetName(name)
				u.SetUID("1")
				return u
			}
			s.put(custom("g", c.group))
			s.edit(func() { s.absent[c.res] = false })
			line := fmt.Sprintf("+ %s ns/g 1", c.res)
			same(t, w.takeUntil(line), line)
			w.awaitReport(string(c.res) + ": the API server has them now: they are watched")
			c.want.SetNamespace("ns")
			c.want.SetName("g")
			c.want.SetUID("1")
			w.state.is(c.want)
			s.put(custom("h", c.wrong))
			w.awaitReport(string(c.res) + " ns/h is not taken in as it is now")
			w.awaitReport(c.why)
			s.delete(c.res, "ns", "g")
			gone := fmt.Sprintf("- %s ns/g 1", c.res)
			same(t, w.takeUntil(gone), gone)
		})
	}
}

func TestAnAPIThatIsGoneAtTheStartDeletesWhatTheLogHasOfIt(t *testing.T) {
	known := newLogState(t)
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1"}}
	known.upsert(eventlog.PodGroups, eventlog.Trim(eventlog.PodGroups, group))
	s := newServer(t)
	s.absent[eventlog.PodGroups] = true
	w := watchServer(t, s, known)
	got := w.sync()
	if len(got) == 0 {
		got = w.takeUntil("- podgroups.scheduling.k8s.io ns/g 1")
	}
	same(t, got, "- podgroups.scheduling.k8s.io ns/g 1")
	if asked := s.times("discover", "scheduling.k8s.io/v1beta1"); asked < goneAnswers {
		t.Errorf("it counts as deleted after %d answers", asked)
	}
}

func TestAListThatIsForbiddenIsReportedAndWaitedFor(t *testing.T) {
	s := newServer(t)
	s.refused["list pods"], s.refused["watch pods"] = true, true
	s.put(pod("a", "a1"))
	w := watchServer(t, s, nil)
	w.awaitReport(`pods: the API server does not allow to list them: give the scheduler's ClusterRole the verbs ` +
		`list and watch on the resource "pods" of the API group ""`)
	await(t, "more attempts", func() bool { return s.times("list", eventlog.Pods) > 5 })
	if isClosed(w.Synced()) {
		t.Fatal("in sync without pods")
	}
	s.edit(func() { clear(s.refused) })
	same(t, w.sync(), "+ pods ns/a a1")
	if n := len(slices.DeleteFunc(w.reports(), func(m string) bool { return !strings.HasPrefix(m, "pods: ") })); n > 2 {
		t.Errorf("reports of pods: %q", w.reports())
	}
}

func TestAServerThatIsNotReachedIsOneReport(t *testing.T) {
	s := newServer(t)
	s.http.Close()
	w := watchServer(t, s, nil)
	w.awaitReport("the API server is not reached, and it is tried again")
	await(t, "all to fail", func() bool {
		w.troubles.mu.Lock()
		defer w.troubles.mu.Unlock()
		return len(w.troubles.failing) == len(kinds)
	})
	if len(w.reports()) != 1 {
		t.Errorf("reports: %q", w.reports())
	}
}

func TestNothingUntrimmedIsKeptOfAPod(t *testing.T) {
	s := newServer(t)
	s.put(pod("a", "a1", func(p *corev1.Pod) {
		p.Status.NominatedNodeName = "n1"
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"},
			{Type: "Other", Status: corev1.ConditionFalse, Message: "hunter2"},
		}
	}))
	w := watchServer(t, s, nil)
	<-w.Synced()
	inputs := w.Take()
	if len(inputs) != 1 || strings.Contains(fmt.Sprintf("%+v", inputs[0].(*eventlog.Upserted).Object), "hunter2") {
		t.Errorf("taken: %v", inputs)
	}
	got, ok := w.Pod("a1")
	if !ok || got.Name != "a" || got.ResourceVersion != "101" || got.NominatedNodeName != "n1" ||
		got.Scheduled == nil || got.Scheduled.Message != "0/1 nodes" {
		t.Errorf("kept of the pod: %+v", got)
	}
	if w.Whole(eventlog.Pods, "ns", "a") != nil {
		t.Error("the pod is kept")
	}
}

func TestVolumesAreKeptWhole(t *testing.T) {
	s := newServer(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "1",
		Annotations: map[string]string{"mine": "yes"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "2"}}
	s.put(claim, volume)
	w := watchServer(t, s, nil)
	same(t, w.sync(), "+ persistentvolumes /v 2", "+ persistentvolumeclaims ns/c 1")
	got, err := w.Claims().PersistentVolumeClaims("ns").Get("c")
	if err != nil || got.Annotations["mine"] != "yes" || got.ResourceVersion != "101" || got.ManagedFields != nil {
		t.Errorf("kept is %+v, %v", got, err)
	}
	s.delete(eventlog.PersistentVolumes, "", "v")
	same(t, w.takeUntil("- persistentvolumes /v 2"), "- persistentvolumes /v 2")
	if got, err := w.Volumes().Get("v"); err == nil {
		t.Errorf("kept is %+v", got)
	}
}

func TestRunLeavesNoGoroutineBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	s := newServer(t)
	s.put(pod("a", "a1"))
	w := watchServer(t, s, nil)
	w.sync()
	w.stop()
	s.close()
	await(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	if err := w.Run(context.Background()); err == nil {
		t.Error("it runs a second time")
	}
}

func TestThatAnotherPodHasFinishedDoesNotEndTheOneThatTheLogHas(t *testing.T) {
	l, place := newLedger(kinds), places[eventlog.Pods]
	name := types.NamespacedName{Namespace: "ns", Name: "a"}
	l.know(place, name, version{uid: "a2"})
	l.remove(place, name, pod("a", "a1", ended(corev1.PodSucceeded)))
	inputs := l.take()
	if deleted, ok := inputs[0].(*eventlog.Deleted); !ok || len(inputs) != 1 || deleted.UID != "a2" {
		t.Errorf("taken: %v", inputs)
	}
}
