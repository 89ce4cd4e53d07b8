package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	ktesting "k8s.io/client-go/testing"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// customWorld is a world with custom resources.
type customWorld struct {
	*world
	custom *dynamicfake.FakeDynamicClient
}

func newCustomWorld(t *testing.T, objects ...string) *customWorld {
	t.Helper()
	var all []runtime.Object
	for _, text := range objects {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	w := &customWorld{world: newWorld(t)}
	w.custom = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), all...)
	w.status.opts.Schedulers = []string{"default-scheduler", "batch"}
	w.status.groups.made.Do(func() { w.status.groups.dynamic = w.custom })
	return w
}

// wrote has all that waits written, and returns the patches of custom resources, without what they say of the object.
func (w *customWorld) wrote() []string {
	w.t.Helper()
	w.custom.ClearActions()
	w.written()
	var lines []string
	for _, a := range w.custom.Actions() {
		if p, ok := a.(ktesting.PatchAction); ok {
			var patch struct{ Status json.RawMessage }
			if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
				w.t.Fatal(err)
			}
			lines = append(lines, strings.TrimPrefix(p.GetSubresource()+" ", " ")+string(patch.Status))
		}
	}
	return lines
}

// member is a pod that names its gang by an annotation.
func member(name, cpu, annotation, group string) eventlog.Payload {
	up := pod(name, cpu, "", 0).(*eventlog.Upserted)
	up.Object.(*corev1.Pod).Annotations = map[string]string{annotation: group}
	return up
}

func volcanoGroup(name string) eventlog.Payload {
	return &eventlog.Upserted{Resource: eventlog.VolcanoPodGroups, Object: &volcano.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("group-" + name)},
		Spec:       volcano.PodGroupSpec{MinMember: 2},
	}}
}

// Volcano's job controller makes no pods before a scheduler has written a phase: it is written for the jobs whose pods
// will be this scheduler's, and for no others.
func TestThePodsOfAVolcanoJobAreLetBeMade(t *testing.T) {
	const owned = `"ownerReferences":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"j","uid":"job",` +
		`"controller":true}]`
	for _, c := range []struct {
		name, owner, status, job string
		pods                     bool
		want                     string
	}{
		{"ours", owned, `{"phase":"Pending"}`, `{"schedulerName":"batch"}`, false, `[{"phase":"Inqueue"}]`},
		{"without a phase", owned, `{}`, `{"schedulerName":"batch"}`, false, `[{"phase":"Inqueue"}]`},
		{"of the default scheduler", owned, `{}`, `{}`, false, `[{"phase":"Inqueue"}]`},
		{"of another scheduler", owned, `{}`, `{"schedulerName":"volcano"}`, false, `[]`},
		{"with pods", owned, `{}`, `{"schedulerName":"batch"}`, true, `[]`},
		{"running", owned, `{"phase":"Running"}`, `{"schedulerName":"batch"}`, false, `[]`},
		{"of no job", `"labels":{}`, `{}`, `{"schedulerName":"batch"}`, false, `[]`},
		{"of a job of Kubernetes", strings.Replace(owned, "batch.volcano.sh/v1alpha1", "batch/v1", 1), `{}`,
			`{"schedulerName":"batch"}`, false, `[]`},
		{"of a job that is another one", strings.Replace(owned, `"uid":"job"`, `"uid":"old"`, 1), `{}`,
			`{"schedulerName":"batch"}`, false, `[]`},
		{"of a job that is gone", strings.Replace(owned, `"name":"j"`, `"name":"k"`, 1), `{}`,
			`{"schedulerName":"batch"}`, false, `[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCustomWorld(t,
					`{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"namespace":"ml","name":"j",`+
						`"uid":"job"},"spec":`+c.job+`}`,
					`{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"namespace":"ml",`+
						`"name":"g","uid":"group-g",`+c.owner+`},"status":`+c.status+`}`)
				if c.pods {
					w.step(member("g-0", "1", volcano.PodGroupAnnotation, "g"))
				}
				w.step(volcanoGroup("g"))
				if got := fmt.Sprint(w.wrote()); got != c.want {
					t.Errorf("written is %s, want %s", got, c.want)
				}
				// A process that begins anew finds the same.
				if err := w.status.Recover(w.engine.Machine(), func(func(eventlog.Entry, error) bool) {}); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(w.wrote()); got != `[]` {
					t.Errorf("after a restart %s is written", got)
				}
			})
		})
	}
}

const (
	stamp   = `"lastTransitionTime":"2026-01-02T03:00:00Z"`
	tooMuch = "0/1 nodes are available: pod group ml/g needs 6 cpu for 2 members; 4 free."
	tooFew  = "0/2 nodes are available: pod group ml/g placed 1 of the 2 members it needs. 1 Insufficient cpu, " +
		"1 node(s) were unschedulable."
	enough = "the gang has its minimum of pods on nodes"
)

func TestAPodGroupOfVolcanoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(t, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{`+
			`"namespace":"ml","name":"g","uid":"group-g"},"status":{"phase":"Inqueue","running":1,"conditions":[`+
			`{"type":"Other","status":"True"}]}}`)
		w.step(node("n1", "4"), volcanoGroup("g"), member("g-0", "3", volcano.PodGroupAnnotation, "g"),
			member("g-1", "3", volcano.PodGroupAnnotation, "g"))
		const other = `{"status":"True","type":"Other"}`
		const refused = `{` + stamp + `,"message":"%s","reason":"NotEnoughResources","status":"%s",` +
			`"type":"Unschedulable"}`
		expect(t, w.wrote(), `{"conditions":[`+other+`,`+fmt.Sprintf(refused, tooMuch, "True")+`]}`)
		w.step(cordoned("n3", "4"))
		expect(t, w.wrote(), `{"conditions":[`+other+`,`+fmt.Sprintf(refused, tooFew, "True")+`]}`)
		w.step(cordoned("n3", "5")) // it is refused again, for the same reason
		expect(t, w.wrote())
		w.step(node("n2", "4"))
		for _, name := range []string{"g-0", "g-1"} {
			w.step(bound(name, w.engine.Machine().Cluster().Pod(types.UID("uid-"+name)).Node))
		}
		expect(t, w.wrote(), `{"conditions":[`+other+`,`+fmt.Sprintf(refused, tooFew, "False")+`,{`+stamp+
			`,"message":"`+enough+`","reason":"Scheduled","status":"True","type":"Scheduled"}],"phase":"Running"}`)
		got, err := w.custom.Resource(volcano.SchemeGroupVersion.WithResource("podgroups")).Namespace("ml").
			Get(context.Background(), "g", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(got.Object, "status", "running"); n != 1 {
			t.Errorf("what Volcano's controllers write is lost: %v", got.Object["status"])
		}
	})
}

func TestAPodGroupOfKAIIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(t, `{"apiVersion":"scheduling.run.ai/v2alpha2","kind":"PodGroup","metadata":{`+
			`"namespace":"ml","name":"g","uid":"group-g"},"status":{"schedulingConditions":[`+
			`{"type":"UnschedulableOnNodePool","nodePool":"east","transitionID":"6"}]}}`)
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.KAIPodGroups, Object: &kai.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g", UID: "group-g"},
			Spec:       kai.PodGroupSpec{MinMember: new(int32(2))},
		}}, member("g-0", "3", kai.PodGroupAnnotation, "g"), member("g-1", "3", kai.PodGroupAnnotation, "g"))
		const east = `{"nodePool":"east","transitionID":"6","type":"UnschedulableOnNodePool"}`
		refused := func(why string, id int) string {
			return fmt.Sprintf(`status {"schedulingConditions":[`+east+`,{`+stamp+`,"message":"%[1]s",`+
				`"nodePool":"default","reason":"Unschedulable","reasons":[{"message":"%[1]s",`+
				`"reason":"Unschedulable"}],"status":"True","transitionID":"%[2]d",`+
				`"type":"UnschedulableOnNodePool"}]}`, why, id)
		}
		expect(t, w.wrote(), refused(tooMuch, 7))
		w.step(cordoned("n3", "4"))
		expect(t, w.wrote(), refused(tooFew, 8))
		w.step(cordoned("n3", "5")) // it is refused again, for the same reason
		expect(t, w.wrote())
		w.step(node("n2", "4"))
		for _, name := range []string{"g-0", "g-1"} {
			w.step(bound(name, w.engine.Machine().Cluster().Pod(types.UID("uid-"+name)).Node))
		}
		expect(t, w.wrote(), `status {"schedulingConditions":[`+east+`]}`)
	})
}

// An API server that keeps the status apart from the object drops what is written into the object: that is told.
func TestAPhaseThatIsNotTakenIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(t,
			`{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"namespace":"ml","name":"j",`+
				`"uid":"job"}}`,
			`{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"namespace":"ml","name":"g",`+
				`"uid":"group-g","ownerReferences":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"j",`+
				`"uid":"job","controller":true}]}}`)
		w.custom.PrependReactor("patch", "podgroups", func(a ktesting.Action) (bool, runtime.Object, error) {
			unchanged, err := w.custom.Tracker().Get(schema.GroupVersionResource(a.GetResource()), "ml", "g")
			return true, unchanged, err
		})
		var reports []string
		w.status.opts.Report = func(m string) { reports = append(reports, m) }
		w.step(volcanoGroup("g"))
		w.wrote()
		if len(reports) != 1 || !strings.Contains(reports[0], "did not take the phase Inqueue") {
			t.Errorf("reported is %q", reports)
		}
	})
}
