package framework

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

func handleOf(t *testing.T, world World) Handle {
	t.Helper()
	return profileOf(t, world, filterer{bare{&script{name: "f"}}}).Handle()
}

func TestPluginsReachNoAPIServerWhereThereIsNone(t *testing.T) {
	h := handleOf(t, World{})
	_, err := h.ClientSet().CoreV1().Pods("ns").Get(context.Background(), "p", metav1.GetOptions{})
	if err == nil || !strings.Contains(err.Error(), "GET /api/v1/namespaces/ns/pods/p: there is no API server") {
		t.Errorf("error %v", err)
	}
}

func TestPartsOfTheHandleThatAreNotThereAreSafe(t *testing.T) {
	h := handleOf(t, World{})
	pod := podNamed("p")
	h.EventRecorder().WithLogger(klog.Background()).Eventf(pod, nil, v1.EventTypeNormal, "Reason", "Action", "note")
	h.IterateOverWaitingPods(func(fwk.WaitingPod) { t.Error("a waiting pod out of nowhere") })
	h.Activate(klog.Background(), map[string]*v1.Pod{"ns/p": pod})
	h.AddNominatedPod(klog.Background(), nil, nil)
	h.DeleteNominatedPodIfExists(pod)
	h.UpdateNominatedPod(klog.Background(), pod, nil)
	if h.NominatedPodsForNode("n") != nil || h.Extenders() != nil || h.APICacher() != nil || h.APIDispatcher() != nil ||
		h.GetPodInPreBind("p") != nil || h.MutableSnapshotSharedLister() != nil || h.RejectWaitingPod("p") ||
		!h.Now().IsZero() {
		t.Error("something is there")
	}
}

// someGangs and someEvictions are views that differ from nil.
type (
	someGangs     struct{ Gangs }
	someEvictions struct{ Evictions }
)

func TestHandleShowsTheWorld(t *testing.T) {
	gangs, evictions := &someGangs{}, &someEvictions{}
	now := time.Unix(7, 0)
	var activated []string
	h := handleOf(t, World{
		Gangs: gangs, Evictions: evictions, Now: func() time.Time { return now },
		Activate: func(pods map[string]*v1.Pod) { activated = slices.Sorted(maps.Keys(pods)) },
	})
	(&search{}).call(func() {
		h.Activate(klog.Background(), map[string]*v1.Pod{"ns/b": nil, "ns/c": nil, "ns/a": nil})
	})
	h.Activate(klog.Background(), map[string]*v1.Pod{"ns/beside a cycle": nil})
	if !slices.Equal(activated, []string{"ns/a", "ns/b", "ns/c"}) {
		t.Errorf("activated %v", activated)
	}
	if h.Gangs() != Gangs(gangs) || h.Evictions() != Evictions(evictions) || !h.Now().Equal(now) ||
		h.ProfileName() != "test" {
		t.Error("the world looks different")
	}
}

func TestPiecesAreDoneInOrderUntilCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done []int
	handleOf(t, World{}).Parallelizer().Until(ctx, 10, func(i int) {
		if done = append(done, i); i == 3 {
			cancel()
		}
	}, "test")
	if !slices.Equal(done, []int{0, 1, 2, 3}) {
		t.Errorf("done %v", done)
	}
}

// eventSink records its events.
type eventSink struct {
	events []Event
	drops  []string
}

func (s *eventSink) Record(e Event) { s.events = append(s.events, e) }

func (s *eventSink) Drop(why error) { s.drops = append(s.drops, why.Error()) }

func TestWhatPluginsRecordIsKubeSchedulersEvent(t *testing.T) {
	sink := &eventSink{}
	h := handleOf(t, World{Events: func() EventSink { return sink }})
	pod, node := podNamed("p"), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "un"}}
	pod.Namespace, pod.UID = "ml", "up"
	recorder := h.EventRecorder().WithLogger(klog.Background())
	recorder.Eventf(pod, node, v1.EventTypeWarning, "Hot", "Scheduling", "rack %s: %d", "r1", 3)
	recorder.Eventf(node, nil, v1.EventTypeNormal, "Cool", "Scheduling", "100 percent")
	recorder.Eventf(nil, nil, v1.EventTypeNormal, "Lost", "Scheduling", "of nobody")
	recorder.Eventf(pod, nil, "Fatal", "Odd", "Scheduling", "of a type that there is not")
	of := v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ml", Name: "p", UID: "up"}
	on := v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "un"}
	want := []Event{
		{Regarding: of, Related: &on, Type: "Warning", Reason: "Hot", Action: "Scheduling", Note: "rack r1: 3",
			Reporter: "test"},
		{Regarding: on, Type: "Normal", Reason: "Cool", Action: "Scheduling", Note: "100 percent", Reporter: "test"},
	}
	if !reflect.DeepEqual(sink.events, want) {
		t.Errorf("events\n%+v, want\n%+v", sink.events, want)
	}
	if !slices.Equal(sink.drops, []string{
		`profile "test": event "Lost" of a plugin: what it regards: can't reference a nil object`,
		`profile "test": event "Odd" of a plugin: type "Fatal": want Normal or Warning`,
	}) {
		t.Errorf("dropped: %q", sink.drops)
	}
}
