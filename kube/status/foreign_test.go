package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// restart replaces the Status by another one, which has written none of the waiting statuses.
func (w *customWorld) restart() {
	w.t.Helper()
	w.status = New(w.status.opts)
	w.status.groups.made.Do(func() { w.status.groups.dynamic = w.custom })
	if err := w.status.Recover(w.engine.Machine(), func(func(eventlog.Entry, error) bool) {}); err != nil {
		w.t.Fatal(err)
	}
}

// gets counts the reads of a resource since wrote was called last.
func (w *customWorld) gets(resource string) (n int) {
	for _, a := range w.custom.Actions() {
		if a.Matches("get", resource) {
			n++
		}
	}
	return n
}

// wrote has all that waits written, and returns the patches of custom resources, without their preconditions.
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
		{"whose tasks are ours", owned, `{}`, `{"schedulerName":"volcano","tasks":[{"template":{"spec":{` +
			`"schedulerName":"batch"}}}]}`, false, `[{"phase":"Inqueue"}]`},
		{"whose tasks are another scheduler's", owned, `{}`, `{"schedulerName":"batch","tasks":[{"template":{"spec":{` +
			`"schedulerName":"volcano"}}}]}`, false, `[]`},
		{"with one task of another scheduler", owned, `{}`, `{"schedulerName":"batch","tasks":[` +
			`{"template":{"spec":{}}},{"template":{"spec":{"schedulerName":"volcano"}}}]}`, false, `[]`},
		{"whose tasks leave it to the job", owned, `{}`, `{"schedulerName":"batch","tasks":[{"template":{}}]}`, false,
			`[{"phase":"Inqueue"}]`},
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
				// The first process ends before it has written anything, and the next one, which begins again, writes
				// it.
				w.step(volcanoGroup("g"))
				w.restart()
				if got := fmt.Sprint(w.wrote()); got != c.want {
					t.Errorf("written is %s, want %s", got, c.want)
				}
				w.restart()
				if got := fmt.Sprint(w.wrote()); got != `[]` {
					t.Errorf("after another restart %s is written", got)
				}
			})
		})
	}
}

// Anybody may write any owner into a PodGroup. One that can be no object's name is not asked for, now or later.
func TestAJobWithoutANameOfAnObjectIsNotRead(t *testing.T) {
	for _, owner := range []string{`"apiVersion":"batch.volcano.sh/v1alpha1","name":"../../secrets/x"`,
		`"apiVersion":"batch.volcano.sh/..","name":"j"`, `"apiVersion":"batch.volcano.sh/v1%2f","name":"j"`,
		`"apiVersion":"batch.volcano.sh/v1alpha1","name":".."`} {
		synctest.Test(t, func(t *testing.T) {
			w := newCustomWorld(t, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{`+
				`"namespace":"ml","name":"g","uid":"group-g","ownerReferences":[{"kind":"Job","uid":"job",`+
				`"controller":true,`+owner+`}]}}`)
			w.step(volcanoGroup("g"))
			if got := w.wrote(); len(got) > 0 || w.gets("jobs") > 0 || w.gets("podgroups") != 1 {
				t.Errorf("%s: written is %q, with %d reads of jobs and %d of PodGroups", owner, got, w.gets("jobs"),
					w.gets("podgroups"))
			}
		})
	}
}

// Other writers' entries in the lists of a status, of whatever form, stay there, and the own condition is reported.
func TestStatusesOfAnyFormAreWrittenInto(t *testing.T) {
	const strange = `null,"text",5,{"type":{"is":"none"},"nodePool":["default"],"transitionID":-3,"status":[]},` +
		`{"type":"Scheduled","status":{"no":"text"}}`
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(t,
			`{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"namespace":"ml","name":"g",`+
				`"uid":"group-g"},"status":{"phase":7,"conditions":[`+strange+`]}}`,
			`{"apiVersion":"scheduling.run.ai/v2alpha2","kind":"PodGroup","metadata":{"namespace":"ml","name":"k",`+
				`"uid":"group-k"},"status":{"schedulingConditions":[`+strange+`]}}`)
		w.step(node("n1", "4"), volcanoGroup("g"), &eventlog.Upserted{Resource: eventlog.KAIPodGroups,
			Object: &kai.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "k", UID: "group-k"},
				Spec: kai.PodGroupSpec{MinMember: new(int32(1))}}},
			member("g-0", "9", volcano.PodGroupAnnotation, "g"), member("g-1", "9", volcano.PodGroupAnnotation, "g"),
			member("k-0", "9", kai.PodGroupAnnotation, "k"))
		got := w.wrote()
		if len(got) != 2 {
			t.Fatalf("written is %q", got)
		}
		for _, patch := range got {
			if !strings.Contains(patch, `[null,"text",5,{`) || !strings.Contains(patch, `"type":"Unschedulable`) {
				t.Errorf("written is %s", patch)
			}
		}
	})
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
			w.step(bound(name, w.engine.Machine().Cluster().Pods().Get(types.UID("uid-"+name)).Node))
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
			w.step(bound(name, w.engine.Machine().Cluster().Pods().Get(types.UID("uid-"+name)).Node))
		}
		expect(t, w.wrote(), `status {"schedulingConditions":[`+east+`]}`)
	})
}

// An API server that keeps the status apart from the object drops a status in the object: that is reported.
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
		if len(reports) != 1 || !strings.Contains(reports[0], "did not take the phase Inqueue") ||
			!strings.HasSuffix(reports[0], "tried on") {
			t.Errorf("reported is %q", reports)
		}
	})
}

const ownedByJob = `"ownerReferences":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"j","uid":"job",` +
	`"controller":true}]`

// newJobWorld is a world with a Job of Volcano for this scheduler, and its PodGroup.
func newJobWorld(t *testing.T, status string) *customWorld {
	t.Helper()
	return newCustomWorld(t,
		`{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"namespace":"ml","name":"j",`+
			`"uid":"job"}}`,
		`{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"namespace":"ml","name":"g",`+
			`"uid":"group-g",`+ownedByJob+`},"status":`+status+`}`)
}

// Nothing else asks for the pods of a job of Volcano: its phase is tried to be written until it is.
func TestThePhaseOfAVolcanoJobIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newJobWorld(t, `{}`)
		back := time.Now().Add(10 * time.Minute)
		w.custom.PrependReactor("patch", "podgroups", func(ktesting.Action) (bool, runtime.Object, error) {
			if time.Now().Before(back) {
				return true, nil, apierrors.NewServiceUnavailable("starting")
			}
			return false, nil, nil
		})
		var reports []string
		w.status.opts.Report = func(m string) { reports = append(reports, m) }
		w.step(volcanoGroup("g"))
		got := w.wrote()
		if len(got) < maxTries || len(got) > 30 || got[len(got)-1] != `{"phase":"Inqueue"}` {
			t.Errorf("written is %q", got)
		}
		phase := func() string {
			g, err := w.custom.Resource(volcano.SchemeGroupVersion.WithResource("podgroups")).Namespace("ml").
				Get(context.Background(), "g", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			is, _, _ := unstructured.NestedString(g.Object, "status", "phase")
			return is
		}
		if is := phase(); is != volcanoInqueue {
			t.Errorf("the phase is %q", is)
		}
		if len(reports) != 1 || !strings.HasSuffix(reports[0], "tried on") {
			t.Errorf("reported is %q", reports)
		}
	})
}

// If a PodGroup has no pods any longer, as after the end of its job, only its phase is read.
func TestTheJobOfAPodGroupThatRanIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newJobWorld(t, `{"phase":"Running"}`)
		w.step(volcanoGroup("g"))
		w.restart()
		expect(t, w.wrote())
		if groups, jobs := w.gets("podgroups"), w.gets("jobs"); groups != 1 || jobs != 0 {
			t.Errorf("read are %d PodGroups and %d Jobs, want 1 and 0", groups, jobs)
		}
	})
}

// As Volcano's own scheduler does if it runs too, somebody writes other words after each write.
func TestTwoWritersOfAConditionDoNotTakeTurns(t *testing.T) {
	for _, c := range []struct{ name, object, annotation string }{
		{"Volcano", `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"namespace":"ml",` +
			`"name":"g","uid":"group-g"},"status":{"phase":"Inqueue"}}`, volcano.PodGroupAnnotation},
		{"KAI", `{"apiVersion":"scheduling.run.ai/v2alpha2","kind":"PodGroup","metadata":{"namespace":"ml",` +
			`"name":"g","uid":"group-g"}}`, kai.PodGroupAnnotation},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCustomWorld(t, c.object)
				w.custom.PrependReactor("patch", "podgroups", func(a ktesting.Action) (bool, runtime.Object, error) {
					handled, obj, err := ktesting.ObjectReaction(w.custom.Tracker())(a)
					if err != nil {
						return handled, obj, err
					}
					others := obj.(*unstructured.Unstructured).DeepCopy()
					for _, list := range []string{"conditions", "schedulingConditions"} {
						conditions, _, _ := unstructured.NestedSlice(others.Object, "status", list)
						for _, each := range conditions {
							each.(map[string]any)["message"] = "in other words"
						}
						if err := unstructured.SetNestedSlice(others.Object, conditions, "status", list); err != nil {
							t.Fatal(err)
						}
					}
					return handled, obj, w.custom.Tracker().Update(
						schema.GroupVersionResource(a.GetResource()), others, "ml")
				})
				group := volcanoGroup("g")
				if c.name == "KAI" {
					group = kaiGroup("g")
				}
				w.step(node("n1", "4"), cordoned("n3", "4"), group, member("g-0", "3", c.annotation, "g"),
					member("g-1", "3", c.annotation, "g"))
				writes := len(w.wrote())
				for cpu := range 5 {
					w.step(cordoned("n3", fmt.Sprint(5+cpu)))
					writes += len(w.wrote())
				}
				if writes != 1 {
					t.Errorf("written are %d times the same words, want 1", writes)
				}
				w.step(cordoned("n4", "4")) // now the words are others
				if got := w.wrote(); len(got) != 1 {
					t.Errorf("other words are not written: %q", got)
				}
			})
		})
	}
}

func kaiGroup(name string) eventlog.Payload {
	return &eventlog.Upserted{Resource: eventlog.KAIPodGroups, Object: &kai.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("group-" + name)},
		Spec:       kai.PodGroupSpec{MinMember: new(int32(2))},
	}}
}

// hardGroup is one that is refused.
func hardGroup(name string) eventlog.Payload {
	up := volcanoGroup(name).(*eventlog.Upserted)
	up.Object.(*volcano.PodGroup).Spec.NetworkTopology = &volcano.NetworkTopology{HighestTierAllowed: new(int64(1))}
	return up
}

const hardRefused = "pod group ml/g is refused: podgroups.scheduling.volcano.sh ml/g has spec.networkTopology of the " +
	"mode hard, which is not carried out: leave it out, and use annotation rollcall.dev/topology-required"

// A refused gang's PodGroup and pods say so, and a job's pods are not made for it.
func TestARefusedPodGroupOfVolcanoIsTold(t *testing.T) {
	const condition = `{"conditions":[{` + stamp + `,"message":"` + hardRefused + `","reason":"SchedulerError",` +
		`"status":"True","type":"Unschedulable"}]}`
	synctest.Test(t, func(t *testing.T) {
		w := newJobWorld(t, `{"phase":"Pending"}`)
		w.step(node("n1", "4"), hardGroup("g"))
		expect(t, w.wrote(), condition)
		w.restart()
		expect(t, w.wrote())
		w.step(volcanoGroup("g"))
		expect(t, w.wrote(), `{"phase":"Inqueue"}`)
	})
	synctest.Test(t, func(t *testing.T) { // of nobody's job, and with pods
		w := newCustomWorld(t, `{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{`+
			`"namespace":"ml","name":"g","uid":"group-g"},"status":{}}`)
		w.step(node("n1", "4"), hardGroup("g"))
		expect(t, w.wrote())
		other := member("g-other", "3", volcano.PodGroupAnnotation, "g").(*eventlog.Upserted)
		other.Object.(*corev1.Pod).Spec.SchedulerName = "volcano"
		w.step(other)
		expect(t, w.wrote())
		w.step(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: "g-other", UID: "uid-g-other"},
			member("g-0", "3", volcano.PodGroupAnnotation, "g"))
		expect(t, w.wrote(), condition)
		w.step(member("g-1", "3", volcano.PodGroupAnnotation, "g"))
		expect(t, w.wrote())
	})
}

// A gang that contradicts itself: first all members hear it, and then only the members that come.
func TestARefusedGangIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, podGroup("g", 2))
		w.step(node("n1", "4"), &eventlog.Upserted{Resource: eventlog.PodGroups, Object: podGroup("g", 2)},
			pod("g-0", "1", "g", 0))
		expect(t, w.written())
		const why = "pod group ml/g is refused: its members have different priorities: pod ml/g-0 0, pod ml/g-1 5"
		told := func(name string) []string {
			return []string{
				"patch " + name + "/status of uid-" + name + " PodScheduled=False SchedulerError: " + why,
				"create event Warning FailedScheduling of " + name + " by default-scheduler: " + why,
			}
		}
		w.step(pod("g-1", "1", "g", 5))
		got := w.written()
		for _, line := range append(append(told("g-0"), told("g-1")...),
			"update PodGroup g PodGroupInitiallyScheduled=False SchedulerError: "+why) {
			if !slices.Contains(got, line) {
				t.Errorf("not written is %s", line)
			}
		}
		if len(got) != 5 {
			t.Errorf("written is %q", got)
		}
		again := pod("g-1", "1", "g", 5).(*eventlog.Upserted)
		again.Object.(*corev1.Pod).Labels = map[string]string{"seen": "again"}
		w.seenAgain(again)
		expect(t, w.written())
		w.step(pod("g-2", "1", "g", 0))
		if got := w.written(); len(got) != 2 || !slices.Contains(got, told("g-2")[0]) {
			t.Errorf("of the member that came is written %q", got)
		}
	})
}

// seenAgain is step with a pod whose status stays.
func (w *world) seenAgain(in *eventlog.Upserted) {
	w.t.Helper()
	seen := w.seen[in.Object.GetUID()]
	w.now = w.now.Add(time.Minute)
	w.take(in)
	w.seen[in.Object.GetUID()] = seen
}
