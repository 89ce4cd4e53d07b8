package replay_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	xscheduling "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/plugins"
)

// registry holds our plugins and those of the stories.
func registry() runtime.Registry {
	r := plugins.NewRegistry()
	r["Approval"] = func(_ context.Context, _ kruntime.Object, h fwk.Handle) (fwk.Plugin, error) { return approval{h}, nil }
	r["Faulty"] = func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) { return faulty{}, nil }
	return r
}

// approval is a Permit plugin that holds pods labelled approval=wanted for half a minute, until it lets a pod pass that
// is labelled approval=given.
type approval struct{ handle fwk.Handle }

var _ fwk.PermitPlugin = approval{}

func (approval) Name() string { return "Approval" }

func (a approval) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	switch pod.Labels["approval"] {
	case "wanted":
		return fwk.NewStatus(fwk.Wait), 30 * time.Second
	case "given":
		a.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Allow(a.Name()) })
	}
	return nil, 0
}

// faulty is a Filter plugin that fails for pods labelled fault=yes.
type faulty struct{}

var _ fwk.FilterPlugin = faulty{}

func (faulty) Name() string { return "Faulty" }

func (faulty) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if pod.Labels["fault"] == "yes" {
		return fwk.NewStatus(fwk.Error, "the device list cannot be read")
	}
	return nil
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
