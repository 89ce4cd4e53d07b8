package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// A jsonShape describes a JSON value by the Go type that it will be decoded to, as far as needed to count the memory.
// nil is the shape of unknown values, which the walk skips.
type jsonShape struct {
	// members are the members of an object, by name.
	members map[string]*jsonShape
	// element is the shape of a list's elements, or of an object's members if their names are the keys of a map.
	element *jsonShape
	// cost is the number of bytes of memory that the value takes beside its text and its container. first and further
	// are the bytes of its first and of each further element.
	cost, first, further int
}

// jsonText is the shape of a single value, or of text that is kept as it is.
var jsonText = &jsonShape{cost: textCost}

// jsonOwn is the shape of a type that reads its JSON itself.
var jsonOwn = &jsonShape{cost: quantityCost}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// jsonShapeOf returns the shape of t; shapes holds those known so far.
func jsonShapeOf(t reflect.Type, shapes map[reflect.Type]*jsonShape) *jsonShape {
	if s := shapes[t]; s != nil {
		return s
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return jsonText
	case reflect.PointerTo(t).Implements(unmarshaler):
		return jsonOwn
	}
	s := &jsonShape{}
	switch t.Kind() {
	case reflect.Pointer:
		inner := jsonShapeOf(t.Elem(), shapes)
		copied := *inner
		copied.cost += int(t.Elem().Size()) + textCost
		return &copied
	case reflect.Slice:
		size := int(t.Elem().Size())
		s.element, s.first, s.further = jsonShapeOf(t.Elem(), shapes), 4*size, listGrowth*size
	case reflect.Map:
		// The decoder keeps the set of the keys in a second map meanwhile.
		size := int(t.Key().Size() + t.Elem().Size() + reflect.TypeFor[string]().Size())
		one := int(t.Elem().Size()) + textCost
		s.element, s.first, s.further = jsonShapeOf(t.Elem(), shapes), 2*mapCost+mapFirst*size+one, mapGrowth*size+one
	case reflect.Struct:
		shapes[t] = s
		s.members = make(map[string]*jsonShape)
		s.learn(t, shapes)
	default:
		return jsonText
	}
	return s
}

// learn adds the fields of the struct type t to the members.
func (s *jsonShape) learn(t reflect.Type, shapes map[reflect.Type]*jsonShape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			s.learn(f.Type, shapes)
		case !f.IsExported() || name == "-":
		case name == "":
			s.members[f.Name] = jsonShapeOf(f.Type, shapes)
		default:
			s.members[name] = jsonShapeOf(f.Type, shapes)
		}
	}
}

// check returns an error if decoding text may take more than memory bytes. It accepts malformed JSON: the decoder
// reports it.
func (s *jsonShape) check(text []byte, memory int) error {
	w := jsonWalk{text: text, left: memory}
	w.value(s, 0)
	if w.left < 0 {
		return fmt.Errorf("%.60s at byte %d of %d: %w", w.name, w.at, len(text), errCost)
	}
	return nil
}

// maxJSONDepth is the deepest nesting of values: no object is as deep, and the walk skips deeper values.
const maxJSONDepth = 100

// A jsonWalk walks a text. left is the number of bytes of memory that the rest may cost; the walk ends when there are
// none.
type jsonWalk struct {
	text []byte
	at   int
	left int
	name []byte // of the member that was met last
}

// end gives up on malformed JSON.
func (w *jsonWalk) end() { w.at = len(w.text) }

// next returns the next byte that is not white space, without moving behind it; 0 at the end.
func (w *jsonWalk) next() byte {
	for w.at < len(w.text) && w.left >= 0 {
		switch c := w.text[w.at]; c {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return c
		}
	}
	return 0
}

// value moves behind a value.
func (w *jsonWalk) value(s *jsonShape, depth int) {
	if s != nil {
		w.left -= s.cost
	}
	switch c := w.next(); {
	case c == '{', c == '[':
		if depth == maxJSONDepth {
			w.left = min(w.left, len(w.text)-w.at-1) // nothing that is read is so deep
			w.end()
			return
		}
		w.at++
		w.elements(s, c, depth+1)
	case c == '"':
		w.left -= len(w.string()) + textCost
	case c == 0:
	default:
		begin := w.at
		for w.at < len(w.text) && bytes.IndexByte([]byte(",]} \t\r\n"), w.text[w.at]) < 0 {
			w.at++
		}
		if w.at == begin {
			w.end()
		}
	}
}

// elements walks the elements behind an opening bracket, and moves behind the closing one.
func (w *jsonWalk) elements(s *jsonShape, open byte, depth int) {
	for n := 0; ; n++ {
		switch w.next() {
		case 0:
			return
		case ']', '}':
			w.at++
			return
		case ',':
			w.at++
		}
		var inner *jsonShape
		if open == '{' {
			name := w.string()
			w.name = name
			if w.next() != ':' {
				w.end()
				return
			}
			w.at++
			if s != nil && s.members != nil {
				inner = s.members[string(name)]
			}
		}
		if s != nil && s.element != nil {
			inner = s.element
			if n == 0 {
				w.left -= s.first
			} else {
				w.left -= s.further
			}
			w.left -= len(w.name)
		}
		w.value(inner, depth)
	}
}

// string moves behind a string, and returns the text between its quotes.
func (w *jsonWalk) string() []byte {
	if w.next() != '"' {
		w.end()
		return nil
	}
	w.at++
	for begin := w.at; w.at < len(w.text); w.at++ {
		switch w.text[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return w.text[begin : w.at-1]
		}
	}
	w.end()
	return nil
}

// The shapes of everything that is read as JSON.
var (
	infoJSON [256]*jsonShape // of the resources' objects, by the resource's number
	lineJSON = make(map[reflect.Type]*jsonShape)
)

func init() {
	shapes := make(map[reflect.Type]*jsonShape)
	for i := range registry {
		infoJSON[registry[i].code] = jsonShapeOf(reflect.TypeOf(registry[i].object()).Elem(), shapes)
	}
	for _, line := range []jsonLine{new(jsonEpochStarted), new(jsonUpserted), new(jsonDeleted), new(jsonTick),
		new(jsonDecisionEntry), new(jsonBindResult), new(jsonEvictResult),
		new(jsonExtenderResult), new(jsonWatched)} {
		t := reflect.TypeOf(line)
		lineJSON[t] = jsonShapeOf(t.Elem(), shapes)
	}
}

var errCost = errors.New("this takes too much memory for its size")
