package effect

import (
	"context"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// pollDevices is the interval between reads of a pod's claims while their devices get ready, as in kube-scheduler.
const pollDevices = 5 * time.Second

// awaited is a ResourceClaim with binding conditions, as it was reserved for the pod.
type awaited struct {
	claim    string
	uid      types.UID
	version  string
	deadline time.Time
}

// noteAwaited notes that the bind has to wait for the devices of a claim that is reserved for the pod.
func (b *binding) noteAwaited(claim *resourcev1.ResourceClaim) {
	if !devices.HasBindingConditions(claim) ||
		!utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceBindingConditions) {
		return
	}
	since := b.opts.Clock.Now()
	if at := claim.Status.Allocation.AllocationTimestamp; at != nil && at.Time.Before(since) {
		since = at.Time // a time in the future is from another machine's clock
	}
	b.awaited = append(b.awaited, awaited{
		claim: claim.Name, uid: claim.UID, version: claim.ResourceVersion, deadline: since.Add(b.opts.DeviceTimeout),
	})
}

// awaitDevices waits until all binding conditions of the pod's devices are true, as DynamicResources does in PreBind. A
// binding failure condition, or too long a wait, makes the bind fail, and the claims are given back.
func (b *binding) awaitDevices(ctx context.Context) turn {
	for _, a := range b.awaited {
		if err := b.opts.Still(b.Effect); err != nil {
			return b.fail(err)
		}
		ready, err := b.devicesReady(ctx, a)
		if err != nil {
			return b.again(b.awaitDevices, err)
		}
		b.tries, b.offSince = 0, time.Time{}
		switch {
		case ready:
		case a.deadline.Before(b.opts.Clock.Now()):
			return b.fail(fmt.Errorf("device binding timeout: claim=%s", a.claim))
		default:
			return turn{next: b.awaitDevices, after: pollDevices, idle: true}
		}
	}
	return turn{next: b.awaitVolumes}
}

// devicesReady reports whether the devices of a claim are ready. Its errors have the wording of kube-scheduler's
// isClaimReadyForBinding.
func (b *binding) devicesReady(ctx context.Context, a awaited) (bool, error) {
	claim, known := b.opts.Whole(eventlog.ResourceClaims, b.Namespace, a.claim).(*resourcev1.ResourceClaim)
	if known {
		order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, a.version)
		if err == nil && order < 0 {
			return false, nil // it is not known yet as it was written
		}
	} else {
		read, err := b.readDevices(ctx, a.claim)
		if isGone(err, a.claim) {
			return false, &inconsistentError{err}
		}
		if err != nil {
			return false, fmt.Errorf("check the devices of ResourceClaim %s: %w", a.claim, err)
		}
		claim = read
	}
	switch {
	case claim.UID != a.uid:
		return false, inconsistent("claim %s/%s is another one (UID %s)", b.Namespace, a.claim, claim.UID)
	case claim.Status.Allocation == nil:
		return false, inconsistent("claim %s/%s got deallocated elsewhere in the meantime", b.Namespace, a.claim)
	}
	ready, failed := devices.Ready(claim)
	if failed != nil {
		return false, inconsistent("device binding failed: claim=%s, reason=%s, message=%q", a.claim, failed.Reason,
			failed.Message)
	}
	return ready, nil
}
