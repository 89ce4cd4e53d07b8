package plugins

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
)

// From behaviour 8 on preemption frees devices. kube-scheduler's DynamicResources does not take part in preemption: it
// refuses nodes for good, and what it knows of devices in PreFilter it does not change when pods are thought away from
// a node. So a node that is not as it is, because pods were thought away from it or added, is searched anew, with the
// devices that are in use then.
//
// Example: a node has one device, and a pod of low priority has it. Preemption takes that pod off a copy of the node.
// Filter is asked about the copy: it sees that all users of the claim are gone, and searches with the device free.
//
// While a nominated pod waits for its devices, no other pod of its priority or below takes what would leave too few.
// The order of the two searches matters: first the pod has what it would really get, and then it is seen whether the
// nominated ones still find theirs, with the devices of the pods that are leaving.

// tooFew is what kube-scheduler says where devices are taken or not there.
const tooFew = "cannot allocate all claims"

var errManySteps = errors.New("the search for devices that preemption could free takes too many steps")

// freeable returns the cluster's state if preemption frees devices, nil if it does not.
func (p *boundedDevices) freeable() *cluster.State {
	h, ok := p.handle.(framework.Handle)
	if !ok {
		return nil
	}
	view := h.Evictions()
	if view == nil || !view.State().FreesDevices() {
		return nil
	}
	return view.State()
}

// resolvable returns a status that says that preemption may help, if it may: devices of the node are in use.
func (p *boundedDevices) resolvable(status *fwk.Status, node fwk.NodeInfo) *fwk.Status {
	if status.Code() != fwk.UnschedulableAndUnresolvable || !slices.Equal(status.Reasons(), []string{tooFew}) {
		return status
	}
	if state := p.freeable(); state == nil || !state.OffersDevices(node.Node().Name) {
		return status
	}
	return fwk.NewStatus(fwk.Unschedulable, tooFew)
}

// placedKey is where the cycle's state has the node where a rehearsal has placed a pod that shares a claim with the pod.
const placedKey fwk.StateKey = dynamicresources.Name + "/rollcall.dev/placed"

type placedOn string

// Clone implements fwk.StateData.
func (n placedOn) Clone() fwk.StateData { return n }

// notePlaced notes where a rehearsal has placed pods that share a claim with the pod: the devices are there then.
func (p *boundedDevices) notePlaced(cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) {
	shared := namesOfShared(pod)
	state := p.freeable()
	if len(shared) == 0 || state == nil || !p.rehearsed() {
		return
	}
	for _, node := range nodes {
		real, err := state.Get(node.Node().Name)
		if err != nil {
			continue
		}
		for _, member := range beyond(node, real) {
			names := func(name string) bool { return slices.Contains(shared, name) }
			if member.Namespace == pod.Namespace && slices.ContainsFunc(namesOfShared(member), names) {
				cycle.Write(placedKey, placedOn(node.Node().Name))
				return
			}
		}
	}
}

// namesOfShared returns the names of the claims that other pods may name as well.
func namesOfShared(pod *v1.Pod) (names []string) {
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimName != nil {
			names = append(names, *claim.ResourceClaimName)
		}
	}
	return names
}

// otherNode is a node with other pods than it has.
type otherNode struct {
	fwk.NodeInfo
	p       *boundedDevices
	cluster *cluster.State
	cycle   fwk.CycleState
	// dry says that it is asked what would be if pods went; otherwise only nominated pods are added.
	dry bool
	// members were placed there by the rehearsal before, and nominated are nominated to it: those that have claims.
	members, nominated []*v1.Pod
	on                 map[types.UID]bool // the pods on it
}

// other returns the node as one with other pods than it has; nil if it is as it is.
func (p *boundedDevices) other(cycle fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *otherNode {
	state := p.freeable()
	if state == nil {
		return nil
	}
	real, err := state.Get(node.Node().Name)
	if err != nil {
		return nil
	}
	rehearsed := p.rehearsed()
	_, notPlaced := cycle.Read(placedKey)
	dry := framework.IsDryRun(cycle) || rehearsed && (notPlaced == nil || p.holdsPlace(state, pod))
	if node == real && !dry {
		return nil
	}
	staged, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node.Node().Name)
	if err != nil {
		return nil
	}
	o := &otherNode{NodeInfo: node, p: p, cluster: state, cycle: cycle, dry: dry || staged != real,
		members: beyond(staged, real), nominated: beyond(node, staged), on: map[types.UID]bool{}}
	if !o.dry && len(o.nominated) == 0 {
		return nil
	}
	for _, info := range node.GetPods() {
		o.on[info.GetPod().UID] = true
	}
	return o
}

// rehearsed reports whether a rehearsal lasts.
func (p *boundedDevices) rehearsed() bool {
	_, real := p.handle.SnapshotSharedLister().NodeInfos().(*cluster.State)
	return !real
}

// holdsPlace reports whether the pod waits on a node, which a rehearsal gives back with its devices.
func (p *boundedDevices) holdsPlace(state *cluster.State, pod *v1.Pod) bool {
	own := state.Pod(pod.UID)
	return own != nil && own.Stage == cluster.Waiting
}

// beyond returns the pods with claims that are on node and not on before.
func beyond(node, before fwk.NodeInfo) (pods []*v1.Pod) {
	if node == before {
		return nil
	}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if len(pod.Spec.ResourceClaims) > 0 && !has(before, pod.UID) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func has(node fwk.NodeInfo, uid types.UID) bool {
	return slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool { return info.GetPod().UID == uid })
}

// stays returns what says of a user of a claim whether it keeps its devices while pod is looked for a place for.
func (o *otherNode) stays(pod *v1.Pod) func(types.UID) bool {
	return func(uid types.UID) bool {
		user := o.cluster.Pod(uid)
		switch {
		case user == nil:
			return false
		case uid == pod.UID:
			return user.Stage != cluster.Waiting
		case user.Node == "":
			return true
		case user.Node == o.Node().Name:
			return o.on[uid]
		}
		node, err := o.p.handle.SnapshotSharedLister().NodeInfos().Get(user.Node)
		return err != nil || has(node, uid)
	}
}

// leaves returns what says of a user of a claim whether it keeps its devices once all have gone that were asked to.
func (o *otherNode) leaves(pod *v1.Pod) func(types.UID) bool {
	stays := o.stays(pod)
	return func(uid types.UID) bool { return stays(uid) && !o.cluster.Leaves(uid) }
}

// filter is Filter of the pod.
func (o *otherNode) filter(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if at, err := o.cycle.Read(placedKey); err == nil && string(at.(placedOn)) != o.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unavailableClaim)
	}
	trial := o.cluster.TryDevices(o.Node().Name)
	defer trial.End()
	var status *fwk.Status
	if o.dry {
		if !o.cluster.MaySearchDevices() {
			return fwk.AsStatus(errManySteps)
		}
		trial.Free(o.stays(pod))
		for _, m := range o.members {
			if ok, err := o.give(ctx, trial, m, o.stays(m)); !ok {
				return refusal(err)
			}
		}
		trial.FreeOf(pod, o.stays(pod))
		status = o.search(ctx, pod)
	} else {
		status = o.p.filter(o.p.newSteps(ctx, o.cycle), o.cycle, o.cycle, pod, o.NodeInfo)
	}
	if !status.IsSuccess() || len(o.nominated) == 0 {
		return status
	}
	return o.keep(ctx, trial, pod)
}

func refusal(err error) *fwk.Status {
	if err != nil {
		return fwk.AsStatus(err)
	}
	return fwk.NewStatus(fwk.Unschedulable, tooFew)
}

// search is Filter of kube-scheduler's plugin from its PreFilter on, with the devices that are in use in the trial.
func (o *otherNode) search(ctx context.Context, pod *v1.Pod) *fwk.Status {
	anew := framework.NewCycleState()
	_, status := o.p.DynamicResources.PreFilter(ctx, anew, pod, nil)
	switch {
	case status.IsSkip():
		return nil
	case !status.IsSuccess():
		return status
	}
	steps := o.p.newSteps(ctx, o.cycle)
	defer o.spend(steps)
	return o.p.filter(steps, o.cycle, anew, pod, o.NodeInfo)
}

// keep refuses the node if a nominated pod that has room there would find too few devices beside the pod.
func (o *otherNode) keep(ctx context.Context, trial *cluster.DeviceTrial, pod *v1.Pod) *fwk.Status {
	before := trial.Mark()
	without := o.fit(ctx, trial)
	trial.BackTo(before)
	if ok, err := o.give(ctx, trial, pod, o.stays(pod)); !ok {
		return refusal(err)
	}
	for i, fits := range o.fit(ctx, trial) {
		if without[i] && !fits {
			return fwk.NewStatus(fwk.Unschedulable, tooFew)
		}
	}
	return nil
}

// fit gives the nominated pods their devices, as those that are leaving have gone, and says which of them have any.
func (o *otherNode) fit(ctx context.Context, trial *cluster.DeviceTrial) (fits []bool) {
	for _, n := range o.nominated {
		trial.Free(o.leaves(n))
		ok, _ := o.give(ctx, trial, n, o.leaves(n))
		fits = append(fits, ok)
	}
	return fits
}

// give has the pod's claims that have no devices get those that the allocator finds; ok is false if these are too few.
func (o *otherNode) give(ctx context.Context, trial *cluster.DeviceTrial, pod *v1.Pod, stays func(types.UID) bool) (
	ok bool, err error) {
	trial.FreeOf(pod, stays)
	dra := cluster.ForAllocator(o.p.handle.SharedDRAManager())
	var wanted []*resourcev1.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return false, nil
		}
		if name == nil {
			continue
		}
		claim, err := dra.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return false, nil
		}
		same := func(c *resourcev1.ResourceClaim) bool { return c.UID == claim.UID }
		if claim.Status.Allocation == nil && !slices.ContainsFunc(wanted, same) {
			wanted = append(wanted, claim)
		}
	}
	if len(wanted) == 0 {
		return true, nil
	}
	steps := o.p.newSteps(ctx, o.cycle)
	results, err := o.allocate(steps, dra, wanted)
	o.spend(steps)
	if why := steps.why(); why != "" {
		return false, givenUp(o.NodeInfo, why)
	}
	if err != nil || len(results) != len(wanted) {
		return false, nil
	}
	for i, claim := range wanted {
		trial.Give(claim, &results[i])
	}
	return true, nil
}

// searchCost is what a search in a dry run costs beside its steps.
const searchCost = 16

// spend counts the steps of a search in a dry run.
func (o *otherNode) spend(steps *countedSteps) {
	if o.dry {
		o.cluster.SpendDeviceSearch(searchCost + maxAllocationSteps - steps.left)
	}
}

// allocate asks kube-scheduler's allocator, as its plugin does.
func (o *otherNode) allocate(steps *countedSteps, dra fwk.SharedDRAManager, claims []*resourcev1.ResourceClaim) (
	[]resourcev1.AllocationResult, error) {
	used, err := dra.ResourceClaims().GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	all, err := dra.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	allocator, err := structured.NewAllocator(steps, dynamicresources.AllocatorFeatures(features), *used,
		dra.DeviceClasses(), all, o.p.celCache)
	if err != nil {
		return nil, err
	}
	return allocator.Allocate(steps, o.Node(), claims)
}

// newCELCache remembers as many compiled expressions as kube-scheduler's plugin does.
func newCELCache() *cel.Cache {
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: features.EnableDRAConsumableCapacity,
		EnableListTypeAttributes: features.EnableDRAListTypeAttributes,
	})
}
