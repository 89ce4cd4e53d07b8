package devices

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
)

// The users of claims. Pods share the claims that they name, and the claims that are made of a template for their
// PodGroup. A claim that is made of a template for a pod has one user.

// claimUsers are the pods with a node by the ResourceClaims that they may share with others.
type claimUsers struct {
	// named are the claims that pods name. made are the claims that were made of a template for a pod of a PodGroup, or
	// for the PodGroup.
	named, made usersOfClaims
}

type usersOfClaims map[types.NamespacedName]map[types.UID]struct{}

func newClaimUsers() claimUsers { return claimUsers{named: usersOfClaims{}, made: usersOfClaims{}} }

// add notes that a pod with a node uses its claims.
func (u *claimUsers) add(pod *v1.Pod) {
	u.named.add(namedClaims(pod), pod.UID)
	u.made.add(madeClaims(pod), pod.UID)
}

// remove notes that it no longer does.
func (u *claimUsers) remove(pod *v1.Pod) {
	u.named.remove(namedClaims(pod), pod.UID)
	u.made.remove(madeClaims(pod), pod.UID)
}

func (u usersOfClaims) add(keys []types.NamespacedName, uid types.UID) {
	for _, key := range keys {
		if u[key] == nil {
			u[key] = map[types.UID]struct{}{}
		}
		u[key][uid] = struct{}{}
	}
}

func (u usersOfClaims) remove(keys []types.NamespacedName, uid types.UID) {
	for _, key := range keys {
		if delete(u[key], uid); len(u[key]) == 0 {
			delete(u, key)
		}
	}
}

func namedClaims(pod *v1.Pod) (keys []types.NamespacedName) {
	for _, claim := range pod.Spec.ResourceClaims {
		if claim.ResourceClaimName != nil {
			keys = append(keys, types.NamespacedName{Namespace: pod.Namespace, Name: *claim.ResourceClaimName})
		}
	}
	return keys
}

// madeClaims returns the claims of a pod of a PodGroup that are made of templates: some may be the PodGroup's.
func madeClaims(pod *v1.Pod) (keys []types.NamespacedName) {
	if pod.Spec.SchedulingGroup == nil {
		return nil
	}
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimName != nil {
			continue
		}
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys = append(keys, types.NamespacedName{Namespace: pod.Namespace, Name: *name})
		}
	}
	return keys
}

// Uses reports whether the pod uses the claim.
func Uses(pod *v1.Pod, namespace, claim string) bool {
	return pod.Namespace == namespace &&
		slices.ContainsFunc(pod.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool {
			name, _, err := resourceclaim.Name(pod, &c)
			return err == nil && name != nil && *name == claim
		})
}

// Place notes that a pod has a node: it uses its claims, whatever their status says. The pod must have its node in the
// eyes of Cluster.
func (d *State) Place(pod *v1.Pod) (c Changes) {
	d.noteTaken(pod, &c)
	d.users.add(pod)
	return c.sorted()
}

// Displace notes that a pod has its node no longer.
func (d *State) Displace(pod *v1.Pod) { d.users.remove(pod) }

// eachUser calls f for the pods with a node that use a claim, in any order, until f returns false. It returns false
// then.
func (d *State) eachUser(key types.NamespacedName, f func(types.UID) bool) bool {
	// any order: as it says above
	for uid := range d.users.named[key] {
		if !f(uid) {
			return false
		}
	}
	// any order: as it says above
	for uid := range d.users.made[key] {
		if !f(uid) {
			return false
		}
	}
	return true
}

// SharedClaims returns the names of the pod's claims that other pods may use as well; for plugins.
func SharedClaims(m fwk.SharedDRAManager, pod *v1.Pod) (names []string) {
	d := StateOf(m)
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		} else if d != nil {
			if claim := d.claimOfGroup(pod, i); claim != nil {
				names = append(names, claim.Name)
			}
		}
	}
	return names
}

// shares reports whether other pods may use the i-th claim of the pod as well.
func (d *State) shares(pod *v1.Pod, i int) bool {
	return pod.Spec.ResourceClaims[i].ResourceClaimName != nil || d.claimOfGroup(pod, i) != nil
}

// claimOfGroup returns the i-th claim of the pod if it was made of a template for another object than the pod, which
// must be its PodGroup; nil if it was not.
func (d *State) claimOfGroup(pod *v1.Pod, i int) *resourcev1.ResourceClaim {
	if pod.Spec.SchedulingGroup == nil {
		return nil
	}
	name, made, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
	if err != nil || name == nil || !made {
		return nil
	}
	claim, err := d.claims.Get(pod.Namespace, *name)
	if err != nil || metav1.IsControlledBy(claim, pod) {
		return nil
	}
	return claim
}

// FullClaim returns a reason to refuse the pod: it names a claim of the pod that no further pod can share. It returns
// "" if there is no such claim. The API server limits the length of a claim's status.reservedFor. Pods with a node
// count before they appear there. The pods of a PodGroup that has the claim count as one.
func (d *State) FullClaim(pod *v1.Pod) string {
	for _, name := range SharedClaims(d, pod) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		claim := d.claim(key)
		if claim == nil || len(claim.Status.ReservedFor)+len(d.users.named[key])+len(d.users.made[key]) <
			resourcev1.ResourceClaimReservedForMaxSize {
			continue
		}
		consumer, others := d.consumerOf(pod, key.Name), d.consumers(key, claim)
		if _, is := others[consumer]; is && consumer != pod.UID || isReservedFor(claim, consumer) {
			continue
		}
		if used := len(claim.Status.ReservedFor) + len(others); used >= resourcev1.ResourceClaimReservedForMaxSize {
			return fmt.Sprintf("resourceclaim %q has %d users, and can have no more than %d", key.Name, used,
				resourcev1.ResourceClaimReservedForMaxSize)
		}
	}
	return ""
}

// BeingMade returns the name of a claim that the pod uses and that another pod's bind is creating now for its own
// extended resources. The claim is not logged with its devices yet, and only that bind may write them. It returns "" if
// there is none.
func (d *State) BeingMade(pod *v1.Pod) string {
	if len(d.assumed) == 0 {
		return ""
	}
	for _, key := range namedClaims(pod) {
		assumed := d.assumed[key]
		if assumed != nil && assumed.text != assumed.devices && assumed.logged.Status.Allocation == nil {
			return key.Name
		}
	}
	return ""
}
