package eventlog

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A Quantity writes its text into itself when a caller asks for the text, as encoding does. So an object that is kept
// as a whole cannot simply be shared: the owner of the original may be reading it.

var quantityType = reflect.TypeFor[resource.Quantity]()

// quantities has the types that are kept as a whole, and the types in them. The value says whether two copies share a
// Quantity to which encoding writes. A Quantity that is a map value does not count: it is copied before it is encoded.
// The map is complete once the plans are made.
var quantities = make(map[reflect.Type]bool)

// sharesQuantity fills quantities in for t, which must not be recursive: no API type that is kept as a whole is.
func sharesQuantity(t reflect.Type) (shares bool) {
	if shares, ok := quantities[t]; ok {
		return shares
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		shares = sharesQuantity(t.Elem()) || holdsQuantity(t.Elem())
	case reflect.Map:
		shares = sharesQuantity(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && sharesQuantity(f.Type) {
				shares = true
			}
		}
	}
	quantities[t] = shares
	return shares
}

// holdsQuantity reports whether a value of type t has a Quantity within its own memory.
func holdsQuantity(t reflect.Type) bool {
	if t == quantityType {
		return true
	}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && holdsQuantity(f.Type) {
				return true
			}
		}
	}
	return false
}

// share makes dst, which is zero, equal to src. They share memory, except Quantities and the path to them.
func share(dst, src reflect.Value) {
	if dst.Set(src); !quantities[src.Type()] || src.IsZero() {
		return
	}
	switch src.Kind() {
	case reflect.Pointer:
		dst.Set(reflect.New(src.Type().Elem()))
		share(dst.Elem(), src.Elem())
	case reflect.Slice:
		dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			share(dst.Index(i), src.Index(i))
		}
	case reflect.Map:
		dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
		// any order: each entry keeps its key
		for entries := src.MapRange(); entries.Next(); {
			value := reflect.New(src.Type().Elem()).Elem()
			share(value, entries.Value())
			dst.SetMapIndex(entries.Key(), value)
		}
	case reflect.Struct:
		for i := range src.NumField() {
			if quantities[src.Type().Field(i).Type] {
				share(dst.Field(i), src.Field(i))
			}
		}
	}
}
