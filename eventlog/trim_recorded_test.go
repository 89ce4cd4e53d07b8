package eventlog_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// forbiddenInRecordings is forbidden, without the messages of statuses.
var forbiddenInRecordings = regexp.MustCompile(strings.Replace(forbidden.String(), "message|", "", 1))

// recorded returns the object as the log of a recorder has it.
func recorded(t *testing.T, res eventlog.Resource, obj eventlog.Object) (eventlog.Object, eventlog.Encoding) {
	t.Helper()
	c := eventlog.Encoder{Recording: true}
	up, encoding, err := c.Logged(&eventlog.Upserted{Resource: res, Object: obj})
	if err != nil {
		t.Fatal(err)
	}
	return up.Object, encoding
}

// Every field of every object is filled with a marker of its own. The golden file lists the fields that only a
// recording has.
func TestOnlyListedFieldsReachARecording(t *testing.T) {
	usual := keptPaths(t)
	var listing bytes.Buffer
	for _, res := range eventlog.Resources() {
		full := logged(fullObject(res))
		if pod, ok := full.(*corev1.Pod); ok {
			pod.Annotations = map[string]string{eventlog.BoundByAnnotation: "a", "other": "b"}
		}
		object, _ := recorded(t, res, full)
		fmt.Fprintf(&listing, "%s\n", res)
		for _, path := range slices.Sorted(mapKeys(jsonLeaves(t, object))) {
			path = strings.TrimPrefix(path, ".")
			if forbiddenInRecordings.MatchString(path) {
				t.Errorf("%s: %s is kept", res, path)
			}
			if !usual[string(res)+"."+path] {
				fmt.Fprintf(&listing, "  %s\n", path)
			}
		}
	}
	golden(t, "kept_recorded.txt", listing.Bytes())
}

// A credential in a URL, or a key, does not reach a recording by a message.
func TestNoCredentialReachesARecordingByAMessage(t *testing.T) {
	for _, text := range []string{
		"cannot pull from https://user:marker-1-x@registry.example/a",
		"see https://registry.example/a?token=marker-1-x",
		"-----BEGIN PRIVATE KEY-----\nmarker-1-x",
		strings.Repeat("a", 2000) + "marker-1-x",
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{
			Message: text, Reason: text,
			Conditions: []corev1.PodCondition{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: text, Message: text},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: text, Message: text},
			}}},
		}}
		object, encoding := recorded(t, eventlog.Pods, pod)
		record, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{
			Resource: eventlog.Pods, Object: object}, Encoding: encoding}, [32]byte{})
		if err != nil || bytes.Contains(record, []byte("marker-1-x")) && len(text) < 1000 {
			t.Errorf("%q reaches the record, %v", text, err)
		}
		_, again := recorded(t, eventlog.Pods, object)
		if again.Sum() != encoding.Sum() {
			t.Errorf("%q: trimming twice is not trimming once", text)
		}
		if message := object.(*corev1.Pod).Status.Message; len(message) > 1024 {
			t.Errorf("a message of %d bytes is kept", len(message))
		}
	}
}

const preemptedPod = `
metadata:
  name: victim
  namespace: default
  uid: u
  annotations: {recorded.rollcall.dev/bound-by: forged, other: x}
  managedFields:
  - manager: kube-scheduler
    operation: Update
    subresource: status
    fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"DisruptionTarget"}': {".": {}, "f:reason": {}}}}}
  - manager: kubectl-create
    operation: Update
    fieldsV1: {"f:spec": {"f:nodeName": {}}}
spec: {nodeName: n1, schedulerName: default-scheduler, containers: [{name: main, image: i}]}
status:
  phase: Failed
  reason: Evicted
  message: The node was low on resource
  conditions:
  - {type: DisruptionTarget, status: "True", reason: PreemptionByScheduler, message: "default-scheduler: preempting"}
  - {type: PodScheduled, status: "True"}
  - {type: Ready, status: "False", message: x}
  containerStatuses:
  - {name: main, image: i, imageID: j, restartCount: 3, state: {terminated: {exitCode: 137, reason: OOMKilled, message: hunter2}}}
`

// A pod as an API server has it, in a recording and in a scheduler's own log.
func TestOnlyARecordingHasWhoDidWhat(t *testing.T) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(preemptedPod), &pod); err != nil {
		t.Fatal(err)
	}
	eventlog.NoteAuthors(&pod)
	object, _ := recorded(t, eventlog.Pods, &pod)
	got := object.(*corev1.Pod)
	want := map[string]string{
		eventlog.BoundByAnnotation: "kubectl-create", eventlog.DisruptedByAnnotation: "kube-scheduler",
	}
	if fmt.Sprint(got.Annotations) != fmt.Sprint(want) {
		t.Errorf("annotations are %v, want %v", got.Annotations, want)
	}
	c := got.Status.Conditions
	if len(c) != 1 || c[0].Message != "default-scheduler: preempting" || got.Status.Reason != "Evicted" {
		t.Errorf("the status is %+v", got.Status)
	}
	if s := got.Status.ContainerStatuses[0]; s.RestartCount != 3 || s.State.Terminated.Reason != "OOMKilled" ||
		s.State.Terminated.Message != "" {
		t.Errorf("the container's status is %+v", s)
	}
	usual := eventlog.Trim(eventlog.Pods, &pod).(*corev1.Pod)
	if usual.Annotations != nil || usual.Status.Message != "" || usual.Status.Conditions[0].Message != "" ||
		usual.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a scheduler's log has %+v", usual)
	}
	var none corev1.Pod
	none.Annotations = map[string]string{eventlog.NominatedByAnnotation: "forged"}
	none.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	if eventlog.NoteAuthors(&none); len(none.Annotations) > 0 {
		t.Errorf("a user's annotation is kept: %v", none.Annotations)
	}
}
