package eventlog

import (
	"fmt"
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
// must know appends the object again and compares. No input makes it panic or allocate more than the
// input's size accounts for.
func DecodeObject(res Resource, b []byte) (Object, error) {
	info := infoByResource[res]
	if info == nil {
		return nil, fmt.Errorf("unknown resource %q", res)
	}
	obj := info.object()
	var err error
	switch obj := obj.(type) {
	case *xschedulingv1alpha1.PodGroup:
		err = unmarshalXPodGroup(obj, b)
	case protoObject:
		if err = infoWire[info.code].check(b); err == nil {
			err = obj.Unmarshal(b)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", res, err)
	}
	return obj, nil
}
