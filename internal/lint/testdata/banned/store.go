package banned

import (
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

var (
	_ = cache.NewStore               // want unsorted-store
	_ = cache.NewIndexer             // want unsorted-store
	_ = cache.NewThreadSafeStore     // want unsorted-store
	_ = cache.NewInformer            // want unsorted-store
	_ = cache.NewSharedInformer      // want unsorted-store
	_ = cache.NewSharedIndexInformer // want unsorted-store

	_ = informers.NewSharedInformerFactory            // want unsorted-store
	_ = informers.NewSharedInformerFactoryWithOptions // want unsorted-store
)

// The interfaces are free: package cluster implements them.
func list(store cache.Indexer) []any { return store.List() }
