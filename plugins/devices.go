package plugins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/framework"
)

// maxAllocationSteps is the number of steps that the search for a pod's devices on one node may take: many times the
// steps of a successful search for a claim of 32 devices. Claims can make the search exponential.
const maxAllocationSteps = 1 << 14

// maxSelectorCost is the cost that the CEL selectors of a cycle may have in all, in the units of Kubernetes' cost limit
// for each expression (CELSelectorExpressionMaxCost, 1,000,000). Each node has the same share of it, because the cycle
// filters nodes side by side. A selector that compares two attributes costs some ten units: on 5,000 nodes that is
// enough for 20,000 such evaluations a node.
const maxSelectorCost = 1 << 30

// boundedDevices is DynamicResources with a search that ends after so many steps, and after so much work of selectors.
// kube-scheduler ends it after a time on the wall clock (filterTimeout), which would make the decision depend on the
// machine. It refuses selectors whose answer may differ from run to run.
type boundedDevices struct {
	*dynamicresources.DynamicResources
	handle    fwk.Handle
	selectors *selectors
	celCache  *cel.Cache
	// timeout is the time from its allocation for which a claim may wait for its devices' binding conditions.
	timeout time.Duration
}

// newBoundedDevices returns the factory of DynamicResources with these bounds; filterTimeout is off, whatever it is set
// to.
func newBoundedDevices(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		timeout := config.DynamicResourcesBindingTimeoutDefault
		if a, ok := args.(*config.DynamicResourcesArgs); ok {
			timeout = BindingTimeout(a)
			if a.FilterTimeout != nil {
				a = a.DeepCopy()
				a.FilterTimeout = &metav1.Duration{}
				args = a
			}
		}
		made, err := factory(ctx, args, allocatorHandle{h})
		if err != nil {
			return nil, err
		}
		devices, ok := made.(*dynamicresources.DynamicResources)
		if !ok {
			return nil, fmt.Errorf("it is a %T: this binary was built with a Kubernetes version it does not know", made)
		}
		return &boundedDevices{devices, h, &selectors{}, newCELCache(), timeout}, nil
	}
}

// BindingTimeout returns how long a pod waits for the binding conditions of its devices.
func BindingTimeout(args *config.DynamicResourcesArgs) time.Duration {
	if args.BindingTimeout == nil {
		return config.DynamicResourcesBindingTimeoutDefault
	}
	return args.BindingTimeout.Duration
}

// allocatorHandle is the handle for DynamicResources itself.
type allocatorHandle struct{ fwk.Handle }

// SharedDRAManager implements fwk.Handle.
func (h allocatorHandle) SharedDRAManager() fwk.SharedDRAManager {
	return devices.ForAllocator(h.Handle.SharedDRAManager())
}

// shareKey is the key of each node's share of maxSelectorCost in the cycle's state.
const shareKey fwk.StateKey = dynamicresources.Name + "/rollcall.dev/share"

type selectorShare uint64

// Clone implements fwk.StateData.
func (s selectorShare) Clone() fwk.StateData { return s }

// PreFilter implements fwk.PreFilterPlugin.
func (p *boundedDevices) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	classes := devices.ClassesOf(p.handle.SharedDRAManager(), pod)
	if len(pod.Spec.ResourceClaims) > 0 {
		for i := range pod.Spec.ResourceClaims {
			name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
			if err != nil || name == nil {
				continue
			}
			claim, err := p.handle.SharedDRAManager().ResourceClaims().Get(pod.Namespace, *name)
			if err != nil {
				continue
			}
			if claim.Status.Allocation != nil {
				if p.isOverdue(claim) {
					state.Write(overdueKey, overdue{})
				}
				continue
			}
			if why := p.refusedSelector(claim); why != "" {
				return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
			}
		}
		state.Write(shareKey, selectorShare(maxSelectorCost/max(1, len(nodes))))
	}
	if len(classes) > 0 {
		if why := p.refusedSelector(askFor(classes)); why != "" {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
		}
		state.Write(shareKey, selectorShare(maxSelectorCost/max(1, len(nodes))))
	}
	if why := p.beingMade(pod); why != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if len(pod.Spec.ResourceClaims) > 0 || len(classes) > 0 {
		p.begin(state, pod)
		p.notePlaced(state, pod, nodes)
	}
	return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
}

// beingMade says which claim of the pod the bind of another one is just making; "" for none.
func (p *boundedDevices) beingMade(pod *v1.Pod) string {
	state := p.state()
	if state == nil {
		return ""
	}
	if claim := state.Devices().BeingMade(pod); claim != "" {
		return fmt.Sprintf("resourceclaim %q is being made for the extended resources of another pod", claim)
	}
	return ""
}

// askFor returns a claim that asks for devices of these classes.
func askFor(classes []string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "of extended resources"}}
	for _, class := range classes {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{
			Name: class, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
		})
	}
	return claim
}

// overdueKey is the key in the cycle's state of a claim of the pod that is overdue.
const overdueKey fwk.StateKey = dynamicresources.Name + "/rollcall.dev/overdue"

type overdue struct{}

// Clone implements fwk.StateData.
func (o overdue) Clone() fwk.StateData { return o }

// isOverdue reports whether an allocated claim has waited for the binding conditions of its devices for too long: the
// pod cannot have it as it is. kube-scheduler compares the time of the allocation with the clock on the wall.
func (p *boundedDevices) isOverdue(claim *resourcev1.ResourceClaim) bool {
	if !devices.HasBindingConditions(claim) ||
		!utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceBindingConditions) {
		return false
	}
	clock, ok := p.handle.(framework.Handle)
	at := devices.AllocatedAt(p.handle.SharedDRAManager(), claim.Namespace, claim.Name)
	if ready, _ := devices.Ready(claim); !ok || at == nil || ready {
		return false
	}
	return at.Add(p.timeout).Before(clock.Now())
}

// Filter implements fwk.FilterPlugin.
func (p *boundedDevices) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	if data, err := state.Read(searchedKey); err == nil {
		data.(*searched).add(node.Node().Name)
	} else {
		return p.DynamicResources.Filter(ctx, state, pod, node) // it has neither claims nor extended resources
	}
	if other := p.other(state, pod, node); other != nil {
		return p.resolvable(other.filter(ctx, pod), pod, node)
	}
	return p.resolvable(p.filter(p.newSteps(state), state, state, pod, node), pod, node)
}

// filter lets kube-scheduler's plugin search the node. prepared is the state that the plugin's PreFilter has left, and
// state is the cycle's state.
func (p *boundedDevices) filter(steps *countedSteps, state, prepared fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	status := p.DynamicResources.Filter(steps, prepared, pod, node)
	if _, err := state.Read(overdueKey); err == nil && status.IsSuccess() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unavailableClaim)
	}
	if why := steps.why(); why != "" && !status.IsSuccess() {
		return fwk.AsStatus(givenUp(node, why))
	}
	return status
}

func givenUp(node fwk.NodeInfo, why string) error {
	return errors.New("node " + node.Node().Name + ": the search for devices is given up: " + why)
}

// newSteps returns the bounds of a search on one node.
func (p *boundedDevices) newSteps(state fwk.CycleState) *countedSteps {
	share, err := state.Read(shareKey)
	if err != nil {
		panic("DynamicResources searches for devices without PreFilter: " + err.Error())
	}
	steps := &countedSteps{left: maxAllocationSteps, share: uint64(share.(selectorShare))}
	log := logr.New(&costSink{p.selectors, steps.spend})
	// A context takes over the cause of its parent: the parent of this one can never end.
	steps.Context = klog.NewContext(context.Background(), log)
	return steps
}

// unavailableClaim is kube-scheduler's reason for a claim that is not ready in time.
const unavailableClaim = "resourceclaim not available on the node"

// countedSteps is a context that ends when it was asked so often whether it has: the allocator asks at each step. It
// also ends when selectors have cost more than their share. It is for one node, and so for one goroutine.
type countedSteps struct {
	context.Context
	left int
	// share is the remaining cost that selectors may have.
	share uint64
	// over says that they have cost more.
	over bool
}

// Err implements context.Context.
func (c *countedSteps) Err() error {
	if c.left--; c.left < 0 || c.over {
		return context.DeadlineExceeded
	}
	return nil
}

// Done implements context.Context: it is asked before each evaluation of a selector, and now and then within.
func (c *countedSteps) Done() <-chan struct{} {
	if c.over {
		return ended
	}
	return nil
}

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// spend subtracts the cost of an evaluation of a selector.
func (c *countedSteps) spend(cost uint64) {
	if cost > c.share {
		c.over = true
		return
	}
	c.share -= cost
}

// why says which bound was reached; "" if none was.
func (c *countedSteps) why() string {
	switch {
	case c.over:
		return fmt.Sprintf("its CEL selectors cost more than this node's share of %d units a cycle", maxSelectorCost)
	case c.left < 0:
		return fmt.Sprintf("it takes more than %d steps", maxAllocationSteps)
	}
	return ""
}
