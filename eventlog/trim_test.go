package eventlog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// leaves adds the paths of the fields in v that are not empty, with the text at each: [] is any element of a list, *
// any key of a map.
func leaves(v any, path string, into map[string][]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if marker.MatchString(key) { // a map with free keys
				into[path+".*"] = append(into[path+".*"], key)
				leaves(value, path+".*", into)
				continue
			}
			leaves(value, path+"."+key, into)
		}
	case []any:
		for _, element := range v {
			leaves(element, path+"[]", into)
		}
	case string:
		if v != "" {
			into[path] = append(into[path], v)
		}
	default:
		if v != nil && v != false && v != float64(0) {
			into[path] = append(into[path], fmt.Sprint(v))
		}
	}
}

func jsonLeaves(t *testing.T, obj any) map[string][]string {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	into := make(map[string][]string)
	leaves(v, "", into)
	return into
}

var marker = regexp.MustCompile(`marker-\d+-`)

// Fields that may never reach a log, whatever their value. The test searches every object for them.
var forbidden = regexp.MustCompile(
	`(^|\.)(env|envFrom|args|command|lifecycle|\w*[pP]robe|imagePullSecrets|securityContext|` +
		`secret|configMap|projected|downwardAPI|\w*[sS]ecretRef|volumeAttributes|secretName|managedFields|finalizers|selfLink|` +
		`parameters|opaque|networkData|data|serviceAccountName|hostAliases|message|mountOptions|resourceVersion)(\.|\[|$)`,
)

// Every field of every object is filled with a marker of its own. Which markers reach the record says
// which fields do: the golden file lists them all, so that a field added to the API or to the table shows.
func TestOnlyListedFieldsReachTheRecord(t *testing.T) {
	var listing bytes.Buffer
	for _, res := range eventlog.Resources() {
		full := logged(fullObject(res))
		trimmed := eventlog.Trim(res, full)
		record := encode(
			t,
			eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: trimmed}},
			[32]byte{},
		)
		all, kept := jsonLeaves(t, full), jsonLeaves(t, trimmed)
		if len(all) < 20 {
			t.Fatalf("%s: only %d fields were filled", res, len(all))
		}
		allowed := make(map[string]bool)
		fmt.Fprintf(&listing, "%s\n", res)
		for _, path := range slices.Sorted(mapKeys(kept)) {
			if forbidden.MatchString(path) {
				t.Errorf("%s: %s is kept", res, path)
			}
			fmt.Fprintf(&listing, "  %s\n", strings.TrimPrefix(path, "."))
			for _, value := range kept[path] {
				for _, m := range marker.FindAllString(value, -1) {
					allowed[m] = true
				}
			}
		}
		for path, values := range all {
			for _, m := range marker.FindAllString(strings.Join(values, " "), -1) {
				if !allowed[m] && bytes.Contains(record, []byte(m)) {
					t.Errorf("%s: the record has the value of %s", res, path)
				}
			}
		}
	}
	golden(t, "kept.txt", listing.Bytes())
}

// logged makes those parts of a filled object what they must be to be kept at all.
func logged(obj eventlog.Object) eventlog.Object {
	yes := true
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		owners[0].Controller = &yes
		obj.SetOwnerReferences(owners)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Status.Conditions[0].Type = corev1.PodResizePending
		pod.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
	}
	return obj
}

// golden compares got with a file of testdata. Run with ROLLCALL_REWRITE=1 to write it again: only commit the changes
// if you know why a field is logged now.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("ROLLCALL_REWRITE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed:\n%s", path, got)
	}
}

func mapKeys(m map[string][]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestAnnotationsOutsideOfTheListAreDropped(t *testing.T) {
	for _, res := range eventlog.Resources() {
		obj := eventlog.NewObject(res)
		obj.SetName("x")
		obj.SetAnnotations(map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "hunter2",
			"rollcall.dev/token":    "hunter2",
			"rollcall.dev/duration": "60s",
		})
		kept := eventlog.Trim(res, obj).GetAnnotations()
		delete(kept, "rollcall.dev/duration")
		if len(kept) > 0 {
			t.Errorf("%s: keeps %v", res, kept)
		}
	}
	got := eventlog.Trim(
		eventlog.Pods,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"rollcall.dev/duration": "60s"}}},
	)
	if got.GetAnnotations()["rollcall.dev/duration"] != "60s" {
		t.Error("a pod's duration is lost")
	}
}

func TestTrimOfARealPod(t *testing.T) {
	const manifest = `
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: default
  uid: u
  resourceVersion: "77"
  labels: {app: a}
  annotations: {secret: hunter2, rollcall.dev/arrival: 5s}
  ownerReferences:
  - {apiVersion: batch/v1, kind: Job, name: j, uid: ju, controller: true, blockOwnerDeletion: true}
  - {apiVersion: v1, kind: ConfigMap, name: c, uid: cu}
spec:
  serviceAccountName: robot
  containers:
  - name: main
    image: i
    command: [run, --token=hunter2]
    args: [hunter2]
    env: [{name: TOKEN, value: hunter2}]
    envFrom: [{secretRef: {name: s}}]
    ports: [{name: web, containerPort: 80, hostPort: 8080}]
    resources: {requests: {cpu: 100m}}
    volumeMounts: [{name: v, mountPath: /v}]
    livenessProbe: {exec: {command: [hunter2]}}
  volumes:
  - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
  - {name: s, secret: {secretName: s}}
  - {name: scratch, emptyDir: {}}
  - {name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
  - {name: v, persistentVolumeClaim: {claimName: data}}
status:
  phase: Running
  podIP: 10.0.0.1
  conditions: [{type: Ready, status: "True", message: hunter2}]
  containerStatuses:
  - {name: main, image: i, imageID: x, ready: true, restartCount: 0, allocatedResources: {cpu: 100m}}
`
	const want = `metadata:
  annotations:
    rollcall.dev/arrival: 5s
  labels:
    app: a
  name: p
  namespace: default
  ownerReferences:
  - apiVersion: batch/v1
    controller: true
    kind: Job
    name: j
    uid: ju
  uid: u
spec:
  containers:
  - image: i
    name: main
    ports:
    - containerPort: 80
      hostPort: 8080
    resources:
      requests:
        cpu: 100m
  volumes:
  - emptyDir:
      medium: Memory
      sizeLimit: 1Gi
    name: shm
  - name: v
    persistentVolumeClaim:
      claimName: data
status:
  containerStatuses:
  - allocatedResources:
      cpu: 100m
    image: ""
    imageID: ""
    lastState: {}
    name: main
    ready: false
    restartCount: 0
    state: {}
  phase: Running
`
	var p corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &p); err != nil {
		t.Fatal(err)
	}
	before := p.DeepCopy()
	trimmed := eventlog.Trim(eventlog.Pods, &p)
	got, err := yaml.Marshal(trimmed)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("trimmed to\n%s, want\n%s", got, want)
	}
	trimmed.GetLabels()["app"] = "changed"
	trimmed.(*corev1.Pod).Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("7")
	if !equality.Semantic.DeepEqual(&p, before) {
		t.Error("the pod itself has changed")
	}
}

func TestTrimIsIdempotent(t *testing.T) {
	for _, res := range eventlog.Resources() {
		for seed := range int64(5) {
			once := eventlog.Trim(res, randomObject(res, seed))
			want := encode(
				t,
				eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: once}},
				[32]byte{},
			)
			got := encode(
				t,
				eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: eventlog.Trim(res, once)}},
				[32]byte{},
			)
			if !bytes.Equal(got, want) {
				t.Errorf("%s, seed %d: trimming twice is not trimming once", res, seed)
			}
		}
	}
}

func TestTrimOfTheWrongObjectPanics(t *testing.T) {
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, `Trim("nodes")`) {
			t.Errorf("panic %s", v)
		}
	}()
	eventlog.Trim(eventlog.Nodes, &corev1.Pod{})
}

func BenchmarkTrimPod(b *testing.B) {
	p := pod("p")
	b.ReportAllocs()
	for b.Loop() {
		eventlog.Trim(eventlog.Pods, p)
	}
}
