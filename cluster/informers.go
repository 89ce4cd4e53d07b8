package cluster

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/cluster/volumes"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// Informers hold the API objects of the log as plugins read them: listers and handlers of a
// SharedInformerFactory, a CSIManager and a SharedDRAManager, all fed synchronously by Upsert and Delete.
// Nothing here starts a goroutine or reads a clock, and every list is sorted by namespace, then name.
//
// One goroutine at a time may change them; plugins may read beside each other in between. Objects are
// shared, never copied: an object must not be written to once it is in.
type Informers struct {
	factory *logFactory
	// names are the resources of the log, sorted.
	names []eventlog.Resource
	// own are the resources that the configuration declares, sorted.
	own []eventlog.OwnResource
	csi fwk.CSIManager
}

// NewInformers returns informers that hold nothing yet.
func NewInformers() *Informers {
	f := &Informers{
		factory: &logFactory{
			byType:     map[reflect.Type]*logInformer{},
			byResource: map[eventlog.Resource]*logInformer{},
		},
		names: eventlog.Resources(),
	}
	for _, name := range f.names {
		informer := newLogInformer(reflect.TypeOf(eventlog.NewObject(name)))
		f.factory.byType[informer.objectType] = informer
		f.factory.byResource[name] = informer
	}
	f.factory.own = f.ownInformer
	f.csi = nodevolumelimits.NewCSIManager(f.factory.Storage().V1().CSINodes().Lister())
	return f
}

// Factory returns the factory for a plugin's Handle. An informer of a resource that the log does not carry
// is there, and empty. A plugin that would write to a store gets ErrLogFed.
func (f *Informers) Factory() informers.SharedInformerFactory { return f.factory }

// CSI returns the manager of CSINodes for a plugin's Handle.
func (f *Informers) CSI() fwk.CSIManager { return f.csi }

// Upsert stores an object and calls the registered handlers, in the order of their registration. It returns the object
// that plugins saw before, nil if there was none. Assumptions of decisions about a volume or claim give way to an
// object with another content (see AssumeVolumes). If the content is the same, no handler is called. It fails if res is
// none of eventlog's resources or obj has another type. Then nothing has changed.
func (f *Informers) Upsert(res eventlog.Resource, obj eventlog.Object) (old eventlog.Object, err error) {
	informer, ok := f.factory.byResource[res]
	if !ok {
		if eventlog.IsOwn(res) {
			return nil, fmt.Errorf("upsert %s: the configuration does not declare that a plugin reads them", res)
		}
		return nil, fmt.Errorf("upsert %s: unknown resource", res)
	}
	if err := informer.accepts(obj); err != nil {
		return nil, fmt.Errorf("upsert %s: %w", res, err)
	}
	old, err = informer.put(obj)
	if err != nil {
		return nil, fmt.Errorf("upsert %s: %w", res, err)
	}
	return old, nil
}

// Delete takes an object out and calls the registered handlers. It returns the object that plugins saw before, nil if
// there was none.
func (f *Informers) Delete(res eventlog.Resource, namespace, name string) (old eventlog.Object) {
	informer, ok := f.factory.byResource[res]
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return informer.remove(key)
}

// Get returns an object as plugins see it, nil if there is none. Cluster-scoped objects have the namespace "".
func (f *Informers) Get(res eventlog.Resource, namespace, name string) eventlog.Object {
	informer, ok := f.factory.byResource[res]
	if !ok {
		return nil
	}
	return informer.store.get(types.NamespacedName{Namespace: namespace, Name: name})
}

// List returns a resource's objects as plugins see them, sorted by namespace, then name.
func (f *Informers) List(res eventlog.Resource) []eventlog.Object {
	informer, ok := f.factory.byResource[res]
	if !ok {
		return nil
	}
	return informer.store.objects()
}

// AppendState appends the canonical form of all objects, without pods, nodes and the objects of devices.State. They are
// sorted by resource, namespace and name, each as it was logged. Then it appends the assumptions of decisions about
// volumes. Equal states give equal bytes, whatever their histories. restore reads them.
func (f *Informers) AppendState(dst []byte) []byte {
	for _, res := range f.names {
		if encodedElsewhere(res) {
			continue
		}
		objects := f.List(res)
		if len(objects) == 0 && leftOutIfEmpty(res) {
			continue
		}
		dst = canonical.AppendString(dst, string(res))
		dst = binary.AppendUvarint(dst, uint64(len(objects)))
		for _, obj := range objects {
			dst = mustAppendObject(dst, obj)
		}
	}
	return dst
}

// encodedElsewhere reports whether AppendState leaves out the objects of a resource, because another part of the state
// has them in its own.
func encodedElsewhere(res eventlog.Resource) bool {
	return res == eventlog.Pods || res == eventlog.Nodes || devices.Keeps(res) || volumes.Keeps(res)
}

// leftOutIfEmpty reports whether AppendState does not name a resource of which there is no object: the states of logs
// from before there was the resource are the same as then. It is false of the last one by name.
func leftOutIfEmpty(res eventlog.Resource) bool {
	return res == eventlog.VolcanoPodGroups || res == eventlog.KAIPodGroups
}

func mustAppendObject(dst []byte, obj eventlog.Object) []byte {
	dst, err := appendObject(dst, obj)
	if err != nil {
		panic(fmt.Sprintf("cluster: object %T %s cannot be marshalled: %v", obj, keyOf(obj), err))
	}
	return dst
}
