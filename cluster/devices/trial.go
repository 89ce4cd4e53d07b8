package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Trial shows which devices of a node would be in use if some pods went and others came. While it lasts, plugins see
// claims and devices so, and the ResourceSlices of the node alone. One goroutine at a time may look at devices then:
// nothing is copied.
type Trial struct {
	d    *State
	node string
	held map[types.UID]bool // claims that Free leaves alone
	undo []func()
}

// Try begins a trial; End ends it. There is one at a time.
func (d *State) Try(node string) *Trial {
	if d.claims.tried != nil {
		panic("devices: a trial begins before the one before it has ended")
	}
	d.claims.tried, d.listed.only = map[types.UID]*resourcev1.AllocationResult{}, &node
	return &Trial{d: d, node: node, held: map[types.UID]bool{}}
}

// End brings back what is.
func (t *Trial) End() {
	t.BackTo(0)
	t.d.claims.tried, t.d.listed.only = nil, nil
}

// Mark returns the argument with which BackTo undoes all later changes.
func (t *Trial) Mark() int { return len(t.undo) }

// BackTo undoes what was done since Mark returned mark.
func (t *Trial) BackTo(mark int) {
	for _, undo := range slices.Backward(t.undo[mark:]) {
		undo()
	}
	t.undo = t.undo[:mark]
}

// Hold lets the claims that the pod names keep their devices: the pod uses them.
func (t *Trial) Hold(pod *v1.Pod) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, err := t.d.claims.Get(pod.Namespace, *name)
		if err == nil && !t.held[claim.UID] {
			t.held[claim.UID] = true
			t.undo = append(t.undo, func() { delete(t.held, claim.UID) })
		}
	}
}

// Free takes devices of the node back from claims of which no user stays.
func (t *Trial) Free(stays func(types.UID) bool) {
	for of := range t.d.pools.ofNode[t.node] { // any order: sums
		for key := range t.d.claims.ofPool[of] {
			t.free(key, stays)
		}
	}
}

// FreeOf takes the devices back from the claims that the pod uses, wherever these are, if no user stays.
func (t *Trial) FreeOf(pod *v1.Pod, stays func(types.UID) bool) {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			t.free(types.NamespacedName{Namespace: pod.Namespace, Name: *name}, stays)
		}
	}
	for _, key := range t.d.byPod[pod.UID] {
		if t.d.assumed[key].made {
			t.free(key, stays)
		}
	}
}

func (t *Trial) free(key types.NamespacedName, stays func(types.UID) bool) {
	claim := t.d.claim(key)
	if assumed := t.d.assumed[key]; claim == nil && assumed != nil {
		claim = assumed.toBeMade(key)
	}
	if claim == nil || !t.d.comesFree(claim, stays) {
		return
	}
	if _, already := t.d.claims.tried[claim.UID]; !already && !t.held[claim.UID] {
		t.change(claim, allocationResults(claim), nil)
	}
}

// Give gives devices to a claim that has none.
func (t *Trial) Give(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) {
	t.change(claim, nil, allocation)
}

// change takes the devices from a claim that it has, or gives it others.
func (t *Trial) change(claim *resourcev1.ResourceClaim, loses []resourcev1.DeviceRequestAllocationResult,
	allocation *resourcev1.AllocationResult) {
	all := t.d.claims
	given := &resourcev1.ResourceClaim{}
	given.Status.Allocation = allocation
	gets := allocationResults(given)
	before, was := all.tried[claim.UID]
	all.tried[claim.UID] = allocation
	all.allocated.release(loses, all.sharable)
	all.allocated.use(gets, all.sharable)
	t.undo = append(t.undo, func() {
		all.allocated.release(gets, all.sharable)
		all.allocated.use(loses, all.sharable)
		if all.tried[claim.UID] = before; !was {
			delete(all.tried, claim.UID)
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
