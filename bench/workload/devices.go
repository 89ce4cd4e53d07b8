package workload

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Devices are named after these, and so are the claims that pods have for them.
const (
	deviceDriver = "gpu.example.com"
	deviceClass  = "gpu.example.com"
	deviceModel  = "a100"
	claimOfPod   = "gpu"
)

// Class makes the DeviceClass that claims name. Its selector reads two attributes, as the selectors for GPU drivers
// do.
func (s Spec) Class() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: deviceClass, UID: uid(kindClass, 0), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(began)},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.driver == %q && device.attributes[%[1]q].model == %[2]q`, deviceDriver,
				deviceModel)}}}},
	}
}

// Slice makes the ResourceSlice of the i-th node.
func (s Spec) Slice(i int) *resourcev1.ResourceSlice {
	node := NodeName(i)
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("slice-%06d", i), UID: uid(kindSlice, i), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(began)},
		Spec: resourcev1.ResourceSliceSpec{Driver: deviceDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}},
	}
	for k := range NodeGPUs {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", k),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"index": {IntValue: ptr.To(int64(k))},
				"model": {StringValue: ptr.To(deviceModel)},
				"uuid":  {StringValue: ptr.To(fmt.Sprintf("gpu-%06d-%d", i, k))},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: *resource.NewQuantity(80<<30, resource.BinarySI)},
			},
		})
	}
	return slice
}

// claimDevice makes a pod name its claim instead of the extended resource.
func claimDevice(pod *corev1.Pod) {
	main := &pod.Spec.Containers[0].Resources
	delete(main.Requests, gpu)
	main.Limits = nil
	main.Claims = []corev1.ResourceClaim{{Name: claimOfPod}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: claimOfPod, ResourceClaimTemplateName: ptr.To(claimOfPod)}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{
		{Name: claimOfPod, ResourceClaimName: ptr.To(claimName(pod.Name))}}
}

func claimName(pod string) string { return pod + "-" + claimOfPod }

// Claim makes the ResourceClaim of the i-th pod, as the claim controller makes it of the template.
func (s Spec) Claim(i int) *resourcev1.ResourceClaim {
	pod := s.Pod(i)
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: claimName(pod.Name), UID: uid(kindClaim, i), ResourceVersion: "1",
			CreationTimestamp: pod.CreationTimestamp,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: claimOfPod,
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: deviceClass, Count: 1,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount},
		}}}},
	}
}

// Allocated makes the claim of the i-th pod after a scheduler has written the allocation and the reservation for the
// pod into it.
func (s Spec) Allocated(i int, allocation *resourcev1.AllocationResult) *resourcev1.ResourceClaim {
	claim := s.Claim(i)
	claim.ResourceVersion = "2"
	claim.Finalizers = []string{resourcev1.Finalizer}
	claim.Status.Allocation = allocation
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
		{Resource: "pods", Name: claim.OwnerReferences[0].Name, UID: claim.OwnerReferences[0].UID}}
	return claim
}

// InUse are the devices that pods have, by driver, pool and name. It is not safe for concurrent use.
type InUse map[[3]string]types.UID

// ErrInUse is wrapped by the error for a device that another pod has.
var ErrInUse = errors.New("another pod has it")

// Take gives a pod the devices of its claim's allocation. It returns an error if the allocation is not one device of
// the node, and one that wraps ErrInUse if another pod has the device.
func (u InUse) Take(pod types.UID, node string, allocation *resourcev1.AllocationResult) error {
	if allocation == nil || len(allocation.Devices.Results) != 1 {
		return fmt.Errorf("pod %s has a claim for one device, and got the allocation %v", pod, allocation)
	}
	r := allocation.Devices.Results[0]
	if r.Driver != deviceDriver || r.Pool != node || !slices.Contains(deviceNames, r.Device) {
		return fmt.Errorf("pod %s on %s was given %s of pool %s of %s: no such device is there", pod, node, r.Device,
			r.Pool, r.Driver)
	}
	device := [3]string{r.Driver, r.Pool, r.Device}
	if other, taken := u[device]; taken {
		return fmt.Errorf("pod %s was given %s of %s: %w: %s", pod, r.Device, node, ErrInUse, other)
	}
	u[device] = pod
	return nil
}

// Leave takes a device back that Take gave to a pod.
func (u InUse) Leave(pod types.UID, allocation *resourcev1.AllocationResult) error {
	r := allocation.Devices.Results[0]
	device := [3]string{r.Driver, r.Pool, r.Device}
	if u[device] != pod {
		return fmt.Errorf("pod %s leaves %s of %s, which %q has", pod, r.Device, r.Pool, u[device])
	}
	delete(u, device)
	return nil
}

// deviceNames are the names of a node's devices.
var deviceNames = func() (names []string) {
	for k := range NodeGPUs {
		names = append(names, fmt.Sprintf("gpu-%d", k))
	}
	return names
}()
