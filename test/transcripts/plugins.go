package transcripts

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
)

// Registry holds the real plugins, and some for stories: Approval, Faulty, RackLimit,
// ForgetfulRackLimit, Quota and Hours.
// A story enables them in its config.
func Registry() framework.Registry {
	r := plugins.NewRegistry()
	r.Factories["Approval"] = func(_ context.Context, _ kruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return approval{h}, nil
	}
	r.Factories["Faulty"] = func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) {
		return faulty{}, nil
	}
	r.Factories["RackLimit"] = newRackLimit
	r.Factories["ForgetfulRackLimit"] = newForgetfulRackLimit
	r.Factories["Quota"] = newQuota
	r.Factories["Hours"] = func(_ context.Context, _ kruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return hours{h.(teller)}, nil
	}
	return r
}

// approval is a Permit plugin that makes pods labelled approval=wanted wait for half a minute, or until it sees a pod
// labelled approval=given. It fails for pods labelled approval=broken. A node that joins is worth another try.
type approval struct{ handle fwk.Handle }

var (
	_ fwk.PermitPlugin      = approval{}
	_ fwk.EnqueueExtensions = approval{}
)

// Name implements fwk.Plugin.
func (approval) Name() string { return "Approval" }

// Permit implements fwk.PermitPlugin.
func (a approval) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	switch pod.Labels["approval"] {
	case "wanted":
		return fwk.NewStatus(fwk.Wait), 30 * time.Second
	case "broken":
		return fwk.NewStatus(fwk.Error, "no answer"), 0
	case "given":
		a.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Allow(a.Name()) })
	}
	return nil, 0
}

// EventsToRegister implements fwk.EnqueueExtensions.
func (approval) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

// faulty is a Filter plugin that fails for pods labelled fault=yes.
type faulty struct{}

var _ fwk.FilterPlugin = faulty{}

// Name implements fwk.Plugin.
func (faulty) Name() string { return "Faulty" }

// Filter implements fwk.FilterPlugin.
func (faulty) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if pod.Labels["fault"] == "yes" {
		return fwk.NewStatus(fwk.Error, "the device list cannot be read")
	}
	return nil
}

// hours is a plugin that goes by the time of day. Before that time, pods labelled gated=HH-MM are kept out of the
// queue, and no node accepts pods labelled opens=HH-MM. No event is of any help.
type hours struct{ clock teller }

// teller is the part of the plugins' handle that gives the time of the log.
type teller interface{ Now() time.Time }

var _ teller = framework.Handle(nil)

var (
	_ fwk.PreEnqueuePlugin  = hours{}
	_ fwk.FilterPlugin      = hours{}
	_ fwk.EnqueueExtensions = hours{}
	_ framework.ByTime      = hours{}
)

// Name implements fwk.Plugin.
func (hours) Name() string { return "Hours" }

// AnswersGoByTime implements framework.ByTime.
func (hours) AnswersGoByTime() bool { return true }

func (h hours) isBefore(timeOfDay string) bool {
	return h.clock.Now().UTC().Format("15-04") < timeOfDay
}

// PreEnqueue implements fwk.PreEnqueuePlugin.
func (h hours) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if at := pod.Labels["gated"]; h.isBefore(at) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not before "+at)
	}
	return nil
}

// Filter implements fwk.FilterPlugin.
func (h hours) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if at := pod.Labels["opens"]; h.isBefore(at) {
		return fwk.NewStatus(fwk.Unschedulable, "not before "+at)
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions.
func (hours) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }
