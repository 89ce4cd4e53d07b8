package cluster

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// Which devices would be in use if some pods went and others came. Preemption asks that, and whoever keeps devices for
// nominated pods.
//
// A claim gives its devices back once no pod uses it any more. Invariant: what a DeviceTrial frees belongs to claims of
// which every user goes.

// FreeDevices sets whether preemption frees devices, and devices are kept for the pods that they come free for.
func (s *State) FreeDevices(yes bool) { s.informers.dra.frees = yes }

// FreesDevices reports whether that is so now: FreeDevices says so, and each pool of devices is of one node. With
// devices of other kinds what comes free on one node may be taken from another.
func (s *State) FreesDevices() bool {
	dra, gates := s.informers.dra, utilfeature.DefaultFeatureGate
	return dra.frees && dra.pools.wide == 0 && gates.Enabled(features.DRAConsumableCapacity) &&
		!gates.Enabled(features.DRANodeAllocatableResources)
}

// OffersDevices reports whether the node has devices, whoever uses them.
func (s *State) OffersDevices(node string) bool { return len(s.informers.dra.pools.ofNode[node]) > 0 }

// AwaitsDevices reports whether devices of the node are about to come free: a claim has them, and all pods that used it
// are gone.
func (s *State) AwaitsDevices(node string) bool {
	dra := s.informers.dra
	for pool := range dra.pools.ofNode[node] { // any order: one is enough
		if s.anyAbandoned(pool) {
			return true
		}
	}
	return false
}

// NodesAwaitingDevices returns the nodes of which AwaitsDevices says so, by name.
func (s *State) NodesAwaitingDevices() (nodes []string) {
	dra := s.informers.dra
	// any order: sorted below
	for pool := range dra.claims.ofPool {
		if s.anyAbandoned(pool) {
			// any order: sorted below
			nodes = slices.AppendSeq(nodes, maps.Keys(dra.pools.slices[pool]))
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func (s *State) anyAbandoned(pool devicePool) bool {
	for key := range s.informers.dra.claims.ofPool[pool] { // any order: one is enough
		claim, err := s.informers.dra.claims.Get(key.Namespace, key.Name)
		if err == nil && s.isAbandoned(claim) {
			return true
		}
	}
	return false
}

// isAbandoned reports whether the claim has devices, and all pods that used it are gone.
func (s *State) isAbandoned(claim *resourcev1.ResourceClaim) bool {
	return s.comesFree(claim, func(uid types.UID) bool { return s.pods[uid] != nil })
}

// A claim that is about to give its devices back may get another user instead. Pods that wait for these devices must
// know: see TakeTaken.

// noteTaken takes note of the claims that were about to give their devices back, and that a pod uses which gets a node.
func (s *State) noteTaken(p *Pod) {
	if !s.informers.dra.follows {
		return
	}
	for _, key := range slices.Concat(namedClaims(p.info.Pod), madeClaims(p.info.Pod)) {
		claim, err := s.informers.dra.claims.Get(key.Namespace, key.Name)
		if err == nil && s.isAbandoned(claim) {
			s.noteNodes(claim)
		}
	}
}

// isAwaited reports whether an object is a claim that is about to give its devices back, as far as was known before.
func (s *State) isAwaited(res eventlog.Resource, obj eventlog.Object) bool {
	if res != eventlog.ResourceClaims || !s.informers.dra.follows {
		return false
	}
	claim, err := s.informers.dra.claims.Get(obj.GetNamespace(), obj.GetName())
	return err == nil && s.isAbandoned(claim)
}

// noteReserved takes note of such a claim if it is one no more, and has its devices.
func (s *State) noteReserved(obj eventlog.Object) {
	claim, err := s.informers.dra.claims.Get(obj.GetNamespace(), obj.GetName())
	if err == nil && claim.Status.Allocation != nil && !s.isAbandoned(claim) {
		s.noteNodes(claim)
	}
}

// noteNodes takes note of the nodes of a claim's devices.
func (s *State) noteNodes(claim *resourcev1.ResourceClaim) {
	for _, r := range allocationResults(claim) {
		// any order: TakeTaken sorts them
		s.taken = slices.AppendSeq(s.taken, maps.Keys(s.informers.dra.pools.slices[devicePool{r.Driver, r.Pool}]))
	}
}

// TakeTaken returns the nodes of devices that were about to come free and do not, because another pod uses their claim,
// since it was called last; by name. There are none before behaviour 9.
func (s *State) TakeTaken() (nodes []string) {
	nodes, s.taken = s.taken, nil
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// OwnClaims appends what the pod's claims ask for. own is false if one of them is not there, or may be other pods' as
// well.
func (s *State) OwnClaims(dst []byte, pod *v1.Pod) (specs []byte, own bool) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil || s.informers.dra.shares(pod, i) {
			return dst, false
		}
		claim, err := s.informers.dra.claims.Get(pod.Namespace, *name)
		if err != nil {
			return dst, false
		}
		spec, err := claim.Spec.Marshal()
		if err != nil {
			return dst, false
		}
		dst = canonical.AppendBytes(dst, spec)
	}
	return dst, true
}

// givesBack reports whether the pod waits on a node and its i-th claim is its own: a rehearsal gives its devices back.
func (s *State) givesBack(pod *v1.Pod, i int) bool {
	p := s.pods[pod.UID]
	return s.informers.dra.frees && p != nil && p.Stage == Waiting && !s.informers.dra.shares(pod, i)
}

// Leaves reports whether the pod is about to lose its node: it is gone, is being deleted, or was asked to go.
func (s *State) Leaves(uid types.UID) bool {
	p := s.pods[uid]
	return p == nil || p.Object.DeletionTimestamp != nil || p.evicted
}

// comesFree reports whether the claim has devices and gives them back once all pods have gone of which stays is false.
// A claim that somebody has allocated and nobody uses does not: nobody would give it back.
func (s *State) comesFree(claim *resourcev1.ResourceClaim, stays func(types.UID) bool) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	used := false
	uses := func(uid types.UID) bool {
		used = true
		return !stays(uid)
	}
	for _, r := range claim.Status.ReservedFor {
		if r.APIGroup != "" || r.Resource != string(eventlog.Pods) || !uses(r.UID) {
			return false
		}
	}
	key := keyOf(claim)
	if assumed := s.informers.devices[key]; assumed != nil {
		for _, uid := range assumed.holders {
			if !uses(uid) {
				return false
			}
		}
	}
	if !s.eachUser(key, uses) || s.staysWithGroup(key) {
		return false
	}
	if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "Pod" && !uses(owner.UID) {
		return false
	}
	return used
}

// staysWithGroup reports whether a PodGroup will have the claim reserved, whatever becomes of its pods: one that is
// bound or being bound reserves it for the PodGroup, which gives it back when it is gone, or when an attempt on it
// fails. Of a pod that is gone while its bind is under way it is not known.
func (s *State) staysWithGroup(key types.NamespacedName) bool {
	if !s.informers.dra.follows || !s.HasGroupClaims() {
		return false
	}
	leaves := func(uid types.UID) bool {
		p := s.pods[uid]
		return p != nil && (p.Stage == Waiting || s.consumerOf(p.Object, key.Name) == uid)
	}
	if assumed := s.informers.devices[key]; assumed != nil &&
		slices.ContainsFunc(assumed.holders, func(uid types.UID) bool { return !leaves(uid) }) {
		return true
	}
	return !s.eachUser(key, leaves)
}

// DeviceTrial is what devices of a node would be in use. While it lasts, plugins see claims and devices so, and the
// ResourceSlices of the node alone. One goroutine at a time may look at devices then: nothing is copied.
type DeviceTrial struct {
	s    *State
	node string
	held map[types.UID]bool // claims that Free leaves alone
	undo []func()
}

// TryDevices begins a trial; End ends it. There is one at a time.
func (s *State) TryDevices(node string) *DeviceTrial {
	dra := s.informers.dra
	if dra.claims.tried != nil {
		panic("cluster: a trial of devices begins before the one before it has ended")
	}
	dra.claims.tried, dra.listed.only = map[types.UID]*resourcev1.AllocationResult{}, &node
	return &DeviceTrial{s: s, node: node, held: map[types.UID]bool{}}
}

// End brings back what is.
func (d *DeviceTrial) End() {
	d.BackTo(0)
	d.s.informers.dra.claims.tried, d.s.informers.dra.listed.only = nil, nil
}

// Mark returns what BackTo takes to undo what comes after.
func (d *DeviceTrial) Mark() int { return len(d.undo) }

// BackTo undoes what was done since Mark returned mark.
func (d *DeviceTrial) BackTo(mark int) {
	for _, undo := range slices.Backward(d.undo[mark:]) {
		undo()
	}
	d.undo = d.undo[:mark]
}

// Hold has the claims that the pod names keep what they have: it uses them.
func (d *DeviceTrial) Hold(pod *v1.Pod) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := d.s.informers.dra.claims.Get(pod.Namespace, *name)
		if err == nil && !d.held[claim.UID] {
			d.held[claim.UID] = true
			d.undo = append(d.undo, func() { delete(d.held, claim.UID) })
		}
	}
}

// Free has claims give back devices of the node if no user of theirs stays.
func (d *DeviceTrial) Free(stays func(types.UID) bool) {
	dra := d.s.informers.dra
	for pool := range dra.pools.ofNode[d.node] { // any order: sums
		for key := range dra.claims.ofPool[pool] {
			d.free(key, stays)
		}
	}
}

// FreeOf has the claims that the pod uses give their devices back, wherever these are, if no user stays.
func (d *DeviceTrial) FreeOf(pod *v1.Pod, stays func(types.UID) bool) {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			d.free(types.NamespacedName{Namespace: pod.Namespace, Name: *name}, stays)
		}
	}
	if !d.s.FollowsDeviceUsers() {
		return
	}
	for _, key := range d.s.informers.deviceClaims[pod.UID] {
		if d.s.informers.devices[key].made {
			d.free(key, stays)
		}
	}
}

func (d *DeviceTrial) free(key types.NamespacedName, stays func(types.UID) bool) {
	claim, err := d.s.informers.dra.claims.lister.ResourceClaims(key.Namespace).Get(key.Name)
	if assumed := d.s.informers.devices[key]; err != nil && assumed != nil && d.s.FollowsDeviceUsers() {
		claim, err = assumed.toBeMade(key), nil
	}
	if err != nil || !d.s.comesFree(claim, stays) {
		return
	}
	if _, already := d.s.informers.dra.claims.tried[claim.UID]; !already && !d.held[claim.UID] {
		d.change(claim, allocationResults(claim), nil)
	}
}

// Give has a claim without devices have some.
func (d *DeviceTrial) Give(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) {
	d.change(claim, nil, allocation)
}

// change has a claim lose the devices that it has, or get others.
func (d *DeviceTrial) change(claim *resourcev1.ResourceClaim, loses []resourcev1.DeviceRequestAllocationResult,
	allocation *resourcev1.AllocationResult) {
	t := d.s.informers.dra.claims
	given := &resourcev1.ResourceClaim{}
	given.Status.Allocation = allocation
	gets := allocationResults(given)
	before, was := t.tried[claim.UID]
	t.tried[claim.UID] = allocation
	t.allocated.release(loses, t.sharable)
	t.allocated.use(gets, t.sharable)
	d.undo = append(d.undo, func() {
		t.allocated.release(gets, t.sharable)
		t.allocated.use(loses, t.sharable)
		if t.tried[claim.UID] = before; !was {
			delete(t.tried, claim.UID)
		}
	})
}

// asTried returns the claim as the trial that lasts has it.
func (t *claimTracker) asTried(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	allocation, ok := t.tried[claim.UID]
	if !ok {
		return claim
	}
	tried := *claim
	tried.Status = resourcev1.ResourceClaimStatus{Allocation: allocation}
	return &tried
}

// AllowDeviceSearch sets how many steps trials of devices may take together from now on.
func (s *State) AllowDeviceSearch(steps int) { s.informers.dra.steps = steps }

// SpendDeviceSearch takes in that a trial has taken so many steps.
func (s *State) SpendDeviceSearch(steps int) { s.informers.dra.steps -= steps }

// DeviceSearchLeft returns how many steps are left.
func (s *State) DeviceSearchLeft() int { return s.informers.dra.steps }

// MaySearchDevices reports whether steps are left.
func (s *State) MaySearchDevices() bool { return s.informers.dra.steps > 0 }
