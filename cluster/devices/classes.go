package devices

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/features"
)

// extendedResourceIndex finds device classes by the extended resource that is their name.
const extendedResourceIndex = "rollcall.dev/extended-resource"

// deviceClasses lists device classes and resolves extended resources to them.
type deviceClasses struct {
	indexer cache.Indexer
	resourcelisters.DeviceClassLister
	extendedResources bool
	// named counts the classes that have an extended resource as a name.
	named map[string]int
}

func newDeviceClasses(indexer cache.Indexer) *deviceClasses {
	mustIndex(indexer, extendedResourceIndex, extendedResourceOf)
	return &deviceClasses{
		indexer:           indexer,
		DeviceClassLister: resourcelisters.NewDeviceClassLister(indexer),
		extendedResources: utilfeature.DefaultFeatureGate.Enabled(features.DRAExtendedResource),
		named:             map[string]int{},
	}
}

// replace takes in a class, and what it was before; either may be nil.
func (c *deviceClasses) replace(old, class *resourcev1.DeviceClass) {
	c.count(old, -1)
	c.count(class, +1)
}

func (c *deviceClasses) count(class *resourcev1.DeviceClass, n int) {
	if class == nil || class.Spec.ExtendedResourceName == nil {
		return
	}
	name := *class.Spec.ExtendedResourceName
	if c.named[name] += n; c.named[name] == 0 {
		delete(c.named, name)
	}
}

func extendedResourceOf(obj any) ([]string, error) {
	if class, ok := obj.(*resourcev1.DeviceClass); ok && class.Spec.ExtendedResourceName != nil {
		return []string{*class.Spec.ExtendedResourceName}, nil
	}
	return nil, nil
}

// List implements fwk.DeviceClassLister, sorted by name.
func (c *deviceClasses) List() ([]*resourcev1.DeviceClass, error) {
	return c.DeviceClassLister.List(labels.Everything())
}

// GetDeviceClass implements fwk.DeviceClassResolver with upstream's rule: of several classes for one
// resource the newest counts, and of equally new ones the first by name.
func (c *deviceClasses) GetDeviceClass(resource v1.ResourceName) *resourcev1.DeviceClass {
	if !c.extendedResources {
		return nil
	}
	if name, ok := strings.CutPrefix(string(resource), resourcev1.ResourceDeviceClassPrefix); ok {
		if class, err := c.Get(name); err == nil {
			return class
		}
		return nil
	}
	found, err := c.indexer.ByIndex(extendedResourceIndex, string(resource))
	if err != nil {
		return nil
	}
	var best *resourcev1.DeviceClass
	for _, obj := range found {
		class := obj.(*resourcev1.DeviceClass)
		if best == nil || cmp.Compare(class.CreationTimestamp.UnixNano(), best.CreationTimestamp.UnixNano()) > 0 {
			best = class
		}
	}
	return best
}
