package cluster

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// naiveStore is the objectStore written for nothing but being right.
type naiveStore struct {
	objects  map[types.NamespacedName]*v1.Pod
	indexers cache.Indexers
}

func (n *naiveStore) keys(keep func(*v1.Pod) bool) []string {
	var found []types.NamespacedName
	for key, pod := range n.objects {
		if keep(pod) {
			found = append(found, key)
		}
	}
	slices.SortFunc(found, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	keys := []string{}
	for _, key := range found {
		keys = append(keys, key.String())
	}
	return keys
}

func (n *naiveStore) byIndex(name, value string) []string {
	return n.keys(func(pod *v1.Pod) bool {
		values, _ := n.indexers[name](pod)
		return slices.Contains(values, value)
	})
}

// labelIndexer indexes pods by the values of a label "a,b"; pods without it are in none.
func labelIndexer(label string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		value, ok := obj.(metav1.Object).GetLabels()[label]
		if !ok {
			return nil, nil
		}
		return []string{value, "all"}, nil
	}
}

func listedKeys(objects []any) []string {
	keys := []string{}
	for _, obj := range objects {
		key, _ := cache.MetaNamespaceKeyFunc(obj)
		keys = append(keys, key)
	}
	return keys
}

func TestObjectStoreAnswersAsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newObjectStore()
		n := &naiveStore{objects: map[types.NamespacedName]*v1.Pod{}, indexers: cache.Indexers{}}
		// "a-b" sorts before "a/" as a string, and behind "a" as a namespace.
		key := rapid.Custom(func(t *rapid.T) types.NamespacedName {
			return types.NamespacedName{
				Namespace: rapid.SampledFrom([]string{"a", "a-b", "b"}).Draw(t, "namespace"),
				Name:      rapid.SampledFrom([]string{"p", "p-1", "p0", "q", "z.z"}).Draw(t, "name"),
			}
		})
		version := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := key.Draw(t, "key")
				version++
				pod := &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace:       k.Namespace,
						Name:            k.Name,
						ResourceVersion: strconv.Itoa(version),
					},
				}
				if value := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "label"); value != "" {
					pod.Labels = map[string]string{"app": value, "tier": value}
				}
				old, err := s.put(pod)
				if err != nil {
					t.Fatal(err)
				}
				if was := n.objects[k]; (old == nil) != (was == nil) || old != nil && old != was {
					t.Fatalf("put %v returned %v, want %v", k, old, was)
				}
				n.objects[k] = pod
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				old := s.remove(k)
				if was := n.objects[k]; (old == nil) != (was == nil) || old != nil && old != was {
					t.Fatalf("remove %v returned %v, want %v", k, old, was)
				}
				delete(n.objects, k)
			},
			"add indexer": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"app", "tier"}).Draw(t, "index")
				_, taken := n.indexers[name]
				if err := s.AddIndexers(cache.Indexers{name: labelIndexer(name)}); (err != nil) != taken {
					t.Fatalf("add indexer %s (taken: %v): %v", name, taken, err)
				}
				n.indexers[name] = labelIndexer(name)
			},
			"": func(t *rapid.T) { compareStores(t, s, n) },
		})
	})
}

func compareStores(t *rapid.T, s *objectStore, n *naiveStore) {
	all := n.keys(func(*v1.Pod) bool { return true })
	if got := listedKeys(s.nodes.List()); !slices.Equal(got, all) {
		t.Fatalf("List: %v, want %v", got, all)
	}
	if got := s.ListKeys(); !slices.Equal(got, all) {
		t.Fatalf("ListKeys: %v, want %v", got, all)
	}
	for _, obj := range s.nodes.List() {
		if pod := obj.(*v1.Pod); n.objects[keyOf(pod)] != pod {
			t.Fatalf("List holds a stale %v", keyOf(pod))
		}
	}
	indexers := maps.Clone(n.indexers)
	indexers[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc
	values := map[string][]string{
		cache.NamespaceIndex: {"a", "a-b", "b", "none"},
		"app":                {"x", "y", "all", "none"},
		"tier":               {"x", "y", "all"},
	}
	naive := &naiveStore{objects: n.objects, indexers: indexers}
	for name := range indexers {
		var present []string
		for _, value := range values[name] {
			want := naive.byIndex(name, value)
			if len(want) > 0 {
				present = append(present, value)
			}
			got, err := s.ByIndex(name, value)
			if err != nil || !slices.Equal(listedKeys(got), want) {
				t.Fatalf("ByIndex(%s, %s): %v %v, want %v", name, value, listedKeys(got), err, want)
			}
			if keys, err := s.IndexKeys(name, value); err != nil || !slices.Equal(keys, want) {
				t.Fatalf("IndexKeys(%s, %s): %v %v, want %v", name, value, keys, err, want)
			}
		}
		slices.Sort(present)
		if got := s.ListIndexFuncValues(name); !slices.Equal(got, present) {
			t.Fatalf("ListIndexFuncValues(%s): %v, want %v", name, got, present)
		}
		for _, pod := range n.objects {
			own, _ := indexers[name](pod)
			want := naive.keys(func(other *v1.Pod) bool {
				theirs, _ := indexers[name](other)
				return slices.ContainsFunc(own, func(v string) bool { return slices.Contains(theirs, v) })
			})
			if got, err := s.Index(name, pod); err != nil || !slices.Equal(listedKeys(got), want) {
				t.Fatalf("Index(%s, %v): %v %v, want %v", name, keyOf(pod), listedKeys(got), err, want)
			}
		}
	}
}

func TestObjectStoreRefusesWritersOtherThanTheLog(t *testing.T) {
	s := newObjectStore()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for name, err := range map[string]error{
		"Add": s.Add(pod), "Update": s.Update(pod), "Delete": s.Delete(pod), "Replace": s.Replace([]any{pod}, ""),
	} {
		if !errors.Is(err, ErrLogFed) {
			t.Errorf("%s: %v, want ErrLogFed", name, err)
		}
	}
	if _, err := s.ByIndex("none", ""); err == nil {
		t.Error("ByIndex of an unknown index does not fail")
	}
	if _, err := s.Index("none", pod); err == nil {
		t.Error("Index of an unknown index does not fail")
	}
}

func TestObjectStoreKeepsTheOldStateWhenAnIndexRefuses(t *testing.T) {
	s := newObjectStore()
	broken := errors.New("broken")
	refuse := func(obj any) ([]string, error) {
		if obj.(metav1.Object).GetLabels()["bad"] != "" {
			return nil, broken
		}
		return []string{"ok"}, nil
	}
	if err := s.AddIndexers(cache.Indexers{"picky": refuse, "app": labelIndexer("app")}); err != nil {
		t.Fatal(err)
	}
	good := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "x"}}}
	bad := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "y", "bad": "yes"}}}
	if _, err := s.put(good); err != nil {
		t.Fatal(err)
	}
	if _, err := s.put(bad); !errors.Is(err, broken) {
		t.Fatalf("put: %v, want the index's error", err)
	}
	if got := s.get(types.NamespacedName{Name: "p"}); got != good {
		t.Errorf("after the refused put the store holds %v", got)
	}
	if found, err := s.ByIndex("app", "x"); err != nil || len(found) != 1 {
		t.Errorf("ByIndex: %v, %v", found, err)
	}
}

// The list is asked for once after many changes, and between single ones: neither is slow.
func BenchmarkObjectStorePods(b *testing.B) {
	pods := make([]*v1.Pod, 200_000)
	for i := range pods {
		pods[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + strconv.Itoa(i*7919%len(pods))},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s := newObjectStore()
		for _, pod := range pods {
			_, _ = s.put(pod)
		}
		if len(s.objects()) != len(pods) {
			b.Fatal("pods are missing")
		}
		for _, pod := range pods {
			s.remove(keyOf(pod))
		}
	}
}

func TestObjectStoreMayBeReadByManyAtOnce(t *testing.T) {
	s := newObjectStore()
	if err := s.AddIndexers(cache.Indexers{"app": labelIndexer("app")}); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for i := range 200 {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns",
				Name:      strconv.Itoa(i),
				Labels:    map[string]string{"app": "x"},
			},
		}
		if _, err := s.put(pod); err != nil {
			t.Fatal(err)
		}
		// Taken out while nobody reads: beside readers the lists only grow.
		if i%20 == 0 {
			s.remove(keyOf(pod))
		}
		readers.Go(func() {
			all := s.nodes.List()
			if found, err := s.ByIndex("app", "x"); err != nil || len(found) < len(all) {
				t.Errorf("ByIndex finds %d, List found %d before: %v", len(found), len(all), err)
			}
			if found, err := s.ByIndex(cache.NamespaceIndex, "ns"); err != nil || len(found) < len(all) {
				t.Errorf("by namespace: %d, List found %d before: %v", len(found), len(all), err)
			}
		})
		if i%20 == 19 {
			readers.Wait()
		}
	}
}
