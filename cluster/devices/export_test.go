package devices

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SameTaints is sameTaints.
var SameTaints = sameTaints

// Pending counts the allocations that a cycle has pending.
func (d *State) Pending() int { return len(d.claims.pending) }

// Assumed counts the claims to which decisions have allocated devices, and the pods that rest on them.
func (d *State) Assumed() int { return len(d.assumed) + len(d.byPod) }

// Users counts the claims that pods use.
func (d *State) Users() int { return len(d.users.named) + len(d.users.made) }

// InUse returns a copy of the devices that are in use.
func (d *State) InUse() (devices, shares, capacity, whole, shared any) {
	a := d.claims.allocated.clone()
	return a.devices, a.shares, a.capacity, a.whole, a.shared
}

// FreeName is freeName.
func (d *State) FreeName(pod *v1.Pod, cycle uint64) string { return d.freeName(pod, cycle) }

// MadeClaim is madeClaim.
func (d *State) MadeClaim(pod *v1.Pod, cycle uint64) *resourcev1.ResourceClaim {
	return d.madeClaim(pod, cycle)
}

// Settle notes that a pod is bound.
func (d *State) Settle(pod types.UID) { d.settle(pod) }
