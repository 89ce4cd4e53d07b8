package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A wireMessage is the shape of one protobuf message of the Kubernetes API, learnt from the protobuf tags
// of its Go type. It checks bytes before the generated code may see them: only known fields, each of its
// type and within its message, text in UTF-8, and no quantity whose exponent would eat the memory.
type wireMessage struct {
	// fields are by number; those that do not exist have kind wireUnknown.
	fields []wireField
	// quantity says that field 1 is a quantity's text.
	quantity bool
}

type wireField struct {
	kind    wireKind
	name    string
	message *wireMessage
}

type wireKind uint8

const (
	wireUnknown wireKind = iota
	wireVarint
	wireText
	wireBytes
	wireStruct
)

// The wire types that the Kubernetes API uses.
const (
	protoVarint = 0
	protoBytes  = 2
)

// infoWire holds the shapes of the resources' objects, by the resource's number; nil for one without a
// protobuf form.
var infoWire [256]*wireMessage

func init() {
	shapes := map[reflect.Type]*wireMessage{
		reflect.TypeFor[resource.Quantity](): {
			quantity: true,
			fields:   []wireField{{}, {kind: wireText, name: "string"}},
		},
		reflect.TypeFor[metav1.Time]():      timestampShape(),
		reflect.TypeFor[metav1.MicroTime](): timestampShape(),
	}
	for i := range registry {
		obj := registry[i].object()
		if _, ok := obj.(protoObject); ok {
			infoWire[registry[i].code] = shapeOf(reflect.TypeOf(obj).Elem(), shapes)
		}
	}
}

func timestampShape() *wireMessage {
	return &wireMessage{fields: []wireField{{}, {kind: wireVarint, name: "seconds"}, {kind: wireVarint, name: "nanos"}}}
}

// shapeOf returns the shape of the struct type t; shapes holds those known so far.
func shapeOf(t reflect.Type, shapes map[reflect.Type]*wireMessage) *wireMessage {
	if m := shapes[t]; m != nil {
		return m
	}
	m := &wireMessage{}
	shapes[t] = m
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		number, err := strconv.Atoi(tag[1])
		if err != nil {
			panic(fmt.Sprintf("eventlog: protobuf tag of %s.%s: %v", t, f.Name, err))
		}
		for len(m.fields) <= number {
			m.fields = append(m.fields, wireField{})
		}
		m.fields[number] = fieldShape(f.Type, shapes)
		m.fields[number].name = jsonName(f)
	}
	return m
}

func fieldShape(t reflect.Type, shapes map[reflect.Type]*wireMessage) wireField {
	switch t.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return wireField{kind: wireVarint}
	case reflect.String:
		return wireField{kind: wireText}
	case reflect.Struct:
		return wireField{kind: wireStruct, message: shapeOf(t, shapes)}
	case reflect.Pointer:
		return fieldShape(t.Elem(), shapes)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return wireField{kind: wireBytes}
		}
		return fieldShape(t.Elem(), shapes)
	case reflect.Map:
		key, value := fieldShape(t.Key(), shapes), fieldShape(t.Elem(), shapes)
		key.name, value.name = "key", "value"
		return wireField{kind: wireStruct, message: &wireMessage{fields: []wireField{{}, key, value}}}
	}
	panic(fmt.Sprintf("eventlog: no protobuf shape for %s", t))
}

// jsonName returns the field's name in JSON, or its Go name if it is inlined there.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" || name == "-" {
		return f.Name
	}
	return name
}

// wireError is a fault at a byte of a message, found in the field at path.
type wireError struct {
	path string
	at   int
	err  error
}

func (e *wireError) Error() string {
	if e.path == "" {
		return fmt.Sprintf("byte %d of the object: %v", e.at, e.err)
	}
	return fmt.Sprintf("%s at byte %d of the object: %v", e.path, e.at, e.err)
}

func (e *wireError) Unwrap() error { return e.err }

// check returns an error unless b can be handed to the generated Unmarshal of the message's type.
func (m *wireMessage) check(b []byte) error {
	if err := m.checkAt(b, 0); err != nil {
		return err
	}
	return nil
}

// checkAt is check for a message that begins at byte base of the object.
func (m *wireMessage) checkAt(b []byte, base int) *wireError {
	for at := 0; at < len(b); {
		tag, n := binary.Uvarint(b[at:])
		number := tag >> 3
		if n <= 0 || number >= uint64(len(m.fields)) || m.fields[number].kind == wireUnknown {
			return &wireError{at: base + at, err: fmt.Errorf("unknown field %d", number)}
		}
		field := &m.fields[number]
		fault := func(err error) *wireError { return &wireError{path: field.name, at: base + at, err: err} }
		at += n
		value, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return fault(errors.New("faulty varint"))
		}
		at += n
		if field.kind == wireVarint {
			if tag&7 != protoVarint {
				return fault(fmt.Errorf("wire type %d, want a varint", tag&7))
			}
			continue
		}
		if tag&7 != protoBytes {
			return fault(fmt.Errorf("wire type %d, want a length", tag&7))
		}
		if value > uint64(len(b)-at) {
			return fault(fmt.Errorf("length %d exceeds the %d bytes left", value, len(b)-at))
		}
		content := b[at : at+int(value)]
		if err := m.checkContent(field, content, base+at); err != nil {
			return err
		}
		at += int(value)
	}
	return nil
}

// checkContent checks what a field with a length holds; it begins at byte at of the object.
func (m *wireMessage) checkContent(field *wireField, content []byte, at int) *wireError {
	switch field.kind {
	case wireText:
		if !utf8.Valid(content) {
			return &wireError{path: field.name, at: at, err: errNotUTF8}
		}
		if m.quantity {
			if err := checkQuantity(content); err != nil {
				return &wireError{path: field.name, at: at, err: err}
			}
		}
	case wireStruct:
		if err := field.message.checkAt(content, at); err != nil {
			if err.path == "" {
				err.path = field.name
			} else {
				err.path = field.name + "." + err.path
			}
			return err
		}
	}
	return nil
}

// A quantity's text is limited to what costs no more than a few hundred bytes to compute with.
const (
	maxQuantityText     = 256
	maxQuantityExponent = 3 // digits
)

// checkQuantity refuses the text of a quantity that the resource package would parse at a cost out of all
// proportion: it computes ten to the power of the exponent.
func checkQuantity(text []byte) error {
	if len(text) > maxQuantityText {
		return fmt.Errorf("quantity of %d bytes, more than %d", len(text), maxQuantityText)
	}
	i := bytes.IndexAny(text, "eE")
	if i < 0 {
		return nil
	}
	if exponent := bytes.TrimLeft(text[i+1:], "+-"); len(exponent) > maxQuantityExponent {
		return fmt.Errorf("quantity %q has an exponent of more than %d digits", text, maxQuantityExponent)
	}
	return nil
}
