package status

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// leftClaimOf is a claim that another scheduler has made for pod a.
func leftClaimOf(name string) *resourcev1.ResourceClaim {
	of := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "a", UID: "uid-a"}}
	claim := devices.ClaimToMake(of, name, nil)
	claim.UID, claim.Finalizers = types.UID("claim-"+name), []string{resourcev1.Finalizer}
	return claim
}

// verbs are the requests for ResourceClaims that changed something.
func verbs(w *world) (list []string) {
	w.written()
	for _, a := range w.client.Actions() {
		if a.GetResource().Resource == "resourceclaims" && a.GetVerb() != "get" {
			list = append(list, a.GetVerb())
		}
	}
	return list
}

// A claim that was made for a pod which has no node is deleted, without its finalizer: whether the claim is known first
// or the pod, and after a restart. That of a pod which has a node by now stays, as does another one of its name.
func TestAClaimThatIsLeftBehindIsDeleted(t *testing.T) {
	claim := &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: leftClaimOf("left")}
	bound := pod("a", "16", "", 0).(*eventlog.Upserted)
	bound.Object.(*corev1.Pod).Spec.NodeName = "n1"
	other := leftClaimOf("left")
	other.UID = "another"
	a, deleted := pod("a", "16", "", 0), []string{"update", "delete"}
	for name, c := range map[string]struct {
		stands  *resourcev1.ResourceClaim
		inputs  []eventlog.Payload
		restart bool
		hasNode bool
		want    []string
	}{
		"the claim first":  {leftClaimOf("left"), []eventlog.Payload{claim, a}, false, false, deleted},
		"the pod first":    {leftClaimOf("left"), []eventlog.Payload{a, claim}, false, false, deleted},
		"after a restart":  {leftClaimOf("left"), []eventlog.Payload{a, claim}, true, false, deleted},
		"bound, as logged": {leftClaimOf("left"), []eventlog.Payload{claim, bound}, false, false, nil},
		"bound since":      {leftClaimOf("left"), []eventlog.Payload{claim, a}, false, true, nil},
		"another claim":    {other, []eventlog.Payload{claim, a}, false, false, nil},
		"gone":             {nil, []eventlog.Payload{claim, a}, false, false, nil},
		"of no pod":        {leftClaimOf("left"), []eventlog.Payload{claim}, false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var objects []runtime.Object
				if c.stands != nil {
					objects = append(objects, c.stands.DeepCopy())
				}
				w := newWorld(t, objects...)
				w.step(append([]eventlog.Payload{node("n1", "4")}, c.inputs...)...)
				if c.restart {
					w.status = New(w.status.opts)
					if err := w.status.Recover(w.engine.Machine(), briefly(w.log.Read(t.Context(), 1))); err != nil {
						t.Fatal(err)
					}
				}
				if c.hasNode {
					w.seen["uid-a"] = Pod{NodeName: "n1"}
				}
				if got := verbs(w); !slices.Equal(got, c.want) {
					t.Errorf("the requests are %q, want %q", got, c.want)
				}
				if n := w.status.Counts().ClaimsDeleted; (n == 1) != (len(c.want) > 0) {
					t.Errorf("%d claims are counted as deleted", n)
				}
			})
		})
	}
}

// A claim that cannot be deleted is tried again, however often, until it can: it keeps its devices from all pods. The
// failure is reported once. If its pod has a node by then, the claim stays.
func TestTheDeletionOfAClaimIsTriedAgain(t *testing.T) {
	for _, conflicts := range []int{2, 20} {
		synctest.Test(t, func(t *testing.T) { testDeletionAfterConflicts(t, conflicts) })
	}
}

func testDeletionAfterConflicts(t *testing.T, conflicts int) {
	w := newWorld(t, leftClaimOf("left"))
	told, failures := 0, conflicts
	w.status.opts.Report = func(m string) {
		if told++; !strings.Contains(m, "deletion of ResourceClaim ml/left: ") || !strings.HasSuffix(m, ": tried on") {
			t.Errorf("told: %s", m)
		}
	}
	w.client.PrependReactor("update", "resourceclaims", func(ktesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts < 0 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "resourceclaims"}, "left", nil)
	})
	w.step(node("n1", "4"), pod("a", "16", "", 0),
		&eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: leftClaimOf("left")})
	want := append(slices.Repeat([]string{"update"}, failures+1), "delete")
	if got := verbs(w); !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	if reports := min(1, failures/maxTries); told != reports {
		t.Errorf("after %d failures it was told %d times, want %d", failures, told, reports)
	}
}
