package remote

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// podOption changes a pod of the tests.
type podOption func(*corev1.Pod)

// schedulerPod is a pod as the manifests in deploy make it.
func schedulerPod(name string, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rollcall-system", Name: name,
			Labels: map[string]string{"app.kubernetes.io/name": "rollcall"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "proxy", Args: []string{"--log=/nothing"}},
			{Name: "scheduler", Args: []string{"run", "--config=/etc/c.yaml", "--log=/var/lib/rollcall/log"}},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "scheduler", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, o := range options {
		o(pod)
	}
	return pod
}

func notReady(pod *corev1.Pod) { pod.Status.Conditions = nil }

func ended(pod *corev1.Pod) {
	notReady(pod)
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodFailed, nil
}

func withLine(command []string, args ...string) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[1].Command, pod.Spec.Containers[1].Args = command, args
	}
}

func inNamespace(name string) podOption { return func(pod *corev1.Pod) { pod.Namespace = name } }

func otherLabels(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "x"} }

func TestTheSchedulerIsFoundOrItIsSaidWhyNot(t *testing.T) {
	r0 := Scheduler{Namespace: "rollcall-system", Pod: "r-0", Container: "scheduler", Program: "rollcall",
		Log: "/var/lib/rollcall/log"}
	path := r0
	path.Program, path.Log = "/opt/rollcall", "b"
	for name, test := range map[string]struct {
		pods    []*corev1.Pod
		wanted  Wanted
		want    Scheduler
		problem string
	}{
		"the only one": {pods: []*corev1.Pod{schedulerPod("r-0")}, want: r0},
		"one that is not ready, since it recovers": {
			pods: []*corev1.Pod{schedulerPod("r-0", notReady)}, want: r0},
		"the one that is ready": {
			pods: []*corev1.Pod{
				schedulerPod("r-1", notReady), schedulerPod("r-0"), schedulerPod("r-2", ended)}, want: r0},
		"by its name": {
			pods:   []*corev1.Pod{schedulerPod("r-0", otherLabels), schedulerPod("r-1")},
			wanted: Wanted{Namespace: "rollcall-system", Pod: "r-0"}, want: r0},
		"the last of two flags, and the command's own path": {
			pods: []*corev1.Pod{
				schedulerPod("r-0", withLine([]string{"/opt/rollcall"}, "run", "--log", "a", "--log", "b"))},
			want: path},
		"two are ready": {
			pods: []*corev1.Pod{schedulerPod("r-0"), schedulerPod("r-1")},
			problem: "several schedulers, and 2 of them are ready: rollcall-system/r-0, rollcall-system/r-1; name " +
				"one of"},
		"none is ready of two": {
			pods:    []*corev1.Pod{schedulerPod("r-0", notReady), schedulerPod("r-1", notReady)},
			problem: "several schedulers, and 0 of them are ready"},
		"the one that is ready is in another namespace: anybody may give a pod these labels": {
			pods:    []*corev1.Pod{schedulerPod("r-0", notReady), schedulerPod("r-0", inNamespace("tenant"))},
			problem: "schedulers in several namespaces: rollcall-system/r-0, tenant/r-0; name one with --namespace"},
		"none": {problem: "no pod with the labels " + Selector + " in any namespace: give --namespace"},
		"none in that namespace": {
			pods: []*corev1.Pod{schedulerPod("r-0")}, wanted: Wanted{Namespace: "kube-system"},
			problem: "in namespace kube-system"},
		"ended": {pods: []*corev1.Pod{schedulerPod("r-0", ended)},
			problem: "rollcall-system/r-0: container scheduler does not run (the pod's phase is Failed): read the " +
				"log on"},
		"in memory": {pods: []*corev1.Pod{schedulerPod("r-0", withLine(nil, "run", "--log", "memory"))},
			problem: "has its log in memory"},
		"no log": {pods: []*corev1.Pod{schedulerPod("r-0", withLine(nil, "run", "--logging-format=json"))},
			problem: "no --log among its arguments"},
		"a variable": {pods: []*corev1.Pod{schedulerPod("r-0", withLine(nil, "run", "--log=$(DIR)/log"))},
			problem: `run "kubectl exec -n rollcall-system r-0 -- rollcall …" instead`},
		"something else": {pods: []*corev1.Pod{schedulerPod("r-0", withLine(nil, "simulate"))},
			problem: `no container has the argument "run" or "record"`},
		"a recorder": {pods: []*corev1.Pod{schedulerPod("r-0", withLine(nil, "record", "--log=/var/lib/rollcall/log"))},
			want: r0},
		"a name without a namespace": {wanted: Wanted{Pod: "r-0"}, problem: "--pod is given without --namespace"},
		"a name that is not there":   {wanted: Wanted{Namespace: "a", Pod: "r-0"}, problem: `pods "r-0" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			objects := make([]runtime.Object, 0, len(test.pods))
			for _, pod := range test.pods {
				objects = append(objects, pod)
			}
			test.wanted.Selector = Selector
			got, err := Find(context.Background(), fake.NewClientset(objects...), test.wanted)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("error %v: want one with %q", err, test.problem)
				}
				return
			}
			if err != nil || got != test.want {
				t.Fatalf("found %+v, %v: want %+v", got, err, test.want)
			}
		})
	}
}

func TestAnAccountThatMayNotListAllPodsIsToldToNameANamespace(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	_, err := Find(context.Background(), client, Wanted{Selector: Selector})
	if err == nil || !strings.Contains(err.Error(), "name its namespace with --namespace") {
		t.Fatalf("error %v", err)
	}
}
