package redact

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A walker visits the texts of entries twice: first to collect them, then to replace them. Both visits are the same
// code, so no text is replaced that was not collected.
type walker struct {
	texts
	// expressions are all CEL expressions, with their counts.
	expressions map[string]int
	// keptAttributes counts texts of device attributes that are kept because an expression reads the attribute.
	keptAttributes int
	// keptArguments counts texts in the arguments of plugins that this program does not know.
	keptArguments map[string]int
	// rules is a memo of rulesOf.
	rules map[reflect.Type][]fieldRule
	// resource is the resource of the visited object. pod is the pod's name, "" for other objects.
	resource eventlog.Resource
	pod      string
}

func newWalker(names *Names) *walker {
	return &walker{texts: texts{names: names, numeric: map[string]bool{}}, expressions: map[string]int{},
		rules: map[reflect.Type][]fieldRule{}}
}

// object replaces the texts of an object. It changes obj in the second visit.
func (w *walker) object(res eventlog.Resource, obj eventlog.Object) {
	w.resource, w.pod = res, ""
	if own, ok := obj.(*unstructured.Unstructured); ok {
		w.ownObject(own)
		return
	}
	if res == eventlog.Pods {
		w.pod = obj.GetName()
	}
	w.value(reflect.ValueOf(obj).Elem())
}

// A fieldRule says how a field of a struct is treated.
type fieldRule struct {
	index int
	name  string
	rule  func(w *walker, text string) string // of each text; nil looks into the value
}

// rulesOf returns the rules of the fields of a struct type.
func rulesOf(t reflect.Type) []fieldRule {
	var rules []fieldRule
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		rules = append(rules, fieldRule{i, f.Name, ruleOf(t.Name() + "." + f.Name)})
	}
	return rules
}

// ruleOf returns the rule of a field, nil for one without.
func ruleOf(field string) func(*walker, string) string {
	kind, named := namedFields[field]
	if words := constants[field]; words != nil {
		return func(w *walker, text string) string {
			if words[text] {
				return text
			}
			return w.text(kind, text)
		}
	}
	switch {
	case messageFields[field]:
		return func(_ *walker, text string) string { return dropped(text) }
	case keptFields[field]:
		return func(_ *walker, text string) string { return text }
	case expressionFields[field]:
		return func(w *walker, text string) string { w.expressions[text]++; return text }
	case resourceFields[field]:
		return (*walker).resourceName
	case requestFields[field]:
		return (*walker).request
	case named:
		return func(w *walker, text string) string { return w.text(kind, text) }
	case field == "ObjectMeta.Name":
		return func(w *walker, text string) string { return w.objectName(w.resource, text) }
	}
	return nil
}

// objectName replaces the name of an object. The name of a CSIDriver is a driver, and drivers are kept.
func (w *walker) objectName(res eventlog.Resource, text string) string {
	if res == eventlog.CSIDrivers {
		return text
	}
	return w.text(kindOf(res), text)
}

// value replaces the texts in a value.
func (w *walker) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			w.value(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.value(v.Index(i))
		}
	case reflect.String:
		w.plain(v, nil)
	case reflect.Map:
		w.mapping(v)
	case reflect.Struct:
		w.structure(v)
	}
}

// plain replaces a text. Without a rule it is a UID, a constant of the API, or a name.
func (w *walker) plain(v reflect.Value, rule func(*walker, string) string) {
	text := v.String()
	switch {
	case rule != nil:
		text = rule(w, text)
	case v.Type() == reflect.TypeFor[types.UID]():
		text = w.text(UID, text)
	case v.Type() == reflect.TypeFor[corev1.ResourceName]():
		text = w.resourceName(text)
	case v.Type() != reflect.TypeFor[string]():
		return
	default:
		text = w.text(Object, text)
	}
	if w.replace {
		v.SetString(text)
	}
}

// mapping replaces the values of a map of texts as values of labels. In other maps with plain keys the keys are names.
func (w *walker) mapping(v reflect.Value) {
	switch m := v.Interface().(type) {
	case map[string]string:
		for key, value := range m {
			if value = w.label(key, value); w.replace {
				m[key] = value
			}
		}
		return
	case map[resourcev1.QualifiedName]resourcev1.DeviceAttribute:
		for key, attribute := range m {
			w.attribute(string(key), &attribute)
			if w.replace {
				m[key] = attribute
			}
		}
		return
	}
	rename := func(text string) string { return w.text(Object, text) }
	switch {
	case v.IsNil():
		return
	case v.Type().Key() == reflect.TypeFor[corev1.ResourceName]():
		rename = w.resourceName
	case v.Type().Key() != reflect.TypeFor[string]():
		return // names of capacities, and constants
	}
	renamed := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entry := v.MapRange(); entry.Next(); {
		key := reflect.ValueOf(rename(entry.Key().String())).Convert(v.Type().Key())
		renamed.SetMapIndex(key, entry.Value())
	}
	if w.replace {
		v.Set(renamed)
	}
}

// attribute replaces the texts of a device's attribute, unless an expression reads it.
func (w *walker) attribute(name string, a *resourcev1.DeviceAttribute) {
	texts := make([]*string, 0, 1)
	if a.StringValue != nil {
		texts = append(texts, a.StringValue)
	}
	if w.replace && len(texts)+len(a.StringValues) > 0 && w.isRead(name) {
		w.keptAttributes += len(texts) + len(a.StringValues)
		return
	}
	for _, text := range texts {
		changed := w.text(Object, *text)
		a.StringValue = &changed
	}
	list := make([]string, len(a.StringValues))
	for i, text := range a.StringValues {
		list[i] = w.text(Object, text)
	}
	if len(list) > 0 {
		a.StringValues = list
	}
}

// isRead reports whether a CEL expression has the name of an attribute.
func (w *walker) isRead(attribute string) bool {
	_, own, qualified := strings.Cut(attribute, "/")
	if !qualified {
		own = attribute
	}
	for expression := range w.expressions {
		if hasWord(expression, own) {
			return true
		}
	}
	return false
}

// hasWord reports whether a text has a word, with no letter, digit or underscore around it.
func hasWord(text, word string) bool {
	inWord := func(c byte) bool {
		return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 || word == "" {
			return false
		}
		begin, end := at+i, at+i+len(word)
		if (begin == 0 || !inWord(text[begin-1])) && (end == len(text) || !inWord(text[end])) {
			return true
		}
		at = begin + 1
	}
}

// structure replaces the texts of a struct.
func (w *walker) structure(v reflect.Value) {
	switch s := v.Addr().Interface().(type) {
	case *metav1.Time, *metav1.MicroTime, *resource.Quantity:
		return
	case *corev1.NodeSelectorRequirement:
		w.compares(s.Key, string(s.Operator))
		w.values(s.Key, s.Values)
		return
	case *metav1.LabelSelectorRequirement:
		w.values(s.Key, s.Values)
		return
	case *corev1.TopologySelectorLabelRequirement:
		w.values(s.Key, s.Values)
		return
	case *corev1.Toleration:
		w.compares(s.Key, string(s.Operator))
		if value := w.label(s.Key, s.Value); w.replace {
			s.Value = value
		}
		return
	case *corev1.Taint:
		if value := w.label(s.Key, s.Value); w.replace {
			s.Value = value
		}
		return
	case *metav1.ObjectMeta:
		w.annotations(s.Annotations)
	case *corev1.Container:
		w.image(&s.Image, normalImage(s.Image))
	case *corev1.ContainerImage:
		for i := range s.Names {
			w.image(&s.Names[i], s.Names[i])
		}
		return
	case *corev1.Volume:
		w.volume(s)
	}
	w.fields(v)
}

// fields replaces the texts of a struct's fields by their rules.
func (w *walker) fields(v reflect.Value) {
	t := v.Type()
	rules, known := w.rules[t]
	if !known {
		rules = rulesOf(t)
		w.rules[t] = rules
	}
	for _, r := range rules {
		f := v.Field(r.index)
		switch {
		case f.IsZero() || inStructure(t, r.name):
		case r.rule == nil:
			w.value(f)
		default:
			w.ruled(f, r.rule)
		}
	}
}

// ruled applies a rule to a text, a pointer to one, or each of a list.
func (w *walker) ruled(v reflect.Value, rule func(*walker, string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		w.plain(v.Elem(), rule)
	case reflect.Slice:
		for i := range v.Len() {
			w.plain(v.Index(i), rule)
		}
	default:
		w.plain(v, rule)
	}
}

// inStructure reports whether structure treats a field.
func inStructure(t reflect.Type, field string) bool {
	switch t {
	case reflect.TypeFor[metav1.ObjectMeta]():
		return field == "Annotations"
	case reflect.TypeFor[corev1.Container]():
		return field == "Image"
	case reflect.TypeFor[corev1.Volume]():
		return field == "Name"
	}
	return false
}

func (w *walker) values(key string, values []string) {
	for i, value := range values {
		if value = w.label(key, value); w.replace {
			values[i] = value
		}
	}
}

func (w *walker) annotations(m map[string]string) {
	for key, value := range m {
		if value = w.annotation(key, value); w.replace {
			m[key] = value
		}
	}
}

// imageTag ends the pseudonyms of images: a name without a tag would get another one.
const imageTag = ":v"

func (w *walker) image(field *string, name string) {
	if *field == "" {
		return
	}
	if name = w.text(Image, name); w.replace {
		*field = name + imageTag
	}
}

// volume replaces the name of a volume. The claim of an ephemeral volume is called POD-VOLUME: the claim's pseudonym
// ends with the name of the volume.
func (w *walker) volume(v *corev1.Volume) {
	if v.Ephemeral == nil || w.pod == "" {
		if name := w.text(Part, v.Name); w.replace {
			v.Name = name
		}
		return
	}
	if !w.replace {
		w.names.AddStem(w.pod)
		w.names.Add(w.pod + "-" + v.Name)
		return
	}
	pod, claim := w.text(Pod, w.pod), w.text(Object, w.pod+"-"+v.Name)
	name, ok := strings.CutPrefix(claim, pod+"-")
	if !ok {
		w.fail("the claim of an ephemeral volume of pod %s has the pseudonym %s", pod, claim)
	}
	v.Name = name
}
