package eventlog

import (
	"fmt"
	"reflect"
	"slices"

	xschedulingv1alpha1 "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
)

// AppendObject appends the object as an Upserted entry holds it, and nothing else: Kubernetes protobuf
// without apiVersion and kind, or JSON for XPodGroups. An object that no entry can carry is an error.
func AppendObject(dst []byte, obj Object) ([]byte, error) {
	switch obj := obj.(type) {
	case *xschedulingv1alpha1.PodGroup:
		text, err := marshalXPodGroup(obj)
		if err != nil {
			return dst, err
		}
		return append(dst, text...), nil
	case protoObject:
		start, size := len(dst), obj.Size()
		out := slices.Grow(dst, size)[:start+size]
		if _, err := obj.MarshalToSizedBuffer(out[start:]); err != nil {
			return dst, err
		}
		return out, nil
	}
	return dst, fmt.Errorf("object %T has no form in the log", obj)
}

// DecodeObject returns the object of the resource that b holds as AppendObject writes it. It keeps nothing
// of b. Bytes that mean an object but are not the ones that AppendObject would write are not refused: who
// must know appends the object again and compares. No input makes it panic or allocate more than DecodeMemory.
//
// memory is how many bytes the object takes, an estimate from above; an object that would take more than most is
// refused before it is decoded.
func DecodeObject(res Resource, b []byte, most int) (obj Object, memory int, err error) {
	info := infoByResource[res]
	if info == nil {
		return nil, 0, fmt.Errorf("unknown resource %q", res)
	}
	obj = info.object()
	switch obj := obj.(type) {
	case *xschedulingv1alpha1.PodGroup:
		memory = plainFactor * len(b)
		err = unmarshalXPodGroup(obj, b)
	case protoObject:
		if memory, err = infoWire[info.code].checkWithin(b, most); err == nil {
			err = obj.Unmarshal(b)
		}
	}
	if err != nil {
		return nil, memory, fmt.Errorf("%s: %w", res, err)
	}
	return obj, memory + int(reflect.TypeOf(obj).Elem().Size()), nil
}
