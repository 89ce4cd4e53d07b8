package eventlog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// fataler is a test, or a case of a property.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// loggedPod is a pod as a log has it.
func loggedPod(name string) *corev1.Pod { return eventlog.Trim(eventlog.Pods, pod(name)).(*corev1.Pod) }

// podRecord is the record of a pod.
func podRecord(t fataler, p *corev1.Pod) []byte {
	t.Helper()
	rec, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 7,
		Payload: &eventlog.Upserted{Resource: eventlog.Pods, Object: p}}, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// sameDecoded fails unless the decoder makes of a record what DecodeRecord makes of it.
func sameDecoded(t fataler, d *eventlog.Decoder, rec []byte) eventlog.Entry {
	t.Helper()
	want, wantPrev, wantErr := eventlog.DecodeRecord(rec)
	got, prev, err := d.Record(rec)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("error %v, want %v", err, wantErr)
	}
	if !reflect.DeepEqual(got, want) || prev != wantPrev {
		t.Fatalf("got  %+v\nwant %+v", got.Payload, want.Payload)
	}
	return got
}

// TestADecoderDecodesAsDecodeRecordDoes decodes pods of a few templates one after the other, some of them damaged.
func TestADecoderDecodesAsDecodeRecordDoes(t *testing.T) {
	remembered := 0
	rapid.Check(t, func(t *rapid.T) {
		var d eventlog.Decoder
		kept := map[string]eventlog.Entry{} // what was decoded, by its record
		for i := range rapid.IntRange(2, 20).Draw(t, "pods") {
			p := loggedPod("p")
			if seed := rapid.IntRange(0, 2).Draw(t, "template"); seed > 0 {
				p = randomObject(eventlog.Pods, int64(seed)).(*corev1.Pod)
			}
			p.Name, p.Spec.NodeName = fmt.Sprintf("p-%d", i), text.Draw(t, "node")
			if rapid.Bool().Draw(t, "volume") {
				p.Spec.Volumes = []corev1.Volume{{Name: text.Draw(t, "volume's name")}}
			}
			if rapid.Bool().Draw(t, "group") {
				p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(text.Draw(t, "group's name"))}
			}
			rec := podRecord(t, p)
			if rapid.IntRange(0, 2).Draw(t, "damage") == 0 {
				at := rapid.IntRange(headerSize, len(rec)-5).Draw(t, "at")
				rec = bytes.Clone(rec)
				rec[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
				rec = reseal(rec)
			}
			if e := sameDecoded(t, &d, rec); e.Payload != nil {
				kept[string(rec)] = e
			}
			object := rec[headerSize+1 : len(rec)-4]
			want, wantMemory, wantErr := eventlog.DecodeObject(eventlog.Pods, object, 1<<20)
			got, memory, err := d.Object(eventlog.Pods, object, 1<<20)
			if !reflect.DeepEqual(got, want) || memory != wantMemory || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("got  %+v, %d, %v\nwant %+v, %d, %v", got, memory, err, want, wantMemory, wantErr)
			}
		}
		for rec, e := range kept {
			again, err := eventlog.AppendRecord(nil, e, [32]byte([]byte(rec)[27:59]))
			if err != nil || string(again) != rec {
				t.Fatalf("what was decoded is another object by now: %+v (%v)", e.Payload, err)
			}
		}
		remembered += d.Remembered()
	})
	if remembered == 0 {
		t.Error("nothing was ever remembered")
	}
}

// field is one of a message, whose length has one byte more than it needs if long.
func field(number int, content []byte, long bool) []byte {
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(content)))
	if long {
		b[len(b)-1] |= 0x80
		b = append(b, 0)
	}
	return append(b, content...)
}

// TestADecoderRefusesWhatIsNotCanonical: bytes that mean a pod of a template that is remembered, and are not the ones
// that it is written as, are refused wherever the difference is.
func TestADecoderRefusesWhatIsNotCanonical(t *testing.T) {
	name := []byte("\x0a\x01g")
	longName := []byte("\x0a\x81\x00g")
	build := func(at string) []byte {
		p := loggedPod("p")
		p.Spec.NodeName, p.Spec.Volumes, p.Spec.SchedulingGroup = "", nil, nil
		meta, err := p.ObjectMeta.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		spec, err := p.Spec.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		status, err := p.Status.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		group, volume := name, (&corev1.Volume{Name: "v"})
		if at == "group" {
			group = longName
		}
		source, err := volume.VolumeSource.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		volumeBytes := append(field(1, []byte("v"), at == "volume"), field(2, source, false)...)
		restart := []byte("\x1a\x06Always")
		spec = bytes.Replace(spec, field(3, []byte(p.Spec.RestartPolicy), false), restart, 1)
		if at == "template" {
			spec = bytes.Replace(spec, restart, field(3, []byte("Always"), true), 1)
		}
		if at == "container" {
			c := p.Spec.Containers[0]
			was, err := c.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			named := []byte(c.Name)
			is := bytes.Replace(was, field(1, named, false), field(1, named, true), 1)
			spec = bytes.Replace(spec, field(2, was, false), field(2, is, false), 1)
		}
		spec = bytes.Replace(spec, []byte("\x52\x00"), field(10, []byte("n"), at == "node"), 1)
		spec = append(field(1, volumeBytes, false), append(spec, field(43, group, at == "group's length")...)...)
		if at == "metadata" {
			meta = bytes.Replace(meta, field(1, []byte(p.Name), false), field(1, []byte(p.Name), true), 1)
		}
		if at == "status" {
			status = bytes.Replace(status, field(1, []byte(p.Status.Phase), false),
				field(1, []byte(p.Status.Phase), true), 1)
		}
		object := append(field(1, meta, at == "metadata's length"), field(2, spec, at == "spec's length")...)
		object = append(object, field(3, status, at == "status's length")...)
		good := podRecord(t, p)
		return reseal(append(append(bytes.Clone(good[:headerSize+1]), object...), 0, 0, 0, 0))
	}
	for _, at := range []string{"group", "group's length", "volume", "template", "container", "node", "metadata",
		"status", "metadata's length", "spec's length", "status's length"} {
		var d eventlog.Decoder
		for range 3 {
			if _, _, err := d.Record(build("")); err != nil {
				t.Fatalf("as it is written: %v", err)
			}
		}
		if d.Remembered() != 1 {
			t.Fatalf("%d specs are remembered", d.Remembered())
		}
		bad := build(at)
		if bytes.Equal(bad, build("")) {
			t.Fatalf("%s: nothing was changed", at)
		}
		sameDecoded(t, &d, bad)
		if _, _, err := d.Record(bad); err == nil {
			t.Errorf("%s: accepted", at)
		}
		// A snapshot's reader compares the whole state. Specs that it has remembered are not treated as canonical.
		var mixed eventlog.Decoder
		for range 3 {
			if _, _, err := mixed.Object(eventlog.Pods, bad[headerSize+1:len(bad)-4], 1<<20); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
		}
		sameDecoded(t, &mixed, bad)
	}
}

// TestPodsOfATemplateShareTheirSpec counts what is allocated for the pods of a gang.
func TestPodsOfATemplateShareTheirSpec(t *testing.T) {
	var d eventlog.Decoder
	decode := func(i int) *corev1.Pod {
		p := loggedPod(fmt.Sprintf("p-%d", i))
		p.Spec.NodeName = fmt.Sprintf("n-%d", i)
		rec := podRecord(t, p)
		var e eventlog.Entry
		var err error
		alone := alloc.Bytes(func() { _, _, err = eventlog.DecodeRecord(rec) })
		if err != nil {
			t.Fatal(err)
		}
		got := alloc.Bytes(func() { e, _, err = d.Record(rec) })
		if err != nil {
			t.Fatal(err)
		}
		if i >= 2 && got > alone*3/4 {
			t.Errorf("pod %d takes %d bytes to decode, and %d alone", i, got, alone)
		}
		return e.Payload.(*eventlog.Upserted).Object.(*corev1.Pod)
	}
	decode(0)
	second := decode(1)
	for i := 2; i < 5; i++ {
		if p := decode(i); &p.Spec.Containers[0] != &second.Spec.Containers[0] {
			t.Errorf("pod %d has containers of its own", i)
		}
	}
}

// TestADecoderRemembersABoundedNumberOfSpecs has it decode pods of many templates, each three times.
func TestADecoderRemembersABoundedNumberOfSpecs(t *testing.T) {
	var d eventlog.Decoder
	most := 0
	for i := range 3 * eventlog.MaxShared {
		p := loggedPod("p")
		p.Spec.SchedulerName = fmt.Sprint(i)
		for range 3 {
			sameDecoded(t, &d, podRecord(t, p))
		}
		most = max(most, d.Remembered())
	}
	if most != eventlog.MaxShared {
		t.Errorf("%d specs were remembered, want %d at the most", most, eventlog.MaxShared)
	}
	p := loggedPod("p")
	p.Spec.SchedulerName = string(make([]byte, 17<<10))
	for range 3 {
		before := d.Remembered()
		sameDecoded(t, &d, podRecord(t, p))
		if d.Remembered() > before {
			t.Error("a huge spec is remembered")
		}
	}
}

// TestNoQuantityIsSharedThatEncodingWrites looks for the Quantities of a pod's spec that are not values of maps.
func TestNoQuantityIsSharedThatEncodingWrites(t *testing.T) {
	var paths []string
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		switch {
		case of == reflect.TypeFor[resource.Quantity]():
			paths = append(paths, path)
		case of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice:
			walk(path, of.Elem())
		case of.Kind() == reflect.Struct:
			for i := range of.NumField() {
				walk(path+"."+of.Field(i).Name, of.Field(i).Type)
			}
		}
	}
	walk("", reflect.TypeFor[corev1.PodSpec]())
	// Volumes are not shared, and a spec with environment variables is not.
	known := regexp.MustCompile(`^\.Volumes\.|^\.(InitContainers|Containers|EphemeralContainers)(\.\w*Common)?\.Env\.`)
	for _, path := range paths {
		if !known.MatchString(path) {
			t.Errorf("%s is shared", path)
		}
	}
	if len(paths) < 3 {
		t.Errorf("only %v were found", paths)
	}
	with := func(edit func(*corev1.PodSpec)) (remembered int) {
		var d eventlog.Decoder
		p := loggedPod("p")
		edit(&p.Spec)
		for range 3 {
			sameDecoded(t, &d, podRecord(t, p))
		}
		return d.Remembered()
	}
	env := []corev1.EnvVar{{Name: "e", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
		Resource: "limits.cpu", Divisor: resource.MustParse("1")}}}}
	if with(func(*corev1.PodSpec) {}) != 1 ||
		with(func(s *corev1.PodSpec) { s.Containers[0].Env = env }) != 0 ||
		with(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Env: env}} }) != 0 ||
		with(func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env}}}
		}) != 0 {
		t.Error("a spec with environment variables is remembered, or one without is not")
	}
}

// FuzzDecoder: whatever the bytes are, a Decoder that remembers a pod makes the same of them as DecodeRecord.
func FuzzDecoder(f *testing.F) {
	f.Add(podRecord(f, loggedPod("p")))
	f.Add(podRecord(f, loggedPod("another")))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d eventlog.Decoder
		for range 2 {
			if _, _, err := d.Record(podRecord(t, loggedPod("p"))); err != nil {
				t.Fatal(err)
			}
		}
		if len(b) >= 4 {
			b = reseal(b)
		}
		sameDecoded(t, &d, b)
	})
}

// TestAnAppendToASharedListIsOfOnePod has two pods of a template get another toleration each.
func TestAnAppendToASharedListIsOfOnePod(t *testing.T) {
	var d eventlog.Decoder
	decode := func() *corev1.Pod {
		p := loggedPod("p")
		for len(p.Spec.Tolerations) < 3 {
			p.Spec.Tolerations = append(p.Spec.Tolerations,
				corev1.Toleration{Key: "t", Operator: corev1.TolerationOpExists})
		}
		e, _, err := d.Record(podRecord(t, p))
		if err != nil {
			t.Fatal(err)
		}
		return e.Payload.(*eventlog.Upserted).Object.(*corev1.Pod)
	}
	decode()
	decode()
	a, b := decode(), decode()
	if &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] {
		t.Fatal("the pods share no tolerations")
	}
	ofA := append(a.Spec.Tolerations, corev1.Toleration{Key: "a"})
	_ = append(b.Spec.Tolerations, corev1.Toleration{Key: "b"})
	if got := ofA[len(ofA)-1].Key; got != "a" {
		t.Errorf("the last toleration of the first pod is %q", got)
	}
}

// TestEveryListOfASharedSpecIsClipped fills each list of a pod's spec, including the lists that Trim would drop.
func TestEveryListOfASharedSpecIsClipped(t *testing.T) {
	spec := reflect.TypeFor[corev1.PodSpec]()
	lists := 0
	for i := range spec.NumField() {
		field := spec.Field(i)
		if field.Type.Kind() != reflect.Slice || field.Name == "Volumes" { // which are not shared
			continue
		}
		lists++
		var d eventlog.Decoder
		decode := func() reflect.Value {
			p := loggedPod("p")
			list := reflect.ValueOf(&p.Spec).Elem().Field(i)
			list.Set(reflect.MakeSlice(field.Type, 3, 3)) // of which decoding makes a list with room for four
			e, _, err := d.Record(podRecord(t, p))
			if err != nil {
				t.Fatal(err)
			}
			return reflect.ValueOf(&e.Payload.(*eventlog.Upserted).Object.(*corev1.Pod).Spec).Elem().Field(i)
		}
		decode()
		decode()
		a, b := decode(), decode()
		if a.Pointer() != b.Pointer() {
			t.Errorf("the pods do not share %s", field.Name)
		}
		if a.Cap() != a.Len() {
			t.Errorf("%s has the length %d and the capacity %d", field.Name, a.Len(), a.Cap())
		}
	}
	if lists < 11 {
		t.Errorf("%d lists were tried", lists)
	}
}
