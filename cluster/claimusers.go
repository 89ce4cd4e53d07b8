package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// claimUsers are the pods with a node by the ResourceClaims that they name. One that is made for a pod from a template
// is not among them: it has one user.
type claimUsers map[types.NamespacedName]map[types.UID]struct{}

// add has a pod with a node use the claims that it names.
func (u claimUsers) add(pod *v1.Pod) {
	for _, key := range namedClaims(pod) {
		if u[key] == nil {
			u[key] = map[types.UID]struct{}{}
		}
		u[key][pod.UID] = struct{}{}
	}
}

// remove has a pod use them no more.
func (u claimUsers) remove(pod *v1.Pod) {
	for _, key := range namedClaims(pod) {
		if delete(u[key], pod.UID); len(u[key]) == 0 {
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

// FullClaim says of which claim of the pod no more pods can have a share: the API server takes that many in a claim's
// status.reservedFor. Pods with a node that are not there yet count as well, those of a PodGroup that has the claim as
// one. "" if there is none.
func (s *State) FullClaim(pod *v1.Pod) string {
	for _, key := range namedClaims(pod) {
		claim, ok := s.informers.Get(eventlog.ResourceClaims, key.Namespace, key.Name).(*resourcev1.ResourceClaim)
		if !ok || len(claim.Status.ReservedFor)+len(s.claimUsers[key]) < resourcev1.ResourceClaimReservedForMaxSize {
			continue
		}
		consumer, others := s.consumerOf(pod, key.Name), s.consumers(key, claim)
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
