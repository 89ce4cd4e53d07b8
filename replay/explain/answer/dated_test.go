package answer_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// A statement about room or refusals is in a value with the entry at which it held. That value is not the whole answer,
// which is about the entry in question.
func TestAnAmountHasTheEntryAsOfWhichItHolds(t *testing.T) {
	amounts := map[reflect.Type]bool{
		reflect.TypeFor[answer.ResourceUse](): true, reflect.TypeFor[answer.Refusal](): true,
		reflect.TypeFor[answer.RefusedMembers](): true, reflect.TypeFor[answer.Victim](): true,
		reflect.TypeFor[answer.NodeScore](): true,
	}
	found := 0
	var walk func(at reflect.Type, path string, dated bool, on map[reflect.Type]bool)
	walk = func(at reflect.Type, path string, dated bool, on map[reflect.Type]bool) {
		switch at.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(at.Elem(), path, dated, on)
			return
		case reflect.Struct:
		default:
			return
		}
		if on[at] {
			return
		}
		on[at] = true
		defer delete(on, at)
		if amounts[at] {
			if found++; !dated {
				t.Errorf("%s is a %s, and nothing above it says as of which entry it holds", path, at)
			}
		}
		dated = dated || path != at.Name() && hasPoint(at)
		for i := range at.NumField() {
			f := at.Field(i)
			walk(f.Type, fmt.Sprintf("%s.%s", path, f.Name), dated, on)
		}
	}
	for _, root := range []any{answer.Pod{}, answer.Group{}, answer.Composite{}} {
		walk(reflect.TypeOf(root), reflect.TypeOf(root).Name(), false, map[reflect.Type]bool{})
	}
	if found < 20 {
		t.Errorf("only %d places were found", found)
	}
}

// hasPoint reports whether a value of the type says at which entry it holds, or when it came about.
func hasPoint(of reflect.Type) bool {
	point := reflect.TypeFor[answer.Point]()
	for i := range of.NumField() {
		if f := of.Field(i).Type; f == point || f == reflect.PointerTo(point) {
			return true
		}
	}
	return false
}
