package eventlog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trim returns a copy of obj with the fields that scheduling reads and no others: those that
// trim_fields.go lists. The copy shares nothing with obj and has no apiVersion and kind. It panics if obj is not an
// object of the resource.
func Trim(res Resource, obj Object) Object {
	info := infoOf(obj)
	if info == nil || info.resource != res {
		panic(fmt.Sprintf("eventlog: Trim(%q) of an object of type %T", res, obj))
	}
	kept := info.object()
	info.pick(kept, obj)
	return kept.DeepCopyObject().(Object)
}

// pick makes kept, which is an empty object, what Trim leaves of obj. It shares with obj what is kept as a whole, so
// that neither may be changed while the other is in use; but no Quantity, which encoding changes.
func (info *resourceInfo) pick(kept, obj Object) {
	infoKeep[info.code].pick(reflect.ValueOf(kept).Elem(), reflect.ValueOf(obj).Elem())
	trimMeta(info.resource, kept)
	if pod, ok := kept.(*corev1.Pod); ok {
		trimPod(pod)
	}
}

// trimMeta keeps of the annotations those allowed, and of the owners the controller.
func trimMeta(res Resource, obj Object) {
	if annotations := obj.GetAnnotations(); annotations != nil {
		// A map of its own: obj shares its annotations with the object that it was picked from.
		var kept map[string]string
		for _, key := range keptAnnotations[res] {
			if value, ok := annotations[key]; ok {
				if kept == nil {
					kept = make(map[string]string)
				}
				kept[key] = WithoutCredentials(value)
			}
		}
		obj.SetAnnotations(kept)
	}
	if owners := obj.GetOwnerReferences(); owners != nil {
		obj.SetOwnerReferences(
			without(owners, func(o metav1.OwnerReference) bool { return o.Controller == nil || !*o.Controller }),
		)
	}
}

// trimPod drops what the table cannot name by its path. It may change these lists: of their elements the table keeps
// only some fields, so pick has made them anew and they are not those of the object that the pod was picked from.
func trimPod(pod *corev1.Pod) {
	pod.Status.Conditions = without(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return !slices.Contains(keptPodConditions, string(c.Type))
	})
	for i := range pod.Spec.Volumes {
		if dir := pod.Spec.Volumes[i].EmptyDir; dir != nil && dir.Medium != corev1.StorageMediumMemory {
			pod.Spec.Volumes[i].EmptyDir = nil
		}
	}
	// Nothing but the name is left of these.
	pod.Spec.Volumes = without(
		pod.Spec.Volumes,
		func(v corev1.Volume) bool { return v.VolumeSource == (corev1.VolumeSource{}) },
	)
}

// without deletes elements of a list; nil stands for an empty one.
func without[T any](list []T, drop func(T) bool) []T {
	kept := slices.DeleteFunc(list, drop)
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// A keepPlan says what of a value of one Go type is kept: all of it, or of a struct some fields.
type keepPlan struct {
	all bool
	// clean is what a text, or each of a list of texts, is kept as; nil if as it is.
	clean func(string) string
	// fields is indexed like the struct's fields; nil for one that is dropped.
	fields []*keepPlan
	// kept are the numbers of those that are not.
	kept []int
}

// infoKeep holds the plans of the resources' objects, by the resource's number.
var infoKeep [256]*keepPlan

func init() {
	for i := range registry {
		t := reflect.TypeOf(registry[i].object()).Elem()
		plan := &keepPlan{}
		plan.addAll(t, keptOfAll)
		for _, rows := range keptFields {
			if rows.resource == registry[i].resource {
				plan.addAll(t, rows.fields)
			}
		}
		for _, rows := range cleanedFields {
			if rows.resource == registry[i].resource {
				plan.cleanAll(t, rows)
			}
		}
		infoKeep[registry[i].code] = plan
	}
}

// cleanAll has the fields of the rows cleaned, which are kept.
func (p *keepPlan) cleanAll(t reflect.Type, rows cleanedRows) {
	for _, field := range rows.fields {
		for _, path := range expandBraces(field) {
			at, err := p.find(t, strings.Split(path, "."))
			if err != nil || !at.all {
				panic(fmt.Sprintf("eventlog: table of cleaned fields: %s: %s is not a kept text: %v", t, path, err))
			}
			at.clean = rows.clean
		}
	}
}

func (p *keepPlan) addAll(t reflect.Type, fields []keptField) {
	for _, field := range fields {
		for _, path := range expandBraces(field.path) {
			if err := p.add(t, strings.Split(path, ".")); err != nil {
				panic(fmt.Sprintf("eventlog: table of kept fields: %s: %s: %v", t, path, err))
			}
		}
	}
}

// expandBraces returns path with each {a,b} replaced by a and by b.
func expandBraces(path string) []string {
	before, rest, ok := strings.Cut(path, "{")
	if !ok {
		return []string{path}
	}
	choices, after, _ := strings.Cut(rest, "}")
	var all []string
	for choice := range strings.SplitSeq(choices, ",") {
		all = append(all, expandBraces(before+choice+after)...)
	}
	return all
}

// add keeps the field at path of the type t, which pointers and lists may wrap.
func (p *keepPlan) add(t reflect.Type, path []string) error {
	at, err := p.find(t, path)
	if err != nil {
		return err
	}
	at.all = true
	return nil
}

// find returns the plan of the field at path, which it makes if there is none.
func (p *keepPlan) find(t reflect.Type, path []string) (*keepPlan, error) {
	if len(path) == 0 {
		sharesQuantity(t)
		return p, nil
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s has no field %q", t, path[0])
	}
	index := fieldByJSONName(t, path[0])
	if index == nil {
		return nil, fmt.Errorf("%s has no field %q", t, path[0])
	}
	for _, i := range index {
		if p.fields == nil {
			p.fields = make([]*keepPlan, t.NumField())
		}
		if p.fields[i] == nil {
			p.fields[i] = &keepPlan{}
			p.kept = append(p.kept, i)
		}
		p, t = p.fields[i], t.Field(i).Type
	}
	return p.find(t, path[1:])
}

// fieldByJSONName returns the index of t's field of the name, looking into inlined structs; nil if there
// is none.
func fieldByJSONName(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return []int{i}
		}
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			if index := fieldByJSONName(f.Type, name); index != nil {
				return append([]int{i}, index...)
			}
		}
	}
	return nil
}

// pick makes dst, which is zero, what the plan keeps of src. What is kept as a whole is shared, see share; lists of
// which a part is kept are made anew, without elements of which nothing is left.
func (p *keepPlan) pick(dst, src reflect.Value) {
	if p.clean != nil {
		p.pickClean(dst, src)
		return
	}
	if p.all {
		share(dst, src)
		return
	}
	switch src.Kind() {
	case reflect.Pointer:
		if !src.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
			p.pick(dst.Elem(), src.Elem())
		}
	case reflect.Slice:
		n := src.Len()
		if n == 0 {
			return
		}
		list, kept := reflect.MakeSlice(src.Type(), n, n), 0
		for i := range n {
			element := list.Index(kept)
			p.pick(element, src.Index(i))
			if !element.IsZero() {
				kept++
			}
		}
		if kept > 0 {
			dst.Set(list.Slice(0, kept))
		}
	case reflect.Struct:
		for _, i := range p.kept {
			if from := src.Field(i); !from.IsZero() {
				p.fields[i].pick(dst.Field(i), from)
			}
		}
	}
}

// pickClean makes dst, which is zero, the text or the list of texts src, each as the plan cleans it. A text of which
// nothing is left is dropped from a list.
func (p *keepPlan) pickClean(dst, src reflect.Value) {
	if src.Kind() == reflect.String {
		dst.SetString(p.clean(src.String()))
		return
	}
	list := reflect.MakeSlice(src.Type(), 0, src.Len())
	for i := range src.Len() {
		if text := p.clean(src.Index(i).String()); text != "" || src.Index(i).Len() == 0 {
			list = reflect.Append(list, reflect.ValueOf(text).Convert(src.Type().Elem()))
		}
	}
	if list.Len() > 0 {
		dst.Set(list)
	}
}
