package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An Encoding is a payload as its record holds it, made ahead of the append by an Encoder. The zero Encoding is
// none.
type Encoding struct {
	bytes []byte // kind u8 | payload
}

// IsZero says that there is none.
func (e Encoding) IsZero() bool { return e.bytes == nil }

// Len returns how many bytes it has.
func (e Encoding) Len() int { return len(e.bytes) }

// The places in an Encoding.
const (
	encodingKind    = 0
	encodingPayload = 1
)

// encoderChunk is how much memory an Encoder allocates at once, encoderRoom how much of it a payload should find.
const (
	encoderChunk = 64 << 10
	encoderRoom  = encoderChunk / 8
)

// An Encoder encodes payloads ahead of their append, into memory that many of them share: none is allocated for a
// single one, unless it is a large one. What it has given out never changes, and the memory goes when the last Encoding
// in it does. The zero Encoder is ready; it is not safe for concurrent use.
type Encoder struct {
	// Own is what is kept of the objects of resources that the configuration declares.
	Own OwnTrim

	chunk []byte // the free rest is its capacity
	// picked holds an empty object of each resource that was logged, for what Trim leaves of the next one.
	picked map[Resource]Object
}

// Encode returns p's encoding. An error says what of p no record can hold. As with AppendRecord what the type of an
// Upserted's object caches may be filled in.
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
	if cap(out) != cap(c.chunk) { // it did not fit: it has memory of its own, and the chunk goes on where it was
		return Encoding{bytes.Clone(out[start:])}, nil
	}
	c.chunk = out
	return Encoding{out[start:len(out):len(out)]}, nil
}

// Logged returns an Upserted as whoever reads the log will see it, and its encoding: the object cut down as by Trim,
// encoded, and read back once, so that what the encoding does not tell apart (an empty list from none, a quantity's
// spelling) is the same on both sides. It shares nothing with up, and writes nothing to it: others may read up's object
// meanwhile. An error names the object.
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

// logged is Logged of what has an object.
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

// loggedAsRead is logged of an object that is read otherwise than it was written: a quantity that was made in a program
// may have a form that its text does not have. Example: 2000 in the form of 2Ki is written as 2000, and that is read as
// 2k.
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

// asRead reads what AppendObject has written of an object just now into an empty one.
func asRead(empty Object, b []byte) (Object, error) {
	obj, ok := empty.(protoObject)
	if !ok {
		return nil, errNotCanonical
	}
	return obj, obj.Unmarshal(b)
}

// AppendTrimmed appends an object of the resource as AppendObject writes it once Trim has cut it down, which is how the
// object of Logged is written. So two objects for which it appends the same bytes are one to whoever reads the log. It
// makes no copy of the object, and writes nothing to it. The object must be of the resource.
//
// It does not look for what no record can hold: that it has a form here does not say that Logged takes it.
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

// withPicked calls f with what Trim leaves of obj. It is an object that is used again: f must not keep it.
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
	info.pick(kept, obj)
	return f(kept)
}
