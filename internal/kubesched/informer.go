package kubesched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of the API.
type Object interface {
	runtime.Object
	v1.Object
}

// informer is a cache.SharedIndexInformer that put and remove feed. They return after its handlers have.
type informer struct {
	cache.SharedIndexInformer // never started
	indexer                   sortedIndexer
	handlers                  []cache.ResourceEventHandler
}

func newInformer(never cache.SharedIndexInformer) *informer {
	return &informer{SharedIndexInformer: never, indexer: sortedIndexer{never.GetIndexer()}}
}

func (i *informer) put(obj Object) error {
	old, exists, err := i.indexer.Get(obj)
	if err != nil {
		return err
	}
	if err := i.indexer.Update(obj); err != nil {
		return err
	}
	for _, h := range i.handlers {
		if exists {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, false)
		}
	}
	return nil
}

func (i *informer) remove(obj Object) error {
	old, exists, err := i.indexer.Get(obj)
	if err != nil || !exists {
		return fmt.Errorf("remove %s/%s, which is there: %t: %w", obj.GetNamespace(), obj.GetName(), exists, err)
	}
	if err := i.indexer.Delete(obj); err != nil {
		return err
	}
	for _, h := range i.handlers {
		h.OnDelete(old)
	}
	return nil
}

// GetStore implements cache.SharedInformer.
func (i *informer) GetStore() cache.Store { return i.indexer }

// GetIndexer implements cache.SharedIndexInformer.
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// AddEventHandler implements cache.SharedInformer.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, obj := range i.indexer.List() {
		h.OnAdd(obj, true)
	}
	i.handlers = append(i.handlers, h)
	return synced{}, nil
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer; nothing is resynced.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (
	cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (
	cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// HasSynced implements cache.SharedInformer.
func (i *informer) HasSynced() bool { return true }

type synced struct{}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (synced) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }

// Name implements cache.DoneChecker.
func (synced) Name() string { return "kubesched" }

// Done implements cache.DoneChecker.
func (synced) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// sortedIndexer lists by namespace and name.
type sortedIndexer struct{ cache.Indexer }

// List implements cache.Store.
func (s sortedIndexer) List() []any { return byName(s.Indexer.List()) }

// Index implements cache.Indexer.
func (s sortedIndexer) Index(index string, obj any) ([]any, error) {
	list, err := s.Indexer.Index(index, obj)
	return byName(list), err
}

// ByIndex implements cache.Indexer.
func (s sortedIndexer) ByIndex(index, value string) ([]any, error) {
	list, err := s.Indexer.ByIndex(index, value)
	return byName(list), err
}

func byName(list []any) []any {
	slices.SortFunc(list, func(a, b any) int {
		x, y := a.(Object), b.(Object)
		return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
	})
	return list
}
