package cluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Claims of a PodGroup, with the feature gate DRAWorkloadResourceClaims: a pod's claim that is one of its PodGroup's is
// reserved for the PodGroup once, and not for each pod. Its devices are those of all members, until the PodGroup is
// gone, or until none of them has a node and an attempt fails (Machine.giveBackClaims).

// ShareGroupClaims sets whether claims may be those of PodGroups, where the feature gate is on: from behaviour 8 on.
func (s *State) ShareGroupClaims(yes bool) { s.informers.dra.groups = yes }

// SharesGroupClaims reports whether claims may be those of PodGroups, where the feature gate is on.
func SharesGroupClaims(m fwk.SharedDRAManager) bool {
	ours, ok := m.(*draManager)
	return ok && ours.groups
}

// HasGroupClaims reports whether claims may be those of PodGroups. The gates of the configuration are in force.
func (s *State) HasGroupClaims() bool {
	return s.informers.dra.groups && utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims)
}

// podGroupOf returns the PodGroup of scheduling.k8s.io that the pod names in its spec, nil if it is not there.
func (s *State) podGroupOf(pod *v1.Pod) *schedulingv1beta1.PodGroup {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	name := *pod.Spec.SchedulingGroup.PodGroupName
	group, _ := s.informers.Get(eventlog.PodGroups, pod.Namespace, name).(*schedulingv1beta1.PodGroup)
	return group
}

// GroupClaims returns, by the names of ResourceClaims, the PodGroup that has them reserved in the pod's place; nil for
// none. The feature gate counts, see HasGroupClaims.
func (s *State) GroupClaims(pod *v1.Pod) (of map[string]resourcev1.ResourceClaimConsumerReference) {
	if len(pod.Spec.ResourceClaims) == 0 || !s.HasGroupClaims() {
		return nil
	}
	return GroupClaimsOf(pod, s.podGroupOf(pod))
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
func (s *State) consumerOf(pod *v1.Pod, claim string) types.UID {
	if to, ok := s.GroupClaims(pod)[claim]; ok {
		return to.UID
	}
	return pod.UID
}

// consumers returns for whom a claim will be reserved because pods with a node name it, and is not yet.
func (s *State) consumers(key types.NamespacedName, claim *resourcev1.ResourceClaim) map[types.UID]struct{} {
	all := map[types.UID]struct{}{}
	s.eachUser(key, func(uid types.UID) bool {
		if p := s.pods[uid]; p != nil {
			uid = s.consumerOf(p.Object, key.Name)
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

// IdleClaims returns the claims of the gang's PodGroup that are reserved for it, if no pod of it has a node, and none
// that had one may still be bound; nil if they are to stay. The feature gate counts, see HasGroupClaims.
func (s *State) IdleClaims(g *Group) (idle []eventlog.DeviceClaim) {
	group, ok := g.ObjectOf(eventlog.PodGroups).(*schedulingv1beta1.PodGroup)
	if !ok || len(group.Spec.ResourceClaims) == 0 || !s.HasGroupClaims() || !g.Nodeless() {
		return nil
	}
	for i := range group.Spec.ResourceClaims {
		name, _, err := resourceclaim.NameFromPodGroup(group, &group.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		key := types.NamespacedName{Namespace: g.Namespace, Name: *name}
		claim, ok := s.informers.Get(eventlog.ResourceClaims, key.Namespace, key.Name).(*resourcev1.ResourceClaim)
		if !ok || !isReservedFor(claim, group.UID) {
			continue
		}
		if s.informers.devices[key] != nil {
			return nil // of a pod that is gone, and whose bind has no result yet
		}
		if s.FollowsDeviceUsers() && len(s.consumers(key, claim)) > 0 {
			continue // a pod of no PodGroup, or of another one, uses it, and the claim does not say so yet
		}
		idle = append(idle, eventlog.DeviceClaim{Claim: claim.Name, UID: claim.UID})
	}
	return idle
}

// Nodeless reports whether no member has a node: none is bound or being bound, waits, or is leaving.
func (g *Group) Nodeless() bool { return g.counts.Members() == g.counts.Pending }
