package cluster

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// What memos of DynamicResources' answers are kept by. Where every pool of devices is of one node, what the allocator
// finds on a node depends on what the claims ask for, on the DeviceClasses, and on the node's own slices and which of
// their devices are in use. A change of the last two is a change of the node, as a placement there is one.
// None of it is state.

// devicePool is a pool as slices name it.
type devicePool struct{ driver, name string }

func poolOf(slice *resourcev1.ResourceSlice) devicePool {
	return devicePool{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// devicePools are the nodes that pools of devices are of.
type devicePools struct {
	// slices counts the slices of each pool by the node that they name, "" for those that name none.
	slices map[devicePool]map[string]int
	// ofNode counts the slices that name a node by their pool.
	ofNode map[string]map[devicePool]int
	// wide counts the pools that are not of one node.
	wide int
	// changed is told of the nodes where other devices are there or in use than before; nil tells nobody.
	changed func(node string)
}

func newDevicePools(informer cache.SharedIndexInformer) *devicePools {
	p := &devicePools{slices: map[devicePool]map[string]int{}, ofNode: map[string]map[devicePool]int{}}
	mustHandle(informer, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { p.replace(nil, obj.(*resourcev1.ResourceSlice)) },
		UpdateFunc: func(old, obj any) {
			p.replace(old.(*resourcev1.ResourceSlice), obj.(*resourcev1.ResourceSlice))
		},
		DeleteFunc: func(obj any) { p.replace(obj.(*resourcev1.ResourceSlice), nil) },
	})
	return p
}

// replace takes in a slice, and what it was before; either may be nil.
func (p *devicePools) replace(old, slice *resourcev1.ResourceSlice) {
	if old != nil {
		p.touch(poolOf(old)) // while its node is still one of the pool's
		p.count(old, -1)
	}
	if slice != nil {
		p.count(slice, 1)
		p.touch(poolOf(slice))
	}
}

func (p *devicePools) count(slice *resourcev1.ResourceSlice, n int) {
	pool, node := poolOf(slice), ""
	if slice.Spec.NodeName != nil {
		node = *slice.Spec.NodeName
	}
	nodes := p.slices[pool]
	if nodes == nil {
		nodes = map[string]int{}
		p.slices[pool] = nodes
	}
	if isWide(nodes) {
		p.wide--
	}
	if nodes[node] += n; nodes[node] == 0 {
		delete(nodes, node)
	}
	if isWide(nodes) {
		p.wide++
	}
	if len(nodes) == 0 {
		delete(p.slices, pool)
	}
	if node != "" {
		p.countOf(node, pool, n)
	}
}

func (p *devicePools) countOf(node string, pool devicePool, n int) {
	pools := p.ofNode[node]
	if pools == nil {
		pools = map[devicePool]int{}
		p.ofNode[node] = pools
	}
	if pools[pool] += n; pools[pool] == 0 {
		delete(pools, pool)
	}
	if len(pools) == 0 {
		delete(p.ofNode, node)
	}
}

// isWide reports whether a pool with slices of these nodes is not of one node.
func isWide(nodes map[string]int) bool { return len(nodes) > 1 || nodes[""] > 0 }

// touch tells that the devices of a pool are others, or are in use otherwise.
func (p *devicePools) touch(pool devicePool) {
	if p.changed == nil {
		return
	}
	// any order: each node is told once, and memos are all that hear of it
	for node := range p.slices[pool] {
		if node != "" {
			p.changed(node)
		}
	}
}

// devicesChanged has the node count as changed: what memos know of it is not as it was.
func (s *State) devicesChanged(name string) {
	if n, ok := s.nodes[name]; ok && n.exists {
		n.info.Generation = framework.NewNodeInfo().Generation // a number that no node has had
		s.touched(name)
	}
}

// AppendClaims appends what the pod's ResourceClaims ask for, and which extended resources of its containers stand for
// devices. Pods of which it appends the same, and that are the same but for the names of their claims, get the same
// answer from DynamicResources about a node that has not changed (ChangedSince) while Beyond has not. ok is false if
// that does not hold: a pool of devices is not of one node, a claim is not there or has devices already, or the running
// cycle has devices reserved. The devices of a pod that waits do not count: it is looked for a place for only where it
// gives them back.
func (s *State) AppendClaims(dst []byte, pod *v1.Pod) (out []byte, ok bool) {
	dra := s.informers.dra
	gates := utilfeature.DefaultFeatureGate
	// Without consumable capacity, Kubernetes takes an allocator that looks at the slices of all nodes. With devices
	// that stand for amounts of the node, its answer depends on the pods there as well.
	if dra.pools.wide > 0 || !gates.Enabled(features.DRAConsumableCapacity) ||
		gates.Enabled(features.DRANodeAllocatableResources) || dra.claims.anyPending() {
		return dst, false
	}
	var names []string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil || slices.Contains(names, *name) {
			return dst, false
		}
		claim, err := dra.claims.Get(pod.Namespace, *name)
		if err != nil || claim.Status.Allocation != nil && !s.givesBack(pod, i) {
			return dst, false
		}
		spec, err := claim.Spec.Marshal()
		if err != nil {
			return dst, false
		}
		names, dst = append(names, *name), canonical.AppendBytes(dst, spec)
	}
	dra.classes.eachOf(pod, func(container int, resource v1.ResourceName, amount int64) {
		dst = binary.AppendUvarint(dst, uint64(container))
		dst = canonical.AppendString(dst, string(resource))
		dst = binary.AppendVarint(dst, amount)
	})
	return dst, true
}
