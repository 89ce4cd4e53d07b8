package eventlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	xschedulingv1alpha1 "github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

const headerSize = 59

func encode(t testing.TB, e eventlog.Entry, prev [32]byte) []byte {
	t.Helper()
	rec, err := eventlog.AppendRecord(nil, e, prev)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// reseal gives a record that was tampered with a checksum that fits.
func reseal(rec []byte) []byte {
	body := rec[:len(rec)-4]
	return binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		prev := eventlog.HashRecord([]byte(rapid.String().Draw(t, "prev")))
		rec, err := eventlog.AppendRecord([]byte("before"), e, prev)
		if err != nil {
			t.Fatal(err)
		}
		rec, ok := bytes.CutPrefix(rec, []byte("before"))
		if !ok {
			t.Fatal("what stood before the record is gone")
		}
		got, gotPrev, err := eventlog.DecodeRecord(rec)
		if err != nil {
			t.Fatalf("%v\n%x", err, rec)
		}
		if gotPrev != prev {
			t.Fatalf("previous hash is %x, want %x", gotPrev, prev)
		}
		if !equality.Semantic.DeepEqual(got, e) {
			t.Fatalf("came back as\n%+v\n%+v, want\n%+v\n%+v", got, got.Payload, e, e.Payload)
		}
		again, err := eventlog.AppendRecord(nil, got, prev)
		if err != nil || !bytes.Equal(again, rec) {
			t.Fatalf("written again as\n%x, error %v, want\n%x", again, err, rec)
		}
	})
}

func TestObjectsOfEveryResourceRoundTrip(t *testing.T) {
	for _, res := range eventlog.Resources() {
		for seed := range int64(20) {
			e := eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: randomObject(res, seed)}}
			rec := encode(t, e, [32]byte{})
			got, _, err := eventlog.DecodeRecord(rec)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", res, seed, err)
			}
			if !equality.Semantic.DeepEqual(got, e) {
				t.Fatalf("%s, seed %d: came back as\n%+v, want\n%+v", res, seed, got.Payload, e.Payload)
			}
		}
	}
}

// Maps must be written in the order of their keys: the hash of a record may not depend on Go's map order.
func TestMapsAreWrittenInOneOrder(t *testing.T) {
	for _, res := range eventlog.Resources() {
		wide := false
		for seed := range int64(8) {
			obj := randomObject(res, seed)
			wide = wide || hasWideMap(reflect.ValueOf(obj))
			want := encode(
				t,
				eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: obj}},
				[32]byte{},
			)
			for range 20 {
				again := obj.DeepCopyObject().(eventlog.Object)
				if got := encode(
					t,
					eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: again}},
					[32]byte{},
				); !bytes.Equal(
					got,
					want,
				) {
					t.Fatalf("%s: the same object was written in two ways", res)
				}
			}
		}
		if !wide {
			t.Errorf("%s: no map of two keys was tried", res)
		}
	}
}

func TestRecordLayout(t *testing.T) {
	prev := eventlog.HashRecord([]byte("x"))
	rec := encode(t, eventlog.Entry{Seq: 0x0102, Epoch: 3, Time: -2, Settled: true, Payload: &eventlog.Tick{}}, prev)
	want := []byte{eventlog.SchedulerFormat, 4, 1,
		0, 0, 0, 0, 0, 0, 1, 2,
		0, 0, 0, 0, 0, 0, 0, 3,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe}
	want = append(want, prev[:]...)
	want = append(want, 0, 0, 0, 0)
	if want = reseal(want); !bytes.Equal(rec, want) {
		t.Errorf("a tick is written as\n%x, want\n%x", rec, want)
	}
}

func TestEntriesThatCannotBeWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		e    eventlog.Entry
		want string
	}{
		"no payload":  {eventlog.Entry{Seq: 1}, "no payload"},
		"nil payload": {eventlog.Entry{Seq: 1, Payload: (*eventlog.Decision)(nil)}, "no payload"},
		"number 0":    {eventlog.Entry{Payload: &eventlog.Tick{}}, "sequence number 0"},
		"no outcome":  {eventlog.Entry{Seq: 1, Payload: &eventlog.Decision{}}, "unknown outcome 0"},
		"no eviction": {eventlog.Entry{Seq: 1, Payload: (*eventlog.EvictResult)(nil)}, "no payload"},
		"no evict outcome": {eventlog.Entry{Seq: 1, Payload: &eventlog.EvictResult{Decision: 1}},
			"outcome: unknown evict outcome 0"},
		"evicted by no decision": {eventlog.Entry{Seq: 1, Payload: &eventlog.EvictResult{Outcome: 1}}, "decision: 0"},
		"done and tried again": {eventlog.Entry{Seq: 1, Payload: &eventlog.EvictResult{Outcome: 1, Decision: 1,
			RetryAfter: 1}}, "retry after: an eviction that is Done is not tried again"},
		"tried again in years": {eventlog.Entry{Seq: 1, Payload: &eventlog.EvictResult{Outcome: eventlog.EvictRefused,
			Decision: 1, RetryAfter: eventlog.MaxRetryAfter + 1}},
			"retry after: 24h0m0.000000001s is longer than 24h0m0s"},
		"no bind outcome": {eventlog.Entry{Seq: 1, Payload: &eventlog.BindResult{Outcome: 9}}, "unknown bind " +
			"outcome 9"},
		"unknown resource": {eventlog.Entry{Seq: 1, Payload: &eventlog.Deleted{Resource: "unicorns"}}, `unknown resource "unicorns"`},
		"no object":        {eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Pods}}, "nil"},
		"nil object": {eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Pods,
			Object: (*corev1.Pod)(nil)}}, "nil"},
		"wrong object": {eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Pods,
			Object: &corev1.Node{}}}, "the object is of nodes"},
		"config with space": {eventlog.Entry{Seq: 1, Payload: &eventlog.EpochStarted{Config: []byte("{ }")}},
			"not compact JSON"},
		"not UTF-8": {eventlog.Entry{Seq: 1, Payload: &eventlog.Decision{Outcome: 1, Node: "\xff"}},
			"node: not valid UTF-8"},
		"not UTF-8 in an object": {eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Nodes,
			Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "\xff"}}}}},
			"metadata.labels.value at byte"},
		"absurd quantity": {eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Nodes,
			Object: &corev1.Node{Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1e99999")}}}}},
			"status.allocatable.value.string"},
		"too large": {eventlog.Entry{Seq: 1, Payload: &eventlog.BindResult{Outcome: 1, Message: strings.Repeat("x",
			eventlog.MaxRecord)}}, "exceed"},
	} {
		dst := []byte("before")
		got, err := eventlog.AppendRecord(dst, tc.e, [32]byte{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
		if string(got) != "before" {
			t.Errorf("%s: dst came back as %q", name, got)
		}
	}
}

func TestForeignTextBecomesValidUTF8(t *testing.T) {
	rec := encode(
		t,
		eventlog.Entry{Seq: 1, Payload: &eventlog.BindResult{Outcome: eventlog.BindFailed, Message: "bad \xff byte"}},
		[32]byte{},
	)
	e, _, err := eventlog.DecodeRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Payload.(*eventlog.BindResult).Message; got != "bad \uFFFD byte" {
		t.Errorf("message is %q", got)
	}
}

// raw makes a sealed record with the payload of a kind.
func raw(kind eventlog.Kind, payload ...byte) []byte {
	rec := make([]byte, headerSize, headerSize+len(payload)+4)
	rec[0], rec[1], rec[10] = eventlog.SchedulerFormat, byte(kind), 1
	return reseal(append(append(rec, payload...), 0, 0, 0, 0))
}

// plainDecision is the payload of a decision that has nothing from Places on.
var plainDecision = []byte{1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// plainAnd is the record of plainDecision with more bytes behind it.
func plainAnd(more ...byte) []byte {
	return raw(eventlog.KindDecision, append(bytes.Clone(plainDecision), more...)...)
}

func TestAPayloadEndsWithTheLastFieldThatIsSet(t *testing.T) {
	facts := []func(d *eventlog.Decision){
		func(*eventlog.Decision) {},
		func(d *eventlog.Decision) { d.Places = []eventlog.Place{{UID: "u", Node: "n"}} },
		func(d *eventlog.Decision) { d.Nominations = []eventlog.Nomination{{UID: "u", Node: "n"}, {UID: "v"}} },
		func(d *eventlog.Decision) { d.Domain = "rack=a" },
		func(d *eventlog.Decision) { d.Elsewhere, d.Plan.Result = true, eventlog.PlanNone },
		func(d *eventlog.Decision) {
			d.Ended, d.Nominations = eventlog.NotFirst, []eventlog.Nomination{{UID: "u"}}
		},
	}
	for i, add := range facts {
		plain := raw(eventlog.KindDecision, plainDecision...)
		e, prev, err := eventlog.DecodeRecord(plain)
		if err != nil {
			t.Fatal(err)
		}
		add(e.Payload.(*eventlog.Decision))
		rec := encode(t, e, prev)
		if again, _, err := eventlog.DecodeRecord(rec); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%d: %+v is read back as %+v, %v", i, e, again, err)
		}
		if bytes.Equal(rec, plain) != (i == 0) {
			t.Errorf("%d: %x is written as %x", i, plain, rec)
		}
	}
}

// A tick of any format except the current one is refused, and the error says what to do.
func TestRecordsOfOtherFormatsAreRefused(t *testing.T) {
	for format := range 256 {
		rec := raw(eventlog.KindTick)
		rec[0] = byte(format)
		_, _, err := eventlog.DecodeRecord(reseal(rec))
		var other *eventlog.FormatError
		switch {
		case format == eventlog.SchedulerFormat:
			if err != nil {
				t.Error(err)
			}
		case format == eventlog.FormatVersion, format == 0: // 11: TestOnlyARecorderWritesItsFormat
			if err == nil || errors.As(err, &other) {
				t.Errorf("format %d: %v", format, err)
			}
		case !errors.As(err, &other) || other.Format != byte(format):
			t.Errorf("format %d: %v", format, err)
		case !strings.Contains(err.Error(), "the log is not damaged, do not cut it here"),
			format < 10 && !strings.Contains(err.Error(), "written before the first release of Rollcall: this version "+
				"reads format 10 and later: read the log with the program that wrote it, or with one built from "+
				"commit "+eventlog.LastPrerelease),
			format > 10 && !strings.Contains(err.Error(), "written by a newer version of Rollcall"):
			t.Errorf("format %d: %v", format, err)
		}
	}
}

func TestRecordsThatAreRefused(t *testing.T) {
	good := raw(eventlog.KindTick)
	change := func(at int, c byte) []byte {
		rec := bytes.Clone(good)
		rec[at] = c
		return reseal(rec)
	}
	bind := []byte{1, 'u', 1, 'n', 1, 0}
	for name, tc := range map[string]struct {
		rec  []byte
		want string
	}{
		"empty":     {nil, "too few"},
		"short":     {good[:40], "too few"},
		"checksum":  {append(bytes.Clone(good[:62]), good[62]^1), "checksum"},
		"version 0": {change(0, 0), "unknown format version 0 at byte 0"},
		"empty facts": {plainAnd(0, 0, 0, 0, 0), "domain at byte 83: " +
			"empty fields at the end are left out"},
		"elsewhere":        {plainAnd(0, 0, 1, 'd', 2, 0), "elsewhere at byte 83: 2 is neither 0 nor 1"},
		"ending":           {plainAnd(0, 0, 0, 0, 4), "ended at byte 83: unknown ending 4"},
		"kind 0":           {change(1, 0), "unknown kind 0 at byte 1"},
		"kind":             {change(1, 10), "unknown kind 10 at byte 1"},
		"flags":            {change(2, 0x81), "unknown flags 0x80 at byte 2"},
		"number 0":         {change(10, 0), "sequence number 0"},
		"tick with a byte": {raw(eventlog.KindTick, 0), "tick: 1 bytes too many at byte 59"},
		"bind result cut short": {raw(eventlog.KindBindResult, bind[:4]...), "bind result: outcome at byte 63: " +
			"record ends"},
		"bind outcome": {raw(eventlog.KindBindResult, 1, 'u', 1, 'n', 5, 0), "byte 64: unknown bind outcome 5"},
		"decision 0": {raw(eventlog.KindBindResult, append(bytes.Clone(bind), 0)...), "decision at byte 66: 0 is " +
			"left out"},
		"trailing byte": {raw(eventlog.KindBindResult, 1, 'u', 1, 'n', 3, 1, 'm', 7, 1, 'p', 5, 'E', 'r', 'r',
			'o', 'r', 0), "1 bytes too many at byte 75"},
		"no plugin": {raw(eventlog.KindBindResult, 1, 'u', 1, 'n', 3, 1, 'm', 7, 0, 5, 'E', 'r', 'r', 'o', 'r'),
			"plugin at byte"},
		"plugin of a bind that stands": {raw(eventlog.KindBindResult, 1, 'u', 1, 'n', 1, 1, 'm', 7, 1, 'p', 5, 'E', 'r',
			'r', 'o', 'r'), "only Failed can have one"},
		"code of a plugin": {raw(eventlog.KindBindResult, 1, 'u', 1, 'n', 3, 1, 'm', 7, 1, 'p', 1, 'E'),
			"want one of"},
		"long varint": {raw(eventlog.KindBindResult, 0x81, 0x00, 'u', 1, 'n', 1, 0), "uid at byte 59: " +
			"varint is longer"},
		"endless varint": {raw(eventlog.KindBindResult, bytes.Repeat([]byte{0xff}, 11)...), "varint exceeds " +
			"64 bits"},
		"length beyond the end": {raw(eventlog.KindBindResult, 9, 'u'), "uid at byte 60: length 9 exceeds"},
		"text not UTF-8": {raw(eventlog.KindBindResult, 1, 0xff, 1, 'n', 1, 0), "uid at byte 60: not valid " +
			"UTF-8"},
		"evict outcome": {raw(eventlog.KindEvictResult, 1, 'u', 6, 0, 1), "outcome at byte 64: unknown evict " +
			"outcome 6"},
		"evicted by no decision": {raw(eventlog.KindEvictResult, 1, 'u', 1, 0, 0), "decision at byte 64: 0: an " +
			"eviction is asked for by a decision"},
		"refused for ever":     {raw(eventlog.KindEvictResult, 1, 'u', 3, 0, 1, 0), "retry after at byte 65: no time"},
		"done and tried again": {raw(eventlog.KindEvictResult, 1, 'u', 1, 0, 1, 2), "1 bytes too many at byte 64"},
		"resource":             {raw(eventlog.KindDeleted, 0), "unknown resource number 0"},
		"decision's outcome":   {raw(eventlog.KindDecision, 1, 0, 0, 0, 0, 9), "unknown outcome 9"},
		"huge list": {raw(eventlog.KindDecision, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f,
			0), "rejections at byte"},
		"element of a list": {raw(eventlog.KindDecision, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 5, 0),
			"rejections[0].reason at byte"},
		"empty places":      {raw(eventlog.KindDecision, append(plainDecision, 0)...), "places at byte"},
		"empty nominations": {raw(eventlog.KindDecision, append(plainDecision, 0, 0)...), "nominations at byte"},
		"no resource":       {raw(eventlog.KindUpserted), "resource at byte 59"},
		"unknown object":    {raw(eventlog.KindUpserted, 99), "unknown resource number 99"},
		"unknown field": {raw(eventlog.KindUpserted, 1, 0x7a, 0), "pods at byte 60: byte 0 of the object: unknown " +
			"field 15"},
		"nested groups": {raw(eventlog.KindUpserted, 1, 0x7b, 0x7b, 0x7b), "unknown field 15"},
		"wire type":     {raw(eventlog.KindUpserted, 1, 0x08, 0), "metadata at byte 2 of the object: wire type 0"},
		"object cut": {raw(eventlog.KindUpserted, 1, 0x0a, 5), "metadata at byte 2 of the object: length 5 " +
			"exceeds"},
		"not canonical":   {raw(eventlog.KindUpserted, 1, 0x0a, 0x00), "not in canonical form"},
		"pod group space": {raw(eventlog.KindUpserted, append([]byte{13}, `{ "metadata":{},"spec":{}}`...)...), "not in canonical form"},
		"pod group field": {raw(eventlog.KindUpserted, append([]byte{13}, `{"metadata":{},"spec":{"minMembers":3}}`...)...), `unknown field "spec.minMembers"`},
		"pod group quantity": {raw(eventlog.KindUpserted, append([]byte{13}, `{"metadata":{},"spec":{"minResources":{"cpu":"1e999999999"}}}`...)...),
			"exponent"},
		"config": {raw(eventlog.KindEpochStarted, 0, 0, 1, 0, 1, '{'), "config at byte"},
		"format": {raw(eventlog.KindEpochStarted, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 10),
			"format at byte"},
		"behaviour": {raw(eventlog.KindEpochStarted, 0, 0, 10, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f),
			"behaviour at byte"},
		"no behaviour": {raw(eventlog.KindEpochStarted, 0, 0, 10, 0, 0), "behaviour at byte"},
	} {
		e, _, err := eventlog.DecodeRecord(tc.rec)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: entry %+v, error %v, want one with %q", name, e.Payload, err, tc.want)
		}
	}
}

// A quantity is text that the resource package raises ten to the power of.
func TestQuantitiesThatWouldEatTheMemoryAreRefused(t *testing.T) {
	e := eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Nodes, Object: &corev1.Node{
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1111111111111111111111")},
		},
	}}}
	rec := encode(t, e, [32]byte{})
	rec = bytes.Replace(rec, []byte("1111111111111111111111"), []byte("111111111111e-999999999"[:22]), 1)
	if _, _, err := eventlog.DecodeRecord(
		reseal(rec),
	); err == nil ||
		!strings.Contains(err.Error(), "status.allocatable.value.string") {
		t.Errorf("error %v, want one that names the quantity", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, res := range eventlog.Resources() {
		f.Add(
			encode(
				f,
				eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: res, Object: randomObject(res, 1)}},
				[32]byte{},
			),
		)
		f.Add(
			encode(
				f,
				eventlog.Entry{Seq: 2, Payload: &eventlog.Deleted{Resource: res, Namespace: "a", Name: "b", UID: "c"}},
				[32]byte{},
			),
		)
	}
	f.Add(
		encode(
			f,
			eventlog.Entry{Seq: 3, Payload: &eventlog.Upserted{Resource: eventlog.Pods, Object: pod("p")}},
			[32]byte{},
		),
	)
	f.Add(encode(f, eventlog.Entry{Seq: 4, Epoch: 1, Time: 5, Settled: true, Payload: &eventlog.Tick{}}, [32]byte{1}))
	f.Add(encode(f, eventlog.Entry{Seq: 5, Payload: decision()}, [32]byte{}))
	f.Add(
		encode(
			f,
			eventlog.Entry{Seq: 6, Payload: &eventlog.BindResult{UID: "u", Node: "n", Outcome: 4, Message: "m"}},
			[32]byte{},
		),
	)
	f.Add(
		encode(
			f,
			eventlog.Entry{Seq: 6, Payload: &eventlog.BindResult{UID: "u", Node: "n", Outcome: 1, Decision: 300}},
			[32]byte{},
		),
	)
	f.Add(encode(f, eventlog.Entry{Seq: 6, Payload: &eventlog.EvictResult{UID: "u", Outcome: 3, Message: "m",
		Decision: 300, RetryAfter: 7}}, [32]byte{}))
	f.Add(
		encode(
			f,
			eventlog.Entry{Seq: 7, Payload: &eventlog.EpochStarted{ID: "i", Version: "v", Config: []byte("{}")}},
			[32]byte{},
		),
	)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		check(t, b)
		if len(b) >= 4 {
			check(t, reseal(b)) // the checksum alone would keep nearly everything out
		}
	})
}

// check checks that a record that is accepted is written back unchanged, and has a public form.
func check(t *testing.T, b []byte) {
	var e eventlog.Entry
	var prev [32]byte
	var err error
	got := alloc.Bytes(func() { e, prev, err = eventlog.DecodeRecord(b) })
	if most := eventlog.DecodeMemory(len(b)); got > most {
		t.Errorf("%d bytes allocated for a record of %d, want at most %d (error %v)", got, len(b), most, err)
	}
	if err != nil {
		return
	}
	again, err := eventlog.AppendRecord(nil, e, prev)
	if err != nil {
		t.Fatalf("accepted but not written back: %v\n%x", err, b)
	}
	if !bytes.Equal(again, b) {
		t.Fatalf("accepted\n%x, written back as\n%x", b, again)
	}
	if _, err := eventlog.AppendJSON(nil, e); err != nil {
		t.Logf("no public form: %v", err)
	}
}

func decision() *eventlog.Decision {
	return &eventlog.Decision{
		Cycle:     123456,
		Namespace: "training",
		Name:      "llm-worker-17",
		UID:       "0d3b5c1e-0f5a-4d8e-9a51-6f1f5f7e2b11",
		Group:     "llm",
		Outcome:   eventlog.Scheduled,
		Node:      "node-00017",
		Score:     512,
		Evaluated: 5000,
		Feasible:  4000,
		Rejections: []eventlog.Rejection{
			{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: "Insufficient nvidia.com/gpu", Nodes: 1000},
		},
		Allowed: []types.UID{"0d3b5c1e-0f5a-4d8e-9a51-6f1f5f7e2b12", "0d3b5c1e-0f5a-4d8e-9a51-6f1f5f7e2b13"},
	}
}

func TestEncodingADecisionDoesNotAllocate(t *testing.T) {
	e := eventlog.Entry{Seq: 1, Payload: decision()}
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buf, _ = eventlog.AppendRecord(buf[:0], e, [32]byte{}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func benchmark(b *testing.B, p eventlog.Payload) {
	e := eventlog.Entry{Seq: 1, Epoch: 1, Time: 1, Payload: p}
	rec := encode(b, e, [32]byte{})
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(rec)))
		var buf []byte
		for b.Loop() {
			buf, _ = eventlog.AppendRecord(buf[:0], e, [32]byte{})
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(rec)))
		for b.Loop() {
			if _, _, err := eventlog.DecodeRecord(rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = eventlog.AppendJSON(buf[:0], e)
		}
	})
}

func BenchmarkDecision(b *testing.B) { benchmark(b, decision()) }

func BenchmarkPod(b *testing.B) {
	benchmark(b, &eventlog.Upserted{Resource: eventlog.Pods, Object: eventlog.Trim(eventlog.Pods, pod("p"))})
}

func BenchmarkPodGroup(b *testing.B) {
	benchmark(b, &eventlog.Upserted{Resource: eventlog.XPodGroups, Object: &xschedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "training",
			Name:      "llm",
		},
		Spec: xschedulingv1alpha1.PodGroupSpec{MinMember: 64},
	}})
}
