package devices

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// assumedClaim is a ResourceClaim to which decisions have allocated devices.
type assumedClaim struct {
	// logged is the claim as it was logged last. Plugins see it with the allocation, until it is logged with one.
	logged *resourcev1.ResourceClaim
	// allocation is the allocation of the decisions; shared, never changed. text is its encoding.
	allocation *resourcev1.AllocationResult
	text       string
	// devices is the encoding of the allocation alone: text, unless that has requests.
	devices string
	// made says that the claim is not logged yet: the bind of its holder makes it. logged has its name and its
	// requests.
	made bool
	// holders are the pods whose placements rest on it, sorted.
	holders []types.UID
}

// seen is the claim as plugins see it.
func (a *assumedClaim) seen() *resourcev1.ResourceClaim {
	if a.logged.Status.Allocation != nil {
		return a.logged
	}
	claim := *a.logged
	claim.Status.Allocation = a.allocation
	return &claim
}

// claim returns the claim as the holders' decisions have it.
func (a *assumedClaim) claim() eventlog.DeviceClaim {
	return eventlog.DeviceClaim{Claim: a.logged.Name, UID: a.logged.UID, Allocation: a.text}
}

// claim returns the claim as plugins see it, nil if there is none.
func (d *State) claim(key types.NamespacedName) *resourcev1.ResourceClaim {
	claim, err := d.claims.lister.ResourceClaims(key.Namespace).Get(key.Name)
	if err != nil {
		return nil
	}
	return claim
}

// show makes plugins see a claim.
func (d *State) show(claim *resourcev1.ResourceClaim, c *Changes) error {
	old, err := d.cluster.Store(eventlog.ResourceClaims, claim)
	if err != nil {
		return err
	}
	d.follow(old, claim, c)
	return nil
}

// UIDs returns the UIDs of existing ResourceClaims by name.
func (d *State) UIDs(namespace string, names []string) map[string]types.UID {
	uids := make(map[string]types.UID, len(names))
	for _, name := range names {
		if claim := d.claim(types.NamespacedName{Namespace: namespace, Name: name}); claim != nil {
			uids[name] = claim.UID
		}
	}
	return uids
}

// Assume makes the devices of a decided placement visible to plugins: its claims have their allocations. The objects in
// the log do not change.
//
// An assumption lasts until Forget for every pod that depends on it. A pod depends on it until two things are logged:
// the claim, with that allocation and reserved for the pod or for a PodGroup; and the result of the pod's bind. Until
// then the devices are not free for others, whatever the logged claim says. The bind of such a pod may be about to
// write the allocation, a failed bind takes it back, and a restart repeats a bind.
//
// The assumption ends earlier if the claim is deleted, has another UID, or is logged with another allocation: none of
// the pods can be bound then.
//
// Assume fails, and assumes nothing, if a claim is missing, has another UID, or has other devices.
func (d *State) Assume(pod *v1.Pod, list []eventlog.DeviceClaim) (c Changes, err error) {
	c.Scored = len(list) > 0 && d.countsForScores(eventlog.ResourceClaims)
	for i := range list {
		if err := d.assume(pod, &list[i], &c); err != nil {
			d.forget(pod.UID, &c)
			return c.sorted(), fmt.Errorf("assume devices of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return c.sorted(), nil
}

func (d *State) assume(pod *v1.Pod, wanted *eventlog.DeviceClaim, c *Changes) error {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: wanted.Claim}
	if requests, err := requestsToMake(wanted); err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", key, err)
	} else if len(requests) > 0 {
		return d.assumeMade(pod.UID, key, wanted, requests, c)
	}
	claim := d.claim(key)
	switch {
	case claim == nil:
		return fmt.Errorf("ResourceClaim %s is not there", key)
	case claim.UID != wanted.UID:
		return fmt.Errorf("ResourceClaim %s has the UID %q, not %q", key, claim.UID, wanted.UID)
	}
	assumed := d.assumed[key]
	if assumed == nil {
		if claim.Status.Allocation != nil {
			return fmt.Errorf("ResourceClaim %s is allocated already", key)
		}
		allocation, err := wanted.Result()
		if err != nil {
			return fmt.Errorf("ResourceClaim %s: %w", key, err)
		}
		assumed = &assumedClaim{logged: claim, allocation: allocation, text: wanted.Allocation,
			devices: wanted.Allocation}
		if err := d.show(assumed.seen(), c); err != nil {
			return err
		}
		d.assumed[key] = assumed
	}
	if assumed.text != wanted.Allocation {
		return fmt.Errorf("ResourceClaim %s is allocated otherwise", key)
	}
	d.hold(pod.UID, key, assumed)
	return nil
}

func (d *State) hold(uid types.UID, key types.NamespacedName, assumed *assumedClaim) {
	if at, found := slices.BinarySearch(assumed.holders, uid); !found {
		assumed.holders = slices.Insert(assumed.holders, at, uid)
		at, _ := slices.BinarySearchFunc(d.byPod[uid], key, compareKeys)
		d.byPod[uid] = slices.Insert(d.byPod[uid], at, key)
	}
}

// Forget undoes Assume for the pod. An allocation that other pods share stays until the last of them is forgotten. A
// pod that holds nothing is ignored.
func (d *State) Forget(pod types.UID) (c Changes) {
	d.forget(pod, &c)
	return c.sorted()
}

func (d *State) forget(pod types.UID, c *Changes) {
	keys := d.byPod[pod]
	delete(d.byPod, pod)
	for _, key := range keys {
		assumed := d.assumed[key]
		if at, found := slices.BinarySearch(assumed.holders, pod); found {
			assumed.holders = slices.Delete(assumed.holders, at, at+1)
		}
		if len(assumed.holders) > 0 {
			continue
		}
		delete(d.assumed, key)
		if assumed.logged.Status.Allocation != nil {
			continue // plugins see it already
		}
		c.Freed = append(c.Freed, FreedClaim{Before: assumed.seen(), Now: assumed.logged})
		c.Scored = c.Scored || d.countsForScores(eventlog.ResourceClaims)
		if assumed.made {
			d.count(assumed.seen(), nil, c)
			continue
		}
		if err := d.show(assumed.logged, c); err != nil {
			panic(fmt.Sprintf("devices: ResourceClaim %s was logged and cannot be put back: %v", key, err))
		}
	}
}

// upsertClaim takes in a claim that is logged.
func (d *State) upsertClaim(claim *resourcev1.ResourceClaim) (old eventlog.Object, c Changes, err error) {
	key := keyOf(claim)
	c.Scored = d.countsForScores(eventlog.ResourceClaims)
	awaited := d.isAwaited(key)
	seen := d.withDevices(claim, &c)
	if old, err = d.cluster.Store(eventlog.ResourceClaims, seen); err != nil {
		return nil, c, err
	}
	d.follow(old, seen, &c)
	if awaited {
		d.noteReserved(key, &c)
	}
	return old, c, nil
}

// withDevices takes note of a claim that is logged, and returns it as plugins see it.
func (d *State) withDevices(claim *resourcev1.ResourceClaim, c *Changes) *resourcev1.ResourceClaim {
	key := keyOf(claim)
	assumed := d.assumed[key]
	if assumed == nil {
		return claim
	}
	if assumed.isOther(claim) {
		d.drop(key, c)
		return claim
	}
	if assumed.made {
		d.count(assumed.seen(), nil, c) // from here on it counts as it is seen
		assumed.made = false
	}
	assumed.logged = claim
	if claim.Status.Allocation == nil {
		return assumed.seen()
	}
	for _, uid := range slices.Clone(assumed.holders) {
		if reservedFor(claim, uid) && !d.isUnresolved(uid) {
			d.leave(key, assumed, uid)
		}
	}
	return claim
}

// reservedFor reports whether the claim is reserved for the pod, or for a PodGroup, which may be the pod's.
func reservedFor(claim *resourcev1.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == uid || r.Resource != "pods"
	})
}

// settle lets go what a pod holds and what is logged as its decision has it. The pod's bind is resolved.
func (d *State) settle(pod types.UID) {
	for _, key := range slices.Clone(d.byPod[pod]) {
		if assumed := d.assumed[key]; assumed.logged.Status.Allocation != nil && reservedFor(assumed.logged, pod) {
			d.leave(key, assumed, pod)
		}
	}
}

// isOther reports whether the claim as it is logged cannot become what was assumed of it.
func (a *assumedClaim) isOther(claim *resourcev1.ResourceClaim) bool {
	switch {
	case a.made && !slices.ContainsFunc(a.holders, func(uid types.UID) bool { return MadeFor(claim, uid) }),
		!a.made && claim.UID != a.logged.UID:
		return true
	case claim.Status.Allocation == nil:
		return false
	}
	logged, err := eventlog.NewDeviceClaim(claim)
	return err != nil || logged.Allocation != a.devices
}

// leave ends that a pod depends on the assumption about a claim: it is logged.
func (d *State) leave(key types.NamespacedName, assumed *assumedClaim, uid types.UID) {
	at, found := slices.BinarySearch(assumed.holders, uid)
	if !found {
		return
	}
	if assumed.holders = slices.Delete(assumed.holders, at, at+1); len(assumed.holders) == 0 {
		delete(d.assumed, key)
	}
	d.forgetKey(key, uid)
}

func (d *State) forgetKey(key types.NamespacedName, uid types.UID) {
	rest := slices.DeleteFunc(d.byPod[uid], func(k types.NamespacedName) bool { return k == key })
	if len(rest) == 0 {
		delete(d.byPod, uid)
	} else {
		d.byPod[uid] = rest
	}
}

// drop forgets what was assumed of a claim without putting the logged one back.
func (d *State) drop(key types.NamespacedName, c *Changes) {
	assumed, ok := d.assumed[key]
	if !ok {
		return
	}
	delete(d.assumed, key)
	if assumed.made {
		d.count(assumed.seen(), nil, c)
	}
	for _, uid := range assumed.holders {
		d.forgetKey(key, uid)
	}
}

// Reserved returns the devices that the pod's claims have in this cycle, after Reserve of DynamicResources, and do not
// have in the log. They were allocated now, or by earlier decisions. The claim for extended resources comes last. cycle
// is the number of the cycle.
func (d *State) Reserved(pod *v1.Pod, cycle uint64) (list []eventlog.DeviceClaim, err error) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil ||
			slices.ContainsFunc(list, func(c eventlog.DeviceClaim) bool { return c.Claim == *name }) {
			continue
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: *name}
		if assumed := d.assumed[key]; assumed != nil {
			if assumed.logged.Status.Allocation == nil {
				list = append(list, assumed.claim())
			}
			continue
		}
		claim := d.claims.reserved(key)
		if claim == nil {
			continue
		}
		c, err := eventlog.NewDeviceClaim(claim)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if made := d.madeClaim(pod, cycle); made != nil {
		c, err := eventlog.NewMadeClaim(made)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// reserved returns a copy of the claim with the allocation that is pending for it, nil if none is. Shares of devices
// get identities that follow from the claim, because the allocator's identities are random.
func (t *claimTracker) reserved(key types.NamespacedName) *resourcev1.ResourceClaim {
	logged, err := t.Get(key.Namespace, key.Name)
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	pending := t.pending[logged.UID]
	if pending == nil || pending.claim == nil || pending.claim.Status.Allocation == nil {
		return nil
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: logged.ObjectMeta}
	claim.Status.Allocation = pending.claim.Status.Allocation.DeepCopy()
	nameShares(logged.UID, claim.Status.Allocation)
	return claim
}

// nameShares gives the shares of devices of a claim their identities.
func nameShares(claim types.UID, allocation *resourcev1.AllocationResult) {
	for i := range allocation.Devices.Results {
		if r := &allocation.Devices.Results[i]; r.ShareID != nil {
			id := shareID(claim, i, r)
			r.ShareID = &id
		}
	}
}

// shareSpace is the namespace of the identities of shares.
var shareSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("shares.rollcall.dev"))

// shareID is the identity of the share that the i-th result of a claim's allocation is.
func shareID(claim types.UID, i int, r *resourcev1.DeviceRequestAllocationResult) types.UID {
	var name []byte
	for _, part := range []string{string(claim), strconv.Itoa(i), r.Driver, r.Pool, r.Device} {
		name = canonical.AppendString(name, part)
	}
	return types.UID(uuid.NewSHA1(shareSpace, name).String())
}

func keyOf(claim *resourcev1.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
