package eventlog

import (
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

// A wireMessage is the shape of one protobuf message of the Kubernetes API, learnt from the protobuf tags of its Go
// type. It checks bytes before the generated code may see them. It accepts only known fields, each of its type and
// within its message, text in UTF-8, and no quantity whose exponent would take too much memory. The fields must be in
// the order of their numbers, and every field that the generated code always writes must be present. So an element of a
// list, which is a whole struct in Go, has more than two bytes. The check also counts the memory of the Go values.
type wireMessage struct {
	// fields are by number; numbers without a field have kind wireUnknown.
	fields []wireField
	// required has, for each number and for the one behind the last, the next field from there on that is always
	// written; 0 if there is none.
	required []int
	// quantity says that field 1 is a quantity's text.
	quantity bool
}

type wireField struct {
	kind    wireKind
	name    string
	message *wireMessage
	// repeated says that the field may occur more than once, required that it always occurs.
	repeated, required bool
	// cost is the number of bytes of memory that an occurrence takes beside its content and its place in the message.
	// further is the cost of each later occurrence of the same field.
	cost, further int
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
			fields:   []wireField{{}, {kind: wireText, name: "string", required: true, cost: quantityCost}},
			required: []int{1, 1, 0},
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
	return &wireMessage{
		fields:   []wireField{{}, {kind: wireVarint, name: "seconds"}, {kind: wireVarint, name: "nanos"}},
		required: make([]int, 4), // the zero time has none
	}
}

// shapeOf returns the shape of the struct type t; shapes holds those known so far.
func shapeOf(t reflect.Type, shapes map[reflect.Type]*wireMessage) *wireMessage {
	if m := shapes[t]; m != nil {
		return m
	}
	m := &wireMessage{}
	shapes[t] = m
	defer m.findRequired()
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

// findRequired fills required in.
func (m *wireMessage) findRequired() {
	m.required = make([]int, len(m.fields)+1)
	for number := len(m.fields) - 1; number >= 0; number-- {
		if m.required[number] = m.required[number+1]; m.fields[number].required {
			m.required[number] = number
		}
	}
}

const (
	// textCost is the memory of a text beside its bytes: allocations are rounded up by as much.
	textCost = 16
	// listGrowth is the number of bytes of memory that a list takes in all for each byte of its elements: it is copied
	// each time that it grows by a quarter.
	listGrowth = 6
	// mapCost is the memory of an empty map. mapFirst is the number of entries for which the first one makes room.
	// mapGrowth is the number of bytes that a map takes in all for each byte of its further entries: it is copied each
	// time that it doubles.
	mapCost   = 64
	mapFirst  = 8
	mapGrowth = 5
)

func fieldShape(t reflect.Type, shapes map[reflect.Type]*wireMessage) wireField {
	switch t.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return wireField{kind: wireVarint, required: true}
	case reflect.String:
		return wireField{kind: wireText, required: true}
	case reflect.Struct:
		return wireField{kind: wireStruct, message: shapeOf(t, shapes), required: true}
	case reflect.Pointer:
		f, size := fieldShape(t.Elem(), shapes), int(t.Elem().Size())
		f.required, f.cost, f.further = false, size+textCost, size+textCost
		return f
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return wireField{kind: wireBytes}
		}
		f, size := fieldShape(t.Elem(), shapes), int(t.Elem().Size())
		f.required, f.repeated, f.cost, f.further = false, true, size, listGrowth*size
		return f
	case reflect.Map:
		key, value := fieldShape(t.Key(), shapes), fieldShape(t.Elem(), shapes)
		key.name, value.name = "key", "value"
		entry := &wireMessage{fields: []wireField{{}, key, value}}
		entry.findRequired()
		size, one := int(t.Key().Size()+t.Elem().Size()), int(t.Elem().Size())+textCost
		return wireField{kind: wireStruct, message: entry, repeated: true,
			cost: mapCost + mapFirst*size + one, further: mapGrowth*size + one}
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

// check returns an error unless b is safe for the generated Unmarshal of the message's type.
func (m *wireMessage) check(b []byte) error {
	_, err := m.checkWithin(b, decodeMost)
	return err
}

// checkWithin is check with a limit of most bytes of memory. It returns the number of bytes that the object takes.
func (m *wireMessage) checkWithin(b []byte, most int) (memory int, err error) {
	most = min(most, objectMemory(len(b), besideFactor))
	w := wireWalk{left: most}
	if err := w.message(m, b, 0); err != nil {
		return 0, err
	}
	return most - w.left, nil
}

// A wireWalk walks an object's bytes. left is the number of bytes of memory that the rest may cost.
type wireWalk struct{ left int }

// message checks a message that begins at byte base of the object.
func (w *wireWalk) message(m *wireMessage, b []byte, base int) *wireError {
	last := 0
	for at := 0; at < len(b); {
		tag, n := binary.Uvarint(b[at:])
		number := tag >> 3
		if n <= 0 || number >= uint64(len(m.fields)) || m.fields[number].kind == wireUnknown {
			return &wireError{at: base + at, err: fmt.Errorf("unknown field %d", number)}
		}
		field := &m.fields[number]
		fault := func(err error) *wireError { return &wireError{path: field.name, at: base + at, err: err} }
		if next := m.required[last+1]; int(number) <= last || next != 0 && next < int(number) {
			if err := m.follows(last, int(number)); err != nil {
				return fault(err)
			}
		}
		cost := field.cost
		if int(number) == last {
			cost = field.further
		}
		last = int(number)
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
			value = 0
		} else if tag&7 != protoBytes {
			return fault(fmt.Errorf("wire type %d, want a length", tag&7))
		} else if value > uint64(len(b)-at) {
			return fault(fmt.Errorf("length %d exceeds the %d bytes left", value, len(b)-at))
		}
		if w.left -= cost; w.left < 0 {
			return fault(errCost)
		}
		if field.kind == wireVarint {
			continue
		}
		if err := w.content(m, field, b[at:at+int(value)], base+at); err != nil {
			return err
		}
		at += int(value)
	}
	if missing := m.required[min(last+1, len(m.fields))]; missing != 0 {
		return &wireError{path: m.fields[missing].name, at: base + len(b), err: errMissing}
	}
	return nil
}

var errMissing = errors.New("the field is missing: " + errNotCanonical.Error())

// follows returns an error unless field number may come behind field last, 0 for none.
func (m *wireMessage) follows(last, number int) error {
	switch {
	case number < last, number == last && !m.fields[number].repeated:
		return fmt.Errorf("the field stands twice or behind field %d: %w", last, errNotCanonical)
	case number > last && m.required[last+1] < number && m.required[last+1] != 0:
		return fmt.Errorf("%s is missing before it: %w", m.fields[m.required[last+1]].name, errNotCanonical)
	}
	return nil
}

// content checks the content of a field with a length; it begins at byte at of the object.
func (w *wireWalk) content(m *wireMessage, field *wireField, content []byte, at int) *wireError {
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
		fallthrough
	case wireBytes:
		if len(content) > 0 {
			w.left -= len(content) + textCost
		}
	case wireStruct:
		if err := w.message(field.message, content, at); err != nil {
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
