package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// This file has the resources that scheduling itself does not read, and a plugin does: custom resources, or others of
// the API. A configuration declares them, with the fields to keep. Their objects are *unstructured.Unstructured, and
// their records hold the resource's name and canonical JSON with apiVersion and kind.

// OwnResource is a resource that a plugin reads.
type OwnResource struct {
	// Resource is the plural name with the API group behind a dot, such as elasticquotas.scheduling.x-k8s.io. Resources
	// of the core API group that scheduling does not read cannot be declared.
	Resource Resource `json:"resource"`
	// Version is the version to request from the API server, such as v1alpha1.
	Version string `json:"version"`
	// Kind is the kind of its objects, such as ElasticQuota.
	Kind string `json:"kind"`
	// Namespaced says that its objects live in namespaces.
	Namespaced bool `json:"namespaced,omitempty"`
	// Fields are the fields to keep, each with everything below it, besides the name, the namespace, the UID and the
	// times of creation and deletion. They are paths as in trim_fields.go: spec.min, or spec.{min,max}. A path leads
	// through lists. Texts are kept as WithoutCredentials returns them. Nothing is kept under the name of a credential.
	Fields []string `json:"fields"`
}

// ownCode is the number of every own resource in the log; the name follows.
const ownCode = 255

// MaxOwnResources is the number of own resources that a configuration may declare.
const MaxOwnResources = 64

var ownName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)

// IsOwn reports whether res is the name of a resource that scheduling itself does not read.
func IsOwn(res Resource) bool {
	return infoByResource[res] == nil && len(res) <= 253 && ownName.MatchString(string(res))
}

// Group returns the resource's API group, "" for core.
func (r Resource) Group() string {
	_, group, _ := strings.Cut(string(r), ".")
	return group
}

// GroupVersionResource returns the resource as clients name it.
func (o OwnResource) GroupVersionResource() schema.GroupVersionResource {
	name, group, _ := strings.Cut(string(o.Resource), ".")
	return schema.GroupVersionResource{Group: group, Version: o.Version, Resource: name}
}

// GroupVersionKind returns the kind of the resource's objects.
func (o OwnResource) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Resource.Group(), Version: o.Version, Kind: o.Kind}
}

// refusedOwn has the resources that no log may hold, by name, with the reason.
var refusedOwn = map[Resource]string{
	"secrets":              "the log is read by whoever has it",
	"configmaps":           "what they hold may be anything, and the log is read by whoever has it",
	"events":               "schedulers write them",
	"events.events.k8s.io": "schedulers write them",
}

// The bounds of the declaration of one resource: the number of fields, and the bytes of a field's path.
const (
	maxOwnFields = 256
	maxOwnPath   = 4096
)

// abridged returns the beginning of a text for an error message.
func abridged(text string) string {
	if len(text) > 100 {
		return text[:100] + "..."
	}
	return text
}

var ownVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
var ownKind = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// CompleteOwn checks declarations and returns them in their one form: sorted by resource, each with its fields sorted
// and written out.
func CompleteOwn(declared []OwnResource) ([]OwnResource, error) {
	if len(declared) > MaxOwnResources {
		return nil, fmt.Errorf("%d resources: want %d or fewer", len(declared), MaxOwnResources)
	}
	all := slices.Clone(declared)
	slices.SortFunc(all, func(a, b OwnResource) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	for i := range all {
		if err := all[i].complete(); err != nil {
			return nil, fmt.Errorf("resource %q: %w", all[i].Resource, err)
		}
		if i > 0 && all[i].Resource == all[i-1].Resource {
			return nil, fmt.Errorf("resource %q is declared twice", all[i].Resource)
		}
	}
	return all, nil
}

func (o *OwnResource) complete() error {
	switch {
	case infoByResource[o.Resource] != nil:
		return errors.New("the log has it anyhow: plugins read it by its informer")
	case refusedOwn[o.Resource] != "":
		return fmt.Errorf("it is never logged: %s", refusedOwn[o.Resource])
	case !IsOwn(o.Resource):
		return errors.New("want the plural name and the API group, as in elasticquotas.scheduling.x-k8s.io")
	case !ownVersion.MatchString(o.Version):
		return fmt.Errorf("version %q: want one as v1 or v1alpha1", o.Version)
	case !ownKind.MatchString(o.Kind):
		return fmt.Errorf("kind %q: want one as ElasticQuota", o.Kind)
	}
	var fields []string
	for _, field := range o.Fields {
		if strings.Count(field, "{") != strings.Count(field, "}") {
			return fmt.Errorf("field %q: a brace is not closed", abridged(field))
		}
		paths := 1
		for _, braces := range strings.Split(field, "{")[1:] {
			choices, _, _ := strings.Cut(braces, "}")
			paths *= 1 + strings.Count(choices, ",")
			if paths > maxOwnFields {
				break
			}
		}
		if len(field) > maxOwnPath || len(fields)+paths > maxOwnFields {
			return fmt.Errorf("field %q: want fields of at most %d bytes, and at most %d with braces written out",
				abridged(field), maxOwnPath, maxOwnFields)
		}
		for _, path := range expandBraces(field) {
			if err := checkOwnField(path); err != nil {
				return fmt.Errorf("field %q: %w", path, err)
			}
			fields = append(fields, path)
		}
	}
	slices.Sort(fields)
	o.Fields = slices.Compact(fields)
	if len(o.Fields) == 0 {
		return errors.New("fields: none are declared: nothing of its objects would be kept but their names")
	}
	return nil
}

var ownFieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// checkOwnField refuses paths that no log may hold, or that would keep nothing.
func checkOwnField(path string) error {
	names := strings.Split(path, ".")
	for _, name := range names {
		if !ownFieldName.MatchString(name) {
			return errors.New("want names of fields with dots between them")
		}
		if NamesCredential(name) {
			return fmt.Errorf("%s is the name of a credential: the log is read by whoever has it", name)
		}
	}
	switch {
	case names[0] == "apiVersion" || names[0] == "kind":
		return errors.New("it is kept anyhow")
	case names[0] == "data" || names[0] == "stringData" || names[0] == "binaryData":
		return errors.New("what it holds may be anything, and the log is read by whoever has it")
	case names[0] == "metadata" && (len(names) < 2 || names[1] != "labels" && names[1] != "generation"):
		return errors.New("of the metadata only labels and generation can be declared")
	}
	return nil
}

// NamesCredential reports whether the name is the name or path of a credential.
func NamesCredential(name string) bool {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(name))
	return slices.ContainsFunc([]string{
		"token", "password", "passwd", "passphrase", "secret", "credential", "apikey", "accesskey", "privatekey",
		"authorization", "kubeconfig", "keyfile", "keydata", "certfile", "certdata",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// OwnTrim cuts objects of declared resources down to their declared fields. The zero OwnTrim knows none.
type OwnTrim struct{ byResource map[Resource]*ownPlan }

// ownPlan says which part of a value is kept: all of it, or some fields of an object.
type ownPlan struct {
	all    bool
	fields map[string]*ownPlan
	kind   schema.GroupVersionKind // of a resource's objects
	scoped bool                    // they live in namespaces
}

// NewOwnTrim returns the OwnTrim for declarations that CompleteOwn returned.
func NewOwnTrim(declared []OwnResource) OwnTrim {
	t := OwnTrim{map[Resource]*ownPlan{}}
	for i := range declared {
		plan := &ownPlan{kind: declared[i].GroupVersionKind(), scoped: declared[i].Namespaced}
		for _, field := range slices.Concat(declared[i].Fields, keptOfOwn) {
			at := plan
			for name := range strings.SplitSeq(field, ".") {
				if at.fields == nil {
					at.fields = map[string]*ownPlan{}
				}
				if at.fields[name] == nil {
					at.fields[name] = &ownPlan{}
				}
				at = at.fields[name]
			}
			at.all = true
		}
		t.byResource[declared[i].Resource] = plan
	}
	return t
}

// keptOfOwn has the fields that are kept in every object.
var keptOfOwn = func() []string {
	fields := []string{"apiVersion", "kind"}
	for _, f := range keptOfAll {
		fields = append(fields, f.path)
	}
	return fields
}()

// Knows reports whether the resource is declared.
func (t OwnTrim) Knows(res Resource) bool { return t.byResource[res] != nil }

// Trim returns a copy of an object with the fields that are kept. It shares nothing with obj.
func (t OwnTrim) Trim(res Resource, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	plan := t.byResource[res]
	if plan == nil {
		return nil, fmt.Errorf("%s: no configuration declares that a plugin reads them (pluginResources)", res)
	}
	if kind := obj.GroupVersionKind(); kind != plan.kind {
		return nil, fmt.Errorf("it is a %s of %s, and the declaration is of a %s of %s", kind.Kind, kind.GroupVersion(),
			plan.kind.Kind, plan.kind.GroupVersion())
	}
	if plan.scoped != (obj.GetNamespace() != "") {
		return nil, fmt.Errorf("its namespace is %q, and the declaration says namespaced: %v", obj.GetNamespace(),
			plan.scoped)
	}
	kept, _ := plan.pick(obj.Object).(map[string]any)
	return &unstructured.Unstructured{Object: kept}, nil
}

// pick returns the part of a value that the plan keeps; nil if there is none.
func (p *ownPlan) pick(value any) any {
	if p.all {
		return withoutOwnCredentials(value)
	}
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, at := range p.fields { // any order: a map again
			if below, there := v[name]; there {
				if below := at.pick(below); below != nil {
					kept[name] = below
				}
			}
		}
		if len(kept) > 0 {
			return kept
		}
	case []any:
		kept := make([]any, 0, len(v))
		for _, element := range v {
			if element := p.pick(element); element != nil {
				kept = append(kept, element)
			}
		}
		if len(kept) > 0 {
			return kept
		}
	}
	return nil
}

// withoutOwnCredentials returns a copy of a value without parts that may be a credential.
func withoutOwnCredentials(value any) any {
	switch v := value.(type) {
	case string:
		return MessageWithoutCredentials(v)
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, below := range v { // any order: a map again
			if !NamesCredential(name) && MessageWithoutCredentials(name) == name {
				kept[name] = withoutOwnCredentials(below)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = withoutOwnCredentials(v[i])
		}
		return kept
	case float64:
		if v == 0 {
			return int64(0) // there is a negative zero
		}
	case int: // from YAML
		return int64(v)
	}
	return value
}

// marshalOwn returns an object's JSON, with sorted keys. It must be of the resource's group, and have a kind and a
// name.
func marshalOwn(res Resource, obj Object) ([]byte, error) {
	own, ok := obj.(*unstructured.Unstructured)
	if !ok || own == nil {
		return nil, fmt.Errorf("the object is a %T", obj)
	}
	if err := checkOwn(res, own); err != nil {
		return nil, err
	}
	return json.Marshal(own.Object)
}

func checkOwn(res Resource, own *unstructured.Unstructured) error {
	switch kind := own.GroupVersionKind(); {
	case kind.Kind == "" || kind.Version == "":
		return errors.New("it has no apiVersion or no kind")
	case kind.Group != res.Group():
		return fmt.Errorf("it is of API group %q", kind.Group)
	case own.GetName() == "":
		return errors.New("it has no name")
	}
	return checkOwnMeta(own)
}

// checkOwnMeta refuses metadata of wrong types: the accessors of an Unstructured ignore them.
func checkOwnMeta(own *unstructured.Unstructured) error {
	text, err := json.Marshal(own.Object["metadata"])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &metav1.ObjectMeta{}); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return nil
}

// ownShape is the shape of the JSON of an own object, whose fields are unknown.
var ownShape = func() *jsonShape {
	s := &jsonShape{cost: textCost}
	size := int(reflect.TypeFor[string]().Size() + reflect.TypeFor[any]().Size())
	s.element, s.first, s.further = s, 2*mapCost+mapFirst*size, mapGrowth*size
	return s
}()

// unmarshalOwn is the inverse of marshalOwn.
func unmarshalOwn(res Resource, b []byte, memory int) (*unstructured.Unstructured, error) {
	own, err := readOwn(res, b, memory)
	if err != nil {
		return nil, err
	}
	again, err := json.Marshal(own.Object)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, b) {
		return nil, errNotCanonical
	}
	return own, nil
}

// readOwn reads an object's JSON in any form.
func readOwn(res Resource, b []byte, memory int) (*unstructured.Unstructured, error) {
	if _, depth := sizeOwn(b); depth > maxJSONDepth {
		return nil, fmt.Errorf("values lie more than %d deep in one another", maxJSONDepth)
	}
	if err := ownShape.check(b, memory); err != nil {
		return nil, err
	}
	var object map[string]any
	if err := utiljson.Unmarshal(b, &object); err != nil {
		return nil, err
	}
	own := &unstructured.Unstructured{Object: object}
	if object == nil {
		return nil, errors.New("it is no object")
	}
	return own, checkOwn(res, own)
}

// The memory of decoded values, in bytes, beside their texts: a map with its first eight entries, a further entry, a
// list, an element of one, and half a text.
const (
	ownMapCost, ownEntryCost, ownListCost, ownElementCost, ownQuoteCost = 340, 80, 48, 32, 8
)

// sizeOwn returns the approximate number of bytes of memory that the object with the JSON b takes, and the nesting
// depth. It stops where the nesting is too deep.
func sizeOwn(b []byte) (memory, depth int) {
	var lists [maxJSONDepth + 1]bool // by depth
	memory, inText := len(b), false
	at := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
			memory += ownQuoteCost
		case inText:
		case c == '{' || c == '[':
			if at++; at > depth {
				depth = at
			}
			if depth > maxJSONDepth {
				return memory, depth
			}
			if lists[at] = c == '['; lists[at] {
				memory += ownListCost
			} else {
				memory += ownMapCost
			}
		case c == '}' || c == ']':
			at = max(at-1, 0)
		case c == ',' && lists[at]:
			memory += ownElementCost
		case c == ',':
			memory += ownEntryCost
		}
	}
	return memory, depth
}

// ownUpserted writes the number of own resources, the name, and the object.
func (w *payloadWriter) ownUpserted(p *Upserted) {
	text, err := marshalOwn(p.Resource, p.Object)
	if err == nil && len(text) > MaxRecord {
		err = tooLarge(len(text))
	}
	if _, depth := sizeOwn(text); err == nil && depth > maxJSONDepth {
		err = fmt.Errorf("values lie more than %d deep in one another", maxJSONDepth)
	}
	if err == nil {
		err = ownShape.check(text, ownMemory(len(text)))
	}
	w.fail(string(p.Resource), err)
	w.resource(p.Resource)
	w.b = append(w.b, text...)
}

// ownMemory is the number of bytes that an own object with so many bytes of JSON may take. It is encoded again, to be
// compared, and its metadata are read once more.
func ownMemory(size int) int { return objectMemory(size, plainFactor) / 2 }

// readOwnUpserted reads the payload behind ownCode.
func readOwnUpserted(b []byte) (*Upserted, error) {
	r := payloadReader{text: string(b)}
	name := Resource(r.ownName())
	if r.err != nil {
		return nil, r.err
	}
	obj, err := unmarshalOwn(name, b[r.at:], ownMemory(len(b)))
	if err != nil {
		return nil, fmt.Errorf("%s at byte %d: %w", name, headerSize+1+r.at, err)
	}
	return &Upserted{Resource: name, Object: obj}, nil
}

// ownName reads the name of an own resource.
func (r *payloadReader) ownName() Resource {
	name := Resource(r.str("resource"))
	if r.err == nil && !IsOwn(name) {
		r.fail("resource", fmt.Errorf("%q is the name of no resource of a plugin", name))
	}
	return name
}

// loggedOwn is logged for an object of a declared resource.
func (c *Encoder) loggedOwn(up *Upserted) (*Upserted, Encoding, error) {
	own, ok := up.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, Encoding{}, fmt.Errorf("an object of type %T is none of the resource", up.Object)
	}
	kept, err := c.Own.Trim(up.Resource, own)
	if err != nil {
		return nil, Encoding{}, err
	}
	enc, err := c.Encode(&Upserted{Resource: up.Resource, Object: kept})
	if err != nil {
		return nil, Encoding{}, err
	}
	logged, err := readUpserted(enc.bytes[encodingPayload:], false, nil)
	if err != nil {
		return nil, Encoding{}, fmt.Errorf("read back: %w", err)
	}
	return logged, enc, nil
}

// ownUpserted writes the members of an own resource's Upserted.
func (w *jsonWriter) ownUpserted(p *Upserted) {
	text, err := marshalOwn(p.Resource, p.Object)
	w.fail("object", err)
	w.str("resource", string(p.Resource))
	w.name("object")
	w.b = append(w.b, text...)
}
