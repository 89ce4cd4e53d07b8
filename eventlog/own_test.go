package eventlog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// quotas is a resource that a plugin reads.
var quotas = eventlog.OwnResource{
	Resource: "quotas.example.com", Version: "v1", Kind: "Quota", Namespaced: true,
	Fields: []string{"metadata.labels", "spec.{max,pools.name}", "limits"},
}

func ownObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var object map[string]any
	if err := utiljson.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

const fullQuota = `{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"namespace":"ml","name":"team","uid":"u",
	"creationTimestamp":"2026-01-02T03:04:05Z","resourceVersion":"7","labels":{"a":"b"},
	"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"swordfish"},"managedFields":[{"manager":"m"}]},
	"spec":{"max":{"cpu":"4","share":0.5,"many":12345678901234567890,"whole":2.0,"flag":true,"none":null,
	"password":"swordfish","url":"https://user:swordfish@host/path?sig=swordfish"},
	"pools":[{"name":"p1","key":"swordfish"},{"key":"swordfish"},{"name":"p2"}],"note":"swordfish"},
	"status":{"used":"swordfish"},"limits":["-----BEGIN KEY swordfish",1,[2,{"authToken":"swordfish"}]]}`

const keptQuota = `{"apiVersion":"example.com/v1","kind":"Quota","limits":["",1,[2,{}]],"metadata":{` +
	`"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"b"},"name":"team","namespace":"ml","uid":"u"},"spec":{` +
	`"max":{"cpu":"4","flag":true,"many":12345678901234567000,"none":null,"share":0.5,` +
	`"url":"https://host/path","whole":2},"pools":[{"name":"p1"},{"name":"p2"}]}}`

// TestOfAPluginsObjectTheDeclaredFieldsAreLogged logs an object that has a secret in every other place.
func TestOfAPluginsObjectTheDeclaredFieldsAreLogged(t *testing.T) {
	declared, err := eventlog.CompleteOwn([]eventlog.OwnResource{quotas})
	if err != nil {
		t.Fatal(err)
	}
	encoder := eventlog.Encoder{Own: eventlog.NewOwnTrim(declared)}
	object := ownObject(t, fullQuota)
	up := &eventlog.Upserted{Resource: quotas.Resource, Object: object}
	logged, encoding, err := encoder.Logged(up)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(logged.Object.(*unstructured.Unstructured).Object)
	if err != nil || string(got) != keptQuota {
		t.Errorf("logged, %v:\n%s\nwant\n%s", err, got, keptQuota)
	}
	if !reflect.DeepEqual(object, ownObject(t, fullQuota)) {
		t.Error("the object was changed")
	}
	trimmed, err := encoder.AppendTrimmed(nil, quotas.Resource, object)
	if err != nil || string(trimmed) != keptQuota {
		t.Errorf("trimmed, %v: %s", err, trimmed)
	}
	again, _, err := encoder.Logged(logged)
	if err != nil || !reflect.DeepEqual(again, logged) {
		t.Errorf("what is logged is logged as something else: %v, %v", again, err)
	}
	rec, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1, Epoch: 1, Payload: logged, Encoding: encoding},
		[32]byte{})
	if err != nil || bytes.Contains(rec, []byte("swordfish")) {
		t.Errorf("the record, %v: %q", err, rec)
	}
}

// TestAPluginsObjectRoundTrips writes an Upserted and a Deleted of a plugin's resource in both forms, and as state.
func TestAPluginsObjectRoundTrips(t *testing.T) {
	object := ownObject(t, keptQuota)
	for _, p := range []eventlog.Payload{
		&eventlog.Upserted{Resource: quotas.Resource, Object: object},
		&eventlog.Deleted{Resource: quotas.Resource, Namespace: "ml", Name: "team", UID: "u"},
	} {
		e := eventlog.Entry{Seq: 1, Epoch: 1, Time: 5, Payload: p}
		rec, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := eventlog.DecodeRecord(rec)
		if err != nil || !reflect.DeepEqual(read, e) {
			t.Errorf("record: %v: got %+v, want %+v", err, read, e)
		}
		line, err := eventlog.AppendJSON(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := eventlog.ParseJSON(line)
		if err != nil || !reflect.DeepEqual(parsed, e) {
			t.Errorf("JSON: %v: %s: got %+v", err, line, parsed)
		}
	}
	state, err := eventlog.AppendObject(nil, object)
	if err != nil {
		t.Fatal(err)
	}
	restored, memory, err := eventlog.DecodeObject(quotas.Resource, state, 1<<20)
	if err != nil || memory == 0 || !reflect.DeepEqual(restored, eventlog.Object(object)) {
		t.Errorf("state: %v, %d bytes: %+v", err, memory, restored)
	}
	if _, _, err := eventlog.DecodeObject(quotas.Resource, state, 100); err == nil {
		t.Error("an object is decoded that takes more memory than it may")
	}
}

func TestDeclarationsOfResourcesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*eventlog.OwnResource)
		want   string
	}{
		{func(o *eventlog.OwnResource) { o.Resource = "pods" }, "the log has it anyhow"},
		{func(o *eventlog.OwnResource) { o.Resource = "secrets" }, "it is never logged"},
		{func(o *eventlog.OwnResource) { o.Resource = "configmaps" }, "it is never logged"},
		{func(o *eventlog.OwnResource) { o.Resource = "Quotas.example.com" }, "want the plural name"},
		{func(o *eventlog.OwnResource) { o.Resource = "quotas.example.com/status" }, "want the plural name"},
		{func(o *eventlog.OwnResource) { o.Resource = "limitranges" }, "want the plural name"},
		{func(o *eventlog.OwnResource) { o.Resource = "" }, "want the plural name"},
		{func(o *eventlog.OwnResource) { o.Version = "" }, `version ""`},
		{func(o *eventlog.OwnResource) { o.Version = "example.com/v1" }, `version "example.com/v1"`},
		{func(o *eventlog.OwnResource) { o.Kind = "quota" }, `kind "quota"`},
		{func(o *eventlog.OwnResource) { o.Fields = nil }, "none are declared"},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"spec."} }, `field "spec."`},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"spec.{a,b"} }, "a brace is not closed"},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"spec.authToken"} }, "name of a credential"},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"data.x"} }, "may be anything"},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"kind"} }, "kept anyhow"},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"metadata"} }, "only labels and generation"},
		{func(o *eventlog.OwnResource) { o.Fields = []string{"metadata.annotations"} }, "only labels and generation"},
	} {
		declared := quotas
		c.change(&declared)
		if _, err := eventlog.CompleteOwn([]eventlog.OwnResource{declared}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", declared, err, c.want)
		}
	}
	if _, err := eventlog.CompleteOwn([]eventlog.OwnResource{quotas, quotas}); err == nil ||
		!strings.Contains(err.Error(), "declared twice") {
		t.Errorf("the same twice: %v", err)
	}
	got, err := eventlog.CompleteOwn([]eventlog.OwnResource{quotas})
	if want := []string{"limits", "metadata.labels", "spec.max", "spec.pools.name"}; err != nil ||
		!slices.Equal(got[0].Fields, want) {
		t.Errorf("%v: fields %q, want %q", err, got[0].Fields, want)
	}
	if again, err := eventlog.CompleteOwn(got); err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("%v: completed again: %+v", err, again)
	}
}

func TestObjectsOfPluginsThatAreNotLogged(t *testing.T) {
	declared, err := eventlog.CompleteOwn([]eventlog.OwnResource{quotas})
	if err != nil {
		t.Fatal(err)
	}
	encoder := eventlog.Encoder{Own: eventlog.NewOwnTrim(declared)}
	deep := strings.Repeat("[", 120) + strings.Repeat("]", 120)
	for _, c := range []struct {
		resource   eventlog.Resource
		text, want string
	}{
		{"teams.example.com", `{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"a"}}`,
			"no configuration declares"},
		{quotas.Resource, `{"apiVersion":"example.com/v2","kind":"Quota","metadata":{"namespace":"n","name":"a"}}`,
			"a Quota of example.com/v2, and the declaration is of a Quota of example.com/v1"},
		{quotas.Resource, `{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"name":"a"}}`, "namespaced: true"},
		{quotas.Resource, `{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"namespace":"n"}}`, "no name"},
		{quotas.Resource, `{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"namespace":"n","name":"a",
			"creationTimestamp":"never"}}`, "metadata"},
		{quotas.Resource, `{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"namespace":"n","name":"a"},
			"limits":` + deep + `}`, "more than 100 deep"},
	} {
		_, _, err := encoder.Logged(&eventlog.Upserted{Resource: c.resource, Object: ownObject(t, c.text)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestRecordsOfPluginsObjectsThatAreRefused reads objects that no writer has written, and counts what that costs.
func TestRecordsOfPluginsObjectsThatAreRefused(t *testing.T) {
	const name = `"apiVersion":"example.com/v1","kind":"Quota","metadata":{"name":"a","namespace":"n"}`
	few, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: 1, Epoch: 1, Payload: &eventlog.Upserted{
		Resource: quotas.Resource, Object: ownObject(t, "{"+name+"}")}}, [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	head := few[:len(few)-len("{"+name+"}")-4] // without the checksum
	if _, _, err := eventlog.DecodeRecord(reseal(append(bytes.Clone(head), "{"+name+"}0000"...))); err != nil {
		t.Fatalf("the record itself: %v", err)
	}
	many := func(element string) string { return strings.TrimSuffix(strings.Repeat(element+",", 300_000), ",") }
	for what, text := range map[string]string{
		"white space":   "{ " + name + "}",
		"order of keys": `{"kind":"Quota","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"n"}}`,
		"a key twice":   "{" + name + `,"spec":1,"spec":2}`,
		"other group":   strings.ReplaceAll("{"+name+"}", "example.com", "example.org"),
		"no object":     "[]",
		"null":          "null",
		"nothing":       "",
		"depth":         "{" + name + `,"spec":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + "}",
		"lists":         "{" + name + `,"spec":[` + many("[]") + "]}",
		"maps":          "{" + name + `,"spec":[` + many(`{"":0}`) + "]}",
		"owners":        "{" + name[:len(name)-1] + `,"ownerReferences":[` + many("{}") + "]}}",
	} {
		rec := reseal(append(bytes.Clone(head), text+"0000"...))
		var err error
		got := alloc.Bytes(func() { _, _, err = eventlog.DecodeRecord(rec) })
		if err == nil {
			t.Errorf("%s is read", what)
		}
		if most := eventlog.DecodeMemory(len(rec)); got > most {
			t.Errorf("%s: %d bytes of a record take %d bytes, at the most %d are allowed", what, len(rec), got, most)
		}
		line := fmt.Appendf(nil, `{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"Upserted",`+
			`"resource":"quotas.example.com","object":%s}`, text)
		if got := alloc.Bytes(func() { _, err = eventlog.ParseJSON(line) }); got > eventlog.DecodeMemory(len(line)) {
			t.Errorf("%s: %d bytes of a line take %d bytes", what, len(line), got)
		}
	}
}

// TestTheMemoryOfAPluginsObjectIsEstimated compares the estimate with the memory that objects of many kinds of values
// take. A state has room for 32 bytes for each of its own.
func TestTheMemoryOfAPluginsObjectIsEstimated(t *testing.T) {
	many := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, fmt.Sprintf("%05d", i)))
		}
		return strings.Join(all, ",")
	}
	for what, spec := range map[string]string{
		"zones": "[" + many(2000, `{"allocatable":"4","available":"4","capacity":"4","name":"cpu%s"}`) + "]",
		"names": "[" + many(2000, `{"name":"n%s"}`) + "]",
		"map":   "{" + many(2000, `"n%s":1`) + "}",
		"texts": "[" + many(2000, `"n%s"`) + "]",
	} {
		text := []byte(`{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"name":"a","namespace":"n"},"spec":` +
			spec + "}")
		_, memory, err := eventlog.DecodeObject(quotas.Resource, text, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		got := alloc.Bytes(func() { err = utiljson.Unmarshal(text, &object) })
		if err != nil || memory > 32*len(text) || uint64(memory) > 4*got || uint64(memory) < got/4 {
			t.Errorf("%s: %d bytes are estimated to take %d; decoding allocates %d", what, len(text), memory, got)
		}
	}
}

func TestDeclarationsOfManyFieldsAreRefused(t *testing.T) {
	declared := eventlog.OwnResource{Resource: "racks.example.com", Version: "v1", Kind: "Rack"}
	for _, field := range []string{
		"spec." + strings.Repeat("{a,b}", 30),
		"spec." + strings.Repeat("a", 5000),
		"spec.{" + strings.Repeat("a,", 256) + "b}",
	} {
		declared.Fields = []string{field}
		_, err := eventlog.CompleteOwn([]eventlog.OwnResource{declared})
		if err == nil || !strings.Contains(err.Error(), "want fields of at most") || len(err.Error()) > 400 {
			t.Errorf("error %v, want one that says how many fields there may be", err)
		}
	}
}

func TestTextsOfPluginsObjectsStayWhole(t *testing.T) {
	declared, err := eventlog.CompleteOwn([]eventlog.OwnResource{
		{Resource: "racks.example.com", Version: "v1", Kind: "Rack", Fields: []string{"spec"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rack := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Rack", "spec": map[string]any{
			"alice@corp": "a > 1 ? x : y", "bob@corp": "^(?:x)$", "url": "https://u:p@host/x", "https://u:p@host": "x",
		},
	}}
	got, err := eventlog.NewOwnTrim(declared).Trim("racks.example.com", rack)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"alice@corp": "a > 1 ? x : y", "bob@corp": "^(?:x)$", "url": "https://host/x"}
	if !reflect.DeepEqual(got.Object["spec"], want) {
		t.Errorf("kept %v, want %v", got.Object["spec"], want)
	}
}
