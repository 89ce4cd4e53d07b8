package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kaiv2alpha2 "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	xschedulingv1alpha1 "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcanov1beta1 "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
)

// protoMessage is a type of the Kubernetes API with its generated protobuf methods.
type protoMessage interface {
	Size() int
	MarshalToSizedBuffer(b []byte) (int, error)
	Unmarshal(b []byte) error
}

// protoObject is an object of the Kubernetes API with these methods.
type protoObject interface {
	Object
	protoMessage
}

// upserted writes the resource's number and the object, which fills the rest of the payload. The object is Kubernetes
// protobuf, or canonical JSON for custom resources and the resources of plugins, which have no protobuf form.
func (w *payloadWriter) upserted(p *Upserted) {
	if IsOwn(p.Resource) {
		w.ownUpserted(p)
		return
	}
	info := infoOf(p.Object)
	if info == nil {
		w.fail("upserted", fmt.Errorf("an object of type %T is of no known resource, or it is nil", p.Object))
		return
	}
	if info.resource != p.Resource {
		w.fail("upserted", fmt.Errorf("resource is %q but the object is of %s", p.Resource, info.resource))
		return
	}
	w.b = append(w.b, info.code)
	start := len(w.b)
	switch obj := p.Object.(type) {
	case protoObject:
		size := obj.Size()
		if size > MaxRecord {
			w.fail(string(info.resource), tooLarge(size))
			return
		}
		w.b = slices.Grow(w.b, size+checksumSize)[:start+size]
		_, err := obj.MarshalToSizedBuffer(w.b[start:])
		w.fail(string(info.resource), err)
		w.fail(string(info.resource), infoWire[info.code].check(w.b[start:]))
	default:
		text, err := marshalCustom(obj)
		w.fail(string(info.resource), err)
		w.b = append(w.b, text...)
	}
}

// readUpserted is the inverse of upserted. checked says that upserted has just written b, so that its shape is right.
func readUpserted(b []byte, checked bool, d *Decoder) (*Upserted, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("resource at byte %d: record ends before it", headerSize)
	}
	if b[0] == ownCode {
		return readOwnUpserted(b[1:])
	}
	info := infoByCode[b[0]]
	if info == nil {
		return nil, fmt.Errorf("resource at byte %d: unknown resource number %d", headerSize, b[0])
	}
	obj := info.object()
	var err error
	switch obj := obj.(type) {
	case protoObject:
		if !checked {
			// The generated code trusts its input more than a log may: it skips unknown groups recursively, and
			// a quantity's exponent can ask for any amount of memory.
			err = infoWire[info.code].check(b[1:])
		}
		if err == nil {
			err = d.unmarshal(obj, b[1:], true)
		}
	default:
		err = unmarshalCustom(info, obj, b[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("%s at byte %d: %w", info.resource, headerSize+1, err)
	}
	return &Upserted{Resource: info.resource, Object: obj}, nil
}

// errNotCanonical says that bytes mean an object but differ from its encoding.
var errNotCanonical = errors.New("not in canonical form")

// isCanonical returns an error unless b equals the encoding of m, which was read from b. It overwrites scratch.
func isCanonical(m protoMessage, b []byte, scratch *[]byte) error {
	if m.Size() != len(b) {
		return errNotCanonical
	}
	again := slices.Grow((*scratch)[:0], len(b))[:len(b)]
	*scratch = again
	if _, err := m.MarshalToSizedBuffer(again); err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return errNotCanonical
	}
	return nil
}

// encodings has buffers for the encodings that decoded objects are compared with.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

// marshalCustom returns the JSON of a custom resource's object without apiVersion and kind: struct fields in their
// order, map keys sorted.
func marshalCustom(obj Object) ([]byte, error) {
	switch obj := obj.(type) {
	case *xschedulingv1alpha1.PodGroup:
		bare := *obj
		bare.TypeMeta = metav1.TypeMeta{}
		return json.Marshal(&bare)
	case *volcanov1beta1.PodGroup:
		bare := *obj
		bare.TypeMeta = metav1.TypeMeta{}
		return json.Marshal(&bare)
	case *kaiv2alpha2.PodGroup:
		bare := *obj
		bare.TypeMeta = metav1.TypeMeta{}
		return json.Marshal(&bare)
	}
	return nil, fmt.Errorf("object %T has no form in the log", obj)
}

func unmarshalCustom(info *resourceInfo, obj Object, b []byte) error {
	if err := infoJSON[info.code].check(b, objectMemory(len(b), plainFactor)/2); err != nil {
		return err
	}
	if err := checkJSONQuantities(b); err != nil {
		return err
	}
	if err := unmarshalStrict(b, obj); err != nil {
		return err
	}
	again, err := marshalCustom(obj)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return errNotCanonical
	}
	return nil
}

// checkJSONQuantities checks the quantities of a custom resource's JSON before they are parsed.
func checkJSONQuantities(b []byte) error {
	var raw struct {
		Spec struct {
			MinResources map[string]json.RawMessage `json:"minResources"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	// any order: any one of several faulty quantities refuses the object
	for name, text := range raw.Spec.MinResources {
		if err := checkQuantity(bytes.Trim(text, `" `)); err != nil {
			return fmt.Errorf("spec.minResources[%q]: %w", name, err)
		}
	}
	return nil
}
