package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// maxConflicts is the number of times that a claim may change between reading and writing it before that counts as a
// failed try. Each pod for which a shared claim is reserved is a conflict for all others that are about to write the
// claim. There may be as many of them as a claim can be reserved for.
const maxConflicts = resourcev1.ResourceClaimReservedForMaxSize

// reserveClaims allocates devices to the pod's ResourceClaims, as the decision says, and reserves them for the pod, as
// DynamicResources does in PreBind (bindClaim in dynamicresources.go). It writes nothing for a pod that need not be
// bound any longer. If a pod goes during the writes, reserveClaims gives its claims back before the bind reports its
// result.
func (b *binding) reserveClaims(ctx context.Context) turn {
	b.awaited = nil
	if b.awaitsGroup() {
		return turn{next: b.reserveClaims, after: shortWait}
	}
	for _, name := range b.Claims {
		if err := b.opts.Still(b.Effect); err != nil {
			return b.fail(err)
		}
		if err := b.reserveClaim(ctx, name); err != nil {
			if apierrors.IsConflict(err) && b.conflicts < maxConflicts {
				b.conflicts++
				b.retried()
				return turn{next: b.reserveClaims, after: shortWait}
			}
			return b.again(b.reserveClaims, fmt.Errorf("reserve ResourceClaim %s: %w", name, err))
		}
	}
	b.tries, b.conflicts, b.offSince = 0, 0, time.Time{}
	return turn{next: b.bindVolumes}
}

func (b *binding) reserveClaim(ctx context.Context, name string) error {
	devices := b.devicesOf(name)
	requests, err := requestsOf(devices)
	if err != nil {
		return err
	}
	claim, err := b.claimToReserve(ctx, name, requests)
	if err != nil {
		return err
	}
	if err := b.checkClaim(ctx, claim, devices, requests != nil); err != nil {
		return err
	}
	if requests != nil { // an earlier process may have ended when it was about to delete the claim
		if claim, err = b.addFinalizer(ctx, claim); err != nil {
			return err
		}
	}
	if claim.Status.Allocation == nil || !b.isReserved(claim) {
		if claim, err = b.reserve(ctx, claim, devices); err != nil {
			return err
		}
	}
	b.noteAwaited(claim)
	if requests != nil {
		return b.tellClaim(ctx, name, requests)
	}
	return nil
}

// checkClaim says in which respect a claim, which the bind may make, has changed since the pod was placed.
func (b *binding) checkClaim(ctx context.Context, claim *resourcev1.ResourceClaim, wanted *eventlog.DeviceClaim,
	makes bool) error {
	switch {
	case makes && !devices.MadeFor(claim, b.UID):
		return inconsistent("claim %s/%s was not made for the pod", b.Namespace, claim.Name)
	case !makes && b.isAnother(claim, wanted):
		return inconsistent("claim %s/%s is another one (UID %s)", b.Namespace, claim.Name, claim.UID)
	case claim.DeletionTimestamp != nil:
		return inconsistent("claim %s/%s got deleted in the meantime", b.Namespace, claim.Name)
	case claim.Status.Allocation == nil && wanted == nil:
		return inconsistent("claim %s/%s got deallocated elsewhere in the meantime", b.Namespace, claim.Name)
	case claim.Status.Allocation != nil && wanted != nil && !wanted.SameDevices(claim):
		return inconsistent("claim %s/%s got allocated elsewhere in the meantime", b.Namespace, claim.Name)
	case wanted == nil:
		return b.checkDevices(ctx, claim)
	}
	return nil
}

// isAnother reports whether a claim that the bind does not make differs from the claim of the decision.
func (b *binding) isAnother(claim *resourcev1.ResourceClaim, devices *eventlog.DeviceClaim) bool {
	if devices != nil {
		return claim.UID != devices.UID
	}
	known := b.ClaimUIDs[claim.Name]
	return known != "" && claim.UID != known
}

// checkDevices reports whether the node has the devices of a claim of which the decision says nothing: it had them
// already. Meanwhile it may have been given back, and allocated elsewhere by another scheduler.
func (b *binding) checkDevices(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if claim.Status.Allocation.NodeSelector == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
	if err != nil {
		return inconsistent("claim %s/%s: node selector of its allocation: %w", b.Namespace, claim.Name, err)
	}
	node, err := b.readNode(ctx)
	if err != nil {
		return fmt.Errorf("read node %s: %w", b.Node, err)
	}
	if !selector.Match(node) {
		return inconsistent("claim %s/%s has its devices on other nodes than %s", b.Namespace, claim.Name, b.Node)
	}
	return nil
}

// reserve allocates the devices to the claim, if it has none, and reserves it for the pod.
func (b *binding) reserve(ctx context.Context, claim *resourcev1.ResourceClaim,
	devices *eventlog.DeviceClaim) (*resourcev1.ResourceClaim, error) {
	if claim.Status.Allocation == nil {
		allocated, err := b.allocate(ctx, claim, devices)
		if err != nil {
			return nil, err
		}
		claim = allocated
	}
	if !b.isReserved(claim) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, b.consumer(claim.Name))
	}
	if claim.Status.Allocation.AllocationTimestamp == nil {
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: b.opts.Clock.Now()}
	}
	return b.updateDevices(ctx, claim)
}

// allocate returns the claim with its finalizer, which is written, and with the allocation, which is not yet. The next
// write carries the version of the claim. The API server refuses it if somebody else has changed the claim.
func (b *binding) allocate(ctx context.Context, claim *resourcev1.ResourceClaim,
	devices *eventlog.DeviceClaim) (*resourcev1.ResourceClaim, error) {
	claim, err := b.addFinalizer(ctx, claim)
	if err != nil {
		return nil, err
	}
	result, err := devices.Result()
	if err != nil {
		return nil, &inconsistentError{err}
	}
	if result.Devices.Config, err = b.configure(ctx, claim, result); err != nil {
		return nil, err
	}
	claim.Status.Allocation = result
	return claim, nil
}

// addFinalizer returns the claim with its finalizer, which is written if it was not there.
func (b *binding) addFinalizer(ctx context.Context,
	claim *resourcev1.ResourceClaim) (with *resourcev1.ResourceClaim, err error) {
	if slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		return claim, nil
	}
	claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	err = b.call(ctx, CallReserveClaims, func(ctx context.Context) (err error) {
		with, err = b.opts.Client.ResourceV1().ResourceClaims(b.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add finalizer: %w", err)
	}
	return with, nil
}

// devicesOf returns the devices of a claim in the decision; nil if there are none, because the claim was allocated
// before.
func (b *binding) devicesOf(claim string) *eventlog.DeviceClaim {
	for i := range b.Devices {
		if b.Devices[i].Claim == claim {
			return &b.Devices[i]
		}
	}
	return nil
}

// giveBackClaims returns the step before the end of a bind that has not bound its pod, or whose pod is gone. The pod
// gives its claims back, and a claim that nobody else uses gives its devices back. This includes a claim that was
// allocated for another pod, whose bind has failed before: kube-scheduler frees such a claim in PostFilter, once the
// pod fits no node where the devices are. The end waits until the API server has stored the writes, because the result
// makes the devices free for others. If the API server permanently refuses a write, the claim stays as it is. The end
// then waits until the scheduler knows that, because it treats the devices as free otherwise.
func (b *binding) giveBackClaims(ends turn) step {
	return func(ctx context.Context) turn {
		for _, name := range b.Claims {
			if b.left[name] {
				continue
			}
			err := b.giveBackClaim(ctx, name)
			if err == nil {
				b.refusals = 0
				continue
			}
			b.kept++
			if !errors.Is(err, errUnseen) {
				b.trouble(b.Effect, "what it would use stays reserved until ResourceClaim "+name+" is given back", err)
				b.retried()
			}
			return turn{next: b.giveBackClaims(ends), after: backoff(b.kept)}
		}
		return ends
	}
}

// leaveRefused skips a claim if the API server refuses the write that would give it back, repeatedly and with an answer
// that it would give again. The claim as it was read then stays, and the scheduler must know it so.
func (b *binding) leaveRefused(claim *resourcev1.ResourceClaim, err error) error {
	if !isRefusal(err) {
		return err
	}
	if b.refusals++; b.refusals < manyRefusals {
		return err
	}
	if !b.isKnown(claim) {
		return errUnseen
	}
	b.opts.Report(fmt.Sprintf("pod %s/%s (%s): ResourceClaim %s stays as it is, which the pod gives back: %v",
		b.Namespace, b.Name, b.UID, claim.Name, err))
	if b.left == nil {
		b.left = map[string]bool{}
	}
	b.left[claim.Name] = true
	return nil
}

// stands ends a bind that succeeded. The scheduler may know by now that the pod need not be bound. Then stands first
// examines the claims. The devices of a pod that is gone are free for others once the result is reported, and
// Kubernetes' claim controller may not have given the pod's claims back yet.
func (b *binding) stands(ctx context.Context) turn {
	ends := b.end(eventlog.BindBound, "")
	if len(b.Claims) == 0 || b.opts.Still(b.Effect) == nil {
		return ends
	}
	pod, err := b.readPod(ctx, b.Effect)
	switch {
	case isGone(err, b.Name), err == nil && (pod.UID != b.UID || isFinished(pod)):
		return turn{next: b.giveBackClaims(ends)}
	case err != nil:
		b.unread++
		b.trouble(b.Effect, "it was bound and may be gone, what it would use stays reserved", err)
		return turn{next: b.stands, after: backoff(b.unread)}
	}
	return ends
}

func (b *binding) giveBackClaim(ctx context.Context, name string) error {
	claim, err := b.readDevices(ctx, name)
	if isGone(err, name) {
		return nil
	}
	if err != nil {
		return err
	}
	devices := b.devicesOf(name)
	if requests, err := requestsOf(devices); err == nil && requests != nil {
		return b.leaveRefused(claim, b.unmakeClaim(ctx, claim.DeepCopy()))
	}
	if devices != nil && claim.UID != devices.UID {
		return nil // it is another one
	}
	if devices != nil && claim.Status.Allocation == nil {
		_, err := b.removeFinalizer(ctx, claim.DeepCopy())
		return b.leaveRefused(claim, err)
	}
	if b.elsewhere && (devices == nil || !devices.SameDevices(claim)) {
		return nil // it is allocated for where the pod is
	}
	without := claim.DeepCopy()
	without.Status.ReservedFor = slices.DeleteFunc(without.Status.ReservedFor, b.isPod)
	if len(without.Status.ReservedFor) == len(claim.Status.ReservedFor) {
		return b.leaveToGroup(claim, devices)
	}
	if len(without.Status.ReservedFor) == 0 {
		without.Status.Allocation, without.Status.Devices = nil, nil
	}
	_, err = b.updateDevices(ctx, without)
	if isGone(err, name) {
		return nil
	}
	return b.leaveRefused(claim, err)
}

// removeFinalizer returns the claim after taking off the finalizer, if it has one; nil if the claim is gone. An earlier
// call with an unknown outcome, maybe one of an earlier process, could still allocate a claim that has no devices. But
// such a call carries the version of the claim that it was made for, and none was sent for a version without the
// finalizer. So removing the finalizer makes it fail.
func (b *binding) removeFinalizer(ctx context.Context,
	claim *resourcev1.ResourceClaim) (without *resourcev1.ResourceClaim, err error) {
	at := slices.Index(claim.Finalizers, resourcev1.Finalizer)
	if at < 0 {
		return claim, nil
	}
	claim.Finalizers = slices.Delete(claim.Finalizers, at, at+1)
	err = b.call(ctx, CallReserveClaims, func(ctx context.Context) (err error) {
		without, err = b.opts.Client.ResourceV1().ResourceClaims(b.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		without = nil
	}
	if isGone(err, claim.Name) {
		err = nil
	}
	return without, err
}

func (b *binding) readDevices(ctx context.Context, name string) (claim *resourcev1.ResourceClaim, err error) {
	err = b.call(ctx, CallReadDevices, func(ctx context.Context) (err error) {
		claim, err = b.opts.Client.ResourceV1().ResourceClaims(b.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return claim, err
}

func (b *binding) updateDevices(ctx context.Context, claim *resourcev1.ResourceClaim,
) (updated *resourcev1.ResourceClaim, err error) {
	claims := b.opts.Client.ResourceV1().ResourceClaims(b.Namespace)
	err = b.call(ctx, CallReserveClaims, func(ctx context.Context) (err error) {
		updated, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	return updated, err
}

// configure returns the configurations of the devices, as the allocator of Kubernetes puts them together (Allocate in
// k8s.io/dynamic-resource-allocation/structured): first the configurations of the classes, then the claim's. configure
// reads them now, because the log has none: their contents belong to the drivers.
func (b *binding) configure(ctx context.Context, claim *resourcev1.ResourceClaim,
	result *resourcev1.AllocationResult) (configs []resourcev1.DeviceAllocationConfiguration, err error) {
	chosen := chosenRequests(claim, result)
	classes := map[string]bool{}
	for _, request := range chosen {
		if classes[request.class] {
			continue
		}
		classes[request.class] = true
		var class *resourcev1.DeviceClass
		err := b.call(ctx, CallReadDevices, func(ctx context.Context) (err error) {
			class, err = b.opts.Client.ResourceV1().DeviceClasses().Get(ctx, request.class, metav1.GetOptions{})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("device class %s: %w", request.class, err)
		}
		for _, config := range class.Spec.Config {
			configs = append(configs, resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClass, Requests: ofClass(chosen, request.class),
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for _, config := range claim.Spec.Devices.Config {
		applies := func(r chosenRequest) bool {
			return slices.Contains(config.Requests, r.name) || slices.Contains(config.Requests, r.ref)
		}
		if len(config.Requests) == 0 || slices.ContainsFunc(chosen, applies) {
			configs = append(configs, resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClaim, Requests: config.Requests,
				DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for i := range configs {
		missing := func(r chosenRequest) bool {
			return !slices.Contains(configs[i].Requests, r.name) && !slices.Contains(configs[i].Requests, r.ref)
		}
		if !slices.ContainsFunc(chosen, missing) {
			configs[i].Requests = nil // it is for all
		}
	}
	return configs, nil
}

// chosenRequest is a request of a claim, or the alternative of it that was chosen: ref is REQUEST/ALTERNATIVE then.
type chosenRequest struct{ name, ref, class string }

func chosenRequests(claim *resourcev1.ResourceClaim, result *resourcev1.AllocationResult) (chosen []chosenRequest) {
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil {
			chosen = append(chosen, chosenRequest{request.Name, request.Name, request.Exactly.DeviceClassName})
			continue
		}
		for _, alternative := range request.FirstAvailable {
			ref := resourceclaim.CreateSubRequestRef(request.Name, alternative.Name)
			if slices.ContainsFunc(result.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
				return r.Request == ref
			}) {
				chosen = append(chosen, chosenRequest{request.Name, ref, alternative.DeviceClassName})
			}
		}
	}
	return chosen
}

func ofClass(chosen []chosenRequest, class string) (refs []string) {
	for _, request := range chosen {
		if request.class == class {
			refs = append(refs, request.ref)
		}
	}
	return refs
}

// isPod reports whether the consumer is the pod of the bind.
func (b *binding) isPod(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == "" && r.Resource == "pods" && r.Name == b.Name && r.UID == b.UID
}
