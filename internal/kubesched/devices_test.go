package kubesched_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestDevicesAreUpstreams compares decisions on pods with claims of devices: the feasible nodes, the reasons, the
// scores, the node and the devices must be kube-scheduler's.
func TestDevicesAreUpstreams(t *testing.T) {
	seen := run(t, shape{devices: true}, worldsOf(40))
	check(t, seen, 3, "scheduled", "claim is allocated", "claim is shared", "device", "device is shared",
		"device for admin access", "first available", "partition", "Score DynamicResources",
		"PreFilter DynamicResources", "Filter DynamicResources: cannot allocate all claims",
		"Filter DynamicResources: resourceclaim not available on the node")
}

// TestExtendedResourcesAreUpstreams compares decisions on pods that request devices as extended resources, which some
// nodes have by a device plugin. The feasible nodes, the reasons, the scores, the node and the claim that is made with
// its devices must be kube-scheduler's. So must the part of the pod's status about the claim.
func TestExtendedResourcesAreUpstreams(t *testing.T) {
	seen := run(t, shape{devices: true, extended: true}, worldsOf(60))
	check(t, seen, 3, "scheduled", "claim is made", "claim is made of several requests", "request is used twice",
		"claim is made beside others", "claim is allocated", "extended resource of a device plugin", "device is shared",
		"Filter DynamicResources: cannot allocate all claims",
		"Filter NodeResourcesFit: Insufficient example.com/gpu")
}

// The victims of preemption, and the nodes, must be kube-scheduler's, also where pods have volumes and devices.
func TestVictimsAreUpstreams(t *testing.T) {
	for name, s := range map[string]shape{
		"plain": {preemption: true}, "volumes": {preemption: true, volumes: true},
		"devices": {preemption: true, devices: true}, "all": {preemption: true, volumes: true, devices: true},
	} {
		t.Run(name, func(t *testing.T) {
			worlds := 25
			if s.devices {
				worlds = 200 // most pods are not compared there, see freesDevices
			}
			seen := run(t, s, worldsOf(worlds))
			check(t, seen, 5, "scheduled", "preempts", "nominated", "not eligible to preempt")
			if s.volumes {
				check(t, seen, 3, "preemption with volumes")
			}
			if s.devices {
				check(t, seen, 3, "preemption with devices")
			}
		})
	}
}

const gpu, nic = "gpu.example.com", "nic.example.com"

func cel(expression string, args ...any) resourcev1.DeviceSelector {
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(expression, args...)}}
}

var deviceClasses = []string{"any", "gpu", "big", "nic"}

func (d *duel) makeDevices() {
	selectors := map[string][]resourcev1.DeviceSelector{
		"gpu": {cel("device.driver == %q", gpu)},
		"big": {cel("device.driver == %q", gpu),
			cel(`device.capacity[%q].memory.compareTo(quantity("8Gi")) >= 0`, gpu)},
		"nic": {cel("device.driver == %q && device.attributes[%q].numa >= 0", nic, nic)},
	}
	for _, name := range deviceClasses {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.DeviceClassSpec{Selectors: selectors[name]}}
		if d.shape.extended && name == "gpu" {
			class.Spec.ExtendedResourceName = ptr.To(extendedGPU)
		}
		d.put(class)
	}
	for _, node := range all[*v1.Node](d) {
		if !d.oneIn(4) {
			d.makePool(gpu, node.Name)
		}
		if d.oneIn(2) {
			d.makePool(nic, node.Name)
		}
		if d.oneIn(3) {
			d.makePartitions(node.Name)
		}
	}
	if d.oneIn(2) {
		d.makeFabric()
	}
	for i := range d.n(0, 3) {
		d.put(d.newClaim(fmt.Sprintf("shared-%d", i)))
	}
}

// makePool makes the devices of a driver on a node, in one or two slices.
func (d *duel) makePool(driver, node string) {
	parts := d.n(1, 2)
	pool := resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(parts)}
	if d.oneIn(12) {
		pool.ResourceSliceCount++ // one is not there yet
	}
	for i := range parts {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", one(d, "x", "y"), driver+node, i)}}
		slice.Spec = resourcev1.ResourceSliceSpec{Driver: driver, Pool: pool, NodeName: &node}
		for j := range d.n(1, 2) {
			slice.Spec.Devices = append(slice.Spec.Devices, d.newDevice(driver, fmt.Sprintf("dev-%d%d", i, j)))
		}
		d.put(slice)
	}
}

func (d *duel) newDevice(driver, name string) resourcev1.Device {
	memory := resourcev1.DeviceCapacity{Value: gigabytes(one(d, 4, 8, 16))}
	device := resourcev1.Device{
		Name: name,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: ptr.To(one(d, "m", "n"))},
			resourcev1.QualifiedName("example.com/numa"): {IntValue: ptr.To(int64(d.n(0, 1)))},
			"numa": {IntValue: ptr.To(int64(d.n(0, 1)))},
		},
	}
	if d.oneIn(3) {
		device.AllowMultipleAllocations = ptr.To(true)
		if d.oneIn(2) {
			memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: ptr.To(gigabytes(2)),
				ValidRange: &resourcev1.CapacityRequestPolicyRange{
					Min: ptr.To(gigabytes(1)), Step: ptr.To(gigabytes(1))}}
		}
	}
	device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": memory}
	if d.oneIn(6) {
		device.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: one(d, resourcev1.DeviceTaintEffectNoSchedule,
			resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone)}}
	}
	return device
}

// makePartitions makes a pool of a device and its halves, which draw on the same counters.
func (d *duel) makePartitions(node string) {
	pool := resourcev1.ResourcePool{Name: node + "-split", Generation: 1, ResourceSliceCount: 2}
	counters := func(n int) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"memory": {Value: gigabytes(n)}}
	}
	d.put(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "counters-" + node},
		Spec: resourcev1.ResourceSliceSpec{Driver: gpu, Pool: pool, NodeName: &node,
			SharedCounters: []resourcev1.CounterSet{{Name: "whole", Counters: counters(8)}}}})
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "partitions-" + node},
		Spec: resourcev1.ResourceSliceSpec{Driver: gpu, Pool: pool, NodeName: &node}}
	for _, part := range []struct {
		name string
		size int
	}{{"whole", 8}, {"half-0", 4}, {"half-1", 3}} {
		device := d.newDevice(gpu, part.name)
		device.AllowMultipleAllocations = nil
		device.Capacity["memory"] = resourcev1.DeviceCapacity{Value: gigabytes(part.size)}
		device.ConsumesCounters = []resourcev1.DeviceCounterConsumption{
			{CounterSet: "whole", Counters: counters(part.size)}}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	d.put(slice)
}

// makeFabric makes devices that are not of one node: of all, of a zone, or each of its own.
func (d *duel) makeFabric() {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "fabric"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: nic,
		Pool: resourcev1.ResourcePool{Name: "fabric", Generation: 1, ResourceSliceCount: 1}}
	inZone := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone(d.n(0, 2))}}}}}}
	for i := range d.n(1, 2) {
		slice.Spec.Devices = append(slice.Spec.Devices, d.newDevice(nic, fmt.Sprintf("port-%d", i)))
	}
	switch d.n(0, 2) {
	case 0:
		slice.Spec.AllNodes = ptr.To(true)
	case 1:
		slice.Spec.NodeSelector = inZone
	default:
		slice.Spec.PerDeviceNodeSelection = ptr.To(true)
		for i := range slice.Spec.Devices {
			switch d.n(0, 2) {
			case 0:
				slice.Spec.Devices[i].AllNodes = ptr.To(true)
			case 1:
				slice.Spec.Devices[i].NodeSelector = inZone
			default:
				slice.Spec.Devices[i].NodeName = ptr.To(one(d, all[*v1.Node](d)...).Name)
			}
		}
	}
	d.put(slice)
}

// asks has the fields that requests and their alternatives share.
type asks struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
	capacity    *resourcev1.CapacityRequirements
}

func (d *duel) newAsks() asks {
	a := asks{class: one(d, deviceClasses...), mode: resourcev1.DeviceAllocationModeExactCount, count: 1}
	switch d.n(0, 9) {
	case 0, 1:
		a.count = 2
	case 2:
		a.mode, a.count = resourcev1.DeviceAllocationModeAll, 0
	}
	switch d.n(0, 5) {
	case 0:
		a.selectors = []resourcev1.DeviceSelector{cel("device.attributes[%q].model == %q", gpu, one(d, "m", "n"))}
	case 1:
		a.selectors = []resourcev1.DeviceSelector{
			cel("device.driver == %q && device.attributes[%q].numa == %d", gpu, gpu, d.n(0, 1))}
	}
	if d.oneIn(6) {
		a.tolerations = []resourcev1.DeviceToleration{
			{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
	}
	if d.oneIn(4) {
		a.capacity = &resourcev1.CapacityRequirements{
			Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": gigabytes(d.n(1, 9))}}
	}
	return a
}

func (d *duel) newRequest(name string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: name}
	if d.oneIn(4) {
		for i := range d.n(1, 3) {
			a := d.newAsks()
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprintf("%s%d", name, i),
				DeviceClassName: a.class, Selectors: a.selectors, AllocationMode: a.mode, Count: a.count,
				Tolerations: a.tolerations, Capacity: a.capacity})
		}
		return r
	}
	a := d.newAsks()
	r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: a.class, Selectors: a.selectors,
		AllocationMode: a.mode, Count: a.count, Tolerations: a.tolerations, Capacity: a.capacity}
	if d.oneIn(8) {
		r.Exactly.AdminAccess = ptr.To(true)
	}
	if d.oneIn(30) {
		r.Exactly.DeviceClassName = "missing"
	}
	return r
}

func (d *duel) newClaim(name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for i := range max(1, d.n(-1, 2)) {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, d.newRequest(fmt.Sprintf("r%d", i)))
	}
	switch d.n(0, 5) {
	case 0:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{
			{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName("example.com/numa"))}}
	case 1:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"r0"},
			DistinctAttribute: ptr.To(resourcev1.FullyQualifiedName("example.com/numa"))}}
	case 2:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"r0"},
			MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(gpu + "/model"))}}
	}
	return c
}

// addClaims makes a pod claim devices: the devices of a claim that other pods name too, or of claims of its own.
func (d *duel) addClaims(p *v1.Pod) {
	for i := range max(1, d.n(-3, 2)) {
		claim := v1.PodResourceClaim{Name: fmt.Sprintf("c%d", i)}
		shared := slices.DeleteFunc(all[*resourcev1.ResourceClaim](d), func(c *resourcev1.ResourceClaim) bool {
			return len(c.OwnerReferences) > 0 || slices.ContainsFunc(p.Spec.ResourceClaims,
				func(o v1.PodResourceClaim) bool { return ptr.Deref(o.ResourceClaimName, "") == c.Name })
		})
		switch n := d.n(0, 9); {
		case n < 3 && len(shared) > 0:
			claim.ResourceClaimName = ptr.To(one(d, shared...).Name)
		case n < 6:
			own := d.newClaim(p.Name + "-" + claim.Name)
			d.put(own)
			claim.ResourceClaimName = &own.Name
		default:
			own := d.newClaim(p.Name + "-" + claim.Name)
			own.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name,
				UID: podUID(p.Name), Controller: ptr.To(true)}}
			d.put(own)
			claim.ResourceClaimTemplateName = ptr.To("template")
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses,
				v1.PodResourceClaimStatus{Name: claim.Name, ResourceClaimName: &own.Name})
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, claim)
	}
}

// These resources name devices: of class gpu, and of class nic, by its name.
const (
	extendedGPU = "example.com/gpu"
	extendedNIC = v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "nic")
)

// addExtended adds requests for extended resources to containers of a pod.
func (d *duel) addExtended(p *v1.Pod) {
	containers := func(kind string, n int) (list []v1.Container) {
		for i := range n {
			c := v1.Container{Name: fmt.Sprint(kind, i), Image: "i"}
			c.Resources.Requests = v1.ResourceList{}
			for _, name := range []v1.ResourceName{extendedGPU, extendedNIC, v1.ResourceCPU} {
				if n := d.n(-2, 2); n > 0 {
					c.Resources.Requests[name] = resource.MustParse(fmt.Sprint(n))
				}
			}
			if d.oneIn(40) {
				c.Resources.Requests["example.com/unknown"] = resource.MustParse("1")
			}
			if kind == "init" && d.oneIn(2) {
				c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			}
			list = append(list, c)
		}
		return list
	}
	p.Spec.InitContainers = containers("init", max(0, d.n(-2, 2)))
	p.Spec.Containers = append(p.Spec.Containers, containers("more", max(0, d.n(-1, 2)))...)
	p.Spec.Containers[0].Resources.Requests[extendedGPU] = resource.MustParse("1")
}

// changeDevices publishes a slice again: a taint comes or goes, or the pool gets a new generation. Or a resource gets
// another class.
func (d *duel) changeDevices() {
	if d.shape.extended && d.oneIn(4) {
		class, _ := get[*resourcev1.DeviceClass](d, "", "gpu")
		class.Spec.ExtendedResourceName = nil
		if d.oneIn(2) {
			class.Spec.ExtendedResourceName = ptr.To(extendedGPU)
		}
		d.put(class)
		return
	}
	list := all[*resourcev1.ResourceSlice](d)
	if len(list) == 0 {
		return
	}
	slice := one(d, list...).DeepCopy()
	if slice.Spec.Pool.ResourceSliceCount == 1 && d.oneIn(3) {
		slice.Spec.Pool.Generation++
	}
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = nil
		if d.oneIn(6) {
			slice.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{
				{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
	}
	d.put(slice)
}
