package eventlog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trim returns a copy of obj with the fields that scheduling reads, which trim_fields.go lists, and no others. The copy
// shares nothing with obj and has no apiVersion and kind. It panics if obj is not an object of the resource.
func Trim(res Resource, obj Object) Object {
	info := infoOf(obj)
	if info == nil || info.resource != res {
		panic(fmt.Sprintf("eventlog: Trim(%q) of an object of type %T", res, obj))
	}
	kept := info.object()
	info.pick(kept, obj, false)
	return kept.DeepCopyObject().(Object)
}

// pick fills kept, an empty object, with the fields of obj that Trim keeps. In a recording it also keeps the fields
// that trim_recorded.go lists. It shares with obj the fields that are kept as a whole, so neither may be changed while
// the other is in use. It shares no Quantity, because encoding changes it.
func (info *resourceInfo) pick(kept, obj Object, recording bool) {
	plan, annotations := infoKeep[info.code], keptAnnotations[info.resource]
	if recording {
		plan = infoRecorded[info.code]
	}
	plan.pick(reflect.ValueOf(kept).Elem(), reflect.ValueOf(obj).Elem())
	pod, isPod := kept.(*corev1.Pod)
	if recording && isPod {
		annotations = recordedPodAnnotations
	}
	trimMeta(annotations, kept)
	if isPod {
		trimPod(pod, recording)
	}
}

// trimMeta keeps the allowed annotations, and the controller among the owners.
func trimMeta(allowed []string, obj Object) {
	if annotations := obj.GetAnnotations(); annotations != nil {
		// A map of its own: obj shares its annotations with the object that it was picked from.
		var kept map[string]string
		for _, key := range allowed {
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

// trimPod drops elements that the table cannot name with a path. It may change these lists: the table keeps only some
// fields of their elements, so pick has made new lists, apart from the original pod's.
func trimPod(pod *corev1.Pod, recording bool) {
	pod.Status.Conditions = without(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return !slices.Contains(keptPodConditions, string(c.Type)) && !(recording && isRecorded(&c))
	})
	for i := range pod.Spec.Volumes {
		if dir := pod.Spec.Volumes[i].EmptyDir; dir != nil && dir.Medium != corev1.StorageMediumMemory {
			pod.Spec.Volumes[i].EmptyDir = nil
		}
	}
	// Only the name is left of these.
	pod.Spec.Volumes = without(
		pod.Spec.Volumes,
		func(v corev1.Volume) bool { return v.VolumeSource == (corev1.VolumeSource{}) },
	)
}

// without deletes elements of a list. It returns nil for an empty list.
func without[T any](list []T, drop func(T) bool) []T {
	kept := slices.DeleteFunc(list, drop)
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// A keepPlan says which part of a value of one Go type is kept: all of it, or some fields of a struct.
type keepPlan struct {
	all bool
	// clean changes a text, or each text of a list; nil keeps it unchanged.
	clean func(string) string
	// fields is indexed like the struct's fields; nil for one that is dropped.
	fields []*keepPlan
	// kept has the indexes of the fields that are not dropped.
	kept []int
}

// infoKeep holds the plans of the resources' objects, by the resource's number. infoRecorded holds the plans of a
// recording.
var infoKeep, infoRecorded [256]*keepPlan

func init() {
	for i := range registry {
		code := registry[i].code
		infoKeep[code] = planOf(&registry[i], keptFields, cleanedFields)
		infoRecorded[code] = planOf(&registry[i], slices.Concat(keptFields, recordedFields),
			slices.Concat(cleanedFields, cleanedRecordedFields))
	}
}

// planOf returns the plan of a resource's objects.
func planOf(info *resourceInfo, kept []keptRows, cleaned []cleanedRows) *keepPlan {
	t := reflect.TypeOf(info.object()).Elem()
	plan := &keepPlan{}
	plan.addAll(t, keptOfAll)
	for _, rows := range kept {
		if rows.resource == info.resource {
			plan.addAll(t, rows.fields)
		}
	}
	for _, rows := range cleaned {
		if rows.resource == info.resource {
			plan.cleanAll(t, rows)
		}
	}
	return plan
}

// cleanAll sets clean for the fields of the rows, which are kept.
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

// find returns the plan of the field at path, and makes it if there is none.
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

// pick fills dst, which is zero, with the part of src that the plan keeps. Values that are kept as a whole are shared,
// see share. Lists that are kept in part are new, without elements that became empty.
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

// pickClean fills dst, which is zero, with the cleaned text or list of texts src. It drops texts that became empty from
// a list.
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

// RecordedPaths returns the paths, in the JSON form, of the fields of a resource's objects that a recorder's log has.
// Each includes everything below it, and {a,b} in a path means a and b. Elements of lists have no step of their own.
// A reader of large files need not decode other fields.
func RecordedPaths(res Resource) (paths []string) {
	for _, f := range keptOfAll {
		paths = append(paths, f.path)
	}
	for _, rows := range slices.Concat(keptFields, recordedFields) {
		for _, f := range rows.fields {
			if rows.resource == res {
				paths = append(paths, f.path)
			}
		}
	}
	return paths
}
