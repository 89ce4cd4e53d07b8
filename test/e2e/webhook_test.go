package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/webhook"
)

// refusals are the ways in which a webhook refuses: with the codes that administrators give, and by being down.
func refusals() map[string]*metav1.Status {
	all := map[string]*metav1.Status{"down": webhook.NoAnswer}
	for _, code := range []int32{
		http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError,
	} {
		all[fmt.Sprintf("c%d", code)] = webhook.Refusal(code)
	}
	return all
}

// once returns a function that refuses the first requests of the scheduler, up to times of each kind and name. The name
// of the pod or PodGroup says how: c403-1 is refused with 403.
func once(times int, applies func(webhook.Request) bool) func(webhook.Request) *metav1.Status {
	var mu sync.Mutex
	seen, all := map[string]int{}, refusals()
	return func(r webhook.Request) *metav1.Status {
		if r.User != "scheduler" || !applies(r) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		key := string(r.Operation) + r.Resource + r.Name
		kind, _, _ := strings.Cut(r.Name, "-")
		refusal := all[kind]
		if refusal != nil {
			seen[key]++
		}
		if seen[key] > times {
			return nil
		}
		return refusal
	}
}

// TestBindsThatAWebhookRefusesAreDecidedAnew has a webhook refuse the first two binds of two members of each gang, with
// a code of its own for each gang. Meanwhile the gang is in part; at the end all are whole.
func TestBindsThatAWebhookRefusesAreDecidedAnew(t *testing.T) {
	needsRollcall(t, "kube-scheduler asks for other nodes, which the accountant reports")
	gangsByEachAPI(t, func(w *world) {
		hook := webhook.ForTest(w.T, w.c, once(2, func(r webhook.Request) bool {
			return r.Resource == "pods/binding" && (strings.HasSuffix(r.Name, "-1") || strings.HasSuffix(r.Name, "-2"))
		}))
		w.start(w.options())
		for name := range refusals() {
			w.gang(name, 4, "100m")
		}
		w.waitFor("", 4*len(refusals()), bound)
		if n := hook.Refused()["CREATE pods/binding"]; n < 2*2*len(refusals()) {
			w.Errorf("%d binds were refused, wanted %d: %v", n, 2*2*len(refusals()), hook.Refused())
		}
		w.audit(4 * len(refusals()))
	})
}

// TestStatusesThatAWebhookRefusesHoldNothingUp has a webhook refuse the first status of each pod and PodGroup: other
// pods are bound meanwhile, and the status is written later.
func TestStatusesThatAWebhookRefusesHoldNothingUp(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		hook := webhook.ForTest(w.T, w.c, once(1, func(r webhook.Request) bool {
			return strings.HasSuffix(r.Resource, "/status")
		}))
		w.start(w.options())
		w.gang("c403", 5, "3")
		w.gang("c500", 5, "3")
		w.gang("down", 5, "3")
		w.gang("fits", 4, "1")
		w.waitFor("fits-", 4, bound)
		for _, prefix := range []string{"c403-", "c500-", "down-"} {
			w.waitFor(prefix, 5, unschedulable)
		}
		if n := hook.Refused()["UPDATE pods/status"]; n < 15 {
			w.Errorf("%d statuses were refused, wanted 15 at least: %v", n, hook.Refused())
		}
		w.none("c403-", bound)
		w.audit(4)
	})
}

// TestVictimsThatAWebhookKeepsAreTriedAgain has a webhook refuse the conditions and deletions of victims at first.
// Other pods are bound meanwhile; in the end the preemptor has its node.
func TestVictimsThatAWebhookKeepsAreTriedAgain(t *testing.T) {
	for _, of := range []string{"pods", "pods/status"} {
		t.Run(strings.ReplaceAll(of, "/", " "), func(t *testing.T) {
			needsRollcall(t, "kube-scheduler's preemptor waits for minutes")
			w := newWorldOf(t, true, cluster.Options{}, nodes.Options{
				Count: 6, Capacity: nodes.Capacity("4", "64Gi", "110"),
			})
			hook := webhook.ForTest(t, w.c, once(2, func(r webhook.Request) bool {
				return r.Resource == of && (r.Operation == admissionv1.Delete || of != "pods") &&
					strings.HasSuffix(r.Name, "-low")
			}))
			w.start(w.options())
			w.priority("high", 1000)
			var preemptors []*v1.Pod
			kinds := []string{"c403", "c404", "c409", "c422", "c500", "down"}
			for i, kind := range kinds {
				low := w.pod(kind+"-low", "", "3")
				high := w.pod(kind+"-high", "", "3")
				high.Spec.PriorityClassName = "high"
				for _, p := range []*v1.Pod{low, high} {
					p.Spec.NodeSelector = map[string]string{v1.LabelHostname: w.nodes.Names()[i]}
				}
				w.create(low)
				preemptors = append(preemptors, high)
			}
			for _, kind := range kinds {
				w.waitFor(kind+"-low", 1, bound)
			}
			w.create(preemptors...)
			w.create(w.pod("other", "", "500m"))
			w.waitFor("other", 1, bound)
			if err := accountant.Look(t.Context(), w.c); err != nil {
				t.Fatal(err)
			}
			for _, kind := range kinds {
				w.waitFor(kind+"-high", 1, bound)
			}
			refused := 0
			for _, n := range hook.Refused() {
				refused += n
			}
			if refused < 2*len(kinds) {
				t.Errorf("%d requests were refused, wanted %d: %v", refused, 2*len(kinds), hook.Refused())
			}
			w.audit(2*len(kinds) + 1)
		})
	}
}
