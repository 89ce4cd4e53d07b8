package devices

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

// The devices that would be in use if some pods went and others came. Preemption uses it, and the code that keeps
// devices for nominated pods.
//
// A claim gives its devices back once no pod uses it. Invariant: devices that a Trial frees belong to claims all of
// whose users go.

// Freeable reports whether preemption may free devices, and devices are kept for the pods that they come free for: each
// pool of devices is of one node. With devices of other kinds what comes free on one node may be taken from another.
func (d *State) Freeable() bool {
	gates := utilfeature.DefaultFeatureGate
	return d.pools.wide == 0 && gates.Enabled(features.DRAConsumableCapacity) &&
		!gates.Enabled(features.DRANodeAllocatableResources)
}

// Has reports whether the node has devices, used or not.
func (d *State) Has(node string) bool { return len(d.pools.ofNode[node]) > 0 }

// Awaits reports whether devices of the node are about to come free: a claim has them, and all pods that used it
// are gone.
func (d *State) Awaits(node string) bool {
	for pool := range d.pools.ofNode[node] { // any order: one is enough
		if d.anyAbandoned(pool) {
			return true
		}
	}
	return false
}

// Awaiting returns the nodes for which Awaits is true, by name.
func (d *State) Awaiting() (nodes []string) {
	// any order: sorted below
	for pool := range d.claims.ofPool {
		if d.anyAbandoned(pool) {
			// any order: sorted below
			nodes = slices.AppendSeq(nodes, maps.Keys(d.pools.slices[pool]))
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func (d *State) anyAbandoned(of pool) bool {
	for key := range d.claims.ofPool[of] { // any order: one is enough
		claim, err := d.claims.Get(key.Namespace, key.Name)
		if err == nil && d.isAbandoned(claim) {
			return true
		}
	}
	return false
}

// isAbandoned reports whether the claim has devices, and all pods that used it are gone.
func (d *State) isAbandoned(claim *resourcev1.ResourceClaim) bool {
	return d.comesFree(claim, func(uid types.UID) bool {
		_, there := d.cluster.Pod(uid)
		return there
	})
}

// A claim that is about to give its devices back may get another user instead. Pods that wait for these devices must
// know: see Changes.Taken.

// noteTaken notes the claims that were about to give their devices back, and that a pod uses which gets a node.
func (d *State) noteTaken(pod *v1.Pod, c *Changes) {
	for _, key := range slices.Concat(namedClaims(pod), madeClaims(pod)) {
		if claim, err := d.claims.Get(key.Namespace, key.Name); err == nil && d.isAbandoned(claim) {
			d.noteNodes(claim, c)
		}
	}
}

// isAwaited reports whether a claim is about to give its devices back.
func (d *State) isAwaited(key types.NamespacedName) bool {
	claim, err := d.claims.Get(key.Namespace, key.Name)
	return err == nil && d.isAbandoned(claim)
}

// noteReserved notes a claim that was awaited, if it no longer is and has its devices.
func (d *State) noteReserved(key types.NamespacedName, c *Changes) {
	claim, err := d.claims.Get(key.Namespace, key.Name)
	if err == nil && claim.Status.Allocation != nil && !d.isAbandoned(claim) {
		d.noteNodes(claim, c)
	}
}

// noteNodes notes the nodes of a claim's devices.
func (d *State) noteNodes(claim *resourcev1.ResourceClaim, c *Changes) {
	for _, r := range allocationResults(claim) {
		// any order: the names are sorted before anybody reads them
		c.Taken = slices.AppendSeq(c.Taken, maps.Keys(d.pools.slices[poolOfResult(&r)]))
	}
}

// OwnClaims appends what the pod's claims ask for. own is false if one of them is not there, or may be other pods' as
// well.
func (d *State) OwnClaims(dst []byte, pod *v1.Pod) (specs []byte, own bool) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil || d.shares(pod, i) {
			return dst, false
		}
		claim, err := d.claims.Get(pod.Namespace, *name)
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
func (d *State) givesBack(pod *v1.Pod, i int) bool {
	p, _ := d.cluster.Pod(pod.UID)
	return p.Waiting && !d.shares(pod, i)
}

// comesFree reports whether the claim has devices and gives them back once all pods have gone of which stays is false.
// A claim that somebody has allocated and nobody uses does not: nobody would give it back.
func (d *State) comesFree(claim *resourcev1.ResourceClaim, stays func(types.UID) bool) bool {
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
	if assumed := d.assumed[key]; assumed != nil {
		for _, uid := range assumed.holders {
			if !uses(uid) {
				return false
			}
		}
	}
	if !d.eachUser(key, uses) || d.staysWithGroup(key) {
		return false
	}
	if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "Pod" && !uses(owner.UID) {
		return false
	}
	return used
}

// staysWithGroup reports whether a PodGroup will have the claim reserved whatever becomes of the PodGroup's pods. A pod
// that is bound or being bound reserves it for the PodGroup. The PodGroup gives it back when it is gone, or when an
// attempt on it fails. If a pod goes while its bind is under way, nobody knows whether it has reserved the claim.
func (d *State) staysWithGroup(key types.NamespacedName) bool {
	if !ShareGroupClaims() {
		return false
	}
	leaves := func(uid types.UID) bool {
		p, ok := d.cluster.Pod(uid)
		return ok && (p.Waiting || d.consumerOf(p.Object, key.Name) == uid)
	}
	if assumed := d.assumed[key]; assumed != nil &&
		slices.ContainsFunc(assumed.holders, func(uid types.UID) bool { return !leaves(uid) }) {
		return true
	}
	return !d.eachUser(key, leaves)
}
