package effect

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// requestsOf returns the requests of a claim that the bind makes, nil for another one.
func requestsOf(devices *eventlog.DeviceClaim) ([]resourcev1.DeviceRequest, error) {
	if devices == nil {
		return nil, nil
	}
	requests, err := devices.Requests()
	if err != nil {
		return nil, &inconsistentError{err}
	}
	return requests, nil
}

// claimToReserve returns the claim of that name as the API server has it. If a claim with requests does not exist, it
// is made: an earlier try, also one of an earlier process, may have made it.
func (b *binding) claimToReserve(ctx context.Context, name string,
	requests []resourcev1.DeviceRequest) (*resourcev1.ResourceClaim, error) {
	if requests != nil && !b.Earlier && b.tries == 0 {
		if made, err := b.makeClaim(ctx, name, requests); !apierrors.IsAlreadyExists(err) {
			return made, err
		}
	}
	claim, err := b.readDevices(ctx, name)
	if requests != nil && isGone(err, name) {
		return b.makeClaim(ctx, name, requests)
	}
	return claim, err
}

// makeClaim makes the claim for the devices that the pod requests by the names of extended resources, as
// DynamicResources does in PreBind (createExtendedResourceClaimInAPI in extendeddynamicresources.go). The finalizer
// that kube-scheduler adds next is there from the beginning.
func (b *binding) makeClaim(ctx context.Context, name string,
	requests []resourcev1.DeviceRequest) (made *resourcev1.ResourceClaim, err error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name, UID: b.UID}}
	claim := devices.ClaimToMake(pod, name, requests)
	claim.Finalizers = []string{resourcev1.Finalizer}
	err = b.call(ctx, CallMakeClaim, func(ctx context.Context) (err error) {
		made, err = b.opts.Client.ResourceV1().ResourceClaims(b.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make it for extended resources: %w", err)
	}
	return made, nil
}

// unmakeClaim deletes a claim that was made for the pod. Its devices are free once it is gone.
func (b *binding) unmakeClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if !devices.MadeFor(claim, b.UID) {
		return nil
	}
	if err := b.untellClaim(ctx, claim.Name); err != nil {
		return fmt.Errorf("take it off the pod's status: %w", err)
	}
	claim, err := b.removeFinalizer(ctx, claim)
	if err != nil || claim == nil {
		return err
	}
	err = b.call(ctx, CallDeleteClaim, func(ctx context.Context) error {
		return b.opts.Client.ResourceV1().ResourceClaims(b.Namespace).Delete(ctx, claim.Name,
			devices.DeleteAsRead(claim))
	})
	if isGone(err, claim.Name) {
		return nil
	}
	return err
}

// tellClaim writes into the pod's status which of its containers use which requests of the claim that was made for it:
// the kubelet reads it there.
func (b *binding) tellClaim(ctx context.Context, name string, requests []resourcev1.DeviceRequest) (err error) {
	pod := b.Pod // the pod that the decision was made for
	if pod == nil {
		if pod, err = b.readPod(ctx, b.Effect); err != nil {
			return fmt.Errorf("read the pod: %w", err)
		}
	}
	mappings, err := devices.RequestMappings(pod, requests)
	if err != nil {
		return &inconsistentError{err}
	}
	told := &v1.PodExtendedResourceClaimStatus{RequestMappings: mappings, ResourceClaimName: name}
	if equality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, told) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": b.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": told},
	})
	if err != nil {
		return &inconsistentError{err}
	}
	return b.call(ctx, CallTellClaim, func(ctx context.Context) error {
		_, err := b.opts.Client.CoreV1().Pods(b.Namespace).Patch(ctx, b.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		return err
	})
}

// untellClaim takes a claim that is about to be deleted off the pod's status. The kubelet waits for the claim that it
// finds there, also if the pod gets onto a node by now that has the extended resources without one. A refusal is
// reported, and the claim goes all the same: others wait for its devices.
func (b *binding) untellClaim(ctx context.Context, name string) error {
	pod, err := b.readPod(ctx, b.Effect)
	if isGone(err, b.Name) {
		return nil
	}
	if err != nil {
		return err
	}
	told := pod.Status.ExtendedResourceClaimStatus
	if pod.UID != b.UID || told == nil || told.ResourceClaimName != name {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": b.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"extendedResourceClaimStatus": nil},
	})
	if err != nil {
		return err
	}
	err = b.call(ctx, CallTellClaim, func(ctx context.Context) error {
		_, err := b.opts.Client.CoreV1().Pods(b.Namespace).Patch(ctx, b.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		return err
	})
	switch {
	case isGone(err, b.Name):
		return nil
	case isRefusal(err):
		b.trouble(b.Effect, "its status goes on naming ResourceClaim "+name+", which is deleted", err)
		return nil
	}
	return err
}
