package effect

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// ClaimsOf returns the names of the ResourceClaims that have to be reserved for the pod, for Request.Claims.
func ClaimsOf(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	return names
}

// reserveClaims reserves the pod's ResourceClaims for it, as DynamicResources does in PreBind. Their devices are
// allocated already: pods that need an allocation are not decided.
func (b *binding) reserveClaims(ctx context.Context) turn {
	for _, name := range b.Claims {
		if err := b.reserveClaim(ctx, name); err != nil {
			return b.again(b.reserveClaims, fmt.Errorf("reserve ResourceClaim %s: %w", name, err))
		}
	}
	b.tries, b.offSince = 0, time.Time{}
	return turn{next: b.bindVolumes}
}

func (b *binding) reserveClaim(ctx context.Context, name string) error {
	claims := b.opts.Client.ResourceV1().ResourceClaims(b.Namespace)
	var claim *resourcev1.ResourceClaim
	err := b.call(ctx, CallReadDevices, func(ctx context.Context) (err error) {
		claim, err = claims.Get(ctx, name, metav1.GetOptions{})
		return err
	})
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(claim.Status.ReservedFor, b.isPod):
		return nil
	case claim.DeletionTimestamp != nil:
		return inconsistent("claim %s/%s got deleted in the meantime", b.Namespace, name)
	case claim.Status.Allocation == nil:
		return inconsistent("claim %s/%s got deallocated elsewhere in the meantime", b.Namespace, name)
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor,
		resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: b.Name, UID: b.UID})
	return b.call(ctx, CallReserveClaims, func(ctx context.Context) error {
		_, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
}

// isPod reports whether the consumer is the pod of the bind.
func (b *binding) isPod(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == "" && r.Resource == "pods" && r.Name == b.Name && r.UID == b.UID
}
