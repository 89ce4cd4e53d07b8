package quickfit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Upstream scores the devices of an extended resource that maps to a DeviceClass, if its arguments name the resource.
// It uses answers of CEL selectors that it keeps for each driver, pool and device as long as the process lives. They
// depend on the device's state at the first use, and so on the start of the process. A replay could not repeat that. So
// scorers see no such resource: they count only the amounts in a node's allocatable.

// scoresNoDevices returns a factory whose plugin scores no devices. Its Filter and its hints still see them.
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

// withoutResources is a manager without resources that map to devices.
type withoutResources struct{ fwk.SharedDRAManager }

// DeviceClassResolver implements fwk.SharedDRAManager.
func (withoutResources) DeviceClassResolver() fwk.DeviceClassResolver { return nothing{} }

type nothing struct{}

// GetDeviceClass implements fwk.DeviceClassResolver.
func (nothing) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass { return nil }
