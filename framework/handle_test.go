package framework

import (
	"context"
	"maps"
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

// someGangs and someEvictions are views that are told apart from none.
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
	h.Activate(klog.Background(), map[string]*v1.Pod{"ns/b": nil, "ns/c": nil, "ns/a": nil})
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
