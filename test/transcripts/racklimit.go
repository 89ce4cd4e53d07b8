package transcripts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// mostPerRack is the number of pods that RackLimit allows on the nodes that have the same label rack.
const mostPerRack = 2

// rackLimit is a plugin that keeps in its own memory which pods are on which rack: from Reserve until Unreserve, or
// until the pod is gone. Unreserve rejects waiting pods whose label with names its pod. Reserve asks for an immediate
// try of the pod that the label wakes names, or stashes for later the pod that the label stashes names. Its PreBind
// refuses pods labelled bind=refused, and fails for pods labelled bind=broken. Its Bind takes pods labelled bind=own.
// It ignores pods of no rack.
type rackLimit struct {
	handle fwk.Handle
	racks  map[types.UID]string
}

var (
	_ fwk.FilterPlugin      = (*rackLimit)(nil)
	_ fwk.ReservePlugin     = (*rackLimit)(nil)
	_ fwk.PreBindPlugin     = (*rackLimit)(nil)
	_ fwk.BindPlugin        = (*rackLimit)(nil)
	_ fwk.EnqueueExtensions = (*rackLimit)(nil)
	_ framework.Stateful    = (*rackLimit)(nil)
)

func newRackLimit(_ context.Context, _ kruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
	r := &rackLimit{handle: h, racks: map[types.UID]string{}}
	_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) {
			if pod, ok := object.(*v1.Pod); ok {
				delete(r.racks, pod.UID)
			}
		},
	})
	return r, err
}

// Name implements fwk.Plugin.
func (r *rackLimit) Name() string { return "RackLimit" }

// Filter implements fwk.FilterPlugin.
func (r *rackLimit) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	rack, n := node.Node().Labels["rack"], 0
	for _, taken := range r.racks { // any order: a count
		if strings.HasPrefix(taken, rack+"/") {
			n++
		}
	}
	if rack != "" && n >= mostPerRack {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had a full rack")
	}
	return nil
}

// Reserve implements fwk.ReservePlugin.
func (r *rackLimit) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	pods := r.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace)
	if woken, err := pods.Get(pod.Labels["wakes"]); err == nil {
		r.handle.Activate(klog.Logger{}, map[string]*v1.Pod{woken.Namespace + "/" + woken.Name: woken})
	}
	if stashed, err := pods.Get(pod.Labels["stashes"]); err == nil {
		if data, err := state.Read(upstream.PodsToActivateKey); err == nil {
			data.(*upstream.PodsToActivate).Map[stashed.Namespace+"/"+stashed.Name] = stashed
		}
	}
	if rack := r.rackOf(node); rack != "" {
		r.racks[pod.UID] = r.place(rack, pod)
	}
	return nil
}

// place returns the lowest free place in a rack, followed by the value of the pod's label: memory that depends on the
// order of calls, and on the pod as it is.
func (r *rackLimit) place(rack string, pod *v1.Pod) string {
	for i := 0; ; i++ {
		place := fmt.Sprintf("%s/%d", rack, i)
		taken := false
		for _, other := range r.racks { // any order: one of them, or none
			taken = taken || strings.HasPrefix(other+"/", place+"/")
		}
		if !taken {
			return place + "/" + pod.Labels["approval"]
		}
	}
}

// Unreserve implements fwk.ReservePlugin.
func (r *rackLimit) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	delete(r.racks, pod.UID)
	r.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if w.GetPod().Labels["with"] == pod.Name {
			w.Reject(r.Name(), "it waits for "+pod.Name)
		}
	})
}

func (r *rackLimit) rackOf(node string) string {
	info, err := r.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return ""
	}
	return info.Node().Labels["rack"]
}

// PreBindPreFlight implements fwk.PreBindPlugin.
func (r *rackLimit) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (
	*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Labels["bind"] == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreBind implements fwk.PreBindPlugin.
func (r *rackLimit) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	switch pod.Labels["bind"] {
	case "refused":
		return fwk.NewStatus(fwk.Unschedulable, "the rack's switch has no free port")
	case "broken":
		return fwk.AsStatus(errors.New("the rack's switch does not answer"))
	}
	return nil
}

// Bind implements fwk.BindPlugin.
func (r *rackLimit) Bind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Labels["bind"] != "own" {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions.
func (r *rackLimit) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
	}, nil
}

// AppendState implements framework.Stateful.
func (r *rackLimit) AppendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.racks)))
	for _, uid := range slices.Sorted(maps.Keys(r.racks)) {
		dst = canonical.AppendString(canonical.AppendString(dst, string(uid)), r.racks[uid])
	}
	return dst
}

// RestoreState implements framework.Stateful.
func (r *rackLimit) RestoreState(state []byte) error {
	reader := canonical.NewReader(state)
	for range reader.Count("pods", 2) {
		uid := types.UID(reader.String("uid"))
		r.racks[uid] = reader.String("rack")
	}
	return reader.End()
}

// forgetfulRackLimit is RackLimit without a way to write its memory down.
type forgetfulRackLimit struct {
	fwk.FilterPlugin
	fwk.ReservePlugin
}

func newForgetfulRackLimit(ctx context.Context, args kruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
	plugin, err := newRackLimit(ctx, args, h)
	if err != nil {
		return nil, err
	}
	r := plugin.(*rackLimit)
	return forgetfulRackLimit{r, r}, nil
}

// Name implements fwk.Plugin.
func (forgetfulRackLimit) Name() string { return "ForgetfulRackLimit" }
