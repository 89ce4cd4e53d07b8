package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// replicas returns an object that asks for n pods with the label app.
func replicas(version, kind, app string, n int) string {
	selector := "matchLabels: {app: " + app + "}"
	if kind == "ReplicationController" {
		selector = "app: " + app
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec:\n  replicas: %d\n  selector: {%s}\n  "+
		"template:\n    metadata: {labels: {app: %s}}\n    spec: {containers: [{name: c, resources: {requests: {cpu: "+
		"1}}}]}\n", version, kind, app, n, selector, app)
}

// owned is a pod that an object controls.
func owned(name, version, kind, owner string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  ownerReferences: [{apiVersion: %s, "+
		"kind: "+
		"%s, name: %s, uid: u, controller: true}]\nspec: {containers: [{name: c}]}\n", name, version, kind, owner)
}

func podNames(w *Workload) (names []string) {
	for i := range w.Pods {
		names = append(names, w.Pods[i].Name)
	}
	return names
}

func TestReplicasBecomeThePodsThatTheirControllersMake(t *testing.T) {
	for _, c := range []struct {
		kind, version string
		owner         string
	}{
		{"ReplicaSet", "apps/v1", "web"}, {"ReplicationController", "v1", "web"}, {"Deployment", "apps/v1", "web-"},
	} {
		_, w := parse(t, replicas(c.version, c.kind, "web", 12)+"---\n"+pod+podTail)
		if len(w.Pods) != 13 {
			t.Fatalf("%s of 12 beside a pod: %d pods", c.kind, len(w.Pods))
		}
		for i := range w.Pods[:12] {
			p := w.Pods[i].Build(w.Pods[i].Template, "u", 0)
			ref := metav1.GetControllerOf(p)
			if ref == nil || !strings.HasPrefix(ref.Name, c.owner) || ref.UID == "" {
				t.Fatalf("%s: pod %s is controlled by %+v", c.kind, p.Name, ref)
			}
			if want := ref.Name + "-"; !strings.HasPrefix(p.Name, want) || len(p.Name) != len(want)+5 {
				t.Errorf("%s: pod is named %s, want %s and five letters", c.kind, p.Name, want)
			}
			if p.Labels["app"] != "web" || p.Spec.RestartPolicy != corev1.RestartPolicyAlways || *p.Spec.Priority != 0 {
				t.Errorf("%s: pod %+v", c.kind, p)
			}
			if set := p.Labels["pod-template-hash"]; c.kind == "Deployment" && ref.Name != "web-"+set {
				t.Errorf("the ReplicaSet %s and the label %q", ref.Name, set)
			}
		}
	}
	_, w := parse(t, replicas("apps/v1", "StatefulSet", "db", 3))
	if got := podNames(w); !slices.Equal(got, []string{"db-0", "db-1", "db-2"}) {
		t.Errorf("the pods of a StatefulSet: %v", got)
	}
	if l := w.Pods[1].Template.Labels; l["apps.kubernetes.io/pod-index"] != "1" ||
		l["statefulset.kubernetes.io/pod-name"] != "db-1" {
		t.Errorf("labels of db-1: %v", l)
	}
}

func TestAStatefulSetsClaimsComeWithItsPods(t *testing.T) {
	_, w := parse(t, replicas("apps/v1", "StatefulSet", "db", 2)+"  ordinals: {start: 7}\n  volumeClaimTemplates:\n "+
		" - "+
		"metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n")
	if got := podNames(w); !slices.Equal(got, []string{"db-7", "db-8"}) {
		t.Errorf("the pods: %v", got)
	}
	var claims []string
	for _, o := range w.Objects {
		if o.Resource == eventlog.PersistentVolumeClaims {
			claims = append(claims, o.Object.GetName())
		}
	}
	if !slices.Equal(claims, []string{"data-db-7", "data-db-8"}) {
		t.Errorf("the claims: %v", claims)
	}
	v := w.Pods[1].Template.Spec.Volumes
	if len(v) != 1 || v[0].Name != "data" || v[0].PersistentVolumeClaim.ClaimName != "data-db-8" {
		t.Errorf("volumes of db-8: %+v", v)
	}
}

func TestReplicasThatAreInTheFileAreNotMadeAgain(t *testing.T) {
	set := replicas("apps/v1", "ReplicaSet", "web", 3)
	for _, c := range []struct {
		name, text string
		pods       int
	}{
		{"one by reference", set + owned("web-aaaaa", "apps/v1", "ReplicaSet", "web"), 3},
		{"one by label", set + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: web}}\n" +
			podTail, 3},
		{"one of another kind", set + owned("x", "v1", "ReplicationController", "web"), 4},
		{"one that has ended", set + owned("web-aaaaa", "apps/v1", "ReplicaSet", "web") +
			"status: {phase: Failed}\n", 3},
		{"more than asked for", replicas("apps/v1", "ReplicaSet", "web", 1) + owned("p", "apps/v1", "ReplicaSet",
			"web") +
			owned("q", "apps/v1", "ReplicaSet", "web"), 2},
		{"none asked for", replicas("apps/v1", "ReplicaSet", "web", 0) + "---\n" + pod + podTail, 1},
		{"a member of a stateful set", replicas("apps/v1", "StatefulSet", "db", 3) +
			owned("db-1", "apps/v1", "StatefulSet", "db"), 3},
		{"a deployment and its set", replicas("apps/v1", "Deployment", "web", 3) + "---\n" +
			strings.Replace(set, "{name: web}", "{name: web-1, labels: {app: web}}", 1), 3},
	} {
		if _, w := parse(t, c.text); len(w.Pods) != c.pods {
			t.Errorf("%s: %d pods, want %d: %v", c.name, len(w.Pods), c.pods, podNames(w))
		}
	}
}

func TestReplicasArriveAndRunAsTheirAnnotationsSay(t *testing.T) {
	text := strings.Replace(replicas("apps/v1", "Deployment", "web", 2), "{name: web}",
		"{name: web, annotations: {rollcall.dev/arrival: 5m, rollcall.dev/duration: 10m}}", 1)
	_, w := parse(t, text)
	for _, p := range w.Pods {
		if p.Arrival != 5*time.Minute || p.Duration != 10*time.Minute ||
			p.Template.Annotations[DurationAnnotation] != "10m" {
			t.Errorf("pod %s comes at %s and runs %s: %v", p.Name, p.Arrival, p.Duration, p.Template.Annotations)
		}
	}
	if o := w.Objects[0]; o.Resource != eventlog.ReplicaSets || o.At != 5*time.Minute {
		t.Errorf("the Deployment's ReplicaSet: %+v", o)
	}
}

func TestJobsThatHaveEndedMakeNoPods(t *testing.T) {
	_, w := parse(t, pod+podTail+"---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: "+
		"{containers: [{name: c}]}}}\nstatus: {conditions: [{type: Complete, status: 'True'}]}\n")
	if len(w.Pods) != 1 || len(w.Notes) != 1 || w.Notes[0] != "1 Job that has ended is left out" {
		t.Errorf("pods %v, notes %q", podNames(w), w.Notes)
	}
}

// ownerOf is an object of a kind of the table podKinds with a count of n, and how many pods that makes.
func ownerOf(version, kind, name string, n int) (text string, pods int) {
	const template = "template: {spec: {containers: [{name: c}]}}"
	spec, pods := "", n
	switch kind {
	case "JobSet":
		spec = fmt.Sprintf("replicatedJobs: [{name: a, replicas: %d, template: {spec: {parallelism: 2, %s}}}]", n,
			template)
		pods = 2 * n
	case "LeaderWorkerSet":
		spec = fmt.Sprintf("replicas: 2, leaderWorkerTemplate: {size: %d, workerT%s}", n+1, template[1:])
		pods = 2 * (n + 1)
	case "VolcanoJob":
		kind, spec = "Job", fmt.Sprintf("tasks: [{replicas: %d, %s}, {replicas: 1, %s}]", n, template, template)
		pods = n + 1
	case "TFJob":
		spec = fmt.Sprintf("tfReplicaSpecs: {PS: {%s}, Worker: {replicas: %d, %s}}", template, n, template)
		pods = n + 1
	case "RayCluster":
		spec = fmt.Sprintf("headGroupSpec: {%s}, workerGroupSpecs: [{groupName: w, replicas: %d, numOfHosts: 2, %s}]",
			template, n, template)
		pods = 2*n + 1
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: {%s}\n", version, kind, name, spec), pods
}

// TestNoPodOfAFileDisappears: however many objects of whatever kinds ask for pods, as many are known, or the file is
// refused.
func TestNoPodOfAFileDisappears(t *testing.T) {
	kinds := []struct{ version, kind string }{
		{"apps/v1", "ReplicaSet"}, {"apps/v1", "StatefulSet"}, {"apps/v1", "Deployment"}, {"v1",
			"ReplicationController"},
		{"batch/v1", "Job"}, {"v1", "Pod"}, {"apps/v1", "DaemonSet"}, {"ray.io/v1", "RayService"},
		{"jobset.x-k8s.io/v1alpha2", "JobSet"}, {"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"},
		{"batch.volcano.sh/v1alpha1", "VolcanoJob"}, {"kubeflow.org/v1", "TFJob"}, {"ray.io/v1", "RayCluster"},
	}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		want, refused := 0, ""
		for i := range rapid.IntRange(1, 6).Draw(t, "objects") {
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			n := rapid.IntRange(0, 4).Draw(t, "replicas")
			name := fmt.Sprintf("o%d", i)
			text.WriteString("---\n")
			switch k.kind {
			case "Job":
				fmt.Fprintf(&text, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s}\nspec: {parallelism: %d, "+
					"template: {spec: {containers: [{name: c}]}}}\n", name, n+1)
				want += n + 1
			case "Pod":
				fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n%s", name, podTail)
				want++
			case "JobSet", "LeaderWorkerSet", "VolcanoJob", "TFJob", "RayCluster":
				made, pods := ownerOf(k.version, k.kind, name, n)
				text.WriteString(made)
				want += pods
			case "DaemonSet", "RayService":
				fmt.Fprintf(&text, "apiVersion: %s\nkind: %s\nmetadata: {name: %s}\n", k.version, k.kind, name)
				if refused == "" {
					refused = name
				}
			default:
				text.WriteString(replicas(k.version, k.kind, name, n))
				want += n
			}
		}
		_, w, err := Parse("F", strings.NewReader(text.String()))
		if refused != "" {
			if err == nil || !strings.Contains(err.Error(), "("+refused+")") {
				t.Fatalf("the error %v does not name %s", err, refused)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Pods) != want {
			t.Fatalf("%d pods of %d:\n%s", len(w.Pods), want, text.String())
		}
	})
}

// TestNoRowOfATraceDisappears: the same for traces and for recorded entries.
func TestNoRowOfATraceDisappears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "rows")
		swf, openb, log, processors := "", openbPodsHead, "", 0
		for i := range n {
			size := rapid.IntRange(1, 5).Draw(t, "processors")
			processors += size
			swf += fmt.Sprintf("%d 0 -1 5 %d -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", i+1, size)
			openb += fmt.Sprintf("p%d,1,1,0,0,,LS,Running,0,1,0\n", i)
			log += strings.Replace(recorded("pods",
				fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%d",`+
					`"namespace":"x","uid":"u%d"}}`, i, i)), `"seq":1`, fmt.Sprintf(`"seq":%d`, i+1), 1)
		}
		for text, want := range map[string]int{swf: processors, openb: n, log: n} {
			_, w, err := Parse("F", strings.NewReader(text))
			if err != nil || len(w.Pods) != want {
				t.Fatalf("%v, want %d pods of\n%s", err, want, text)
			}
		}
	})
}
