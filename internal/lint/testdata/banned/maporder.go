package banned

import (
	"maps"
	"reflect"
	"slices"

	expmaps "golang.org/x/exp/maps"
	"k8s.io/apimachinery/pkg/util/sets"
)

type named map[string]int

type alias = named

func ranges[M ~map[string]int, T named | map[string]int, S ~[]int](m map[string]int, n alias, g M, u T, s S) (sum int) {
	for k := range m { // want map-order
		sum += len(k)
	}
	for _, v := range n { // want map-order
		sum += v
	}
	for _, v := range g { // want map-order
		sum += v
	}
	for k, v := range u { // want map-order
		_, _ = k, v
	}
	// Without a colon, any order is just words.
	for k := range m { // want map-order
		sum += len(k)
	}
	// any order:
	for k := range m { // want map-order
		sum += len(k)
	}

	// any order: too far away // want map-order

	for k := range m { // want map-order
		sum += len(k)
	}
	// any order: a sum does not depend on it.
	for _, v := range m {
		sum += v
	}
	// What is added up here is explained first,
	// any order: a sum does not depend on it,
	// as everyone knows.
	for _, v := range m {
		sum += v
	}
	for _, v := range m { // any order: a sum does not depend on it.
		sum += v
	}
	for range m {
		sum++
	}
	for _, v := range s {
		sum += v
	}
	for i := range 3 {
		sum += i
	}
	return sum
}

func sequences(m map[string]int, v reflect.Value, set sets.Set[string], old sets.String) {
	for range maps.Keys(m) { // want map-order
	}
	for range maps.Values(m) { // want map-order
	}
	for range maps.All(m) { // want map-order
	}
	_ = slices.Collect(maps.Keys(m))  // want map-order
	keys := maps.Keys[map[string]int] // want map-order
	_ = keys
	_ = expmaps.Keys(m)   // want map-order
	_ = expmaps.Values(m) // want map-order
	_ = v.MapKeys()       // want map-order
	_ = v.MapRange()      // want map-order

	_ = set.UnsortedList() // want map-order
	_, _ = set.PopAny()    // want map-order
	_ = old.UnsortedList() // want map-order

	// any order: it is sorted below.
	all := slices.Collect(maps.Keys(m))
	slices.Sort(all)
	_ = slices.Sorted(maps.Keys(m))
	_ = slices.SortedFunc(maps.Values(m), func(a, b int) int { return a - b })
	_ = maps.Collect(maps.All(m))
	_ = slices.Sorted[string](maps.Keys[map[string]int](m))
	maps.Insert(m, maps.All(m))
	_ = sets.List(set)
}
