package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// draManager is a fwk.SharedDRAManager over the log-fed informers. Upstream's default needs an assume cache
// that compares numeric resource versions, a ResourceSlice tracker with a goroutine, and a resolver of
// extended resources whose answer depends on the order of events; here every answer follows from the objects
// alone, in sorted order.
type draManager struct {
	claims  *claimTracker
	slices  *taintedSlices
	listed  *sliceList
	pools   *devicePools
	classes *deviceClasses
	// bounds: see BoundsSelectors.
	bounds bool
	// frees: see State.FreeDevices.
	frees bool
	// steps: see State.AllowDeviceSearch.
	steps int
	// groups: see SharesGroupClaims.
	groups bool
	// follows: see State.FollowDeviceUsers.
	follows bool
}

var _ fwk.SharedDRAManager = (*draManager)(nil)

func newDRAManager(factory *logFactory) *draManager {
	resources := factory.Resource().V1()
	sliceInformer := resources.ResourceSlices().Informer()
	all := newTaintedSlices(resources.ResourceSlices(), resources.DeviceTaintRules())
	pools := newDevicePools(sliceInformer)
	return &draManager{
		claims:  newClaimTracker(resources.ResourceClaims().Informer(), resources.ResourceClaims().Lister(), pools),
		slices:  all,
		listed:  newSliceList(all, sliceInformer, resources.DeviceTaintRules().Informer()),
		pools:   pools,
		classes: newDeviceClasses(resources.DeviceClasses().Informer()),
	}
}

// BoundSelectors sets what BoundsSelectors reports of the manager of this state.
func (s *State) BoundSelectors(yes bool) { s.informers.dra.bounds = yes }

// BoundsSelectors reports whether the search for devices bounds what CEL selectors cost, and refuses those whose answer
// may differ from run to run: from behaviour 7 on.
func BoundsSelectors(m fwk.SharedDRAManager) bool {
	ours, ok := m.(*draManager)
	return ok && ours.bounds
}

// AwaitDevices sets whether devices with binding conditions may be allocated: the bind of a pod waits for them. Without
// it a pod is refused that would have one.
func (s *State) AwaitDevices(yes bool) { s.informers.dra.claims.awaits = yes }

// MakeClaims sets whether pods may request devices by the names of extended resources: decisions allocate them to a
// claim that the bind of the pod makes. Without it such a pod is refused.
func (s *State) MakeClaims(yes bool) {
	if s.informers.dra.classes.makesClaims != yes {
		s.informers.dra.classes.makesClaims = yes
		s.roomVersion++
		s.beyond++
	}
}

// ResourceClaims implements fwk.SharedDRAManager.
func (m *draManager) ResourceClaims() fwk.ResourceClaimTracker { return m.claims }

// ResourceSlices implements fwk.SharedDRAManager.
func (m *draManager) ResourceSlices() fwk.ResourceSliceLister { return m.slices }

// DeviceClasses implements fwk.SharedDRAManager.
func (m *draManager) DeviceClasses() fwk.DeviceClassLister { return m.classes }

// DeviceClassResolver implements fwk.SharedDRAManager.
func (m *draManager) DeviceClassResolver() fwk.DeviceClassResolver { return m.classes }

// extendedResourceIndex finds device classes by the extended resource that they stand for.
const extendedResourceIndex = "rollcall.dev/extended-resource"

// deviceClasses lists device classes and resolves extended resources to them.
type deviceClasses struct {
	indexer cache.Indexer
	resourcelisters.DeviceClassLister
	extendedResources bool
	// makesClaims: see State.MakeClaims.
	makesClaims bool
	// named counts the classes that stand for an extended resource.
	named map[string]int
}

func newDeviceClasses(informer cache.SharedIndexInformer) *deviceClasses {
	indexer := informer.GetIndexer()
	if err := indexer.AddIndexers(cache.Indexers{extendedResourceIndex: extendedResourceOf}); err != nil {
		panic(fmt.Sprintf("cluster: a fresh store refuses an index: %v", err))
	}
	named := map[string]int{}
	count := func(obj any, n int) {
		names, _ := extendedResourceOf(obj)
		for _, name := range names {
			if named[name] += n; named[name] == 0 {
				delete(named, name)
			}
		}
	}
	mustHandle(informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { count(obj, 1) },
		UpdateFunc: func(old, obj any) { count(old, -1); count(obj, 1) },
		DeleteFunc: func(obj any) { count(obj, -1) },
	})
	return &deviceClasses{
		indexer:           indexer,
		DeviceClassLister: resourcelisters.NewDeviceClassLister(indexer),
		extendedResources: utilfeature.DefaultFeatureGate.Enabled(features.DRAExtendedResource),
		named:             named,
	}
}

func extendedResourceOf(obj any) ([]string, error) {
	if class, ok := obj.(*resourcev1.DeviceClass); ok && class.Spec.ExtendedResourceName != nil {
		return []string{*class.Spec.ExtendedResourceName}, nil
	}
	return nil, nil
}

// List implements fwk.DeviceClassLister, sorted by name.
func (c *deviceClasses) List() ([]*resourcev1.DeviceClass, error) {
	return c.DeviceClassLister.List(labels.Everything())
}

// GetDeviceClass implements fwk.DeviceClassResolver with upstream's rule: of several classes for one
// resource the newest counts, and of equally new ones the first by name.
func (c *deviceClasses) GetDeviceClass(resource v1.ResourceName) *resourcev1.DeviceClass {
	if !c.extendedResources {
		return nil
	}
	if name, ok := strings.CutPrefix(string(resource), resourcev1.ResourceDeviceClassPrefix); ok {
		if class, err := c.Get(name); err == nil {
			return class
		}
		return nil
	}
	found, err := c.indexer.ByIndex(extendedResourceIndex, string(resource))
	if err != nil {
		return nil
	}
	var best *resourcev1.DeviceClass
	for _, obj := range found {
		class := obj.(*resourcev1.DeviceClass)
		if best == nil || cmp.Compare(class.CreationTimestamp.UnixNano(), best.CreationTimestamp.UnixNano()) > 0 {
			best = class
		}
	}
	return best
}

// claimTracker is a fwk.ResourceClaimTracker: the logged claims, and the allocations that a cycle has pending
// between Reserve and Unreserve. The pending ones live in memory only and end with the cycle.
type claimTracker struct {
	lister   resourcelisters.ResourceClaimLister
	pools    *devicePools // hear of the devices that are in use otherwise than before
	sharable bool
	// awaits: see State.AwaitDevices.
	awaits bool

	mu        sync.Mutex
	pending   map[types.UID]*pendingAllocation
	allocated allocatedDevices
	// ofPool are the claims that have devices of a pool.
	ofPool map[devicePool]map[types.NamespacedName]struct{}
	// tried are the claims that have other devices in the trial that lasts, nil for none; see State.TryDevices.
	tried map[types.UID]*resourcev1.AllocationResult
}

// pendingAllocation is an allocation that was reserved and not written; sharers counts the pods on it.
type pendingAllocation struct {
	claim   *resourcev1.ResourceClaim
	sharers int
}

var _ fwk.ResourceClaimTracker = (*claimTracker)(nil)

func newClaimTracker(informer cache.SharedIndexInformer, lister resourcelisters.ResourceClaimLister,
	pools *devicePools) *claimTracker {
	if err := informer.GetIndexer().AddIndexers(cache.Indexers{madeForIndex: madeForWhom}); err != nil {
		panic(fmt.Sprintf("cluster: a fresh store refuses an index: %v", err))
	}
	t := &claimTracker{
		lister:    lister,
		pools:     pools,
		sharable:  utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		pending:   map[types.UID]*pendingAllocation{},
		allocated: newAllocatedDevices(),
		ofPool:    map[devicePool]map[types.NamespacedName]struct{}{},
	}
	mustHandle(informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.count(nil, obj.(*resourcev1.ResourceClaim)) },
		UpdateFunc: func(old, obj any) { t.count(old.(*resourcev1.ResourceClaim), obj.(*resourcev1.ResourceClaim)) },
		DeleteFunc: func(obj any) { t.count(obj.(*resourcev1.ResourceClaim), nil) },
	})
	return t
}

// mustHandle registers a handler with an informer that nothing has happened to yet.
func mustHandle(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		panic(fmt.Sprintf("cluster: a fresh informer refuses a handler: %v", err))
	}
}

// count keeps the devices in use up to date; either claim may be nil.
func (t *claimTracker) count(old, claim *resourcev1.ResourceClaim) {
	before, now := allocationResults(old), allocationResults(claim)
	if slices.EqualFunc(before, now, sameDevice) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allocated.release(before, t.sharable)
	t.allocated.use(now, t.sharable)
	t.follow(old, before, false)
	t.follow(claim, now, true)
	for _, results := range [][]resourcev1.DeviceRequestAllocationResult{before, now} {
		for i := range results {
			t.pools.touch(devicePool{results[i].Driver, results[i].Pool})
		}
	}
}

// follow notes that a claim has devices of pools, or had them.
func (t *claimTracker) follow(claim *resourcev1.ResourceClaim, results []resourcev1.DeviceRequestAllocationResult,
	has bool) {
	for i := range results {
		pool, key := devicePool{results[i].Driver, results[i].Pool}, keyOf(claim)
		switch claims := t.ofPool[pool]; {
		case has && claims == nil:
			t.ofPool[pool] = map[types.NamespacedName]struct{}{key: {}}
		case has:
			claims[key] = struct{}{}
		default:
			if delete(claims, key); len(claims) == 0 {
				delete(t.ofPool, pool)
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
	if err != nil || !t.awaits || !HasBindingConditions(claim) || claim.Status.Allocation.AllocationTimestamp == nil {
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

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker; it refuses with ErrLogFed: claims are written
// by effects, and what came of it is logged.
func (t *claimTracker) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error { return ErrLogFed }

// AssumedClaimRestore implements fwk.ResourceClaimTracker; nothing is ever assumed.
func (t *claimTracker) AssumedClaimRestore(string, string) {}

// Undecidable says why a pod cannot be decided yet because of the devices that it asks for, in words for its
// owner; "" if it can. allocates says that devices are allocated by decisions; before behaviour 6 they are not, and
// only claims that stand allocated can be decided: the DynamicResources plugin compares nodes with them.
//
// Devices with binding conditions cannot be judged before behaviour 7 (the plugin would read the clock on the wall),
// and those that are requested as an extended resource before behaviour 8.
func (f *Informers) Undecidable(pod *v1.Pod, allocates bool) string {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // The plugin refuses what is not there yet.
		}
		claim, err := f.dra.claims.Get(pod.Namespace, *name)
		if err != nil {
			continue
		}
		if claim.Status.Allocation == nil {
			if allocates {
				continue
			}
			return fmt.Sprintf("resourceclaim %q is not allocated, and allocating devices is not supported yet", *name)
		}
		if !f.dra.claims.awaits && HasBindingConditions(claim) {
			return fmt.Sprintf("resourceclaim %q has a device with binding conditions, which are not supported yet",
				*name)
		}
	}
	if f.dra.classes.makesClaims {
		return ""
	}
	return f.standsForDevices(pod)
}

// standsForDevices says why a pod cannot be decided that requests devices by the name of a resource; "" if it does not.
func (f *Informers) standsForDevices(pod *v1.Pod) string {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, name := range slices.Sorted(maps.Keys(containers[i].Resources.Requests)) {
				if class := f.dra.classes.GetDeviceClass(name); class != nil {
					return fmt.Sprintf(
						"resource %q stands for device class %q, and allocating devices is not supported yet",
						name,
						class.Name,
					)
				}
			}
		}
	}
	return ""
}

// allocatedDevices counts the devices in use by the claims that use them, so that it is a function of the
// claims whatever order they came in.
type allocatedDevices struct {
	devices  map[structured.DeviceID]int
	shares   map[structured.SharedDeviceID]int
	capacity structured.ConsumedCapacityCollection
	// whole and shared are the keys of devices and shares, as the allocator reads them.
	whole  sets.Set[structured.DeviceID]
	shared sets.Set[structured.SharedDeviceID]
}

func newAllocatedDevices() allocatedDevices {
	return allocatedDevices{
		devices:  map[structured.DeviceID]int{},
		shares:   map[structured.SharedDeviceID]int{},
		capacity: structured.NewConsumedCapacityCollection(),
		whole:    sets.New[structured.DeviceID](),
		shared:   sets.New[structured.SharedDeviceID](),
	}
}

func (a allocatedDevices) clone() allocatedDevices {
	return allocatedDevices{devices: maps.Clone(a.devices), shares: maps.Clone(a.shares), capacity: a.capacity.Clone(),
		whole: a.whole.Clone(), shared: a.shared.Clone()}
}

// state is for the allocator, which only reads it.
func (a allocatedDevices) state() *structured.AllocatedState {
	return &structured.AllocatedState{AllocatedDevices: a.whole, AllocatedSharedDeviceIDs: a.shared,
		AggregatedCapacity: a.capacity}
}

func (a allocatedDevices) use(results []resourcev1.DeviceRequestAllocationResult, sharable bool) {
	for _, r := range results {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if !sharable || r.ShareID == nil {
			a.devices[id]++
			a.whole.Insert(id)
			continue
		}
		share := structured.MakeSharedDeviceID(id, r.ShareID)
		a.shares[share]++
		a.shared.Insert(share)
		if r.ConsumedCapacity != nil {
			a.capacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

func (a allocatedDevices) release(results []resourcev1.DeviceRequestAllocationResult, sharable bool) {
	for _, r := range results {
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if !sharable || r.ShareID == nil {
			if a.devices[id]--; a.devices[id] == 0 {
				delete(a.devices, id)
				a.whole.Delete(id)
			}
			continue
		}
		share := structured.MakeSharedDeviceID(id, r.ShareID)
		if a.shares[share]--; a.shares[share] == 0 {
			delete(a.shares, share)
			a.shared.Delete(share)
		}
		if r.ConsumedCapacity != nil {
			a.capacity.Remove(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

// allocationResults returns the devices that count as used by the claim: admin access takes none away.
func allocationResults(claim *resourcev1.ResourceClaim) []resourcev1.DeviceRequestAllocationResult {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	var out []resourcev1.DeviceRequestAllocationResult
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, r)
		}
	}
	return out
}
