package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A claim of a PodGroup is reserved for the PodGroup by the first of its pods that gets there, with the allocation; the
// others find it so. A pod that is not bound leaves it as it is, because others may have the devices. A separate effect
// on the PodGroup gives the claim back: no pod of the PodGroup has a node then.
//
// Such an effect and the binds of the PodGroup's pods must not overlap, or a pod is bound without devices. So a bind
// that is taken on withdraws it, and waits with its claims for as long as a call of it may still be carried out.

// shortWait is the time to wait for a change that takes a call or two.
const shortWait = 50 * time.Millisecond

// givingBack is such an effect on its way.
type givingBack struct {
	*binding  // for its calls
	withdrawn *atomic.Bool
	left      []eventlog.DeviceClaim // not yet given back
	failed    int                    // how often a call has failed
	answered  int                    // how often of these the API server has answered so
	// doubtful is the version of the first claim on which a call was made with an unknown outcome; "" for none. The
	// call may be carried out as long as the claim is of that version.
	doubtful string
}

func (e *Effects) givingBack(t *task) *givingBack {
	return &givingBack{binding: &binding{Effects: e, Effect: t.Effect}, withdrawn: t.withdrawn, left: t.Devices}
}

// begin begins the effect. From then on binds wait with the claims.
func (g *givingBack) begin(ctx context.Context) turn {
	g.mu.Lock()
	g.givesBack[g.UID] = struct{}{}
	g.mu.Unlock()
	return g.goOn(ctx)
}

// goOn gives back the claims that are left. If a pod is to be bound by now, that ends as soon as no outcome is unknown.
func (g *givingBack) goOn(ctx context.Context) turn {
	for len(g.left) > 0 && (g.doubtful != "" || !g.withdrawn.Load()) {
		if err := g.giveBack(ctx, &g.left[0]); err != nil {
			if g.failed++; isAnswer(err) {
				g.answered++
			}
			if isRefusal(err) || g.answered >= manyRefusals && g.doubtful == "" {
				g.opts.Report(fmt.Sprintf("pod group %s/%s (%s): its claims stay reserved for it: ResourceClaim %s: %v",
					g.Namespace, g.Name, g.UID, g.left[0].Claim, err))
				break
			}
			g.retried()
			return turn{next: g.goOn, after: backoff(g.failed)}
		}
		g.left, g.failed, g.doubtful = g.left[1:], 0, ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.givesBack, g.UID)
	return turn{}
}

// giveBack takes the PodGroup off one claim, and its devices if nobody else has it reserved. The write carries the
// version of the claim.
func (g *givingBack) giveBack(ctx context.Context, devices *eventlog.DeviceClaim) error {
	claim, err := g.readDevices(ctx, devices.Claim)
	if isGone(err, devices.Claim) {
		return nil
	}
	if err != nil {
		return err
	}
	if claim.ResourceVersion != g.doubtful {
		g.doubtful = ""
	}
	before := len(claim.Status.ReservedFor)
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
		func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == g.UID })
	if claim.UID != devices.UID || len(claim.Status.ReservedFor) == before ||
		g.doubtful == "" && g.withdrawn.Load() {
		return nil
	}
	if len(claim.Status.ReservedFor) == 0 {
		claim.Status.Allocation, claim.Status.Devices = nil, nil
	}
	version := claim.ResourceVersion
	_, err = g.updateDevices(ctx, claim)
	if isGone(err, devices.Claim) {
		return nil
	}
	if err != nil && (!isAnswer(err) || isFailure(err)) {
		g.doubtful = version
	}
	return err
}

// awaitsGroup reports whether a claim of the pod's PodGroup is just being given back.
func (b *binding) awaitsGroup() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, group := range b.GroupClaims { // any order: one is enough
		if _, gives := b.givesBack[group.UID]; gives {
			return true
		}
	}
	return false
}

// consumer is for whom a claim is reserved: the pod, or its PodGroup.
func (b *binding) consumer(claim string) resourcev1.ResourceClaimConsumerReference {
	if group, ok := b.GroupClaims[claim]; ok {
		return group
	}
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: b.Name, UID: b.UID}
}

// isReserved reports whether the claim is reserved for its consumer.
func (b *binding) isReserved(claim *resourcev1.ResourceClaim) bool {
	consumer := b.consumer(claim.Name)
	return slices.Contains(claim.Status.ReservedFor, consumer) ||
		slices.ContainsFunc(claim.Status.ReservedFor, b.isPod)
}

// errUnseen says that the scheduler does not know the latest version of a claim yet.
var errUnseen = errors.New("the scheduler does not know the claim so yet")

// leaveToGroup leaves a claim that a PodGroup has reserved with the devices of the decision. The scheduler must know it
// so before the bind ends: else it takes the devices for free.
func (b *binding) leaveToGroup(claim *resourcev1.ResourceClaim, devices *eventlog.DeviceClaim) error {
	group := func(r resourcev1.ResourceClaimConsumerReference) bool { return r.Resource != "pods" }
	if devices == nil || !slices.ContainsFunc(claim.Status.ReservedFor, group) || !devices.SameDevices(claim) {
		return nil
	}
	if !b.isKnown(claim) {
		return errUnseen
	}
	return nil
}

// isKnown reports whether the scheduler knows the claim as it was read, or later.
func (b *binding) isKnown(claim *resourcev1.ResourceClaim) bool {
	known, ok := b.opts.Whole(eventlog.ResourceClaims, b.Namespace, claim.Name).(*resourcev1.ResourceClaim)
	return ok && (known.UID != claim.UID || !isOlder(known, claim))
}

// isOlder reports whether a claim is of an earlier version than another one.
func isOlder(claim, than *resourcev1.ResourceClaim) bool {
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, than.ResourceVersion)
	if err != nil {
		return claim.Status.Allocation == nil
	}
	return order < 0
}
