package cluster

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	nodeinformers "k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// logFactory is the informers.SharedInformerFactory that plugins get: its informers are the log-fed ones,
// and it starts nothing. A resource that the log does not carry has an informer that stays empty.
type logFactory struct {
	mu         sync.Mutex
	byType     map[reflect.Type]*logInformer
	byResource map[eventlog.Resource]*logInformer
	// own returns the informer of a resource that the configuration declares, nil for another one.
	own func(gvr schema.GroupVersionResource) (informers.GenericInformer, error)
}

var _ informers.SharedInformerFactory = (*logFactory)(nil)

// InformerFor implements informers.SharedInformerFactory; newFunc, which would make an informer that
// watches an API server, is not called.
func (f *logFactory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := reflect.TypeOf(obj)
	informer, ok := f.byType[t]
	if !ok {
		informer = newLogInformer(t)
		f.byType[t] = informer
	}
	return informer
}

// InformerName implements internalinterfaces.SharedInformerFactory: nil, which means no metrics.
func (f *logFactory) InformerName() *cache.InformerName { return nil }

// Start implements informers.SharedInformerFactory; there is nothing to start.
func (f *logFactory) Start(<-chan struct{}) {}

// StartWithContext implements informers.SharedInformerFactory; there is nothing to start.
func (f *logFactory) StartWithContext(context.Context) {}

// Shutdown implements informers.SharedInformerFactory; there is nothing to shut down.
func (f *logFactory) Shutdown() {}

// WaitForCacheSync implements informers.SharedInformerFactory: every informer is synced.
func (f *logFactory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(context.Background()).Synced
}

// WaitForCacheSyncWithContext implements informers.SharedInformerFactory: every informer is synced.
func (f *logFactory) WaitForCacheSyncWithContext(context.Context) cache.SyncResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	synced := make(map[reflect.Type]bool, len(f.byType))
	// any order: copied into a map
	for t := range f.byType {
		synced[t] = true
	}
	return cache.SyncResult{Synced: synced}
}

// ForResource implements informers.SharedInformerFactory for the resources that the log carries. Objects of resources
// that the configuration declares are *unstructured.Unstructured.
func (f *logFactory) ForResource(gvr schema.GroupVersionResource) (informers.GenericInformer, error) {
	if own, err := f.own(gvr); own != nil || err != nil {
		return own, err
	}
	name := eventlog.Resource(gvr.GroupResource().String())
	informer, ok := f.byResource[name]
	if !ok {
		return nil, fmt.Errorf("no informer found for %v: the log does not carry it: declare it under pluginResources "+
			"in the configuration", gvr)
	}
	return genericLogInformer{informer: informer, resource: gvr.GroupResource()}, nil
}

// genericLogInformer is an informers.GenericInformer over a logInformer.
type genericLogInformer struct {
	informer *logInformer
	resource schema.GroupResource
}

// Informer implements informers.GenericInformer.
func (g genericLogInformer) Informer() cache.SharedIndexInformer { return g.informer }

// Lister implements informers.GenericInformer.
func (g genericLogInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.store, g.resource)
}

// Admissionregistration implements informers.SharedInformerFactory.
func (f *logFactory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}

// Internal implements informers.SharedInformerFactory.
func (f *logFactory) Internal() apiserverinternal.Interface { return apiserverinternal.New(f, "", nil) }

// Apps implements informers.SharedInformerFactory.
func (f *logFactory) Apps() apps.Interface { return apps.New(f, "", nil) }

// Autoscaling implements informers.SharedInformerFactory.
func (f *logFactory) Autoscaling() autoscaling.Interface { return autoscaling.New(f, "", nil) }

// Batch implements informers.SharedInformerFactory.
func (f *logFactory) Batch() batch.Interface { return batch.New(f, "", nil) }

// Certificates implements informers.SharedInformerFactory.
func (f *logFactory) Certificates() certificates.Interface { return certificates.New(f, "", nil) }

// Coordination implements informers.SharedInformerFactory.
func (f *logFactory) Coordination() coordination.Interface { return coordination.New(f, "", nil) }

// Core implements informers.SharedInformerFactory.
func (f *logFactory) Core() core.Interface { return core.New(f, "", nil) }

// Discovery implements informers.SharedInformerFactory.
func (f *logFactory) Discovery() discovery.Interface { return discovery.New(f, "", nil) }

// Events implements informers.SharedInformerFactory.
func (f *logFactory) Events() events.Interface { return events.New(f, "", nil) }

// Extensions implements informers.SharedInformerFactory.
func (f *logFactory) Extensions() extensions.Interface { return extensions.New(f, "", nil) }

// Flowcontrol implements informers.SharedInformerFactory.
func (f *logFactory) Flowcontrol() flowcontrol.Interface { return flowcontrol.New(f, "", nil) }

// Lifecycle implements informers.SharedInformerFactory.
func (f *logFactory) Lifecycle() lifecycle.Interface { return lifecycle.New(f, "", nil) }

// Networking implements informers.SharedInformerFactory.
func (f *logFactory) Networking() networking.Interface { return networking.New(f, "", nil) }

// Node implements informers.SharedInformerFactory.
func (f *logFactory) Node() nodeinformers.Interface { return nodeinformers.New(f, "", nil) }

// Policy implements informers.SharedInformerFactory.
func (f *logFactory) Policy() policy.Interface { return policy.New(f, "", nil) }

// Rbac implements informers.SharedInformerFactory.
func (f *logFactory) Rbac() rbac.Interface { return rbac.New(f, "", nil) }

// Resource implements informers.SharedInformerFactory.
func (f *logFactory) Resource() resource.Interface { return resource.New(f, "", nil) }

// Scheduling implements informers.SharedInformerFactory.
func (f *logFactory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }

// Storage implements informers.SharedInformerFactory.
func (f *logFactory) Storage() storage.Interface { return storage.New(f, "", nil) }

// Storagemigration implements informers.SharedInformerFactory.
func (f *logFactory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, "", nil)
}
