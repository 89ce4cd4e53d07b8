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
	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// Preemption frees devices. kube-scheduler's DynamicResources does not take part in preemption: it refuses nodes as
// unresolvable, and does not update the devices of its PreFilter when pods are removed from a copy of a node. So a node
// that differs from the real one, because pods were removed from it or added, is searched again, with the devices that
// are in use then.
//
// Example: a node has one device, and a pod of low priority has it. Preemption takes that pod off a copy of the node.
// Filter is called for the copy: it sees that all users of the claim are gone, and searches with the device free.
//
// While nominated pods wait for their devices, no other pod of their priority or below takes devices that would leave
// too few. First the pod gets the first devices that the search finds. Then the nominated pods must still find theirs,
// including the devices of the pods that are leaving. If they do not, they get theirs first, and the pod must get
// others, also in Reserve.
//
// Nothing is evicted for devices that a pod requests as extended resources. Such a pod leaves nominated pods their
// devices, and other pods leave it the free ones while it is nominated. In a rehearsal it gets the free ones.

// tooFew is kube-scheduler's reason where devices are in use or missing.
const tooFew = "cannot allocate all claims"

var errManySteps = errors.New("the search for devices that preemption could free takes too many steps")

// state returns the cluster's state; nil if there is none that is seen.
func (p *boundedDevices) state() *cluster.State {
	h, ok := p.handle.(framework.Handle)
	if !ok || h.Evictions() == nil {
		return nil
	}
	return h.Evictions().State()
}

// freeable returns the cluster's state if preemption frees devices, nil if it does not.
func (p *boundedDevices) freeable() *cluster.State {
	state := p.state()
	if state == nil || !state.Devices().Freeable() {
		return nil
	}
	return state
}

// resolvable returns a status that says that preemption may help, if it may: devices of the node are in use. For a pod
// that requests devices as extended resources nothing is evicted that has some.
func (p *boundedDevices) resolvable(status *fwk.Status, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	switch {
	case !isTooFew(status):
		return status
	case p.wantsMade(pod):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, tooFew)
	case status.Code() != fwk.UnschedulableAndUnresolvable,
		devices.RequestsExtended(p.handle.SharedDRAManager(), pod):
		return status
	}
	if state := p.freeable(); state == nil || !state.Devices().Has(node.Node().Name) {
		return status
	}
	return fwk.NewStatus(fwk.Unschedulable, tooFew)
}

// placedKey is the key in the cycle's state of the node where a rehearsal has placed a pod that shares a claim with
// this one.
const placedKey fwk.StateKey = dynamicresources.Name + "/rollcall.dev/placed"

type placedOn string

// Clone implements fwk.StateData.
func (n placedOn) Clone() fwk.StateData { return n }

// notePlaced notes where a rehearsal has placed pods that share a claim with the pod: the devices are there then.
func (p *boundedDevices) notePlaced(cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) {
	shared := devices.SharedClaims(p.handle.SharedDRAManager(), pod)
	state := p.freeable()
	if len(shared) == 0 || state == nil || !p.rehearsed() {
		return
	}
	for _, node := range nodes {
		actual, err := state.Nodes().Get(node.Node().Name)
		if err != nil {
			continue
		}
		for _, member := range p.beyond(node, actual) {
			names := func(name string) bool { return slices.Contains(shared, name) }
			if member.Namespace == pod.Namespace &&
				slices.ContainsFunc(devices.SharedClaims(p.handle.SharedDRAManager(), member), names) {
				cycle.Write(placedKey, placedOn(node.Node().Name))
				return
			}
		}
	}
}

// otherNode is a node with other pods than it has.
type otherNode struct {
	fwk.NodeInfo
	p       *boundedDevices
	cluster *cluster.State
	cycle   fwk.CycleState
	// dry says that it is asked what would be if pods went; otherwise only nominated pods are added.
	dry bool
	// members were placed there by the rehearsal before, and nominated are nominated to it: the pods that have claims,
	// or request devices as extended resources.
	members, nominated []*v1.Pod
	on                 map[types.UID]bool // the pods on it
}

// other returns the node as one with other pods than it has; nil if it is as it is.
func (p *boundedDevices) other(cycle fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *otherNode {
	state := p.freeable()
	if state == nil {
		return nil
	}
	actual, err := state.Nodes().Get(node.Node().Name)
	if err != nil {
		return nil
	}
	rehearsed := p.rehearsed()
	_, notPlaced := cycle.Read(placedKey)
	dry := framework.IsDryRun(cycle) || rehearsed && (notPlaced == nil || p.holdsPlace(state, pod))
	if node == actual && !dry {
		return nil
	}
	staged, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node.Node().Name)
	if err != nil {
		return nil
	}
	o := &otherNode{NodeInfo: node, p: p, cluster: state, cycle: cycle, dry: dry || staged != actual,
		members: p.beyond(staged, actual), nominated: p.beyond(node, staged)}
	if rehearsed {
		o.members = append(o.members, p.placedAgain(state, pod, staged, actual)...)
	}
	if !o.dry && len(o.nominated) == 0 {
		return nil
	}
	o.on = podsOn(node)
	return o
}

func podsOn(node fwk.NodeInfo) map[types.UID]bool {
	on := map[types.UID]bool{}
	for _, info := range node.GetPods() {
		on[info.GetPod().UID] = true
	}
	return on
}

// rehearsed reports whether a rehearsal lasts.
func (p *boundedDevices) rehearsed() bool {
	_, actual := p.handle.SnapshotSharedLister().NodeInfos().(*cluster.Nodes)
	return !actual
}

// holdsPlace reports whether the pod waits on a node, which a rehearsal gives back with its devices.
func (p *boundedDevices) holdsPlace(state *cluster.State, pod *v1.Pod) bool {
	own := state.Pods().Get(pod.UID)
	return own != nil && own.Stage == cluster.Waiting
}

// wantsMade reports whether the pod requests devices as extended resources.
func (p *boundedDevices) wantsMade(pod *v1.Pod) bool {
	return p.state() != nil && devices.RequestsExtended(p.handle.SharedDRAManager(), pod)
}

// beyond returns the pods that want devices and are on node and not on before.
func (p *boundedDevices) beyond(node, before fwk.NodeInfo) (pods []*v1.Pod) {
	if node == before {
		return nil
	}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if (len(pod.Spec.ResourceClaims) > 0 || p.wantsMade(pod)) && !has(before, pod.UID) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// placedAgain returns the pods of the pod's own gangs that wait on the node, and that a rehearsal has placed there
// again: they get their devices again.
func (p *boundedDevices) placedAgain(state *cluster.State, pod *v1.Pod, staged, actual fwk.NodeInfo) (pods []*v1.Pod) {
	g := state.Gangs().OfPod(pod)
	if g == nil || staged == actual {
		return nil
	}
	for _, info := range staged.GetPods() {
		member := info.GetPod()
		known := state.Pods().Get(member.UID)
		if known != nil && known.Stage == cluster.Waiting && known.Group != nil && has(actual, member.UID) &&
			known.Group.Mode() != cluster.NonStrict && slices.Contains(g.Unit(), known.Group) &&
			(len(member.Spec.ResourceClaims) > 0 || p.wantsMade(member)) {
			pods = append(pods, member)
		}
	}
	return pods
}

func has(node fwk.NodeInfo, uid types.UID) bool {
	return slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool { return info.GetPod().UID == uid })
}

// stays returns a predicate: does this user of a claim keep its devices while the scheduler searches a node for pod?
func (o *otherNode) stays(pod *v1.Pod) func(types.UID) bool {
	return func(uid types.UID) bool {
		user := o.cluster.Pods().Get(uid)
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

// remains returns a predicate: does this user of a claim keep its devices once all pods that were asked to leave are
// gone?
func (o *otherNode) remains(pod *v1.Pod) func(types.UID) bool {
	stays := o.stays(pod)
	return func(uid types.UID) bool { return stays(uid) && !o.cluster.Pods().Leaves(uid) }
}

// filter is Filter of the pod.
func (o *otherNode) filter(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if at, err := o.cycle.Read(placedKey); err == nil && string(at.(placedOn)) != o.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, unavailableClaim)
	}
	trial := o.cluster.Devices().Try(o.Node().Name)
	defer trial.End()
	var status *fwk.Status
	if o.dry {
		if preemption.BudgetOf(ctx).Left() <= 0 {
			return fwk.AsStatus(errManySteps)
		}
		status = o.filterDry(ctx, trial, pod)
	} else {
		status = o.p.filter(o.p.newSteps(o.cycle), o.cycle, o.cycle, pod, o.NodeInfo)
	}
	if !status.IsSuccess() || len(o.nominated) == 0 {
		return status
	}
	return o.keep(ctx, trial, pod)
}

// filterDry filters the node as it would be, without regard to nominated pods.
func (o *otherNode) filterDry(ctx context.Context, trial *devices.Trial, pod *v1.Pod) *fwk.Status {
	trial.Free(o.staysFor(pod))
	before := trial.Mark()
	given, err := o.giveAll(ctx, trial, o.members, o.stays)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if given != nil || len(o.members) == 0 {
		trial.FreeOf(pod, o.stays(pod))
		_, status := o.search(ctx, pod)
		if len(o.members) == 0 || !isTooFew(status) || !o.wantsAll(pod) {
			return status
		}
	}
	trial.BackTo(before)
	if given, err = o.giveTogether(ctx, trial, append(slices.Clone(o.members), pod), o.stays); given == nil {
		return refusal(err)
	}
	return nil
}

// staysFor returns a predicate: does this user of a claim keep its devices in a search for pod? A pod that requests
// devices as extended resources does not count on devices that evictions free. It counts on the devices of pods that
// wait on a node: these lose them with the Decision.
func (o *otherNode) staysFor(pod *v1.Pod) func(types.UID) bool {
	stays := o.stays(pod)
	if !o.p.wantsMade(pod) {
		return stays
	}
	return func(uid types.UID) bool {
		user := o.cluster.Pods().Get(uid)
		return user == nil || user.Stage != cluster.Waiting || stays(uid)
	}
}

// wantsAll reports whether none of the pod's claims has devices.
func (o *otherNode) wantsAll(pod *v1.Pod) bool {
	all := len(pod.Spec.ResourceClaims)
	if o.claimFor(pod) != nil {
		all++
	}
	wanted, ok := o.wanted(devices.ForAllocator(o.p.handle.SharedDRAManager()), []*v1.Pod{pod})
	return ok && len(wanted) == all
}

// claimFor returns the claim that the bind of the pod would make on the node; nil for none.
func (o *otherNode) claimFor(pod *v1.Pod) *resourcev1.ResourceClaim {
	if !o.p.wantsMade(pod) {
		return nil
	}
	return devices.ClaimFor(o.p.handle.SharedDRAManager(), pod, o.NodeInfo)
}

func isTooFew(status *fwk.Status) bool {
	return !status.IsSuccess() && slices.Equal(status.Reasons(), []string{tooFew})
}

func refusal(err error) *fwk.Status {
	if err != nil {
		return fwk.AsStatus(err)
	}
	return fwk.NewStatus(fwk.Unschedulable, tooFew)
}

// search is Filter of kube-scheduler's plugin from its PreFilter on, with the devices that are in use in the trial. It
// returns the state that they leave.
func (o *otherNode) search(ctx context.Context, pod *v1.Pod) (fwk.CycleState, *fwk.Status) {
	anew := framework.NewCycleState()
	_, status := o.p.DynamicResources.PreFilter(ctx, anew, pod, nil)
	switch {
	case status.IsSkip():
		return anew, nil
	case !status.IsSuccess():
		return anew, status
	}
	steps := o.p.newSteps(o.cycle)
	defer o.spend(ctx, steps)
	return anew, o.p.filter(steps, o.cycle, anew, pod, o.NodeInfo)
}

// keep refuses the node if the nominated pods that have room there would find too few devices beside the pod. If they
// only do where the pod has the devices that it finds first, it is to have others.
func (o *otherNode) keep(ctx context.Context, trial *devices.Trial, pod *v1.Pod) *fwk.Status {
	before := trial.Mark()
	keepers := o.keepers(ctx, trial)
	trial.BackTo(before)
	if len(keepers) == 0 {
		return nil
	}
	trial.Hold(pod)
	if given, err := o.giveAll(ctx, trial, []*v1.Pod{pod}, o.stays); given == nil {
		return refusal(err)
	}
	if o.giveKept(ctx, trial, keepers) != nil {
		return nil
	}
	trial.BackTo(before)
	if _, status := o.searchBeside(ctx, trial, pod, keepers); !status.IsSuccess() {
		return fwk.NewStatus(fwk.Unschedulable, tooFew)
	}
	if data, err := o.cycle.Read(searchedKey); err == nil && !o.dry {
		data.(*searched).keepBeside(o.Node().Name, keepers)
	}
	return nil
}

// keepers returns the nominated pods that will find devices once those have gone that are leaving.
func (o *otherNode) keepers(ctx context.Context, trial *devices.Trial) (keepers []*v1.Pod) {
	before := trial.Mark()
	if o.giveKept(ctx, trial, o.nominated) != nil {
		return o.nominated
	}
	trial.BackTo(before)
	for _, n := range o.nominated {
		if o.giveKept(ctx, trial, []*v1.Pod{n}) != nil {
			keepers = append(keepers, n)
		}
	}
	return keepers
}

// giveKept gives nominated pods the devices that they will find once those have gone that are leaving; nil if these are
// too few.
func (o *otherNode) giveKept(ctx context.Context, trial *devices.Trial, pods []*v1.Pod) []givenClaim {
	before := trial.Mark()
	for _, n := range pods {
		if !o.p.wantsMade(n) {
			trial.Free(o.remains(n))
		}
	}
	given, _ := o.giveAll(ctx, trial, pods, o.remains)
	if given == nil {
		trial.BackTo(before)
	}
	return given
}

// searchBeside searches for the pod while nominated ones have devices already.
func (o *otherNode) searchBeside(ctx context.Context, trial *devices.Trial, pod *v1.Pod, keepers []*v1.Pod) (
	fwk.CycleState, *fwk.Status) {
	trial.Hold(pod)
	before := trial.Mark()
	given := o.giveKept(ctx, trial, keepers)
	if given == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, tooFew)
	}
	trial.BackTo(before)
	for _, g := range given {
		trial.Give(g.claim, g.allocation)
	}
	return o.search(ctx, pod)
}

// reserveBeside has the state of the cycle say that the pod gets devices on the node that leave nominated ones theirs.
func (p *boundedDevices) reserveBeside(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo,
	keepers []*v1.Pod) *fwk.Status {
	o := &otherNode{NodeInfo: node, p: p, cluster: p.freeable(), cycle: state, on: podsOn(node)}
	trial := o.cluster.Devices().Try(node.Node().Name)
	defer trial.End()
	found, status := o.searchBeside(ctx, trial, pod, keepers)
	if !status.IsSuccess() {
		return status
	}
	data, err := found.Read(dynamicresources.Name) // where kube-scheduler's plugin has its state
	if err != nil {
		return fwk.AsStatus(err)
	}
	state.Write(dynamicresources.Name, data)
	return nil
}

// givenClaim is a claim and the devices that it is given.
type givenClaim struct {
	claim      *resourcev1.ResourceClaim
	allocation *resourcev1.AllocationResult
}

// giveAll allocates devices to the claims of pods that have none. Each pod in turn gets the first devices that the
// allocator finds. If that leaves the last ones too few, it searches for all of them together. It returns nil if there
// are too few for all.
func (o *otherNode) giveAll(ctx context.Context, trial *devices.Trial, pods []*v1.Pod,
	stays func(*v1.Pod) func(types.UID) bool) ([]givenClaim, error) {
	before, all := trial.Mark(), []givenClaim{}
	for i := range pods {
		given, err := o.give(ctx, trial, pods[i:i+1], stays)
		if err != nil {
			return nil, err
		}
		if given == nil && len(pods) > 1 {
			trial.BackTo(before)
			return o.giveTogether(ctx, trial, pods, stays)
		}
		if given == nil {
			return nil, nil
		}
		all = append(all, given...)
	}
	return all, nil
}

// giveTogether is giveAll in one search. It does not search if there are fewer devices than requested: that search
// would take long.
func (o *otherNode) giveTogether(ctx context.Context, trial *devices.Trial, pods []*v1.Pod,
	stays func(*v1.Pod) func(types.UID) bool) ([]givenClaim, error) {
	for _, pod := range pods {
		trial.FreeOf(pod, stays(pod))
	}
	dra := devices.ForAllocator(o.p.handle.SharedDRAManager())
	wanted, ok := o.wanted(dra, pods)
	if !ok || !enoughDevices(dra, wanted) {
		return nil, nil
	}
	return o.give(ctx, trial, pods, stays)
}

// enoughDevices reports whether as many devices are free as the claims request. It ignores the kind of the devices, and
// is false for claims that request an unknown number.
func enoughDevices(dra fwk.SharedDRAManager, claims []*resourcev1.ResourceClaim) bool {
	used, err := dra.ResourceClaims().GatherAllocatedState()
	if err != nil {
		return false
	}
	all, err := dra.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return false
	}
	free := int64(0)
	for _, slice := range all {
		for _, device := range slice.Spec.Devices {
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
			if !used.AllocatedDevices.Has(id) {
				free++
			}
		}
	}
	for _, claim := range claims {
		for _, request := range claim.Spec.Devices.Requests {
			if request.Exactly == nil || request.Exactly.AllocationMode != resourcev1.DeviceAllocationModeExactCount {
				return false
			}
			free -= request.Exactly.Count
		}
	}
	return free >= 0
}

// wanted returns the claims of the pods that have no devices. ok is false if one of the pods cannot have its claims.
func (o *otherNode) wanted(dra fwk.SharedDRAManager, pods []*v1.Pod) (wanted []*resourcev1.ResourceClaim, ok bool) {
	for _, pod := range pods {
		for i := range pod.Spec.ResourceClaims {
			name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
			if err != nil {
				return nil, false
			}
			if name == nil {
				continue
			}
			claim, err := dra.ResourceClaims().Get(pod.Namespace, *name)
			if err != nil {
				return nil, false
			}
			same := func(c *resourcev1.ResourceClaim) bool { return c.UID == claim.UID }
			if claim.Status.Allocation == nil && !slices.ContainsFunc(wanted, same) {
				wanted = append(wanted, claim)
			}
		}
		if claim := o.claimFor(pod); claim != nil {
			wanted = append(wanted, claim)
		}
	}
	return wanted, true
}

// give allocates to the pods' claims that have no devices the ones that the allocator finds for all of them. It returns
// nil if these are too few.
func (o *otherNode) give(ctx context.Context, trial *devices.Trial, pods []*v1.Pod,
	stays func(*v1.Pod) func(types.UID) bool) ([]givenClaim, error) {
	for _, pod := range pods {
		trial.FreeOf(pod, stays(pod))
	}
	dra := devices.ForAllocator(o.p.handle.SharedDRAManager())
	wanted, ok := o.wanted(dra, pods)
	if !ok || len(wanted) == 0 {
		if ok {
			return []givenClaim{}, nil
		}
		return nil, nil
	}
	steps := o.p.newSteps(o.cycle)
	results, err := o.allocate(steps, dra, wanted)
	o.spend(ctx, steps)
	if why := steps.why(); why != "" {
		return nil, givenUp(o.NodeInfo, why)
	}
	if err != nil || len(results) != len(wanted) {
		return nil, nil
	}
	given := make([]givenClaim, len(wanted))
	for i, claim := range wanted {
		given[i] = givenClaim{claim, &results[i]}
		trial.Give(claim, &results[i])
	}
	return given, nil
}

// searchCost is the cost of a search in a dry run beside its steps.
const searchCost = 16

// spend counts the steps of a search in a dry run.
func (o *otherNode) spend(ctx context.Context, steps *countedSteps) {
	if o.dry {
		preemption.BudgetOf(ctx).Spend(searchCost + maxAllocationSteps - steps.left)
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
