package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// ErrLogFed is returned to a plugin that tries to change what the informers hold: only entries do.
var ErrLogFed = errors.New("informers are fed from the log: only entries change what they hold")

// objectStore has the objects of one resource. It is a cache.Indexer whose lists are sorted by namespace, then name.
// client-go lists in map order, and the order reaches decisions: of two volumes that fit equally well, the first one is
// taken.
//
// A put or remove costs a map operation and an append. The order is made on demand, from the changes since the last
// time. Any number of readers may run beside each other, and beside one writer.
type objectStore struct {
	mu      sync.RWMutex
	entries map[types.NamespacedName]*storedObject
	// ordered is sorted and has the entries up to the last sortAdded. added has the entries that came later, in any
	// order. gone counts the removed entries that are still in either.
	ordered, added []*storedObject
	gone           int
	indices        map[string]*storeIndex
}

// storedObject is one object's place in its store; it stays the same while the object is updated.
type storedObject struct {
	// obj is nil once the object is removed.
	obj eventlog.Object
}

// storeIndex is one index that a plugin asked for.
type storeIndex struct {
	values cache.IndexFunc
	sets   map[string]*indexSet
}

// indexSet has the objects with one indexed value. ordered is nil if it must be made again.
type indexSet struct {
	members map[*storedObject]struct{}
	ordered []*storedObject
}

var _ cache.Indexer = (*objectStore)(nil)

func newObjectStore() *objectStore {
	return &objectStore{
		entries: map[types.NamespacedName]*storedObject{},
		indices: map[string]*storeIndex{},
	}
}

func keyOf(obj eventlog.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// keyString is client-go's form of a key: "namespace/name", or "name" for a cluster-scoped object.
func keyString(k types.NamespacedName) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

func parseKey(key string) types.NamespacedName {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key}
}

func compareStored(a, b *storedObject) int {
	return cmp.Or(
		cmp.Compare(a.obj.GetNamespace(), b.obj.GetNamespace()),
		cmp.Compare(a.obj.GetName(), b.obj.GetName()),
	)
}

// put stores obj and returns the object that it replaced, nil if there was none. On an error nothing has changed.
func (s *objectStore) put(obj eventlog.Object) (eventlog.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(obj)
	entry, known := s.entries[key]
	if !known {
		entry = &storedObject{}
	}
	// The index functions are the plugins': ask all of them before anything is touched.
	moves, err := s.indexMoves(entry.obj, obj)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", key, err)
	}
	old := entry.obj
	entry.obj = obj
	for _, m := range moves {
		m.apply(entry)
	}
	if !known {
		s.entries[key] = entry
		s.added = append(s.added, entry)
	}
	return old, nil
}

// remove takes an object out and returns it, nil if there is none.
func (s *objectStore) remove(key types.NamespacedName) eventlog.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, known := s.entries[key]
	if !known {
		return nil
	}
	moves, err := s.indexMoves(entry.obj, nil)
	if err != nil {
		// put asked the same functions about the same object.
		panic(fmt.Sprintf("cluster: index function is not a function: remove %s: %v", key, err))
	}
	for _, m := range moves {
		m.apply(entry)
	}
	old := entry.obj
	entry.obj = nil
	delete(s.entries, key)
	s.gone++
	if s.gone > 64 && s.gone > len(s.entries) {
		s.sortAdded()
	}
	return old
}

func (s *objectStore) get(key types.NamespacedName) eventlog.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if entry, ok := s.entries[key]; ok {
		return entry.obj
	}
	return nil
}

// objects returns all objects in order.
func (s *objectStore) objects() []eventlog.Object {
	s.lockSorted()
	defer s.mu.RUnlock()
	out := make([]eventlog.Object, len(s.ordered))
	for i, entry := range s.ordered {
		out[i] = entry.obj
	}
	return out
}

// lockSorted takes the read lock while everything is in order.
func (s *objectStore) lockSorted() {
	s.mu.RLock()
	for len(s.added) > 0 || s.gone > 0 {
		s.mu.RUnlock()
		s.mu.Lock()
		s.sortAdded()
		s.mu.Unlock()
		s.mu.RLock()
	}
}

// sortAdded brings what was added into order and drops what is gone. The write lock is held.
func (s *objectStore) sortAdded() {
	removed := func(e *storedObject) bool { return e.obj == nil }
	if s.gone > 0 {
		s.ordered = slices.DeleteFunc(s.ordered, removed)
		s.added = slices.DeleteFunc(s.added, removed)
		s.gone = 0
	}
	if len(s.added) == 0 {
		return
	}
	slices.SortFunc(s.added, compareStored)
	if n := len(s.ordered); n == 0 || compareStored(s.ordered[n-1], s.added[0]) < 0 {
		s.ordered = append(s.ordered, s.added...)
	} else {
		s.ordered = mergeStored(s.ordered, s.added)
	}
	s.added = nil
}

// mergeStored merges two sorted lists that share no key.
func mergeStored(a, b []*storedObject) []*storedObject {
	out := make([]*storedObject, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareStored(a[0], b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// indexMove is the effect of an object's change on one index.
type indexMove struct {
	index       *storeIndex
	leave, join []string
}

// indexMoves works out, for every index, which values an object leaves and joins; either may be nil.
func (s *objectStore) indexMoves(old, obj eventlog.Object) ([]indexMove, error) {
	var moves []indexMove
	// any order: every index is moved by itself, and an error of any of them ends the put
	for name, index := range s.indices {
		m := indexMove{index: index}
		var err error
		if old != nil {
			if m.leave, err = index.values(old); err != nil {
				return nil, fmt.Errorf("by %s: %w", name, err)
			}
		}
		if obj != nil {
			if m.join, err = index.values(obj); err != nil {
				return nil, fmt.Errorf("by %s: %w", name, err)
			}
		}
		if len(m.leave) > 0 || len(m.join) > 0 {
			moves = append(moves, m)
		}
	}
	return moves, nil
}

func (m indexMove) apply(entry *storedObject) {
	for _, value := range m.leave {
		if slices.Contains(m.join, value) {
			continue
		}
		set := m.index.sets[value]
		delete(set.members, entry)
		set.ordered = nil
		if len(set.members) == 0 {
			delete(m.index.sets, value)
		}
	}
	for _, value := range m.join {
		set := m.index.sets[value]
		if set == nil {
			set = &indexSet{members: map[*storedObject]struct{}{}}
			m.index.sets[value] = set
		}
		if _, in := set.members[entry]; !in {
			set.members[entry] = struct{}{}
			set.ordered = nil
		}
	}
}

func (x *indexSet) sort() {
	if x.ordered != nil {
		return
	}
	x.ordered = make([]*storedObject, 0, len(x.members))
	// any order: sorted below
	for entry := range x.members {
		x.ordered = append(x.ordered, entry)
	}
	slices.SortFunc(x.ordered, compareStored)
}

// withValues returns the objects that have one of the values in the named index, in order, without repeats.
func (s *objectStore) withValues(indexName string, values []string) ([]eventlog.Object, error) {
	if indexName == cache.NamespaceIndex {
		return s.inNamespaces(values), nil
	}
	// The write lock, because sets may have to be sorted: indices other than by namespace are read once a
	// cycle, not once a node.
	s.mu.Lock()
	defer s.mu.Unlock()
	index, ok := s.indices[indexName]
	if !ok {
		return nil, fmt.Errorf("index with name %s does not exist", indexName)
	}
	var found []*storedObject
	for _, value := range values {
		if set := index.sets[value]; set != nil {
			set.sort()
			if len(values) == 1 {
				return objectsOf(set.ordered), nil
			}
			found = append(found, set.ordered...)
		}
	}
	slices.SortFunc(found, compareStored)
	return objectsOf(slices.Compact(found)), nil
}

func objectsOf(entries []*storedObject) []eventlog.Object {
	out := make([]eventlog.Object, len(entries))
	for i, entry := range entries {
		out[i] = entry.obj
	}
	return out
}

// inNamespaces needs no index of its own: a namespace is a stretch of the order.
func (s *objectStore) inNamespaces(namespaces []string) []eventlog.Object {
	s.lockSorted()
	defer s.mu.RUnlock()
	var out []eventlog.Object
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		start, _ := slices.BinarySearchFunc(s.ordered, namespace, func(e *storedObject, ns string) int {
			return cmp.Compare(e.obj.GetNamespace(), ns)
		})
		for _, entry := range s.ordered[start:] {
			if entry.obj.GetNamespace() != namespace {
				break
			}
			out = append(out, entry.obj)
		}
	}
	return out
}

func anySlice(objects []eventlog.Object) []any {
	out := make([]any, len(objects))
	for i, obj := range objects {
		out[i] = obj
	}
	return out
}

// List implements cache.Store; the list is sorted by namespace, then name.
func (s *objectStore) List() []any { return anySlice(s.objects()) }

// ListKeys implements cache.Store, in the order of List.
func (s *objectStore) ListKeys() []string { return keysOf(s.objects()) }

func keysOf(objects []eventlog.Object) []string {
	keys := make([]string, len(objects))
	for i, obj := range objects {
		keys[i] = keyString(keyOf(obj))
	}
	return keys
}

// Get implements cache.Store.
func (s *objectStore) Get(obj any) (any, bool, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return s.GetByKey(key)
}

// GetByKey implements cache.Store.
func (s *objectStore) GetByKey(key string) (any, bool, error) {
	if obj := s.get(parseKey(key)); obj != nil {
		return obj, true, nil
	}
	return nil, false, nil
}

// Index implements cache.Indexer, in the order of List.
func (s *objectStore) Index(indexName string, obj any) ([]any, error) {
	values, ok := s.GetIndexers()[indexName]
	if !ok {
		return nil, fmt.Errorf("index with name %s does not exist", indexName)
	}
	wanted, err := values(obj)
	if err != nil {
		return nil, err
	}
	found, err := s.withValues(indexName, wanted)
	return anySlice(found), err
}

// ByIndex implements cache.Indexer, in the order of List.
func (s *objectStore) ByIndex(indexName, indexedValue string) ([]any, error) {
	found, err := s.withValues(indexName, []string{indexedValue})
	if err != nil {
		return nil, err
	}
	return anySlice(found), nil
}

// IndexKeys implements cache.Indexer, in the order of List.
func (s *objectStore) IndexKeys(indexName, indexedValue string) ([]string, error) {
	found, err := s.withValues(indexName, []string{indexedValue})
	if err != nil {
		return nil, err
	}
	return keysOf(found), nil
}

// ListIndexFuncValues implements cache.Indexer; the values are sorted.
func (s *objectStore) ListIndexFuncValues(indexName string) []string {
	if indexName == cache.NamespaceIndex {
		var namespaces []string
		for _, obj := range s.objects() {
			namespaces = append(namespaces, obj.GetNamespace())
		}
		return slices.Compact(namespaces)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	index, ok := s.indices[indexName]
	if !ok {
		return nil
	}
	return slices.Sorted(maps.Keys(index.sets))
}

// GetIndexers implements cache.Indexer. The index by namespace is always there.
func (s *objectStore) GetIndexers() cache.Indexers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	// any order: copied into a map
	for name, index := range s.indices {
		out[name] = index.values
	}
	return out
}

// AddIndexers implements cache.Indexer. Stored objects are indexed too. A name that is taken, or an object that an
// index function refuses, is an error, and then none is added.
func (s *objectStore) AddIndexers(newIndexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := map[string]*storeIndex{}
	for _, name := range slices.Sorted(maps.Keys(newIndexers)) {
		if _, taken := s.indices[name]; taken || name == cache.NamespaceIndex {
			return fmt.Errorf("indexer conflict: %s", name)
		}
		index := &storeIndex{values: newIndexers[name], sets: map[string]*indexSet{}}
		// any order: index sets are sorted when they are read
		for key, entry := range s.entries {
			values, err := index.values(entry.obj)
			if err != nil {
				return fmt.Errorf("index %s by %s: %w", key, name, err)
			}
			indexMove{index: index, join: values}.apply(entry)
		}
		made[name] = index
	}
	maps.Copy(s.indices, made)
	return nil
}

// Add implements cache.Store; it refuses with ErrLogFed.
func (s *objectStore) Add(any) error { return ErrLogFed }

// Update implements cache.Store; it refuses with ErrLogFed.
func (s *objectStore) Update(any) error { return ErrLogFed }

// Delete implements cache.Store; it refuses with ErrLogFed.
func (s *objectStore) Delete(any) error { return ErrLogFed }

// Replace implements cache.Store; it refuses with ErrLogFed.
func (s *objectStore) Replace([]any, string) error { return ErrLogFed }

// Resync implements cache.Store; there is nothing to do.
func (s *objectStore) Resync() error { return nil }

// LastStoreSyncResourceVersion implements cache.Store: the log has no resource version of its own.
func (s *objectStore) LastStoreSyncResourceVersion() string { return "" }

// Bookmark implements cache.Store; there is nothing to do.
func (s *objectStore) Bookmark(string) {}
