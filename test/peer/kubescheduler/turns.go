package kubescheduler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/rollcall-sched/rollcall/bench/workload"
)

// claims are the ResourceClaims as an API server would have them: what the scheduler writes is taken as it is, answered
// at once, and comes back by the watch. They stand beside the fake client's object tracker, which would take longer.
type claims struct {
	spec  workload.Spec
	watch *watch.FakeWatcher

	version atomic.Int64 // the last resourceVersion

	mu   sync.Mutex
	over bool                                               // no more events, and no more writes
	held map[types.NamespacedName]*resourcev1.ResourceClaim // the claims of existing pods
}

func newClaims(spec workload.Spec) *claims {
	c := &claims{spec: spec, watch: watch.NewFakeWithChanSize(1024, true),
		held: map[types.NamespacedName]*resourcev1.ResourceClaim{}}
	c.version.Store(1)
	return c
}

func keyOf(c *resourcev1.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// add makes the claim of a pod.
func (c *claims) add(pod int) {
	claim := c.spec.Claim(pod)
	claim.ResourceVersion = strconv.FormatInt(c.version.Add(1), 10)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[keyOf(claim)] = claim
	if !c.over {
		c.watch.Add(claim)
	}
}

// devices returns how many devices the claims have. Each has one at the most.
func (c *claims) devices() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, claim := range c.held { // any order: they are counted
		if claim.Status.Allocation != nil {
			n++
		}
	}
	return n
}

// end has nothing told any more, before the scheduler stops, which closes the watch.
func (c *claims) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// remove removes the claim of a pod, and returns its last version.
func (c *claims) remove(pod int) *resourcev1.ResourceClaim {
	key := keyOf(c.spec.Claim(pod))
	c.mu.Lock()
	defer c.mu.Unlock()
	claim := c.held[key]
	delete(c.held, key)
	if !c.over {
		c.watch.Delete(claim)
	}
	return claim
}

// of returns the claim of a pod as it is, nil if it is gone.
func (c *claims) of(pod int) *resourcev1.ResourceClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[keyOf(c.spec.Claim(pod))]
}

// update is the reaction to a claim that is written, as a whole or its status alone. Both write all of it: the
// scheduler adds the finalizer before the allocation, and changes nothing else.
func (c *claims) update(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	written, ok := action.(clienttesting.UpdateAction).GetObject().(*resourcev1.ResourceClaim)
	if !ok {
		return true, nil, fmt.Errorf("a claim is to be written that is a %T", action)
	}
	resource := resourcev1.Resource("resourceclaims")
	claim := written.DeepCopy()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.held[keyOf(claim)]
	switch {
	case c.over:
		return true, nil, apierrors.NewServiceUnavailable("the measurement is over")
	case before == nil:
		return true, nil, apierrors.NewNotFound(resource, claim.Name)
	case before.ResourceVersion != claim.ResourceVersion:
		return true, nil, apierrors.NewConflict(resource, claim.Name, errors.New("it was written meanwhile"))
	}
	claim.ResourceVersion = strconv.FormatInt(c.version.Add(1), 10)
	c.held[keyOf(claim)] = claim
	c.watch.Modify(claim) // within the lock, so that the watch tells it in the order of the versions
	return true, claim, nil
}

// get is the reaction to a claim that is read.
func (c *claims) get(action clienttesting.Action) (handled bool, ret runtime.Object, err error) {
	read, ok := action.(clienttesting.GetAction)
	if !ok {
		return true, nil, fmt.Errorf("a claim is to be read by a %T", action)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	claim := c.held[types.NamespacedName{Namespace: read.GetNamespace(), Name: read.GetName()}]
	if claim == nil {
		return true, nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), read.GetName())
	}
	return true, claim.DeepCopy(), nil
}

// stuck is the time that the scheduler may take to learn of claims before the feeding ends.
const stuck = 30 * time.Second

// still is the time that no pod may be bound before a ResourceSlice is touched. kube-scheduler hears about a claim
// that is gone in two ways, and may try a pod again before it counts the claim's device as free. Then the pod waits
// for another event. In a cluster there always is one; here nothing happens but what the pods do.
const still = time.Second

// touch has a ResourceSlice change in a label that says how often that was.
func (h *harness) touch() error {
	slice := h.Slice(0)
	slice.Labels = map[string]string{"touched": strconv.FormatInt(h.touches.Add(1), 10)}
	return h.client.Tracker().Update(resourcev1.SchemeGroupVersion.WithResource("resourceslices"), slice, "")
}

// feedTurns lets the pods come and go by the rule that Rollcall gets them by: workload.Turns. It ends when ctx does: a
// scheduler that leaves its pods waiting is measured until the run's limit, and what it has bound until then counts.
func (h *harness) feedTurns(ctx context.Context) error {
	ended := 0
	for next := 0; next < h.Pods; {
		until := h.Until(h.turns, next)
		for until-ended > h.turns.Stay && ended < next {
			end := h.Together(ended)
			if err := h.awaitBound(ctx, ended, end); err != nil {
				return err
			}
			for i := ended; i < end; i++ {
				if err := h.leave(i); err != nil {
					return err
				}
			}
			ended = end
		}
		for i := next; i < until; i++ {
			h.claims.add(i)
		}
		if err := h.awaitClaims(ctx, next, until); err != nil {
			return err
		}
		for i := next; i < until; i++ {
			h.binder.given[i].Store(time.Now().UnixNano())
			h.tell(func(pods *watch.FakeWatcher) { pods.Add(h.Pod(i)) })
		}
		next = until
	}
	return h.awaitBound(ctx, ended, h.Pods)
}

// awaitClaims waits until the scheduler knows the claims of pods first up to, and without, end, and counts no more
// devices as taken than claims have. Claims and pods come to it in two ways. Without waiting it would try pods whose
// claims it does not know yet, or for which no device seems to be free, and let them back off.
func (h *harness) awaitClaims(ctx context.Context, first, end int) error {
	known, began := h.manager.ResourceClaims(), time.Now()
	for i := first; i < end; {
		claim := h.Claim(i)
		if got, err := known.Get(claim.Namespace, claim.Name); err == nil && got.UID == claim.UID {
			i++
			continue
		}
		if err := h.wait(ctx, began, "the scheduler does not know claim "+claim.Name); err != nil {
			return err
		}
	}
	for {
		taken, err := known.ListAllAllocatedDevices()
		if err == nil && taken.Len() <= h.claims.devices() {
			return nil
		}
		if err := h.wait(ctx, began, fmt.Sprintf("the scheduler counts %d devices as taken", taken.Len())); err != nil {
			return err
		}
	}
}

// wait waits for a moment. It is an error if that has continued for too long.
func (h *harness) wait(ctx context.Context, began time.Time, why string) error {
	if time.Since(began) > stuck {
		return fmt.Errorf("for %s %s", stuck, why)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Millisecond):
		return nil
	}
}

// awaitBound waits until pods first up to, and without, end are bound, or ctx ends.
func (h *harness) awaitBound(ctx context.Context, first, end int) error {
	touched, seen := time.Now(), h.binder.bound.Load()
	for i := first; i < end; {
		if h.binder.boundAt[i].Load() != 0 {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
		switch bound := h.binder.bound.Load(); {
		case bound > seen:
			touched, seen = time.Now(), bound
		case time.Since(touched) > still:
			touched = time.Now()
			if err := h.touch(); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave has a bound pod end, and the claim go that was made for it.
func (h *harness) leave(i int) error {
	pod := h.bound(i)
	claim := h.claims.of(i)
	if claim == nil || claim.Status.Allocation == nil {
		return errors.New("pod " + pod.Name + " was bound without devices")
	}
	if err := h.binder.devices.leave(pod.UID, claim.Status.Allocation); err != nil {
		return err
	}
	h.binder.left[i].Store(h.binder.order.Add(1))
	h.tell(func(pods *watch.FakeWatcher) { pods.Delete(pod) })
	h.claims.remove(i)
	return nil
}

// deviceBook has the devices of the bound pods.
type deviceBook struct {
	mu  sync.Mutex
	use workload.InUse
	// doubled are the pods that were given a device that another pod had. kube-scheduler 1.37 does so now and then when
	// gangs with devices come one after the other. If the bind were refused it would try the same for ever.
	doubled map[types.UID]bool
}

func (b *deviceBook) take(pod types.UID, node string, allocation *resourcev1.AllocationResult) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.use.Take(pod, node, allocation)
	if errors.Is(err, workload.ErrInUse) {
		b.doubled[pod] = true
		return nil
	}
	return err
}

func (b *deviceBook) leave(pod types.UID, allocation *resourcev1.AllocationResult) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.doubled[pod] {
		return nil
	}
	return b.use.Leave(pod, allocation)
}

// twice is the number of pods that got a device that another pod had.
func (b *deviceBook) twice() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.doubled)
}
