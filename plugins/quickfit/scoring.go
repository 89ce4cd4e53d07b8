package quickfit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Upstream scores the devices of an extended resource that stands for a DeviceClass, if its arguments name the
// resource, by the answers of CEL selectors that it keeps for a driver, pool and device for as long as the process
// lives: they depend on what the device was when it was looked at first, and so on when the process began. So what
// scores is told of no such resource: of those, only what nodes have in their allocatable counts.

// scoresNoDevices returns a factory whose plugin scores no devices. What it filters, and its hints, know of them.
func scoresNoDevices(upstream frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		while := &handle{Handle: h, making: true} // what scores asks for its manager once, when it is made
		defer func() { while.making = false }()
		return upstream(ctx, args, while)
	}
}

type handle struct {
	fwk.Handle
	making bool
}

// SharedDRAManager implements fwk.Handle.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager {
	manager := h.Handle.SharedDRAManager()
	if h.making && manager != nil {
		return withoutResources{manager}
	}
	return manager
}

// withoutResources is a manager that knows of no resource that stands for devices.
type withoutResources struct{ fwk.SharedDRAManager }

// DeviceClassResolver implements fwk.SharedDRAManager.
func (withoutResources) DeviceClassResolver() fwk.DeviceClassResolver { return nothing{} }

type nothing struct{}

// GetDeviceClass implements fwk.DeviceClassResolver.
func (nothing) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass { return nil }
