package quickfit

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Upstream signs every pod except one that requests an extended resource of a DeviceClass. To check that it adds up the
// pod's requests, twice in each plugin. That is a twentieth of the time for a pod whose template is new.

// signsWith returns a function that reports whether upstream's SignPod would succeed: no resource in the pod maps to a
// DeviceClass. It may return false for a pod that names the resource with an amount of 0.
func signsWith(h fwk.Handle) func(pod *v1.Pod) bool {
	return func(pod *v1.Pod) bool {
		manager := h.SharedDRAManager()
		if manager == nil {
			return true
		}
		resolver := manager.DeviceClassResolver()
		plain := func(requests v1.ResourceList) bool {
			// any order: one is enough
			for name := range requests {
				if resolver.GetDeviceClass(name) != nil {
					return false
				}
			}
			return true
		}
		for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				if !plain(containers[i].Resources.Requests) {
					return false
				}
			}
		}
		return plain(pod.Spec.Overhead) && (pod.Spec.Resources == nil || plain(pod.Spec.Resources.Requests))
	}
}

// WouldSign implements framework.QuickSigner of Rollcall.
func (f *Fit) WouldSign(pod *v1.Pod) bool { return f.signs(pod) }

// WouldSign implements framework.QuickSigner of Rollcall.
func (b *Balanced) WouldSign(pod *v1.Pod) bool { return b.signs(pod) }
