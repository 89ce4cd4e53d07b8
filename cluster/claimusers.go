package cluster

import (
	"fmt"
	"slices"

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
// status.reservedFor. Pods with a node that are not there yet count as well. "" if there is none.
func (s *State) FullClaim(pod *v1.Pod) string {
	for _, key := range namedClaims(pod) {
		claim, ok := s.informers.Get(eventlog.ResourceClaims, key.Namespace, key.Name).(*resourcev1.ResourceClaim)
		if !ok || len(claim.Status.ReservedFor)+len(s.claimUsers[key]) < resourcev1.ResourceClaimReservedForMaxSize {
			continue
		}
		of := func(uid types.UID) func(resourcev1.ResourceClaimConsumerReference) bool {
			return func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == uid }
		}
		if slices.ContainsFunc(claim.Status.ReservedFor, of(pod.UID)) {
			continue
		}
		used := len(claim.Status.ReservedFor)
		for uid := range s.claimUsers[key] { // any order: they are counted
			if !slices.ContainsFunc(claim.Status.ReservedFor, of(uid)) {
				used++
			}
		}
		if used >= resourcev1.ResourceClaimReservedForMaxSize {
			return fmt.Sprintf("resourceclaim %q has %d users, and can have no more than %d", key.Name, used,
				resourcev1.ResourceClaimReservedForMaxSize)
		}
	}
	return ""
}
