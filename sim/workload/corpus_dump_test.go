package workload

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/cluster"
)

const corpusDump = "testdata/corpus/dump/dump.yaml"

// dumpKinds are the kinds of pods in the dump. The script corpus.txt of package app simulates it.
var dumpKinds = []struct {
	name string
	is   func(p *corev1.Pod) bool
}{
	{"bare", func(p *corev1.Pod) bool { return metav1.GetControllerOf(p) == nil && p.Spec.NodeName != "" }},
	{"of a Job", ownedBy("Job")},
	{"of a CronJob's Job", func(p *corev1.Pod) bool { return p.Labels["job-name"] == "nightly-29451990" }},
	{"of a Deployment", func(p *corev1.Pod) bool { return p.Labels["pod-template-hash"] != "" }},
	{"of a ReplicaSet", func(p *corev1.Pod) bool {
		return ownedBy("ReplicaSet")(p) && p.Labels["pod-template-hash"] == ""
	}},
	{"of a StatefulSet with claims", func(p *corev1.Pod) bool {
		return ownedBy("StatefulSet")(p) && p.Spec.Volumes[0].PersistentVolumeClaim != nil
	}},
	{"of a DaemonSet", ownedBy("DaemonSet")},
	{"a static pod's mirror", func(p *corev1.Pod) bool {
		return ownedBy("Node")(p) && p.Annotations[corev1.MirrorPodAnnotationKey] != ""
	}},
	{"with a sidecar", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		})
	}},
	{"with resources of its own", func(p *corev1.Pod) bool { return p.Spec.Resources != nil }},
	{"privileged", func(p *corev1.Pod) bool {
		s := p.Spec.Containers[0].SecurityContext
		return s != nil && s.Privileged != nil && *s.Privileged
	}},
	{"with ports of its host", func(p *corev1.Pod) bool {
		ports := p.Spec.Containers[0].Ports
		return p.Spec.HostNetwork && len(ports) > 0 && ports[0].HostPort > 0
	}},
	{"of a RuntimeClass with overhead", func(p *corev1.Pod) bool {
		return p.Spec.RuntimeClassName != nil && len(p.Spec.Overhead) > 0
	}},
	{"with a device", func(p *corev1.Pod) bool { return len(p.Status.ResourceClaimStatuses) > 0 }},
	{"that waits for a device", func(p *corev1.Pod) bool {
		return len(p.Spec.ResourceClaims) > 0 && p.Spec.NodeName == ""
	}},
	{"with an ephemeral volume", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
	}},
	{"with a scheduling gate", func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }},
	{"that is being deleted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }},
	{"that has succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }},
	{"that has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }},
	{"with a nominated node", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" }},
	{"of a gang that is placed", func(p *corev1.Pod) bool { return inGroup(p) && p.Spec.NodeName != "" }},
	{"of a gang that waits", func(p *corev1.Pod) bool { return inGroup(p) && p.Spec.NodeName == "" }},
	{"resized in place", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].AllocatedResources != nil
	}},
}

func ownedBy(kind string) func(p *corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		ref := metav1.GetControllerOf(p)
		return ref != nil && ref.Kind == kind
	}
}

func inGroup(p *corev1.Pod) bool {
	_, ok := cluster.GroupName(p)
	return ok
}

// TestTheDumpHasEveryKindOfPod: what the dump is said to have is in it, and every pod is as a cluster has it.
func TestTheDumpHasEveryKindOfPod(t *testing.T) {
	text, err := os.ReadFile(corpusDump)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []json.RawMessage }
	if err := yaml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var pods []*corev1.Pod
	for _, item := range list.Items {
		p := &corev1.Pod{}
		if err := json.Unmarshal(item, p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "Pod" {
			pods = append(pods, p)
		}
		if p.UID == "" || p.ResourceVersion == "" || p.CreationTimestamp.IsZero() {
			t.Errorf("%s %s has no UID, version or time", p.Kind, ObjectName(p))
		}
	}
	for _, kind := range dumpKinds {
		if !slices.ContainsFunc(pods, kind.is) {
			t.Errorf("no pod %s", kind.name)
		}
	}
	w, err := Read(corpusDump)
	if err != nil {
		t.Fatal(err)
	}
	if ended := 2; len(w.Pods) != len(pods)-ended {
		t.Errorf("%d pods are read of %d", len(w.Pods), len(pods))
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		want := time.Duration(0)
		if p.Template.DeletionTimestamp != nil {
			want = 30 * time.Second
		}
		if p.Deadline != want {
			t.Errorf("%s is deleted at %s, want %s", p.Name, p.Deadline, want)
		}
	}
}
