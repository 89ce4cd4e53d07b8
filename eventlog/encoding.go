package eventlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An Encoding is the bytes of a payload in its record, made ahead of the append by an Encoder. The zero Encoding is
// empty.
type Encoding struct {
	bytes []byte // kind u8 | payload
}

// IsZero reports whether the Encoding is empty.
func (e Encoding) IsZero() bool { return e.bytes == nil }

// Len returns the number of its bytes.
func (e Encoding) Len() int { return len(e.bytes) }

// Sum returns a hash of its bytes, which identifies the payload.
func (e Encoding) Sum() [32]byte { return sha256.Sum256(e.bytes) }

// The places in an Encoding.
const (
	encodingKind    = 0
	encodingPayload = 1
)

// encoderChunk is the amount of memory that an Encoder allocates at once. A payload should find encoderRoom of it free.
const (
	encoderChunk = 64 << 10
	encoderRoom  = encoderChunk / 8
)

// An Encoder encodes payloads ahead of their append, into memory that many of them share: only a large payload gets an
// allocation of its own. An Encoding never changes, and the memory is freed with the last Encoding in it. The zero
// Encoder is ready; it is not safe for concurrent use.
type Encoder struct {
	// Own says which fields are kept for resources that the configuration declares.
	Own OwnTrim
	// Recording says that the log is of a cluster that others schedule. It also keeps the fields that say what others
	// have done, and why (trim_recorded.go).
	Recording bool

	chunk []byte // the free rest is its capacity
	// picked has an empty object of each resource that was logged. Trim fills it for the next object.
	picked map[Resource]Object
}

// Encode returns p's encoding. An error says which part of p no record can hold. As with AppendRecord, the caches in an
// Upserted's object may be filled in.
func (c *Encoder) Encode(p Payload) (Encoding, error) {
	kind, err := payloadKind(p)
	if err != nil {
		return Encoding{}, err
	}
	if cap(c.chunk)-len(c.chunk) < encoderRoom {
		c.chunk = make([]byte, 0, encoderChunk)
	}
	start := len(c.chunk)
	out, err := appendPayload(append(c.chunk, byte(kind)), p)
	if err != nil {
		return Encoding{}, err
	}
	if size := headerSize + len(out) - start - encodingPayload + checksumSize; size > MaxRecord {
		return Encoding{}, tooLarge(size)
	}
	if cap(out) != cap(c.chunk) { // it did not fit: it has memory of its own, and the chunk is unchanged
		return Encoding{bytes.Clone(out[start:])}, nil
	}
	c.chunk = out
	return Encoding{out[start:len(out):len(out)]}, nil
}

// Logged returns an Upserted as every reader of the log will see it, and its encoding. The object is cut down as by
// Trim, encoded, and read back once. The encoding does not distinguish an empty list from none, or two spellings of a
// quantity; so neither does the writer. The result shares nothing with up, and Logged does not write to up: others may
// read its object meanwhile. An error names the object.
func (c *Encoder) Logged(up *Upserted) (*Upserted, Encoding, error) {
	if up == nil || up.Object == nil || reflect.ValueOf(up.Object).IsZero() {
		return nil, Encoding{}, errors.New("an upserted object: there is none")
	}
	logged, enc, err := c.logged(up)
	if err != nil {
		return nil, Encoding{}, fmt.Errorf(
			"%s %s/%s: %w",
			up.Resource,
			up.Object.GetNamespace(),
			up.Object.GetName(),
			err,
		)
	}
	return logged, enc, nil
}

// EncodeTrimmed returns the encoding that Logged returns, and makes no object. It is for many objects that are alike:
// it does not check that a reader gets the same bytes back. Callers must have given Logged an object with the same
// amounts before.
func (c *Encoder) EncodeTrimmed(up *Upserted) (Encoding, error) {
	info := infoOf(up.Object)
	if info == nil || info.resource != up.Resource {
		return Encoding{}, fmt.Errorf("an object of type %T is none of %s", up.Object, up.Resource)
	}
	var enc Encoding
	err := c.withPicked(info, up.Object, func(kept Object) (err error) {
		enc, err = c.Encode(&Upserted{Resource: up.Resource, Object: kept})
		return err
	})
	return enc, err
}

// logged is Logged for payloads with an object.
func (c *Encoder) logged(up *Upserted) (*Upserted, Encoding, error) {
	if IsOwn(up.Resource) {
		return c.loggedOwn(up)
	}
	info := infoOf(up.Object)
	if info == nil || info.resource != up.Resource {
		return nil, Encoding{}, fmt.Errorf("an object of type %T is none of the resource", up.Object)
	}
	var enc Encoding
	err := c.withPicked(info, up.Object, func(kept Object) (err error) {
		enc, err = c.Encode(&Upserted{Resource: up.Resource, Object: kept})
		return err
	})
	if err != nil {
		return nil, Encoding{}, err
	}
	logged, err := readUpserted(enc.bytes[encodingPayload:], true, nil)
	if errors.Is(err, errNotCanonical) {
		return c.loggedAsRead(info, enc)
	}
	if err != nil {
		return nil, Encoding{}, fmt.Errorf("read back: %w", err)
	}
	return logged, enc, nil
}

// loggedAsRead is logged for an object that reads back differently: a quantity that was made in a program may have a
// form that its text does not have. Example: 2000 in the form of 2Ki is written as 2000, which reads back as 2k.
func (c *Encoder) loggedAsRead(info *resourceInfo, enc Encoding) (*Upserted, Encoding, error) {
	read, err := asRead(info.object(), enc.bytes[encodingPayload+1:])
	if err != nil {
		return nil, Encoding{}, fmt.Errorf("read back: %w", err)
	}
	if enc, err = c.Encode(&Upserted{Resource: info.resource, Object: read}); err != nil {
		return nil, Encoding{}, err
	}
	logged, err := readUpserted(enc.bytes[encodingPayload:], true, nil)
	if err != nil {
		return nil, Encoding{}, fmt.Errorf("read back: %w", err)
	}
	return logged, enc, nil
}

// asRead reads the object that AppendObject has just written into an empty one.
func asRead(empty Object, b []byte) (Object, error) {
	obj, ok := empty.(protoObject)
	if !ok {
		return nil, errNotCanonical
	}
	return obj, obj.Unmarshal(b)
}

// AppendTrimmed appends an object of the resource as AppendObject writes it after Trim, which is also the form of
// Logged. So two objects with the same bytes here are equal for every reader of the log. It makes no copy of the
// object, and does not write to it. The object must be of the resource.
//
// It does not check that a record can hold the object: Logged may still refuse it.
func (c *Encoder) AppendTrimmed(dst []byte, res Resource, obj Object) ([]byte, error) {
	if own, ok := obj.(*unstructured.Unstructured); ok && IsOwn(res) {
		kept, err := c.Own.Trim(res, own)
		if err != nil {
			return dst, err
		}
		return AppendObject(dst, kept)
	}
	info := infoOf(obj)
	if info == nil || info.resource != res {
		return dst, fmt.Errorf("an object of type %T is none of %s", obj, res)
	}
	err := c.withPicked(info, obj, func(kept Object) (err error) {
		dst, err = AppendObject(dst, kept)
		return err
	})
	return dst, err
}

// withPicked calls f with the fields of obj that Trim keeps. The object is used again: f must not keep it.
func (c *Encoder) withPicked(info *resourceInfo, obj Object, f func(kept Object) error) error {
	kept := c.picked[info.resource]
	if kept == nil {
		kept = info.object()
		if c.picked == nil {
			c.picked = make(map[Resource]Object)
		}
		c.picked[info.resource] = kept
	}
	defer reflect.ValueOf(kept).Elem().SetZero()
	info.pick(kept, obj, c.Recording)
	return f(kept)
}
