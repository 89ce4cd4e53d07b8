package devices

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// claimTracker is a fwk.ResourceClaimTracker: the claims as plugins see them, and the allocations that a cycle has
// pending between Reserve and Unreserve. The pending ones live in memory only and end with the cycle.
type claimTracker struct {
	indexer  cache.Indexer
	lister   resourcelisters.ResourceClaimLister
	sharable bool

	mu        sync.Mutex
	pending   map[types.UID]*pendingAllocation
	allocated allocatedDevices
	// ofPool are the claims that have devices of a pool.
	ofPool map[pool]map[types.NamespacedName]struct{}
	// tried are the claims that have other devices in the trial that lasts, nil for none; see State.Try.
	tried map[types.UID]*resourcev1.AllocationResult
}

// pendingAllocation is an allocation that was reserved and not written; sharers counts the pods on it.
type pendingAllocation struct {
	claim   *resourcev1.ResourceClaim
	sharers int
}

var _ fwk.ResourceClaimTracker = (*claimTracker)(nil)

func newClaimTracker(indexer cache.Indexer) *claimTracker {
	mustIndex(indexer, madeForIndex, madeForWhom)
	return &claimTracker{
		indexer:   indexer,
		lister:    resourcelisters.NewResourceClaimLister(indexer),
		sharable:  utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		pending:   map[types.UID]*pendingAllocation{},
		allocated: newAllocatedDevices(),
		ofPool:    map[pool]map[types.NamespacedName]struct{}{},
	}
}

// count keeps the devices in use up to date; either claim may be nil.
func (d *State) count(old, claim *resourcev1.ResourceClaim, c *Changes) {
	before, now := allocationResults(old), allocationResults(claim)
	if slices.EqualFunc(before, now, sameDevice) {
		return
	}
	t := d.claims
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allocated.release(before, t.sharable)
	t.allocated.use(now, t.sharable)
	t.follow(old, before, false)
	t.follow(claim, now, true)
	for _, results := range [][]resourcev1.DeviceRequestAllocationResult{before, now} {
		for i := range results {
			d.pools.touch(poolOfResult(&results[i]), c)
		}
	}
}

// follow notes that a claim has devices of pools, or had them.
func (t *claimTracker) follow(claim *resourcev1.ResourceClaim, results []resourcev1.DeviceRequestAllocationResult,
	has bool) {
	for i := range results {
		of, key := poolOfResult(&results[i]), keyOf(claim)
		switch claims := t.ofPool[of]; {
		case has && claims == nil:
			t.ofPool[of] = map[types.NamespacedName]struct{}{key: {}}
		case has:
			claims[key] = struct{}{}
		default:
			if delete(claims, key); len(claims) == 0 {
				delete(t.ofPool, of)
			}
		}
	}
}

// sameDevice reports whether both take the same whole device.
func sameDevice(a, b resourcev1.DeviceRequestAllocationResult) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device && a.ShareID == nil && b.ShareID == nil
}

// anyPending reports whether the running cycle has devices reserved.
func (t *claimTracker) anyPending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending) > 0
}

// List implements fwk.ResourceClaimTracker, sorted by namespace, then name.
func (t *claimTracker) List() ([]*resourcev1.ResourceClaim, error) {
	return t.lister.List(labels.Everything())
}

// Get implements fwk.ResourceClaimTracker. A claim with binding conditions is without the time of its allocation, which
// the DynamicResources plugin would compare with the clock on the wall.
func (t *claimTracker) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	claim, err := t.lister.ResourceClaims(namespace).Get(name)
	if err == nil && t.tried != nil {
		claim = t.asTried(claim)
	}
	if err != nil || !HasBindingConditions(claim) || claim.Status.Allocation.AllocationTimestamp == nil {
		return claim, err
	}
	timeless, allocation := *claim, *claim.Status.Allocation
	allocation.AllocationTimestamp = nil
	timeless.Status.Allocation = &allocation
	return &timeless, nil
}

// GetPendingAllocation implements fwk.ResourceClaimTracker.
func (t *claimTracker) GetPendingAllocation(claimUID types.UID) *resourcev1.AllocationResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.pending[claimUID]; ok && p.claim != nil {
		return p.claim.Status.Allocation
	}
	return nil
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t *claimTracker) SignalClaimPendingAllocation(claimUID types.UID, claim *resourcev1.ResourceClaim) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.pending[claimUID]; ok {
		p.sharers++
		return nil
	}
	// The plugin's claim for extended resources exists in memory only; "<" cannot begin a real name.
	if !strings.HasPrefix(claim.Name, "<") {
		logged, err := t.Get(claim.Namespace, claim.Name)
		if err != nil {
			return fmt.Errorf("pending allocation of claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		if logged.UID == claimUID && logged.Status.Allocation != nil {
			return nil
		}
	}
	t.pending[claimUID] = &pendingAllocation{claim: claim, sharers: 1}
	return nil
}

// MaybeRemoveClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t *claimTracker) MaybeRemoveClaimPendingAllocation(claimUID types.UID, forceRemove bool) (deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.pending[claimUID]
	if !ok {
		return false
	}
	if forceRemove || p.sharers == 1 {
		delete(t.pending, claimUID)
		return true
	}
	p.sharers--
	return false
}

// ListAllAllocatedDevices implements fwk.ResourceClaimTracker.
func (t *claimTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inUse(false).whole, nil
}

// GatherAllocatedState implements fwk.ResourceClaimTracker.
func (t *claimTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inUse(t.sharable).state(), nil
}

// inUse returns a copy of the devices in use with the pending allocations added.
func (t *claimTracker) inUse(sharable bool) allocatedDevices {
	all := t.allocated.clone()
	// any order: counts and sums
	for _, p := range t.pending {
		all.use(allocationResults(p.claim), sharable)
	}
	return all
}

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker. It returns ErrLogFed: only entries of the log change the
// claims that plugins see.
func (t *claimTracker) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error { return ErrLogFed }

// AssumedClaimRestore implements fwk.ResourceClaimTracker; nothing is ever assumed.
func (t *claimTracker) AssumedClaimRestore(string, string) {}
