package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"
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

// assumedDevices is a ResourceClaim to which decisions have allocated devices.
type assumedDevices struct {
	// logged is the claim as it was logged last. Plugins see it with the allocation, until it is logged with one.
	logged *resourcev1.ResourceClaim
	// allocation is what the decisions say; shared, never changed. text is its encoding.
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
func (a *assumedDevices) seen() *resourcev1.ResourceClaim {
	if a.logged.Status.Allocation != nil {
		return a.logged
	}
	claim := *a.logged
	claim.Status.Allocation = a.allocation
	return &claim
}

// claim is what the decisions of the holders say.
func (a *assumedDevices) claim() eventlog.DeviceClaim {
	return eventlog.DeviceClaim{Claim: a.logged.Name, UID: a.logged.UID, Allocation: a.text}
}

// ClaimUIDs returns the UIDs of ResourceClaims by name, of those that are there.
func (s *State) ClaimUIDs(namespace string, names []string) map[string]types.UID {
	uids := make(map[string]types.UID, len(names))
	for _, name := range names {
		claim, ok := s.informers.Get(eventlog.ResourceClaims, namespace, name).(*resourcev1.ResourceClaim)
		if ok {
			uids[name] = claim.UID
		}
	}
	return uids
}

// FreedClaim is a claim whose devices came free, as plugins saw it before and see it now.
type FreedClaim struct{ Before, Now *resourcev1.ResourceClaim }

// AssumeDevices makes the devices of a decided placement visible to plugins: its claims have their allocations. The
// objects in the log are not touched.
//
// What is assumed lasts until ForgetDevices for every pod that rests on it. A pod rests on it until the claim is logged
// with that allocation and as reserved for the pod, or for a PodGroup. Until then the devices are not free for others,
// whatever is logged of the claim: the bind of such a pod may be about to write the allocation. From behaviour 7 on the
// pod also rests on it until the result of its bind is logged (State.KeepUnresolvedDevices): a bind that fails takes
// back what it has written, and one of an earlier process is made again. Exceptions are a claim that is deleted, is
// another one by its UID, or is logged with another allocation: none of the pods can be bound then.
//
// It is an error, after which nothing is assumed, if a claim is missing, is another one, or has other devices.
func (f *Informers) AssumeDevices(pod *v1.Pod, list []eventlog.DeviceClaim) error {
	for i := range list {
		if err := f.assumeDevices(pod, &list[i]); err != nil {
			f.ForgetDevices(pod.UID)
			return fmt.Errorf("assume devices of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (f *Informers) assumeDevices(pod *v1.Pod, c *eventlog.DeviceClaim) error {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: c.Claim}
	if requests, err := requestsToMake(c); err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", key, err)
	} else if len(requests) > 0 {
		return f.assumeMade(pod.UID, key, c, requests)
	}
	claim, ok := f.Get(eventlog.ResourceClaims, key.Namespace, key.Name).(*resourcev1.ResourceClaim)
	switch {
	case !ok:
		return fmt.Errorf("ResourceClaim %s is not there", key)
	case claim.UID != c.UID:
		return fmt.Errorf("ResourceClaim %s has the UID %q, not %q", key, claim.UID, c.UID)
	}
	assumed := f.devices[key]
	if assumed == nil {
		if claim.Status.Allocation != nil {
			return fmt.Errorf("ResourceClaim %s is allocated already", key)
		}
		allocation, err := c.Result()
		if err != nil {
			return fmt.Errorf("ResourceClaim %s: %w", key, err)
		}
		assumed = &assumedDevices{logged: claim, allocation: allocation, text: c.Allocation, devices: c.Allocation}
		if _, err := f.factory.byResource[eventlog.ResourceClaims].put(assumed.seen()); err != nil {
			return err
		}
		f.devices[key] = assumed
	}
	if assumed.text != c.Allocation {
		return fmt.Errorf("ResourceClaim %s is allocated otherwise", key)
	}
	f.holdDevices(pod.UID, key, assumed)
	return nil
}

func (f *Informers) holdDevices(uid types.UID, key types.NamespacedName, assumed *assumedDevices) {
	if at, found := slices.BinarySearch(assumed.holders, uid); !found {
		assumed.holders = slices.Insert(assumed.holders, at, uid)
		at, _ := slices.BinarySearchFunc(f.deviceClaims[uid], key, compareKeys)
		f.deviceClaims[uid] = slices.Insert(f.deviceClaims[uid], at, key)
	}
}

// ForgetDevices takes back what AssumeDevices made visible for the pod, as far as no other pod rests on it. It returns
// the claims that have lost their devices. A pod that holds nothing is passed over.
func (f *Informers) ForgetDevices(podUID types.UID) (freed []FreedClaim) {
	keys := f.deviceClaims[podUID]
	delete(f.deviceClaims, podUID)
	for _, key := range keys {
		assumed := f.devices[key]
		if at, found := slices.BinarySearch(assumed.holders, podUID); found {
			assumed.holders = slices.Delete(assumed.holders, at, at+1)
		}
		if len(assumed.holders) > 0 {
			continue
		}
		delete(f.devices, key)
		if assumed.logged.Status.Allocation != nil {
			continue // it is what plugins see
		}
		freed = append(freed, FreedClaim{Before: assumed.seen(), Now: assumed.logged})
		if assumed.made {
			f.dra.claims.count(assumed.seen(), nil)
			continue
		}
		if _, err := f.factory.byResource[eventlog.ResourceClaims].put(assumed.logged); err != nil {
			panic(fmt.Sprintf("cluster: ResourceClaim %s was logged and cannot be put back: %v", key, err))
		}
	}
	return freed
}

// withDevices takes note of a claim that is logged, and returns it as plugins see it.
func (f *Informers) withDevices(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	key := keyOf(claim)
	assumed := f.devices[key]
	if assumed == nil {
		return claim
	}
	if assumed.isOther(claim) {
		f.dropDevices(key)
		return claim
	}
	if assumed.made {
		f.dra.claims.count(assumed.seen(), nil) // from here on it counts as what it is
		assumed.made = false
	}
	assumed.logged = claim
	if claim.Status.Allocation == nil {
		return assumed.seen()
	}
	for _, uid := range slices.Clone(assumed.holders) {
		if reservedFor(claim, uid) && (f.unresolved == nil || !f.unresolved(uid)) {
			f.leaveDevices(key, assumed, uid)
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

// settleDevices has a pod whose bind is resolved rest no more on what is logged as its decision has it.
func (f *Informers) settleDevices(uid types.UID) {
	for _, key := range slices.Clone(f.deviceClaims[uid]) {
		if assumed := f.devices[key]; assumed.logged.Status.Allocation != nil && reservedFor(assumed.logged, uid) {
			f.leaveDevices(key, assumed, uid)
		}
	}
}

// heldDevices returns what was assumed of the claims that the pod holds.
func (f *Informers) heldDevices(uid types.UID) (list []eventlog.DeviceClaim) {
	for _, key := range f.deviceClaims[uid] {
		list = append(list, f.devices[key].claim())
	}
	return list
}

// isOther reports whether the claim as it is logged cannot become what was assumed of it.
func (a *assumedDevices) isOther(claim *resourcev1.ResourceClaim) bool {
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

// leaveDevices has a pod rest no more on what was assumed of a claim that is logged so.
func (f *Informers) leaveDevices(key types.NamespacedName, assumed *assumedDevices, uid types.UID) {
	at, found := slices.BinarySearch(assumed.holders, uid)
	if !found {
		return
	}
	if assumed.holders = slices.Delete(assumed.holders, at, at+1); len(assumed.holders) == 0 {
		delete(f.devices, key)
	}
	f.forgetKey(key, uid)
}

func (f *Informers) forgetKey(key types.NamespacedName, uid types.UID) {
	rest := slices.DeleteFunc(f.deviceClaims[uid], func(k types.NamespacedName) bool { return k == key })
	if len(rest) == 0 {
		delete(f.deviceClaims, uid)
	} else {
		f.deviceClaims[uid] = rest
	}
}

// dropDevices forgets what was assumed of a claim without putting the logged one back.
func (f *Informers) dropDevices(key types.NamespacedName) {
	assumed, ok := f.devices[key]
	if !ok {
		return
	}
	delete(f.devices, key)
	if assumed.made {
		f.dra.claims.count(assumed.seen(), nil)
	}
	for _, uid := range assumed.holders {
		f.forgetKey(key, uid)
	}
}

// ReservedDevices returns the devices that the pod's claims have in this cycle, after Reserve of DynamicResources, and
// that the log does not say they have: those that were allocated now, and those that earlier decisions have allocated.
// why says, in words for the pod's owner, what cannot be allocated; "" if all can.
//
// The claim that is made for extended resources comes last. cycle is the number of the cycle.
func (f *Informers) ReservedDevices(pod *v1.Pod, cycle uint64) (list []eventlog.DeviceClaim, why string) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil ||
			slices.ContainsFunc(list, func(c eventlog.DeviceClaim) bool { return c.Claim == *name }) {
			continue
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: *name}
		if assumed := f.devices[key]; assumed != nil {
			if assumed.logged.Status.Allocation == nil {
				list = append(list, assumed.claim())
			}
			continue
		}
		claim := f.dra.claims.reserved(key)
		if claim == nil {
			continue
		}
		if why := unsupported(claim); why != "" && !f.dra.claims.awaits {
			return nil, why
		}
		c, err := eventlog.NewDeviceClaim(claim)
		if err != nil {
			return nil, err.Error()
		}
		list = append(list, c)
	}
	if made := f.madeClaim(pod, cycle); made != nil {
		c, err := eventlog.NewMadeClaim(made)
		if err != nil {
			return nil, err.Error()
		}
		list = append(list, c)
	}
	return list, ""
}

// reserved returns a copy of the claim with the allocation that is pending for it, nil if none is. Shares of devices
// have identities that follow from the claim: those that the allocator gives are random.
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

// unsupported says why an allocation cannot be used before behaviour 7.
func unsupported(claim *resourcev1.ResourceClaim) string {
	for _, r := range claim.Status.Allocation.Devices.Results {
		if len(r.BindingConditions) > 0 {
			return fmt.Sprintf("resourceclaim %q has a device with binding conditions (%s of pool %s of %s), which "+
				"are not supported yet", claim.Name, r.Device, r.Pool, r.Driver)
		}
	}
	return ""
}

func (f *Informers) appendDevices(dst []byte) []byte {
	for _, key := range slices.SortedFunc(maps.Keys(f.devices), compareKeys) {
		assumed := f.devices[key]
		dst = canonical.AppendString(dst, string(eventlog.ResourceClaims))
		dst = canonical.AppendString(dst, key.Namespace)
		dst = appendDeviceClaims(dst, []eventlog.DeviceClaim{assumed.claim()})
		dst = binary.AppendUvarint(dst, uint64(len(assumed.holders)))
		for _, uid := range assumed.holders {
			dst = canonical.AppendString(dst, string(uid))
		}
	}
	return dst
}

// restoreDevices reads one claim of what appendDevices has written, behind its resource.
func (f *Informers) restoreDevices(r *canonical.Reader) error {
	namespace, list := r.String("namespace"), readDevices(r)
	if err := r.Err(); err != nil || len(list) != 1 {
		r.Fail("assumed devices", fmt.Errorf("%d claims where one is expected", len(list)))
		return r.Err()
	}
	key := types.NamespacedName{Namespace: namespace, Name: list[0].Claim}
	if requests, err := requestsToMake(&list[0]); err != nil {
		return fmt.Errorf("assumed devices of ResourceClaim %s: %w", key, err)
	} else if len(requests) > 0 {
		return f.restoreMade(r, key, &list[0], requests)
	}
	claim, ok := f.Get(eventlog.ResourceClaims, namespace, list[0].Claim).(*resourcev1.ResourceClaim)
	if !ok || claim.UID != list[0].UID || f.devices[key] != nil {
		return fmt.Errorf("assumed devices of ResourceClaim %s: it is not logged, or assumed twice", key)
	}
	allocation, err := list[0].Result()
	if err != nil {
		return fmt.Errorf("assumed devices of ResourceClaim %s: %w", key, err)
	}
	assumed := &assumedDevices{logged: claim, allocation: allocation, text: list[0].Allocation}
	if assumed.devices, err = devicesIn(allocation); err != nil {
		return fmt.Errorf("assumed devices of ResourceClaim %s: %w", key, err)
	}
	if assumed.isOther(claim) {
		return fmt.Errorf("assumed devices of ResourceClaim %s: it is logged with others", key)
	}
	if _, err := f.factory.byResource[eventlog.ResourceClaims].put(assumed.seen()); err != nil {
		return err
	}
	f.devices[key] = assumed
	holders := r.Count("holders", 1)
	if holders == 0 {
		r.Fail("holders", fmt.Errorf("nobody holds ResourceClaim %s", key))
	}
	for range holders {
		f.holdDevices(types.UID(r.String("holder")), key, assumed)
	}
	return r.Err()
}

// restoreMade reads the holder of a claim that is to be made.
func (f *Informers) restoreMade(r *canonical.Reader, key types.NamespacedName, c *eventlog.DeviceClaim,
	requests []resourcev1.DeviceRequest) error {
	if holders := r.Count("holders", 1); holders != 1 {
		r.Fail("holders", fmt.Errorf("%d pods hold ResourceClaim %s", holders, key))
	}
	holder := types.UID(r.String("holder"))
	if r.Err() != nil {
		return r.Err()
	}
	if err := f.assumeMade(holder, key, c, requests); err != nil {
		return fmt.Errorf("assumed devices of ResourceClaim %s: %w", key, err)
	}
	return nil
}

func appendDeviceClaims(dst []byte, list []eventlog.DeviceClaim) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, c := range list {
		dst = canonical.AppendString(dst, c.Claim)
		dst = canonical.AppendString(dst, string(c.UID))
		dst = canonical.AppendString(dst, c.Allocation)
	}
	return dst
}

func readDevices(r *canonical.Reader) (list []eventlog.DeviceClaim) {
	for range r.Count("devices", 3) {
		c := eventlog.DeviceClaim{Claim: r.String("claim"), UID: types.UID(r.String("uid")),
			Allocation: string(r.Bytes("allocation"))}
		if r.Err() == nil {
			memory, err := c.Check(r.Memory())
			r.Fail("allocation", err)
			r.Take("allocation", memory)
		}
		list = append(list, c)
	}
	return list
}
