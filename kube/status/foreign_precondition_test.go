package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// gangOf steps in two members that fit, of a gang that is named by an annotation, and has them bound.
func (w *customWorld) gangOf(annotation string) {
	w.step(node("n1", "8"), member("g-0", "3", annotation, "g"), member("g-1", "3", annotation, "g"))
	for _, name := range []string{"g-0", "g-1"} {
		w.step(bound(name, w.engine.Machine().Cluster().Pods().Get(types.UID("uid-"+name)).Node))
	}
}

// A PodGroup that was made again under its name gets no status that was meant for its predecessor.
func TestNothingIsWrittenToAPodGroupThatIsAnotherOne(t *testing.T) {
	for _, c := range []struct {
		version, annotation, status string
		group                       eventlog.Payload
	}{
		{"scheduling.volcano.sh/v1beta1", volcano.PodGroupAnnotation, `{"phase":"Inqueue"}`, volcanoGroup("g")},
		{"scheduling.run.ai/v2alpha2", kai.PodGroupAnnotation,
			`{"schedulingConditions":[{"type":"UnschedulableOnNodePool","nodePool":"default","transitionID":"6"}]}`,
			&eventlog.Upserted{Resource: eventlog.KAIPodGroups, Object: &kai.PodGroup{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g", UID: "group-g"},
				Spec:       kai.PodGroupSpec{MinMember: new(int32(2))},
			}}},
	} {
		for _, uid := range []string{"group-g", "another"} {
			synctest.Test(t, func(t *testing.T) {
				w := newCustomWorld(t, `{"apiVersion":"`+c.version+`","kind":"PodGroup","metadata":{"namespace":"ml",`+
					`"name":"g","uid":"`+uid+`"},"status":`+c.status+`}`)
				w.step(c.group)
				w.gangOf(c.annotation)
				if got := w.wrote(); (len(got) > 0) != (uid == "group-g") {
					t.Errorf("%s with the UID %s: written is %v", c.version, uid, got)
				}
			})
		}
	}
}

// A phase that says more than that the gang is placed stays.
func TestAPodGroupThatIsCompletedStaysSo(t *testing.T) {
	for phase, want := range map[string]bool{"Inqueue": true, "Unknown": true, "Running": false, "Completed": false} {
		synctest.Test(t, func(t *testing.T) {
			w := newCustomWorld(t, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{`+
				`"namespace":"ml","name":"g","uid":"group-g"},"status":{"phase":"`+phase+`"}}`)
			w.step(volcanoGroup("g"))
			w.gangOf(volcano.PodGroupAnnotation)
			if got := fmt.Sprint(w.wrote()); strings.Contains(got, `"phase":"Running"`) != want ||
				!strings.Contains(got, `"type":"Scheduled"`) {
				t.Errorf("of one that is %s: written is %s", phase, got)
			}
		})
	}
}

// Lists are written whole, so that another writer's additions meanwhile would be lost: the version that was read, and
// the UID, are preconditions.
func TestStatusesOfCustomResourcesAreWrittenOverNothingNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(t, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{`+
			`"namespace":"ml","name":"g","uid":"group-g","resourceVersion":"41"},"status":{"phase":"Inqueue"}}`)
		w.step(volcanoGroup("g"))
		w.gangOf(volcano.PodGroupAnnotation)
		w.wrote()
		patches := 0
		for _, a := range w.custom.Actions() {
			p, ok := a.(ktesting.PatchAction)
			if !ok {
				continue
			}
			patches++
			var patch struct {
				Metadata struct{ UID, ResourceVersion string }
			}
			if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
				t.Fatal(err)
			}
			if patch.Metadata.UID != "group-g" || patch.Metadata.ResourceVersion != "41" {
				t.Errorf("the preconditions are %+v", patch.Metadata)
			}
		}
		if patches != 1 {
			t.Errorf("%d patches", patches)
		}
	})
}
