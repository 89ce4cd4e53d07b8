package replaytest

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/plugins"
)

// Registry holds our plugins and those of the stories.
func Registry() runtime.Registry {
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
