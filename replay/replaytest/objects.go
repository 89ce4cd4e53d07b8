package replaytest

import (
	"cmp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
)

func arg(args []string, key string) string {
	for _, a := range args {
		if k, v, _ := strings.Cut(a, "="); k == key {
			return v
		}
	}
	return ""
}

func resources(args []string) v1.ResourceList {
	list := v1.ResourceList{}
	for key, name := range map[string]v1.ResourceName{"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"} {
		if v := arg(args, key); v != "" {
			list[name] = resource.MustParse(v)
		}
	}
	return list
}

// Node is a node as a line describes it.
func Node(name string, args []string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = resources(args)
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(cmp.Or(arg(args, "pods"), "110"))
	if key := arg(args, "taint"); key != "" {
		n.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
	}
	if k, v, ok := strings.Cut(arg(args, "label"), ":"); ok {
		n.Labels = map[string]string{k: v}
	}
	return n
}

// Pod is a pod as a line describes it.
func Pod(namespace, name, uid string, args []string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	p.Spec.SchedulerName = "default-scheduler"
	if s := arg(args, "scheduler"); s != "" {
		p.Spec.SchedulerName = s
	}
	p.Spec.NodeName = arg(args, "node")
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: resources(args)}}}
	if g := arg(args, "group"); g != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g}
	}
	if k, v, ok := strings.Cut(arg(args, "label"), ":"); ok {
		p.Labels = map[string]string{k: v}
	}
	if d := arg(args, "lasts"); d != "" {
		p.Annotations = map[string]string{"rollcall.dev/duration": d}
	}
	if g := arg(args, "gate"); g != "" {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: g}}
	}
	if k, v, ok := strings.Cut(arg(args, "selector"), ":"); ok {
		p.Spec.NodeSelector = map[string]string{k: v}
	}
	return p
}

// xgroup is a PodGroup of scheduling.x-k8s.io.
func xgroup(t *testing.T, namespace, name string, args []string) *xscheduling.PodGroup {
	t.Helper()
	g := &xscheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("group-" + name)}}
	minimum := resource.MustParse(arg(args, "min"))
	g.Spec.MinMember = int32(minimum.Value())
	if mode := arg(args, "mode"); mode != "" {
		g.Annotations = map[string]string{"gang.scheduling.koordinator.sh/mode": mode}
	}
	if gpus := arg(args, "asks"); gpus != "" {
		g.Spec.MinResources = v1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
	}
	if timeout := arg(args, "timeout"); timeout != "" {
		d, err := time.ParseDuration(timeout)
		if err != nil {
			t.Fatal(err)
		}
		seconds := int32(d.Seconds())
		g.Spec.ScheduleTimeoutSeconds = &seconds
	}
	return g
}
