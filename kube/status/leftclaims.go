package status

import (
	"context"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A ResourceClaim that was made for the extended resources of a pod is deleted if the pod has no node and no bind of it
// is under way. A bind that fails deletes its own claim. A claim that is left is from a scheduler that ended in between
// and whose log is not this one, such as kube-scheduler before. It keeps its devices from all pods, also from its own.
// kube-scheduler deletes such a claim in PostFilter of DynamicResources, and does not schedule the pod before.

// leftClaim is a claim that was left behind.
type leftClaim struct{ uid, pod types.UID }

// leftBehind has the claims of a pod be deleted that were left behind.
func (s *Status) leftBehind(m *scheduler.Machine, pod types.UID) {
	p := m.Cluster().Pods().Get(pod)
	if p == nil || !m.Schedules(p.Object) {
		return
	}
	for _, claim := range m.Cluster().Devices().LeftClaims(pod) {
		key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		s.claims.put(key, leftClaim{claim.UID, pod})
	}
}

// deleteClaim deletes a claim, as kube-scheduler does: first its finalizer goes.
func (s *Status) deleteClaim(ctx context.Context, key types.NamespacedName, left leftClaim) (outcome, error) {
	if seen, there := s.opts.Seen(left.pod); !there || seen.NodeName != "" {
		return stands, nil // another scheduler has bound it, or it goes with its pod
	}
	claims := s.opts.Pods.ResourceV1().ResourceClaims(key.Namespace)
	claim, err := claims.Get(ctx, key.Name, metav1.GetOptions{})
	if err == nil && claim.UID != left.uid || apierrors.IsNotFound(err) {
		return stands, nil
	}
	if at := -1; err == nil {
		if at = slices.Index(claim.Finalizers, resourcev1.Finalizer); at >= 0 {
			claim.Finalizers = slices.Delete(claim.Finalizers, at, at+1)
			claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		}
	}
	if err == nil {
		err = claims.Delete(ctx, key.Name, devices.DeleteAsRead(claim))
	}
	switch {
	case err == nil:
		return wrote, nil
	case apierrors.IsNotFound(err):
		return stands, nil
	}
	return failed, err
}
