package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// errNoTransform is returned by SetTransform.
var errNoTransform = errors.New(
	"informers are fed from the log: objects are kept as they were logged, without a transform",
)

// logInformer is a cache.SharedIndexInformer that is fed from the log: no goroutine, no clock, no watch.
// Handlers run inside Upsert and Delete, in the order in which they were registered, after the store has
// changed. It is always synced and never runs.
type logInformer struct {
	objectType reflect.Type
	store      *objectStore

	// mu guards handlers; the slice itself is never written to once it is shared, so that a handler may
	// register or remove handlers.
	mu       sync.Mutex
	handlers []*logRegistration
}

var _ cache.SharedIndexInformer = (*logInformer)(nil)

func newLogInformer(objectType reflect.Type) *logInformer {
	return &logInformer{objectType: objectType, store: newObjectStore()}
}

// logRegistration is one registered handler.
type logRegistration struct {
	handler cache.ResourceEventHandler
}

// HasSynced implements cache.ResourceEventHandlerRegistration: what was there was delivered at registration.
func (*logRegistration) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (*logRegistration) HasSyncedChecker() cache.DoneChecker { return alwaysDone{} }

// alwaysDone is the cache.DoneChecker of something that has nothing to wait for.
type alwaysDone struct{}

var doneAlready = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Name implements cache.DoneChecker.
func (alwaysDone) Name() string { return "log-fed informer" }

// Done implements cache.DoneChecker.
func (alwaysDone) Done() <-chan struct{} { return doneAlready }

// accepts reports whether obj is of the informer's type.
func (i *logInformer) accepts(obj eventlog.Object) error {
	if got := reflect.TypeOf(obj); got != i.objectType {
		return fmt.Errorf("object is a %v, want %v", got, i.objectType)
	}
	if reflect.ValueOf(obj).IsNil() {
		return fmt.Errorf("object is a nil %v", i.objectType)
	}
	return nil
}

// put stores obj and calls the handlers. It returns the object that it replaced.
func (i *logInformer) put(obj eventlog.Object) (eventlog.Object, error) {
	old, err := i.store.put(obj)
	if err != nil {
		return nil, err
	}
	for _, r := range i.registered() {
		if old == nil {
			r.handler.OnAdd(obj, false)
		} else {
			r.handler.OnUpdate(old, obj)
		}
	}
	return old, nil
}

// remove takes an object out and tells the handlers; it returns the object, nil if there was none.
func (i *logInformer) remove(key types.NamespacedName) eventlog.Object {
	old := i.store.remove(key)
	if old == nil {
		return nil
	}
	for _, r := range i.registered() {
		r.handler.OnDelete(old)
	}
	return old
}

func (i *logInformer) registered() []*logRegistration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handlers
}

// AddEventHandler implements cache.SharedInformer. It adds the present objects, in order, before it returns.
func (i *logInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	r := &logRegistration{handler: handler}
	i.mu.Lock()
	i.handlers = append(slices.Clone(i.handlers), r)
	i.mu.Unlock()
	for _, obj := range i.store.objects() {
		handler.OnAdd(obj, true)
	}
	return r, nil
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer; there are no resyncs.
func (i *logInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler,
	_ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements cache.SharedInformer; there are no resyncs.
func (i *logInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler,
	_ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler implements cache.SharedInformer.
func (i *logInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(r *logRegistration) bool { return r == handle })
	return nil
}

// GetStore implements cache.SharedInformer.
func (i *logInformer) GetStore() cache.Store { return i.store }

// GetIndexer implements cache.SharedIndexInformer.
func (i *logInformer) GetIndexer() cache.Indexer { return i.store }

// AddIndexers implements cache.SharedIndexInformer.
func (i *logInformer) AddIndexers(indexers cache.Indexers) error {
	return i.store.AddIndexers(indexers)
}

// GetController implements cache.SharedInformer; the informer is its own controller, which does nothing.
func (i *logInformer) GetController() cache.Controller { return i }

// Run implements cache.SharedInformer; it returns at once.
func (i *logInformer) Run(<-chan struct{}) {}

// RunWithContext implements cache.SharedInformer; it returns at once.
func (i *logInformer) RunWithContext(context.Context) {}

// HasSynced implements cache.SharedInformer: the log is all there is to be in sync with.
func (i *logInformer) HasSynced() bool { return true }

// HasSyncedChecker implements cache.SharedInformer.
func (i *logInformer) HasSyncedChecker() cache.DoneChecker { return alwaysDone{} }

// LastSyncResourceVersion implements cache.SharedInformer: the log has no resource version of its own.
func (i *logInformer) LastSyncResourceVersion() string { return "" }

// SetWatchErrorHandler implements cache.SharedInformer; there is no watch that could fail.
func (i *logInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return nil }

// SetWatchErrorHandlerWithContext implements cache.SharedInformer; there is no watch that could fail.
func (i *logInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// SetTransform implements cache.SharedInformer; it refuses.
func (i *logInformer) SetTransform(cache.TransformFunc) error { return errNoTransform }

// IsStopped implements cache.SharedInformer.
func (i *logInformer) IsStopped() bool { return false }
