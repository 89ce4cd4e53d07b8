package devices

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Cluster is the rest of the cluster, as far as devices depend on it.
type Cluster interface {
	// Pod returns the part of a pod that devices depend on. ok is false if no pod has that UID.
	Pod(uid types.UID) (p Pod, ok bool)
	// Store makes plugins see an object and returns the one that they saw before, nil for none. It is an error if the
	// object is not of that resource.
	Store(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, err error)
	// Stored returns the objects of a resource as plugins see them, by namespace and name. They must not be changed.
	Stored(res eventlog.Resource) []eventlog.Object
	// Remove takes an object away from plugins and returns it, nil if there was none.
	Remove(res eventlog.Resource, namespace, name string) (old eventlog.Object)
}

// Pod is the part of a pod that devices depend on. At most one of Waiting, Binding and Bound is set, and none while the
// pod has no node.
type Pod struct {
	Object *v1.Pod
	// Waiting: a decision holds the pod on a node until its gang is complete.
	Waiting bool
	// Binding: a decision has given the pod its node; whether it is bound is not known yet.
	Binding bool
	// Bound: the pod is known to be on its node.
	Bound bool
}

// State is the state of devices after the entries applied so far. It is the fwk.SharedDRAManager for plugins. Every
// answer follows from the objects and decisions alone, in sorted order. Upstream's own manager needs an assume cache
// that compares numeric resource versions, a goroutine for slices, and a resolver whose answer depends on the order of
// events.
//
// It is not safe for concurrent use, except that plugins may read beside each other while nothing changes it.
type State struct {
	cluster   Cluster
	podGroups schedulinglisters.PodGroupLister

	claims  *claimTracker
	slices  *taintedSlices
	listed  *sliceList
	pools   *pools
	classes *deviceClasses

	// assumed are the claims to which decisions have allocated devices; see Assume. byPod are the names of the claims
	// that each pod holds, sorted.
	assumed map[types.NamespacedName]*assumedClaim
	byPod   map[types.UID][]types.NamespacedName
	// returned are the pods whose bind is under way although they do not show it; see NoteReturned. It follows from the
	// pods and the outstanding binds.
	returned map[types.UID]bool
	users    claimUsers

	scored []v1.ResourceName // see ScoreBy
}

var _ fwk.SharedDRAManager = (*State)(nil)

// New returns the state without any object. The factory has the informers that plugins read; they must be empty.
func New(cluster Cluster, factory informers.SharedInformerFactory) *State {
	resources := factory.Resource().V1()
	all := newTaintedSlices(resources.ResourceSlices().Lister(), resources.DeviceTaintRules().Lister())
	return &State{
		cluster:   cluster,
		podGroups: factory.Scheduling().V1beta1().PodGroups().Lister(),
		claims:    newClaimTracker(resources.ResourceClaims().Informer().GetIndexer()),
		slices:    all,
		listed:    &sliceList{all: all},
		pools:     newPools(),
		classes:   newDeviceClasses(resources.DeviceClasses().Informer().GetIndexer()),
		assumed:   map[types.NamespacedName]*assumedClaim{},
		byPod:     map[types.UID][]types.NamespacedName{},
		returned:  map[types.UID]bool{},
		users:     newClaimUsers(),
	}
}

// StateOf returns the State behind a plugin's manager of devices, nil if the manager is another one.
func StateOf(m fwk.SharedDRAManager) *State {
	d, _ := m.(*State)
	return d
}

// ErrLogFed is returned to a plugin that would write: effects write claims, and their results are logged.
var ErrLogFed = errors.New("devices are fed from the log: a plugin must not write them")

// ResourceClaims implements fwk.SharedDRAManager.
func (d *State) ResourceClaims() fwk.ResourceClaimTracker { return d.claims }

// ResourceSlices implements fwk.SharedDRAManager.
func (d *State) ResourceSlices() fwk.ResourceSliceLister { return d.slices }

// DeviceClasses implements fwk.SharedDRAManager.
func (d *State) DeviceClasses() fwk.DeviceClassLister { return d.classes }

// DeviceClassResolver implements fwk.SharedDRAManager.
func (d *State) DeviceClassResolver() fwk.DeviceClassResolver { return d.classes }

// Changes are the changes of devices that the rest of the scheduler follows. The zero value is no change.
type Changes struct {
	// Nodes are the nodes, by name, that have other devices than before, or devices that are in use otherwise.
	Nodes []string
	// Scored means that there are other devices, or other devices in use, of a class that plugins score nodes by; see
	// State.ScoreBy.
	Scored bool
	// Freed are the claims that have lost their devices because the pods that were to have them were released or have
	// gone. Claims that the log itself says to be without devices are not among them.
	Freed []FreedClaim
	// Tainted are the slices of which a DeviceTaintRule has changed the taints, by name.
	Tainted []TaintedSlice
	// Taken are the nodes, by name, of devices that were about to come free, and do not because another pod uses their
	// claim.
	Taken []string
}

// FreedClaim is a claim whose devices came free, as plugins saw it before and see it now.
type FreedClaim struct{ Before, Now *resourcev1.ResourceClaim }

// TaintedSlice is a ResourceSlice of which a DeviceTaintRule has changed the taints, as plugins saw it before and see
// it now.
type TaintedSlice struct{ Before, Now *resourcev1.ResourceSlice }

// Add adds what changed after c.
func (c *Changes) Add(next Changes) {
	c.Nodes = sortedNames(append(c.Nodes, next.Nodes...))
	c.Scored = c.Scored || next.Scored
	c.Freed = append(c.Freed, next.Freed...)
	c.Tainted = append(c.Tainted, next.Tainted...)
	c.Taken = sortedNames(append(c.Taken, next.Taken...))
}

// sorted returns c with its names sorted, each once.
func (c Changes) sorted() Changes {
	c.Nodes, c.Taken = sortedNames(c.Nodes), sortedNames(c.Taken)
	return c
}

func sortedNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// resources are those whose objects a State keeps, in the order of its encoding.
var resources = []eventlog.Resource{
	eventlog.ResourceClaims, eventlog.DeviceClasses, eventlog.ResourceSlices, eventlog.DeviceTaintRules,
}

// Keeps reports whether the objects of a resource are part of a State.
func Keeps(res eventlog.Resource) bool { return slices.Contains(resources, res) }

// Upsert takes in an object of one of the resources that Keeps names. It returns the object that plugins saw before,
// nil for none. Plugins see a ResourceClaim with the devices that decisions have allocated to it.
func (d *State) Upsert(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, c Changes, err error) {
	if !Keeps(res) {
		return nil, c, fmt.Errorf("upsert %s: they are not about devices", res)
	}
	claim, isClaim := obj.(*resourcev1.ResourceClaim)
	if isClaim && claim != nil {
		old, c, err = d.upsertClaim(claim)
		return old, c.sorted(), err
	}
	if old, err = d.cluster.Store(res, obj); err != nil {
		return nil, c, err
	}
	d.follow(old, obj, &c)
	return old, c.sorted(), nil
}

// Delete takes an object away. It returns the object that plugins saw before, nil for none.
func (d *State) Delete(res eventlog.Resource, namespace, name string) (old eventlog.Object, c Changes) {
	if res == eventlog.ResourceClaims {
		d.drop(types.NamespacedName{Namespace: namespace, Name: name}, &c)
	}
	old = d.cluster.Remove(res, namespace, name)
	if old != nil {
		d.follow(old, nil, &c)
	}
	c.Scored = c.Scored || d.countsForScores(res)
	return old, c.sorted()
}

// follow brings what is derived from the objects up to date; either object may be nil.
func (d *State) follow(old, obj eventlog.Object, c *Changes) {
	any := obj
	if any == nil {
		any = old
	}
	switch any.(type) {
	case *resourcev1.ResourceClaim:
		before, _ := old.(*resourcev1.ResourceClaim)
		claim, _ := obj.(*resourcev1.ResourceClaim)
		d.count(before, claim, c)
	case *resourcev1.ResourceSlice:
		before, _ := old.(*resourcev1.ResourceSlice)
		slice, _ := obj.(*resourcev1.ResourceSlice)
		d.slices.replace(before, slice)
		d.listed.forget()
		d.pools.replace(before, slice, c)
		c.Scored = c.Scored || d.countsForScores(eventlog.ResourceSlices)
	case *resourcev1.DeviceClass:
		before, _ := old.(*resourcev1.DeviceClass)
		class, _ := obj.(*resourcev1.DeviceClass)
		d.classes.replace(before, class)
	case *resourcev1.DeviceTaintRule:
		before, _ := old.(*resourcev1.DeviceTaintRule)
		rule, _ := obj.(*resourcev1.DeviceTaintRule)
		c.Tainted = append(c.Tainted, d.slices.followRule(before, rule)...)
		d.listed.forget()
	}
}

// ScoreBy sets the resources that plugins use to score nodes (scoringStrategy of NodeResourcesFit, resources of
// NodeResourcesBalancedAllocation). If a resource is a name for a DeviceClass, they count devices, for every pod.
func (d *State) ScoreBy(names []v1.ResourceName) { d.scored = names }

// countsForScores reports whether scores of nodes depend on the objects of a resource; see Changes.Scored.
func (d *State) countsForScores(res eventlog.Resource) bool {
	return (res == eventlog.ResourceClaims || res == eventlog.ResourceSlices) &&
		slices.ContainsFunc(d.scored, func(name v1.ResourceName) bool { return d.classes.GetDeviceClass(name) != nil })
}

// mustIndex adds an index to a store that holds nothing yet.
func mustIndex(indexer cache.Indexer, name string, f cache.IndexFunc) {
	if err := indexer.AddIndexers(cache.Indexers{name: f}); err != nil {
		panic(fmt.Sprintf("devices: a fresh store refuses an index: %v", err))
	}
}
