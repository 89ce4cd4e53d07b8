package eventlog

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A Quantity writes its text into itself when it is asked for it, as encoding does. So what is kept of an object as a
// whole cannot simply be shared with it: who gave the object may be reading it.

var quantityType = reflect.TypeFor[resource.Quantity]()

// quantities says of the types that are kept as a whole, and of those in them, whether two copies of a value share a
// Quantity that encoding writes to. Those that are map values are none: they are copied to be encoded. It is complete
// once the plans are made.
var quantities = make(map[reflect.Type]bool)

// sharesQuantity fills quantities in for t, which must not lead back to itself: no API type does that is kept as a
// whole.
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

// holdsQuantity says whether a value of type t has a Quantity within its own memory.
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

// share makes dst, which is zero, equal to src. They share memory, but no Quantity, nor what leads to one.
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
		// any order: each goes to the key that it has
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
