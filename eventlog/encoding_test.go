package eventlog_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestARecordIsTheSameFromAnEncodingMadeAhead makes many, which share memory, before any record.
func TestARecordIsTheSameFromAnEncodingMadeAhead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var encoder eventlog.Encoder
		var plain, ahead []eventlog.Entry
		for i := range rapid.IntRange(1, 40).Draw(r, "entries") {
			e := eventlog.Entry{Seq: uint64(i + 1), Epoch: 3, Time: 7, Settled: i%2 == 0, Payload: drawPayload(r)}
			plain = append(plain, e)
			enc, err := encoder.Encode(e.Payload)
			if err != nil {
				r.Fatal(err)
			}
			e.Encoding, e.Payload = enc, nil // nobody may look at it
			ahead = append(ahead, e)
		}
		for i := range plain {
			want, err := eventlog.AppendRecord(nil, plain[i], [32]byte{1})
			if err != nil {
				r.Fatal(err)
			}
			got, err := eventlog.AppendRecord([]byte("before"), ahead[i], [32]byte{1})
			if err != nil || !bytes.Equal(got[len("before"):], want) {
				r.Fatalf("entry %d, of kind %d, is another record from its encoding (%v)", i+1, plain[i].Kind(), err)
			}
		}
	})
}

// TestWhatIsLoggedOfAnObjectIsWhatTrimAndTheCodecLeave holds Logged to the two that it does at once.
func TestWhatIsLoggedOfAnObjectIsWhatTrimAndTheCodecLeave(t *testing.T) {
	var encoder eventlog.Encoder
	for _, res := range eventlog.Resources() {
		objects := []eventlog.Object{logged(fullObject(res)), eventlog.NewObject(res)}
		for seed := range int64(20) {
			objects = append(objects, randomObject(res, seed))
		}
		for i, obj := range objects {
			before := obj.DeepCopyObject()
			trimmed := eventlog.Trim(res, before.DeepCopyObject().(eventlog.Object))
			want, werr := eventlog.Canonical(res, trimmed)
			up, enc, err := encoder.Logged(&eventlog.Upserted{Resource: res, Object: obj})
			if (err == nil) != (werr == nil) {
				t.Fatalf("%s %d: error %v, want %v", res, i, err, werr)
			}
			if err != nil {
				continue
			}
			if up.Resource != res || !reflect.DeepEqual(up.Object, want) {
				t.Errorf("%s %d: logged is %+v, want %+v", res, i, up.Object, want)
			}
			plain := encode(
				t,
				eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: trimmed}},
				[32]byte{},
			)
			if got := encode(
				t,
				eventlog.Entry{Seq: 1, Payload: up, Encoding: enc},
				[32]byte{},
			); !bytes.Equal(
				got,
				plain,
			) {
				t.Errorf("%s %d: another record", res, i)
			}
			written, err := eventlog.AppendObject(nil, up.Object)
			if err != nil {
				t.Fatal(err)
			}
			ahead, err := encoder.AppendTrimmed([]byte("before"), res, obj)
			if err != nil || !bytes.Equal(ahead[len("before"):], written) {
				t.Errorf("%s %d: AppendTrimmed appends other bytes than the logged object has (%v)", res, i, err)
			}
			if !reflect.DeepEqual(obj, before) { // also in the text that a Quantity remembers
				t.Errorf("%s %d: the object itself has changed", res, i)
			}
		}
	}
}

// TestWhatDoesNotFitInARecordHasNoEncoding tries the largest payload that does, and one that has a byte more.
func TestWhatDoesNotFitInARecordHasNoEncoding(t *testing.T) {
	ofSize := map[string]func(int) eventlog.Payload{
		"a message": func(n int) eventlog.Payload {
			return &eventlog.BindResult{Outcome: eventlog.BindFailed, Message: strings.Repeat("x", n)}
		},
		"an object": func(n int) eventlog.Payload {
			p := pod("p")
			p.Labels["large"] = strings.Repeat("x", n)
			return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
		},
	}
	for name, of := range ofSize {
		const some = eventlog.MaxRecord - 10_000
		most := eventlog.MaxRecord - len(encode(t, eventlog.Entry{Seq: 1, Payload: of(some)}, [32]byte{})) + some
		for _, n := range []int{most, most + 1} {
			var encoder eventlog.Encoder
			enc, err := encoder.Encode(of(n))
			_, want := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1, Payload: of(n)}, [32]byte{})
			if (err == nil) != (want == nil) || (err == nil) != (n == most) || enc.IsZero() != (err != nil) {
				t.Errorf("%s of %d bytes: Encode says %v, AppendRecord %v", name, n, err, want)
			}
			if err != nil && !strings.Contains(want.Error(), err.Error()) {
				t.Errorf("%s: Encode says %v, AppendRecord %v", name, err, want)
			}
		}
	}
}

// TestALargePayloadHasMemoryOfItsOwn encodes payloads of all sizes in turn. Payloads that do not fit do not enlarge the
// shared memory, and each encoding is the same as alone.
func TestALargePayloadHasMemoryOfItsOwn(t *testing.T) {
	var encoder eventlog.Encoder
	type made struct {
		eventlog.Entry
		want []byte
	}
	var all []made
	for i, size := range []int{10, 60 << 10, 1 << 20, 9 << 10, 100, 200 << 10, 30 << 10, 30 << 10, 30 << 10, 10,
		eventlog.EncoderChunk} {
		e := eventlog.Entry{
			Seq:     uint64(i + 1),
			Payload: &eventlog.BindResult{UID: "u", Outcome: eventlog.BindFailed, Message: strings.Repeat("x", size)},
		}
		want := encode(t, e, [32]byte{})
		var err error
		if e.Encoding, err = encoder.Encode(e.Payload); err != nil {
			t.Fatal(err)
		}
		own, shared := encoder.Memory(e.Encoding)
		if shared > eventlog.EncoderChunk {
			t.Errorf("after %d bytes the chunk is of %d, want %d at the most", size, shared, eventlog.EncoderChunk)
		}
		if own > size+size/4+100 {
			t.Errorf("%d bytes take %d", size, own)
		}
		all = append(all, made{e, want})
	}
	for _, m := range all {
		if !bytes.Equal(encode(t, m.Entry, [32]byte{}), m.want) {
			t.Errorf("entry %d is another record from its encoding", m.Seq)
		}
	}
}

func encodedObject(t *testing.T, obj eventlog.Object) []byte {
	t.Helper()
	b, err := eventlog.AppendObject(nil, obj)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWhatIsLoggedSharesNothingWithTheObject changes the object after it was logged, and what was logged.
func TestWhatIsLoggedSharesNothingWithTheObject(t *testing.T) {
	var encoder eventlog.Encoder
	p := pod("p")
	up, enc, err := encoder.Logged(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	if err != nil {
		t.Fatal(err)
	}
	want := encode(t, eventlog.Entry{Seq: 1, Payload: up}, [32]byte{})
	original := encodedObject(t, p.DeepCopy())
	kept := up.Object.(*corev1.Pod)
	if len(kept.Labels) == 0 || len(kept.Spec.Containers) == 0 {
		t.Fatal("the pod has too little: nothing is tested")
	}
	kept.Labels["changed"] = "yes"
	kept.Spec.Containers[0].Name = "changed"
	if !bytes.Equal(encodedObject(t, p), original) {
		t.Error("changing what was logged changes the object")
	}
	p.Labels["changed"] = "too"
	p.Spec.Containers[0].Name = "changed too"
	if got := encode(t, eventlog.Entry{Seq: 1, Payload: up, Encoding: enc}, [32]byte{}); !bytes.Equal(got, want) {
		t.Error("the encoding has changed")
	}
	if kept.Labels["changed"] != "yes" || kept.Spec.Containers[0].Name != "changed" {
		t.Error("changing the object changes what was logged")
	}
}

func TestWhatNoRecordCanHoldHasNoEncoding(t *testing.T) {
	var encoder eventlog.Encoder
	good, err := encoder.Encode(&eventlog.Deleted{Resource: eventlog.Pods, Name: "p"})
	if err != nil || good.IsZero() {
		t.Fatal(err)
	}
	for name, p := range map[string]eventlog.Payload{
		"none": nil, "an absent one": (*eventlog.Tick)(nil), "text": &eventlog.Deleted{Resource: eventlog.Pods,
			Name: "\xff"},
		"a resource": &eventlog.Deleted{Resource: "cars"}, "an outcome": &eventlog.BindResult{Outcome: 9},
	} {
		if enc, err := encoder.Encode(p); err == nil || !enc.IsZero() {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, _, err := encoder.Logged(&eventlog.Upserted{Resource: eventlog.Nodes, Object: pod("p")}); err == nil {
		t.Error("a pod is logged as a node")
	}
	if _, _, err := encoder.Logged(&eventlog.Upserted{Resource: eventlog.Pods}); err == nil {
		t.Error("no object is logged")
	}
	entry := eventlog.Entry{Seq: 1, Payload: &eventlog.Deleted{Resource: eventlog.Pods, Name: "p"}}
	want := encode(t, entry, [32]byte{})
	if entry.Encoding = good; !bytes.Equal(encode(t, entry, [32]byte{}), want) {
		t.Error("what failed has changed what was encoded before")
	}
}

// TestLoggingAllocatesTheObjectAndLittleElse guards the speed of the code on the path of every input and every
// decision. It counts allocations, not times, without the memory that many entries share.
func TestLoggingAllocatesTheObjectAndLittleElse(t *testing.T) {
	var encoder eventlog.Encoder
	p := pod("p")
	up := &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
	logged, enc, err := encoder.Logged(up)
	if err != nil {
		t.Fatal(err)
	}
	record := encode(t, eventlog.Entry{Seq: 1, Payload: logged}, [32]byte{})
	reading := testing.AllocsPerRun(200, func() {
		if _, _, err := eventlog.DecodeRecord(record); err != nil {
			t.Fatal(err)
		}
	})
	decision := &eventlog.Decision{
		Cycle:     1,
		Namespace: "ns",
		Name:      "p",
		UID:       "u",
		Outcome:   eventlog.Scheduled,
		Node:      "n",
		Score:     9,
		Rejections: []eventlog.Rejection{
			{Plugin: "NodeName", Code: "Unschedulable", Reason: "no", Nodes: 1},
		},
		Allowed: []types.UID{"u", "v"},
	}
	dst := make([]byte, 0, 64<<10)
	for _, c := range []struct {
		name string
		most float64
		f    func() error
	}{
		{"a pod, beyond what reading it allocates", reading + 13, func() error {
			_, _, err := encoder.Logged(up)
			return err
		}},
		{"a decision", 0, func() error {
			_, err := encoder.Encode(decision)
			return err
		}},
		{"a pod's record from its encoding", 0, func() error {
			_, err := eventlog.AppendRecord(dst, eventlog.Entry{Seq: 1, Payload: logged, Encoding: enc}, [32]byte{})
			return err
		}},
		{"a decision's record", 0, func() error {
			_, err := eventlog.AppendRecord(dst, eventlog.Entry{Seq: 1, Payload: decision}, [32]byte{})
			return err
		}},
	} {
		got := testing.AllocsPerRun(500, func() {
			if err := c.f(); err != nil {
				t.Fatal(err)
			}
		})
		if t.Logf("%s: %.0f allocations, at most %.0f", c.name, got, c.most); got > c.most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", c.name, got, c.most)
		}
	}
}

func BenchmarkLogged(b *testing.B) {
	var encoder eventlog.Encoder
	up := &eventlog.Upserted{Resource: eventlog.Pods, Object: pod("p")}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := encoder.Logged(up); err != nil {
			b.Fatal(err)
		}
	}
}
