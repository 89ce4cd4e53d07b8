package transcripts

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// deviceClaim is the name that a pod gives its claim for a device.
const deviceClaim = "device"

// deviceClass makes a DeviceClass of the devices of a driver that is named like it.
func (p *Player) deviceClass(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	p.allow(d, 1, "gpu")
	name := d.CmdArgs[0].Key
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("class-" + name)}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", name)}}}
	if arg(d, "gpu", "") != "" {
		class.Spec.ExtendedResourceName = ptr.To(string(gpu))
	}
	return class
}

// slice makes the ResourceSlice with all devices that a driver has on a node.
func (p *Player) slice(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	p.allow(d, 1, "driver", "devices")
	node := d.CmdArgs[0].Key
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID("slice-" + node)}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: arg(d, "driver", ""), NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for i := range number(d, "devices", "1") {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: "device-" + strconv.Itoa(int(i))})
	}
	return slice
}

// madeOfTemplate returns the entry with which a pod, or a PodGroup, names its claim for a device.
func madeOfTemplate() v1.PodResourceClaim {
	return v1.PodResourceClaim{Name: deviceClaim, ResourceClaimTemplateName: ptr.To(deviceClaim)}
}

// newClaim returns a claim for devices of a class that pods may name.
func (p *Player) newClaim(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	p.allow(d, 1, "device", "count")
	namespace, name := p.split(d)
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("claim-" + name)}}
	claim.Spec.Devices.Requests = requestFor(arg(d, "device", ""), int64(number(d, "count", "1")))
	return claim
}

func requestFor(class string, count int64) []resourcev1.DeviceRequest {
	return []resourcev1.DeviceRequest{{Name: deviceClaim,
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count,
			AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}
}

// newGroup returns a PodGroup, behind the claim for a device that is made for it.
func (p *Player) newGroup(d *datadriven.TestData) (all []eventlog.Payload) {
	p.t.Helper()
	res, obj := p.group(d)
	if g, ok := obj.(*schedulingv1beta1.PodGroup); ok && arg(d, "device", "") != "" {
		name, of := g.Name+"-"+deviceClaim, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup")
		g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{
			{Name: deviceClaim, ResourceClaimTemplateName: ptr.To(deviceClaim)}}
		g.Status.ResourceClaimStatuses = []schedulingv1beta1.PodGroupResourceClaimStatus{
			{Name: deviceClaim, ResourceClaimName: &name}}
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: name,
			UID: "claim-" + g.UID, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, of)}}}
		claim.Spec.Devices.Requests = requestFor(arg(d, "device", ""), 1)
		all = append(all, &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
	}
	return append(all, &eventlog.Upserted{Resource: res, Object: obj})
}

// claimDevice makes the pod name a claim for one device of a class. It returns the claim, as Kubernetes makes it from a
// ResourceClaimTemplate.
func claimDevice(pod *v1.Pod, class string) *resourcev1.ResourceClaim {
	name := pod.Name + "-" + deviceClaim
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{madeOfTemplate()}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: deviceClaim, ResourceClaimName: &name}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: name, UID: "claim-" + pod.UID,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	claim.Spec.Devices.Requests = requestFor(class, 1)
	return claim
}

// allocated returns the claims of a pod as the API server has them once its placement is written to them.
func (p *Player) allocated(d *datadriven.TestData) (inputs []eventlog.Payload) {
	p.t.Helper()
	p.allow(d, 1)
	known := p.existing(d)
	pod, groups := known.Object, p.machine.Cluster().Devices().GroupClaims(known.Object)
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		p.must(err)
		claim := p.claim(pod.Namespace, *name)
		if claim.Status.Allocation == nil {
			p.t.Fatalf("%s: claim %s has no devices", d.Pos, *name)
		}
		consumer, ofGroup := groups[*name]
		if !ofGroup {
			consumer = resourcev1.ResourceClaimConsumerReference{
				Resource: string(eventlog.Pods), Name: pod.Name, UID: pod.UID}
		}
		if !slices.Contains(claim.Status.ReservedFor, consumer) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer)
		}
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
	}
	for i := range known.Devices {
		if made := p.made(pod, &known.Devices[i]); made != nil {
			inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: made})
		}
	}
	return inputs
}

// made returns the claim that the bind of a pod makes for its extended resources; nil if it is another one.
func (p *Player) made(pod *v1.Pod, c *eventlog.DeviceClaim) *resourcev1.ResourceClaim {
	p.t.Helper()
	requests, err := c.Requests()
	p.must(err)
	if len(requests) == 0 {
		return nil
	}
	claim := devices.ClaimToMake(pod, c.Claim, requests)
	claim.UID = "claim-" + pod.UID
	claim.Status.Allocation, err = c.Result()
	p.must(err)
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: string(eventlog.Pods), Name: pod.Name, UID: pod.UID}}
	return claim
}

// deallocated returns a claim without its devices.
func (p *Player) deallocated(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	p.allow(d, 1)
	namespace, name := p.split(d)
	claim := p.claim(namespace, name)
	claim.Status = resourcev1.ResourceClaimStatus{}
	return claim
}

// claim returns a copy of a claim as plugins see it.
func (p *Player) claim(namespace, name string) *resourcev1.ResourceClaim {
	p.t.Helper()
	seen := p.machine.Cluster().Informers().Get(eventlog.ResourceClaims, namespace, name)
	claim, ok := seen.(*resourcev1.ResourceClaim)
	if !ok {
		p.t.Fatalf("there is no claim %s/%s", namespace, name)
	}
	return claim.DeepCopy()
}
