package transcripts

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// deviceClaim is how a pod names its claim for a device.
const deviceClaim = "device"

// deviceClass makes a DeviceClass of the devices of a driver that is named like it.
func (p *Player) deviceClass(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	p.allow(d, 1)
	name := d.CmdArgs[0].Key
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("class-" + name)}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", name)}}}
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

// claimDevice has the pod name a claim for one device of a class, and returns the claim, as Kubernetes makes it of a
// ResourceClaimTemplate.
func claimDevice(pod *v1.Pod, class string) *resourcev1.ResourceClaim {
	name := pod.Name + "-" + deviceClaim
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: deviceClaim, ResourceClaimTemplateName: ptr.To(deviceClaim)}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: deviceClaim, ResourceClaimName: &name}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: name, UID: "claim-" + pod.UID,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
	}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: deviceClaim,
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: 1,
			AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}
	return claim
}

// allocated returns the claims of a pod as the API server has them once its placement is written to them.
func (p *Player) allocated(d *datadriven.TestData) (inputs []eventlog.Payload) {
	p.t.Helper()
	p.allow(d, 1)
	pod := p.existing(d).Object
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		p.must(err)
		claim := p.claim(pod.Namespace, *name)
		if claim.Status.Allocation == nil {
			p.t.Fatalf("%s: claim %s has no devices", d.Pos, *name)
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: string(eventlog.Pods), Name: pod.Name, UID: pod.UID})
		inputs = append(inputs, &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claim})
	}
	return inputs
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
