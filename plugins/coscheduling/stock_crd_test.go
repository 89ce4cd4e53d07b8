package coscheduling_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
)

// crdServer serves PodGroups of scheduling.x-k8s.io as an API server does: not at all until the custom resource is
// defined.
type crdServer struct {
	*httptest.Server
	defined atomic.Bool
	refused atomic.Int32 // requests that came before
	groups  []xscheduling.PodGroup
}

func newCRDServer(t *testing.T, groups ...xscheduling.PodGroup) *crdServer {
	s := &crdServer{groups: groups}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *crdServer) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/apis/scheduling.x-k8s.io/v1alpha1/podgroups" || !s.defined.Load() {
		s.refused.Add(1)
		w.WriteHeader(http.StatusNotFound)
		s.write(
			w,
			metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status:   metav1.StatusFailure,
				Reason:   metav1.StatusReasonNotFound,
				Code:     http.StatusNotFound,
				Message:  "the server could not find the requested resource",
			},
		)
		return
	}
	if r.URL.Query().Get("watch") == "" {
		s.write(w, map[string]any{"kind": "PodGroupList", "apiVersion": "scheduling.x-k8s.io/v1alpha1",
			"metadata": map[string]any{"resourceVersion": "1"}, "items": s.groups})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for i := range s.groups {
			s.write(w, map[string]any{"type": "ADDED", "object": &s.groups[i]})
		}
		s.write(
			w,
			map[string]any{"type": "BOOKMARK", "object": map[string]any{
				"kind":       "PodGroup",
				"apiVersion": "scheduling.x-k8s.io/v1alpha1",
				"metadata": map[string]any{
					"resourceVersion": "1",
					"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
				},
			}},
		)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func (s *crdServer) write(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func TestInAStockSchedulerPodGroupsOfTheCustomResourceAreReadOnceItIsServed(t *testing.T) {
	g := xscheduling.PodGroup{TypeMeta: metav1.TypeMeta{Kind: "PodGroup", APIVersion: "scheduling.x-k8s.io/v1alpha1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train", ResourceVersion: "1"}}
	g.Spec.MinMember = 2
	server := newCRDServer(t, g)
	s := newStock(t, "{}", &restclient.Config{Host: server.URL}, "n1", "n2", "n3", "n4", "n5")
	s.eventually("asked for what is not served", func() bool { return server.refused.Load() > 0 })
	s.pods(byLabel("train"), "train-0", "train-1")
	s.pods(nil, "single")
	s.group("other", 2)
	s.pods(byField("other"), "other-0", "other-1")
	s.eventuallyBound("other-0", "other-1", "single")
	s.eventuallyGated("train-0", "train-1")
	server.defined.Store(true)
	s.eventuallyBound("other-0", "other-1", "single", "train-0", "train-1")
}
