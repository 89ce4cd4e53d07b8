package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Claims of a PodGroup, with the feature gate DRAWorkloadResourceClaims. Such a claim of a pod is reserved for the
// PodGroup once, and not for each pod. All members share its devices, until the PodGroup is gone, or until none of them
// has a node and an attempt fails (Machine.giveBackClaims).

// ShareGroupClaims reports whether claims may belong to PodGroups. The gates of the configuration are in force.
func ShareGroupClaims() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims)
}

// podGroupOf returns the PodGroup of scheduling.k8s.io that the pod names in its spec, nil if it is not there.
func (d *State) podGroupOf(pod *v1.Pod) *schedulingv1beta1.PodGroup {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	name := *pod.Spec.SchedulingGroup.PodGroupName
	group, err := d.podGroups.PodGroups(pod.Namespace).Get(name)
	if err != nil {
		return nil
	}
	return group
}

// GroupClaims returns, by the names of ResourceClaims, the PodGroup that has them reserved in the pod's place; nil for
// none. The feature gate counts, see ShareGroupClaims.
func (d *State) GroupClaims(pod *v1.Pod) (of map[string]resourcev1.ResourceClaimConsumerReference) {
	if len(pod.Spec.ResourceClaims) == 0 || !ShareGroupClaims() {
		return nil
	}
	return GroupClaimsOf(pod, d.podGroupOf(pod))
}

// GroupClaimsOf is GroupClaims of a pod whose PodGroup is given, nil if it is not there.
func GroupClaimsOf(pod *v1.Pod, group *schedulingv1beta1.PodGroup,
) (of map[string]resourcev1.ResourceClaimConsumerReference) {
	if group == nil {
		return nil
	}
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, claim)
		if err != nil || name == nil {
			continue
		}
		if to, err := resourceclaim.BindTo(pod, group, claim); err == nil && to.UID == group.UID {
			if of == nil {
				of = map[string]resourcev1.ResourceClaimConsumerReference{}
			}
			of[*name] = to
		}
	}
	return of
}

// consumerOf is for whom a claim is reserved that the pod uses: the pod, or its PodGroup.
func (d *State) consumerOf(pod *v1.Pod, claim string) types.UID {
	if to, ok := d.GroupClaims(pod)[claim]; ok {
		return to.UID
	}
	return pod.UID
}

// consumers returns for whom a claim will be reserved because pods with a node name it, and is not yet.
func (d *State) consumers(key types.NamespacedName, claim *resourcev1.ResourceClaim) map[types.UID]struct{} {
	all := map[types.UID]struct{}{}
	d.eachUser(key, func(uid types.UID) bool {
		if p, ok := d.cluster.Pod(uid); ok {
			uid = d.consumerOf(p.Object, key.Name)
		}
		if !isReservedFor(claim, uid) {
			all[uid] = struct{}{}
		}
		return true
	})
	return all
}

func isReservedFor(claim *resourcev1.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == uid
	})
}

// IdleClaims returns the claims of a PodGroup that are reserved for it, if none of its pods that had a node may still
// be bound; nil if they are to stay. None of its pods may have a node. The feature gate counts, see ShareGroupClaims.
func (d *State) IdleClaims(group *schedulingv1beta1.PodGroup) (idle []eventlog.DeviceClaim) {
	if !ShareGroupClaims() {
		return nil
	}
	for i := range group.Spec.ResourceClaims {
		name, _, err := resourceclaim.NameFromPodGroup(group, &group.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		key := types.NamespacedName{Namespace: group.Namespace, Name: *name}
		claim := d.claim(key)
		if claim == nil || !isReservedFor(claim, group.UID) {
			continue
		}
		if d.assumed[key] != nil {
			return nil // of a pod that is gone, and whose bind has no result yet
		}
		if len(d.consumers(key, claim)) > 0 {
			continue // a pod of no PodGroup, or of another one, uses it, and the claim does not say so yet
		}
		idle = append(idle, eventlog.DeviceClaim{Claim: claim.Name, UID: claim.UID})
	}
	return idle
}
