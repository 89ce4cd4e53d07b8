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

// The text of a quantity is limited so that computing with it takes at most a few hundred bytes.
const (
	maxQuantityText     = 256
	maxQuantityExponent = 3 // digits
	quantityCost        = 256
)

// checkQuantity refuses the text of a quantity that the resource package would parse at a disproportionate cost: it
// computes ten to the power of the exponent.
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
	// Path is the quantity's path, such as spec.containers[0].resources.requests.cpu.
	Path string
	// Err says why.
	Err error
}

// Error implements error.
func (e *QuantityError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *QuantityError) Unwrap() error { return e.Err }

// CheckQuantities refuses JSON of an object with a quantity that would take long to parse, with a *QuantityError. It
// reads the members that hold quantities in objects of the log. Malformed JSON passes: its parser reports it.
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

// mayBeCostly finds the marks of every costly quantity: many digits behind a letter e, or more characters than allowed.
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

// children reads the elements of an object or a list.
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

// parent is the name, in lower case, of the member that holds the current object or list; "" for none.
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

// findQuantities collects the names of the members below a type that hold quantities: directly, in lists or in maps.
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

// otherMembers are the members, in lower case and with their parent, that have the name of a member with quantities but
// hold something else: env.value beside capacity.value, devices.requests beside resources.requests. The walk checks
// their content by its own names: below devices.requests, the expression of a selector can be any text.
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

// findOthers records for each member below a type whether it isOther in some objects and not in others.
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

// isOther reports whether a member of the type is a text, or a list without quantities.
func isOther(t reflect.Type) bool {
	of := elementOf(t)
	return of.Kind() == reflect.String || t.Kind() == reflect.Slice && of != quantityType
}

// elementOf is the type that a pointer points to, or the element type of a list or a map.
func elementOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}
