package eventlog_test

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// A hostileList is a list within the objects of a resource, and the bytes of a record that has nothing but many of its
// elements.
type hostileList struct {
	path string
	// wrap puts the field's encoded elements into the object.
	wrap func(elements []byte) []byte
	// tag has the bytes before the length of each element.
	tag []byte
	// grow gives an object so many elements without content.
	grow func(obj eventlog.Object, n int)
}

// object returns an object of about size bytes that consists of the list, each element of which is the given bytes.
func (l hostileList) object(element []byte, size int) []byte {
	one := append(binary.AppendUvarint(append([]byte{}, l.tag...), uint64(len(element))), element...)
	var list []byte
	for len(list) < size {
		list = append(list, one...)
	}
	return l.wrap(list)
}

// hostileLists returns all lists and maps that a record of the resource may have, lists within lists left out.
func hostileLists(res eventlog.Resource) []hostileList {
	var lists []hostileList
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type, path string, at func(reflect.Value) reflect.Value, wrap func([]byte) []byte)
	walk = func(t reflect.Type, path string, at func(reflect.Value) reflect.Value, wrap func([]byte) []byte) {
		if seen[t] || t == reflect.TypeFor[resource.Quantity]() || t == reflect.TypeFor[metav1.Time]() {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			tags := strings.Split(f.Tag.Get("protobuf"), ",")
			if len(tags) < 2 {
				continue
			}
			number, _ := strconv.Atoi(tags[1])
			tag := binary.AppendUvarint(nil, uint64(number)<<3|2)
			name := path + "." + f.Name
			inner := f.Type
			field := func(obj reflect.Value) reflect.Value {
				v := at(obj).Field(i)
				if v.Kind() == reflect.Pointer && v.IsNil() {
					v.Set(reflect.New(v.Type().Elem()))
				}
				return reflect.Indirect(v)
			}
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch {
			case inner.Kind() == reflect.Struct:
				walk(inner, name, field, func(b []byte) []byte {
					return wrap(append(binary.AppendUvarint(append([]byte{}, tag...), uint64(len(b))), b...))
				})
			case inner.Kind() == reflect.Slice && inner.Elem().Kind() != reflect.Uint8, inner.Kind() == reflect.Map:
				grown := func(obj eventlog.Object, n int) { grow(field(reflect.ValueOf(obj).Elem()), n) }
				lists = append(lists, hostileList{path: name, wrap: wrap, tag: tag, grow: grown})
				if inner.Elem().Kind() == reflect.Struct && inner.Kind() == reflect.Slice {
					first := func(obj reflect.Value) reflect.Value {
						v := field(obj)
						if v.Len() == 0 {
							v.Set(reflect.MakeSlice(v.Type(), 1, 1))
						}
						return v.Index(0)
					}
					walk(inner.Elem(), name+"[]", first, func(b []byte) []byte {
						return wrap(append(binary.AppendUvarint(append([]byte{}, tag...), uint64(len(b))), b...))
					})
				}
			}
		}
	}
	walk(reflect.TypeOf(eventlog.NewObject(res)).Elem(), string(res), func(v reflect.Value) reflect.Value { return v },
		func(b []byte) []byte { return b })
	return lists
}

// grow gives a list, or a map, n elements.
func grow(v reflect.Value, n int) {
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := range n {
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(strconv.FormatInt(int64(i), 36))
		v.SetMapIndex(key, reflect.New(v.Type().Elem()).Elem())
	}
}

// isJSON reports whether a record has the resource's objects as JSON.
func isJSON(res eventlog.Resource) bool {
	_, proto := eventlog.NewObject(res).(interface{ Marshal() ([]byte, error) })
	return !proto
}

// Elements without content are two bytes in a record, and a whole struct in Go.
func TestNoRecordCostsMoreThanASmallMultipleOfItsSize(t *testing.T) {
	const size = 60 << 10
	for _, res := range eventlog.Resources() {
		if isJSON(res) {
			continue
		}
		worst, which, lists := 0.0, "", hostileLists(res)
		if len(lists) == 0 {
			t.Errorf("%s has no lists", res)
		}
		for _, list := range lists {
			full := eventlog.NewObject(res)
			list.grow(full, size/smallest(list, res))
			canonical, err := full.(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			for kind, object := range map[string][]byte{"empty": list.object(nil, size), "smallest": canonical} {
				rec := upsertedRecord(t, res, object)
				var err error
				got := alloc.Bytes(func() { _, _, err = eventlog.DecodeRecord(rec) })
				if each := float64(got) / float64(len(rec)); each > worst {
					worst, which = each, list.path
				}
				if most := eventlog.DecodeMemory(len(rec)); got > most {
					t.Errorf("%s, %s elements: a record of %d bytes allocates %d, want at most %d (error %v)",
						list.path, kind, len(rec), got, most, err)
				}
			}
		}
		t.Logf("%s: %d lists, up to %.1f bytes for each of the record: %s", res, len(lists), worst, which)
	}
}

// smallest returns how many bytes an element without content takes.
func smallest(list hostileList, res eventlog.Resource) int {
	size := func(n int) int {
		obj := eventlog.NewObject(res)
		list.grow(obj, n)
		return obj.(interface{ Size() int }).Size()
	}
	return size(2) - size(1)
}

// upsertedRecord returns a record with the bytes of an object.
func upsertedRecord(t testing.TB, res eventlog.Resource, object []byte) []byte {
	t.Helper()
	empty := &eventlog.Upserted{Resource: res, Object: eventlog.NewObject(res)}
	rec := encode(t, eventlog.Entry{Seq: 1, Payload: empty}, [32]byte{})
	return reseal(append(append(append([]byte{}, rec[:60]...), object...), 0, 0, 0, 0))
}

// Objects of real clusters are decoded, however large they are: the limits for hostile objects are far from them.
func TestTheLargestLegitimateObjectsAreDecoded(t *testing.T) {
	for name, obj := range map[eventlog.Resource]eventlog.Object{
		eventlog.ResourceSlices: fullSlice(), eventlog.Pods: fullPod(), eventlog.Nodes: fullNode(),
	} {
		rec, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1,
			Payload: &eventlog.Upserted{Resource: name, Object: obj}}, [32]byte{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := alloc.Bytes(func() { _, _, err = eventlog.DecodeRecord(rec) })
		if err != nil || got > eventlog.DecodeMemory(len(rec)) {
			t.Errorf("%s of %d bytes: %d allocated of %d, error %v", name, len(rec), got,
				eventlog.DecodeMemory(len(rec)), err)
		}
		t.Logf("%s of %d bytes: %d allocated, %.1f for each", name, len(rec), got, float64(got)/float64(len(rec)))
	}
}

// fullSlice has as many devices, attributes and capacities as the API server takes.
func fullSlice() eventlog.Object {
	s := &resourcev1.ResourceSlice{}
	for i := range 128 {
		d := resourcev1.Device{
			Name:       fmt.Sprint(i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{},
		}
		for j := range 16 {
			one := int64(j)
			d.Attributes[resourcev1.QualifiedName(fmt.Sprint("a", j))] = resourcev1.DeviceAttribute{IntValue: &one}
			d.Capacity[resourcev1.QualifiedName(fmt.Sprint("c", j))] = resourcev1.DeviceCapacity{
				Value: *resource.NewQuantity(one, resource.DecimalSI)}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// fullPod has a thousand containers and ten thousand terms of affinity.
func fullPod() eventlog.Object {
	p := pod("p")
	for range 1000 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c", Image: "i"})
	}
	terms := make([]corev1.NodeSelectorTerm, 10_000)
	for i := range terms {
		terms[i].MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "k", Operator: "In", Values: []string{"v"}}}
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	return p
}

// fullNode has ten thousand labels and taints.
func fullNode() eventlog.Object {
	n := &corev1.Node{}
	n.Labels = map[string]string{}
	for i := range 10_000 {
		n.Labels[fmt.Sprint(i)] = ""
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: fmt.Sprint(i), Effect: "NoSchedule"})
	}
	return n
}

// parseMeasured parses a line and sees how much memory that takes.
func parseMeasured(t testing.TB, line []byte) (e eventlog.Entry, err error) {
	t.Helper()
	got := alloc.Bytes(func() { e, err = eventlog.ParseJSON(line) })
	t.Logf("%d bytes allocated for a line of %d", got, len(line))
	if most := eventlog.DecodeMemory(len(line)); got > most {
		t.Errorf("%.100s: %d bytes allocated for a line of %d, want at most %d (error %v)",
			line, got, len(line), most, err)
	}
	return e, err
}

// Two bytes of JSON can be a whole struct in Go.
func TestNoLineCostsMoreThanASmallMultipleOfItsSize(t *testing.T) {
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", 60<<10/(len(one)+1)), ",") }
	upserted := func(res eventlog.Resource, object string) string {
		kind := eventlog.KindFor(res)
		return fmt.Sprintf(`{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"Upserted","resource":%q,`+
			`"object":{"apiVersion":%q,"kind":%q,%s}}`, res, kind.GroupVersion(), kind.Kind, object)
	}
	decision := func(list string) string {
		return `{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"Decision",` +
			`"decision":{"pod":"a/b",` + list + `}}`
	}
	for name, line := range map[string]string{
		"containers":     upserted(eventlog.Pods, `"spec":{"containers":[`+many(`{}`)+`]}`),
		"no containers":  upserted(eventlog.Pods, `"spec":{"containers":[`+many(`null`)+`]}`),
		"short null":     upserted(eventlog.Pods, `"spec":{"volumes":[`+many(`0`)+`]}`),
		"claims":         upserted(eventlog.StatefulSets, `"spec":{"volumeClaimTemplates":[`+many(`{}`)+`]}`),
		"labels":         upserted(eventlog.Nodes, `"metadata":{"labels":{`+many(`"":""`)+`}}`),
		"quantities":     upserted(eventlog.Nodes, `"status":{"capacity":{`+many(`"":0`)+`}}`),
		"x managed":      upserted(eventlog.XPodGroups, `"metadata":{"managedFields":[`+many(`{}`)+`]}`),
		"unknown":        upserted(eventlog.Nodes, many(`"":0`)),
		"lists in lists": upserted(eventlog.Nodes, `"a":`+strings.Repeat(`[`, 9000)+strings.Repeat(`]`, 9000)),
		"rejections":     decision(`"rejections":[` + many(`{}`) + `]`),
		"places":         decision(`"places":[` + many(`{}`) + `]`),
		"texts":          decision(`"allowed":[` + many(`""`) + `]`),
		"repeated":       decision(many(`"allowed":[""]`)),
		"no objects":     many(`{}`),
	} {
		t.Run(name, func(t *testing.T) { _, _ = parseMeasured(t, []byte(line)) })
	}
	for _, res := range eventlog.Resources() {
		if isJSON(res) {
			continue
		}
		for _, list := range hostileLists(res) {
			obj := eventlog.NewObject(res)
			list.grow(obj, 5000)
			e := eventlog.Entry{Seq: 1, Epoch: 1, Payload: &eventlog.Upserted{Resource: res, Object: obj}}
			line, err := eventlog.AppendJSON(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = parseMeasured(t, line)
		}
	}
}

// The one resource that is JSON in a record.
func TestNoRecordOfJSONCostsMoreThanASmallMultipleOfItsSize(t *testing.T) {
	for _, object := range []string{
		`{"metadata":{"managedFields":[` + strings.Repeat(`{},`, 30<<10) + `{}]},"spec":{},"status":{}}`,
		`{"metadata":{"ownerReferences":[` + strings.Repeat(`{},`, 30<<10) + `{}]},"spec":{},"status":{}}`,
		`{"metadata":{"finalizers":[` + strings.Repeat(`"",`, 30<<10) + `""]},"spec":{},"status":{}}`,
		`{"spec":{"minResources":{` + strings.Repeat(`"":0,`, 30<<10) + `"":0}},"status":{}}`,
		`{"spec":{"minTaskMember":{` + strings.Repeat(`"":0,`, 30<<10) + `"":0}}}`,
		`{"spec":{"subGroupPolicy":[` + strings.Repeat(`{},`, 30<<10) + `{}]}}`,
		`{"spec":{"subGroups":[` + strings.Repeat(`{},`, 30<<10) + `{}]}}`,
	} {
		for _, res := range eventlog.Resources() {
			if !isJSON(res) {
				continue
			}
			rec := upsertedRecord(t, res, []byte(object))
			var err error
			got := alloc.Bytes(func() { _, _, err = eventlog.DecodeRecord(rec) })
			if most := eventlog.DecodeMemory(len(rec)); err == nil || got > most {
				t.Errorf("%s, %.40s: a record of %d bytes allocates %d, want at most %d (error %v)",
					res, object, len(rec), got, most, err)
			}
		}
	}
}
