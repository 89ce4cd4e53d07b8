package redact

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
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
	names *Names
	// replace says that this is the second visit.
	replace bool
	// numeric has the keys of labels and taints that some selector compares as numbers. Their numbers are kept.
	numeric map[string]bool
	// keptLabels are the keys of labels and taints whose values are kept because the caller asks for that.
	keptLabels map[string]bool
	// expressions are all CEL expressions, with their counts.
	expressions map[string]int
	// keptAttributes counts texts of device attributes that are kept because an expression reads the attribute.
	keptAttributes int
	// keptArguments counts texts in the arguments of plugins that this program does not know.
	keptArguments map[string]int
	// rules is a memo of rulesOf.
	rules map[reflect.Type][]fieldRule
	// err is the first error.
	err error
	// resource is that of the visited object. pod is the pod's name, "" for other objects.
	resource eventlog.Resource
	pod      string
}

func newWalker(names *Names) *walker {
	return &walker{names: names, numeric: map[string]bool{}, expressions: map[string]int{},
		rules: map[reflect.Type][]fieldRule{}}
}

// fail keeps the first error.
func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// text returns the pseudonym of a text. It returns the text itself in the first visit, and adds it.
func (w *walker) text(kind Kind, text string) string {
	switch {
	case text == "" || text == claimInMemory:
		return text
	case !w.replace && kind == Namespace:
		w.names.AddStem(text)
		return text
	case !w.replace:
		w.names.Add(text)
		return text
	}
	pseudonym, ok := w.names.Of(kind, text)
	if !ok {
		w.fail("a text of the kind %q was not found when the log was read first", kind)
	}
	return pseudonym
}

// uid returns the pseudonym of a UID.
func (w *walker) uid(uid types.UID) types.UID { return types.UID(w.text(UID, string(uid))) }

// parts replaces the parts of a text between separators.
func (w *walker) parts(kind Kind, text, separator string) string {
	list := strings.Split(text, separator)
	for i := range list {
		list[i] = w.text(kind, list[i])
	}
	return strings.Join(list, separator)
}

// gangs replaces names in NAMESPACE/NAME,NAMESPACE/NAME, or one name.
func (w *walker) gangs(text string) string {
	list := strings.Split(text, ",")
	for i, one := range list {
		namespace, name, ok := strings.Cut(one, "/")
		if !ok {
			list[i] = w.text(Gang, one)
			continue
		}
		list[i] = w.text(Namespace, namespace) + "/" + w.text(Gang, name)
	}
	return strings.Join(list, ",")
}

// domain replaces the values of LABEL,LABEL=VALUE, VALUE; LABEL=VALUE.
func (w *walker) domain(text string) string {
	levels := strings.Split(text, "; ")
	for i, level := range levels {
		keys, values, ok := strings.Cut(level, "=")
		if !ok {
			levels[i] = w.text(LabelValue, level)
			continue
		}
		labels, list := strings.Split(keys, ","), strings.Split(values, ", ")
		for k := range list {
			list[k] = w.label(labels[min(k, len(labels)-1)], list[k])
		}
		levels[i] = keys + "=" + strings.Join(list, ", ")
	}
	return strings.Join(levels, "; ")
}

// label replaces a value of a label or a taint.
func (w *walker) label(key, value string) string {
	if w.keptLabels[key] {
		return value
	}
	if w.replace && w.numeric[key] {
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			return value
		}
	}
	kind := LabelValue
	if gangKeys[key] {
		kind = Gang
	}
	if hasZones(key) && strings.Contains(value, zoneSeparator) {
		return w.parts(kind, value, zoneSeparator)
	}
	return w.text(kind, value)
}

// compares notes the operator of a requirement.
func (w *walker) compares(key, operator string) {
	if operator == "Gt" || operator == "Lt" {
		w.numeric[key] = true
	}
}

// request replaces the name of a request for devices.
func (w *walker) request(text string) string {
	list := strings.Split(text, "/")
	for i := range list {
		if !madeRequest.MatchString(list[i]) {
			list[i] = w.text(Part, list[i])
		}
	}
	return strings.Join(list, "/")
}

// resourceName keeps the name of a resource, but for the DeviceClass that it may have: its pods need not know its name.
func (w *walker) resourceName(text string) string {
	if class, ok := strings.CutPrefix(text, resourcev1.ResourceDeviceClassPrefix); ok {
		return resourcev1.ResourceDeviceClassPrefix + w.text(Object, class)
	}
	return text
}

// annotation replaces the value of an annotation.
func (w *walker) annotation(key, value string) string {
	kind, named := namingAnnotations[key]
	switch {
	case key == gangsAnnotation:
		return w.gangsList(value)
	case gangKeys[key]:
		return w.text(Gang, value)
	case named:
		return w.text(kind, value)
	case keptAnnotations[key] || annotationWords[key][value] || plainValue.MatchString(value):
		return value
	}
	return w.text(Annotation, value)
}

// gangsList replaces the names in a JSON list of gangs.
func (w *walker) gangsList(value string) string {
	var list []string
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return w.text(Annotation, value)
	}
	for i := range list {
		list[i] = w.gangs(list[i])
	}
	text, err := json.Marshal(list)
	if err != nil {
		w.fail("annotation %s: %w", gangsAnnotation, err)
	}
	return string(text)
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

// ownObject replaces all texts of an object of another API but numbers and words of the API.
func (w *walker) ownObject(obj *unstructured.Unstructured) {
	for key, value := range obj.Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			w.ownMeta(value)
		default:
			obj.Object[key] = w.ownValue(value)
		}
	}
}

func (w *walker) ownMeta(value any) {
	meta, _ := value.(map[string]any)
	for key, value := range meta {
		text, _ := value.(string)
		switch key {
		case "creationTimestamp", "deletionTimestamp":
		case "namespace":
			meta[key] = w.text(Namespace, text)
		case "uid":
			meta[key] = w.text(UID, text)
		default:
			meta[key] = w.ownValue(value)
		}
	}
}

func (w *walker) ownValue(value any) any {
	switch value := value.(type) {
	case string:
		if apiWords[value] || quantity.MatchString(value) {
			return value
		}
		return w.text(Object, value)
	case []any:
		for i := range value {
			value[i] = w.ownValue(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = w.ownValue(value[key])
		}
	}
	return value
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
		return func(w *walker, text string) string { return w.text(kindOf(w.resource), text) }
	}
	return nil
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

// mapping replaces the values of a map of texts as those of labels. In other maps with plain keys the keys are names.
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
		if strings.Contains(expression, own) {
			return true
		}
	}
	return false
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

// volume replaces the name of a volume. The claim of an ephemeral volume is called POD-VOLUME: the name of the volume
// is what the claim's pseudonym has behind the pod's.
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
