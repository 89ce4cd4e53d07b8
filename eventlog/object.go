package eventlog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// AppendObject appends only the object, as an Upserted entry holds it: Kubernetes protobuf without apiVersion and kind,
// JSON for custom resources, or JSON with apiVersion and kind for resources of plugins. An object that no entry can
// carry is an error.
func AppendObject(dst []byte, obj Object) ([]byte, error) {
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		text, err := json.Marshal(obj.Object)
		return append(dst, text...), err
	case protoObject:
		start, size := len(dst), obj.Size()
		out := slices.Grow(dst, size)[:start+size]
		if _, err := obj.MarshalToSizedBuffer(out[start:]); err != nil {
			return dst, err
		}
		return out, nil
	}
	text, err := marshalCustom(obj)
	return append(dst, text...), err
}

// DecodeObject is the inverse of AppendObject. The object does not alias b. Bytes that mean an object but differ from
// its encoding are accepted: a caller to whom that matters appends the object again and compares. It never panics, and
// allocates at most DecodeMemory.
//
// memory is the number of bytes that the object takes, an estimate from above. An object that would take more than most
// is refused before it is decoded.
func DecodeObject(res Resource, b []byte, most int) (obj Object, memory int, err error) {
	return (*Decoder)(nil).Object(res, b, most)
}

// Object is DecodeObject.
func (d *Decoder) Object(res Resource, b []byte, most int) (obj Object, memory int, err error) {
	if IsOwn(res) {
		memory, _ = sizeOwn(b)
		if memory > most {
			return nil, memory, fmt.Errorf("%s: %w", res, errCost)
		}
		own, err := unmarshalOwn(res, b, ownMemory(len(b)))
		if err != nil {
			return nil, memory, fmt.Errorf("%s: %w", res, err)
		}
		return own, memory, nil
	}
	info := infoByResource[res]
	if info == nil {
		return nil, 0, fmt.Errorf("unknown resource %q", res)
	}
	obj = info.object()
	if proto, ok := obj.(protoObject); ok {
		if memory, err = infoWire[info.code].checkWithin(b, most); err == nil {
			err = d.unmarshal(proto, b, false)
		}
	} else {
		memory = plainFactor * len(b)
		err = unmarshalCustom(info, obj, b)
	}
	if err != nil {
		return nil, memory, fmt.Errorf("%s: %w", res, err)
	}
	return obj, memory + int(reflect.TypeOf(obj).Elem().Size()), nil
}
