package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A quantity's text is limited to what costs no more than a few hundred bytes to compute with.
const (
	maxQuantityText     = 256
	maxQuantityExponent = 3 // digits
	quantityCost        = 256
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

// CheckQuantityText refuses the text of a quantity that would take long to parse, such as 1e999999999. Readers of files
// call it before they parse one.
func CheckQuantityText(text string) error { return checkQuantity([]byte(text)) }

// QuantityError says which quantity of an object would take long to parse.
type QuantityError struct {
	// Path is the quantity's, such as spec.containers[0].resources.requests.cpu.
	Path string
	// Err is what is wrong.
	Err error
}

// Error implements error.
func (e *QuantityError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *QuantityError) Unwrap() error { return e.Err }

// CheckQuantities refuses JSON of an object with a quantity that would take long to parse, with a *QuantityError. It
// looks at what is below the members that hold quantities in objects of the log. JSON that is not well-formed passes:
// whoever parses it says so.
func CheckQuantities(object []byte) error {
	if !mayBeCostly(object) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	w := quantityWalk{decoder: d}
	err := w.value(false)
	if bad := (*QuantityError)(nil); errors.As(err, &bad) {
		return err
	}
	return nil
}

// mayBeCostly finds what every costly quantity has: many digits behind a letter e, or more characters than one may
// have.
func mayBeCostly(text []byte) bool {
	digits, exponent, length := 0, false, 0
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			if digits++; exponent && digits > maxQuantityExponent {
				return true
			}
		case c == 'e' || c == 'E':
			digits, exponent = 0, true
		case (c == '+' || c == '-') && exponent && digits == 0:
		case c == '\\': // an escape may hide anything
			return true
		default:
			digits, exponent = 0, false
		}
		if length++; c == '"' || c == ',' || c == '}' {
			length = 0
		}
		if length > maxQuantityText {
			return true
		}
	}
	return false
}

// quantityWalk walks through JSON.
type quantityWalk struct {
	decoder *json.Decoder
	path    []string
}

// value reads one value; quantity says that it is below a member that holds quantities.
func (w *quantityWalk) value(quantity bool) error {
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	text := ""
	switch t := token.(type) {
	case json.Delim:
		return w.children(t, quantity)
	case string:
		text = t
	case json.Number:
		text = t.String()
	}
	if quantity {
		if err := checkQuantity([]byte(strings.TrimSpace(text))); err != nil {
			return &QuantityError{Path: strings.TrimPrefix(strings.Join(w.path, ""), "."), Err: err}
		}
	}
	return nil
}

// children reads what is in an object or a list.
func (w *quantityWalk) children(open json.Delim, quantity bool) error {
	for i := 0; w.decoder.More(); i++ {
		step, below := "["+strconv.Itoa(i)+"]", quantity
		if open == '{' {
			key, err := w.decoder.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			lower := strings.ToLower(name)
			step, below = "."+name, quantity || quantityMembers[lower] && !otherMembers[w.parent()+"."+lower]
		}
		w.path = append(w.path, step)
		if err := w.value(below); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.decoder.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// parent is the name, in lower case, of the member that the object or list which is being read is in; "" for none.
func (w *quantityWalk) parent() string {
	for _, step := range slices.Backward(w.path) {
		if name, member := strings.CutPrefix(step, "."); member {
			return strings.ToLower(name)
		}
	}
	return ""
}

// quantityMembers are the names, in lower case, of the members of the log's objects that hold quantities.
var quantityMembers = func() map[string]bool {
	names, seen := map[string]bool{}, map[reflect.Type]bool{}
	for i := range registry {
		findQuantities(reflect.TypeOf(registry[i].object()), names, seen)
	}
	return names
}()

// findQuantities notes the names of the members below a type that hold quantities: as such, in lists or in maps.
func findQuantities(t reflect.Type, names map[string]bool, seen map[reflect.Type]bool) {
	t = elementOf(t)
	if t.Kind() != reflect.Struct || t == quantityType || seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		field := t.Field(i)
		if elementOf(field.Type) == quantityType {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names[strings.ToLower(name)] = true
		}
		findQuantities(field.Type, names, seen)
	}
}

// otherMembers are the members, in lower case and with the one that they are in, that are called as one that holds
// quantities and hold something else: env.value beside capacity.value, devices.requests beside resources.requests. What
// is in them is looked at by itself: below devices.requests, the expression of a selector can be any text.
var otherMembers = func() map[string]bool {
	kinds, seen := map[string]map[bool]bool{}, map[string]bool{}
	for i := range registry {
		findOthers(reflect.TypeOf(registry[i].object()), "", kinds, seen)
	}
	others := map[string]bool{}
	for name, is := range kinds { // any order: a set
		others[name] = is[true] && !is[false]
	}
	return others
}()

// findOthers notes of each member below a type whether it isOther in some objects, and is not in others.
func findOthers(t reflect.Type, parent string, kinds map[string]map[bool]bool, seen map[string]bool) {
	t = elementOf(t)
	key := parent + " " + t.PkgPath() + "." + t.Name()
	if t.Kind() != reflect.Struct || t == quantityType || seen[key] {
		return
	}
	seen[key] = true
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name = strings.ToLower(name); name == "" { // inlined
			findOthers(field.Type, parent, kinds, seen)
			continue
		}
		member := parent + "." + name
		if kinds[member] == nil {
			kinds[member] = map[bool]bool{}
		}
		kinds[member][isOther(field.Type)] = true
		findOthers(field.Type, name, kinds, seen)
	}
}

// isOther reports whether a member of the type is a text, or a list of something that is no quantity.
func isOther(t reflect.Type) bool {
	of := elementOf(t)
	return of.Kind() == reflect.String || t.Kind() == reflect.Slice && of != quantityType
}

// elementOf is what a pointer points to, and what is in a list or a map.
func elementOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}
