package devices

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// The versions of memos of DynamicResources' answers. If every pool of devices belongs to one node, the allocator's
// result on a node depends on the claims' requests, on the DeviceClasses, on the node's own slices, and on the devices
// in use among them. A change of the last two is a change of the node, as a placement there is one. None of it is
// state.

// pool is a pool as slices name it.
type pool struct{ driver, name string }

func poolOf(slice *resourcev1.ResourceSlice) pool {
	return pool{slice.Spec.Driver, slice.Spec.Pool.Name}
}

func poolOfResult(r *resourcev1.DeviceRequestAllocationResult) pool { return pool{r.Driver, r.Pool} }

// pools are the nodes that pools of devices are of.
type pools struct {
	// slices counts the slices of each pool by the node that they name, "" for slices that name none.
	slices map[pool]map[string]int
	// ofNode counts the slices that name a node by their pool.
	ofNode map[string]map[pool]int
	// wide counts the pools that are not of one node.
	wide int
}

func newPools() *pools {
	return &pools{slices: map[pool]map[string]int{}, ofNode: map[string]map[pool]int{}}
}

// replace takes in a slice, and what it was before; either may be nil.
func (p *pools) replace(old, slice *resourcev1.ResourceSlice, c *Changes) {
	if old != nil {
		p.touch(poolOf(old), c) // while its node is still one of the pool's
		p.count(old, -1)
	}
	if slice != nil {
		p.count(slice, 1)
		p.touch(poolOf(slice), c)
	}
}

func (p *pools) count(slice *resourcev1.ResourceSlice, n int) {
	of, node := poolOf(slice), ""
	if slice.Spec.NodeName != nil {
		node = *slice.Spec.NodeName
	}
	nodes := p.slices[of]
	if nodes == nil {
		nodes = map[string]int{}
		p.slices[of] = nodes
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
		delete(p.slices, of)
	}
	if node != "" {
		p.countOf(node, of, n)
	}
}

func (p *pools) countOf(node string, of pool, n int) {
	all := p.ofNode[node]
	if all == nil {
		all = map[pool]int{}
		p.ofNode[node] = all
	}
	if all[of] += n; all[of] == 0 {
		delete(all, of)
	}
	if len(all) == 0 {
		delete(p.ofNode, node)
	}
}

// isWide reports whether a pool with slices of these nodes is not of one node.
func isWide(nodes map[string]int) bool { return len(nodes) > 1 || nodes[""] > 0 }

// touch notes that the devices of a pool are others, or are in use otherwise.
func (p *pools) touch(of pool, c *Changes) {
	// any order: the names are sorted before anybody reads them
	for node := range p.slices[of] {
		if node != "" {
			c.Nodes = append(c.Nodes, node)
		}
	}
}

// AppendClaims appends the requests of the pod's ResourceClaims, and the extended resources of its containers that are
// names for devices. Take two pods for which it appends the same, and that differ only in the names of their claims. As
// long as neither a node nor the objects beyond it change, DynamicResources gives both the same answer about the node.
//
// ok is false if that does not hold. Then a pool of devices is not of one node, a claim does not exist or has devices
// already, or the running cycle has devices reserved. The devices of a waiting pod do not count, because a place for it
// is searched only where it gives them back.
func (d *State) AppendClaims(dst []byte, pod *v1.Pod) (out []byte, ok bool) {
	gates := utilfeature.DefaultFeatureGate
	// Without consumable capacity, Kubernetes takes an allocator that looks at the slices of all nodes. If devices are
	// amounts of the node, its answer depends on the pods there as well.
	if d.pools.wide > 0 || !gates.Enabled(features.DRAConsumableCapacity) ||
		gates.Enabled(features.DRANodeAllocatableResources) || d.claims.anyPending() {
		return dst, false
	}
	var names []string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil || slices.Contains(names, *name) {
			return dst, false
		}
		claim, err := d.claims.Get(pod.Namespace, *name)
		if err != nil || claim.Status.Allocation != nil && !d.givesBack(pod, i) {
			return dst, false
		}
		spec, err := claim.Spec.Marshal()
		if err != nil {
			return dst, false
		}
		names, dst = append(names, *name), canonical.AppendBytes(dst, spec)
	}
	d.classes.eachOf(pod, func(container int, resource v1.ResourceName, amount int64) {
		dst = binary.AppendUvarint(dst, uint64(container))
		dst = canonical.AppendString(dst, string(resource))
		dst = binary.AppendVarint(dst, amount)
	})
	return dst, true
}
