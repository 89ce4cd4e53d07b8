package dump

import (
	"bytes"
	"errors"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// reduced is JSON of an object with the wanted fields alone. Decoding it takes a fraction of the time.
type reduced struct {
	text          []byte
	version, kind string
	// managed is the text of metadata.managedFields; nil for none.
	managed []byte
	// parts are values that many pods have alike, cut out of text.
	parts []part
	// costly says that a number in it may take long to parse.
	costly bool
}

// lastApplied is the annotation in which kubectl apply keeps a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

var errSyntax = errors.New("it is no JSON")

// headFields are the fields that headOf looks for, and errFound ends it when both are there.
var (
	headFields = wanted{"apiVersion": nil, "kind": nil}
	errFound   = errors.New("found")
)

// headOf returns the version and the kind that JSON of an object names.
func headOf(text []byte) (version, kind string, err error) {
	r := &reducer{in: text, headOnly: true}
	if err = r.value(0, "", headFields); errors.Is(err, errFound) {
		err = nil
	}
	return r.out.version, r.out.kind, err
}

// reduce copies the wanted fields of the text of a resource's object, without white space. It reports errors of syntax
// only as far as it meets them. The result is in memory as far as it has room.
func reduce(text []byte, res eventlog.Resource, memory []byte) (*reduced, error) {
	r := &reducer{in: text, pod: res == eventlog.Pods, out: reduced{text: memory[:0]}}
	if err := r.value(0, "", wantedOf[res]); err != nil {
		return nil, err
	}
	return &r.out, nil
}

// reducer is one reduce under way.
type reducer struct {
	in       []byte
	at       int
	headOnly bool // nothing but the version and the kind is wanted
	pod      bool // the object is a pod: its parts are cut out
	out      reduced
}

func (r *reducer) space() (byte, error) {
	for ; r.at < len(r.in); r.at++ {
		if c := r.in[r.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, nil
		}
	}
	return 0, errSyntax
}

// value copies a value at a depth. name is the name of the member that it is, "" for none.
func (r *reducer) value(depth int, name string, fields wanted) error {
	c, err := r.space()
	switch {
	case err != nil:
		return err
	case depth > maxDepth:
		return errTooDeep
	case c == '{':
		return r.object(depth, name, fields)
	case c == '[':
		return r.list(depth, fields)
	}
	start := r.at
	if err := r.skip(); err != nil {
		return err
	}
	text := r.in[start:r.at]
	if len(text) == 0 {
		return errSyntax
	}
	switch {
	case depth == 1 && name == "kind":
		r.out.kind = string(bytes.Trim(text, `"`))
	case depth == 1 && name == "apiVersion":
		r.out.version = string(bytes.Trim(text, `"`))
	}
	r.out.costly = r.out.costly || mayBeCostly(text)
	r.out.text = append(r.out.text, text...)
	return nil
}

// skip skips a value.
func (r *reducer) skip() error {
	scan := valueScan{}
	n, over, err := scan.take(r.in[r.at:])
	r.at += n
	if err == nil && !over {
		return errSyntax
	}
	return err
}

// object copies the wanted members of an object.
func (r *reducer) object(depth int, name string, fields wanted) error {
	r.put('{')
	r.at++
	for seen, kept := false, false; ; seen = true {
		c, err := r.space()
		if err != nil {
			return err
		}
		if c == '}' {
			r.at++
			r.put('}')
			return nil
		}
		if seen {
			if c != ',' {
				return errSyntax
			}
			r.at++
		}
		out, err := r.member(depth, name, fields, kept)
		if err != nil {
			return err
		}
		kept = kept || out
		if r.headOnly && r.out.kind != "" && r.out.version != "" {
			return errFound
		}
	}
}

// member copies a member of an object if it is wanted, with a comma before it if others were copied. of is the name of
// the object.
func (r *reducer) member(depth int, of string, fields wanted, others bool) (kept bool, err error) {
	key, err := r.key()
	if err != nil {
		return false, err
	}
	name := key[1 : len(key)-1]
	below, ok := fields[string(name)]
	if fields != nil && !ok || string(name) == lastApplied {
		start := r.at
		if err := r.skip(); err != nil {
			return false, err
		}
		if depth == 1 && of == "metadata" && string(name) == "managedFields" {
			r.out.managed = r.in[start:r.at]
		}
		return false, nil
	}
	if fields != nil && depth == 1 && of != "" && sharedParts[string(name)] == of && r.pod {
		return false, r.part(string(name), below)
	}
	if others {
		r.put(',')
	}
	r.out.text = append(append(r.out.text, key...), ':')
	if depth > 0 && fields == nil { // a name is needed near the top only
		return true, r.value(depth+1, "", nil)
	}
	return true, r.value(depth+1, string(name), below)
}

// key reads the name of a member, with its quotes, up to the beginning of the value.
func (r *reducer) key() ([]byte, error) {
	if c, err := r.space(); err != nil || c != '"' {
		return nil, errSyntax
	}
	start := r.at
	if err := r.skip(); err != nil {
		return nil, err
	}
	key := r.in[start:r.at]
	if c, err := r.space(); err != nil || c != ':' {
		return nil, errSyntax
	}
	r.at++
	_, err := r.space()
	return key, err
}

// part cuts a value out.
func (r *reducer) part(name string, fields wanted) error {
	start := len(r.out.text)
	if err := r.value(2, "", fields); err != nil {
		return err
	}
	r.out.parts = append(r.out.parts, part{name, string(r.out.text[start:])})
	r.out.text = r.out.text[:start]
	return nil
}

// list copies a list.
func (r *reducer) list(depth int, fields wanted) error {
	r.put('[')
	r.at++
	for first := true; ; first = false {
		c, err := r.space()
		if err != nil {
			return err
		}
		if c == ']' {
			r.at++
			r.put(']')
			return nil
		}
		if !first {
			if c != ',' {
				return errSyntax
			}
			r.at++
			r.put(',')
		}
		if err := r.value(depth+1, "", fields); err != nil {
			return err
		}
	}
}

func (r *reducer) put(c byte) { r.out.text = append(r.out.text, c) }

// mayBeCostly reports whether the text of a scalar could be a quantity that takes long to parse: one with an exponent
// of several digits, or with very many digits. eventlog.CheckQuantities finds out.
func mayBeCostly(text []byte) bool {
	marked := len(text) > 200
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9', bytes.IndexByte(quantityBytes, c) >= 0:
		default:
			return false
		}
		marked = marked || c == 'e' || c == 'E' || c == '\\'
	}
	return marked
}

// quantityBytes are the bytes besides digits that a quantity in JSON may have.
var quantityBytes = []byte(" \"+-.eEkKMGTPinmu\\")

// check returns an error for a quantity that would take long to parse.
func (r *reduced) check() error {
	if !r.costly {
		return nil
	}
	for _, p := range r.parts {
		if err := eventlog.CheckQuantities(p.inPod()); err != nil {
			return err
		}
	}
	return eventlog.CheckQuantities(r.text)
}

// hasKind reports whether the text of an item names its kind.
func (it *item) hasKind() bool {
	if it.yaml {
		version, kind := yamlHead(it.text)
		return version != "" && kind != ""
	}
	version, kind, err := headOf(it.text)
	return err != nil || version != "" && kind != ""
}
