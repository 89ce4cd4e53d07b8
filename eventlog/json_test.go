package eventlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestPublicForm(t *testing.T) {
	at := eventlog.Time(1767323045_000000006)
	for _, tc := range []struct {
		e    eventlog.Entry
		want string
	}{
		{eventlog.Entry{Seq: 1, Epoch: 1, Time: at, Payload: &eventlog.EpochStarted{ID: "0b8f", Version: "v0.1.0",
			Format: 10, Behaviour: 10, Seed: 18446744073709551615, Config: []byte(`{"kind":"X"}`)}},
			`{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"EpochStarted","id":"0b8f","version":"v0.1.0","format":10,"behaviour":10,"seed":18446744073709551615,"config":{"kind":"X"}}`},
		{eventlog.Entry{Seq: 7, Epoch: 1, Time: at, Settled: true,
			Payload: &eventlog.Upserted{Resource: eventlog.Namespaces,
				Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns",
					Labels: map[string]string{"b": "<&>", "a": "1"}}}}},
			`{"seq":7,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Upserted","settled":true,"resource":"namespaces","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns","labels":{"a":"1","b":"<&>"}},"spec":{},"status":{}}}`},
		{eventlog.Entry{Seq: 8, Epoch: 1, Time: at, Payload: &eventlog.Deleted{Resource: eventlog.Nodes, Name: "n1",
			UID: "u"}},
			`{"seq":8,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Deleted","resource":"nodes","name":"n1","uid":"u"}`},
		{eventlog.Entry{Seq: 8, Epoch: 1, Time: at, Payload: &eventlog.Deleted{Resource: eventlog.PodGroups,
			Namespace: "ns", Name: "g", UID: "u"}},
			`{"seq":8,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Deleted","resource":"podgroups.scheduling.k8s.io","namespace":"ns","name":"g","uid":"u"}`},
		{eventlog.Entry{Seq: 9, Epoch: 1, Time: at, Payload: &eventlog.Decision{
			Cycle: 1, Namespace: "ns", Name: "name", UID: "u", Group: "g", Outcome: eventlog.Waiting, Node: "n1",
			Score: 512, Evaluated: 5000, Feasible: 4000,
			Rejections: []eventlog.Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable",
				Reason: "Insufficient nvidia.com/gpu", Nodes: 1000}},
			WaitUntil: at.Add(1), WaitFor: []string{"Coscheduling"}, Approvals: []eventlog.Approval{{UID: "a",
				Plugin: "Coscheduling"}},
			Allowed: []types.UID{"b", "c"}, Rejected: []types.UID{"d"}, Victims: []types.UID{"e"}, Nominated: "n2",
			Volumes: []eventlog.VolumeClaim{{Claim: "data"}}}},
			`{"seq":9,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Decision","decision":{"cycle":1,"pod":"ns/name","uid":"u","group":"ns/g","outcome":"Waiting","node":"n1","score":512,"evaluated":5000,"feasible":4000,` +
				`"rejections":[{"plugin":"NodeResourcesFit","code":"Unschedulable","reason":"Insufficient nvidia.com/gpu","nodes":1000}],"allowed":["b","c"],"rejected":["d"],"victims":["e"],"waitUntil":"2026-01-02T03:04:05.000000007Z",` +
				`"waitFor":["Coscheduling"],"approvals":[{"uid":"a","plugin":"Coscheduling"}],"nominated":"n2","volumes":[{"claim":"data","volume":""}]}}`},
		{eventlog.Entry{Seq: 9, Epoch: 1, Time: at, Payload: &eventlog.Decision{Cycle: 2, Namespace: "ns",
			Name: "name", UID: "u", Outcome: eventlog.Unschedulable, Evaluated: 3}},
			`{"seq":9,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Decision","decision":{"cycle":2,"pod":"ns/name","uid":"u","outcome":"Unschedulable","evaluated":3,"feasible":0}}`},
		{eventlog.Entry{Seq: 10, Epoch: 1, Time: at, Payload: &eventlog.BindResult{UID: "u", Node: "n1",
			Outcome: eventlog.BindFailed, Message: "a \"b\"\n"}},
			`{"seq":10,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"BindResult","uid":"u","node":"n1","outcome":"Failed","message":"a \"b\"\n"}`},
		{eventlog.Entry{Seq: 10, Epoch: 1, Time: at, Payload: &eventlog.BindResult{UID: "u", Node: "n1",
			Outcome: eventlog.BindBound, Decision: 9}},
			`{"seq":10,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"BindResult","uid":"u","node":"n1","outcome":"Bound","decisionSeq":9}`},
		{eventlog.Entry{Seq: 10, Epoch: 1, Time: at, Payload: &eventlog.EvictResult{UID: "u",
			Outcome: eventlog.EvictRefused, Message: "no", Decision: 9, RetryAfter: 1500 * time.Millisecond}},
			`{"seq":10,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"EvictResult","uid":"u","outcome":"Refused","message":"no","decisionSeq":9,"retryAfter":"1.5s"}`},
		{eventlog.Entry{Seq: 10, Epoch: 1, Time: at, Payload: &eventlog.EvictResult{UID: "u",
			Outcome: eventlog.EvictDone, Decision: 9}},
			`{"seq":10,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"EvictResult","uid":"u","outcome":"Done","decisionSeq":9}`},
		{eventlog.Entry{Seq: 11, Epoch: 1, Payload: &eventlog.Tick{}},
			`{"seq":11,"epoch":1,"time":"1970-01-01T00:00:00.000000000Z","kind":"Tick"}`},
	} {
		got, err := eventlog.AppendJSON(nil, tc.e)
		if err != nil || string(got) != tc.want {
			t.Errorf("error %v\n%s, want\n%s", err, got, tc.want)
		}
		back, err := eventlog.ParseJSON(got)
		if err != nil || !equality.Semantic.DeepEqual(back, tc.e) {
			t.Errorf("error %v\nread back as %+v, want\n%+v", err, back, tc.e)
		}
	}
}

// An entry, its record and its line say the same: from each, both others follow byte for byte.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec, err := eventlog.AppendRecord(nil, drawEntry(t), [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := eventlog.DecodeRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		line, err := eventlog.AppendJSON([]byte("before"), e)
		if err != nil {
			t.Fatal(err)
		}
		line = bytes.TrimPrefix(line, []byte("before"))
		if !json.Valid(line) || bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("not one line of JSON: %q", line)
		}
		back, err := eventlog.ParseJSON(line)
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		again, err := eventlog.AppendJSON(nil, back)
		if err != nil || !bytes.Equal(again, line) {
			t.Fatalf("error %v\n%s, want\n%s", err, again, line)
		}
		if recAgain, err := eventlog.AppendRecord(nil, back, [32]byte{}); err != nil || !bytes.Equal(recAgain, rec) {
			t.Fatalf("error %v, its record became\n%x, want\n%x\nfrom %s", err, recAgain, rec, line)
		}
	})
}

// The names of pods stand beside their UIDs, and a line with them is read as the one without.
func TestNamesOfPodsAreWrittenBesideUIDsAndAreNoPartOfTheEntry(t *testing.T) {
	names := func(uid types.UID) string {
		if uid == "gone" {
			return ""
		}
		return "ml/" + string(uid)
	}
	decision := &eventlog.Decision{Cycle: 1, Namespace: "ml", Name: "p", UID: "p", Outcome: eventlog.Unschedulable,
		Allowed: []types.UID{"a"}, Rejected: []types.UID{"r", "gone"}, Victims: []types.UID{"v", "w"},
		Approvals:   []eventlog.Approval{{UID: "a", Plugin: "X"}},
		Places:      []eventlog.Place{{UID: "q", Node: "n1"}},
		Nominations: []eventlog.Nomination{{UID: "gone", Node: "n1"}}}
	for _, tc := range []struct {
		payload eventlog.Payload
		want    []string
	}{
		{decision, []string{`"victims":["v","w"]`, `"victimPods":["ml/v","ml/w"]`, `"allowedPods":["ml/a"]`,
			`"rejectedPods":["ml/r",""]`, `{"uid":"a","plugin":"X","pod":"ml/a"}`,
			`{"uid":"q","node":"n1","pod":"ml/q"}`, `{"uid":"gone","node":"n1"}`}},
		{&eventlog.BindResult{UID: "p", Node: "n1", Outcome: eventlog.BindBound},
			[]string{`"outcome":"Bound","pod":"ml/p"}`}},
	} {
		e := eventlog.Entry{Seq: 9, Epoch: 1, Payload: tc.payload}
		line, err := eventlog.AppendNamedJSON(nil, e, names)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(string(line), want) {
				t.Errorf("%s lacks %s", line, want)
			}
		}
		back, err := eventlog.ParseJSON(line)
		if err != nil || !equality.Semantic.DeepEqual(back, e) {
			t.Errorf("error %v, read back as %+v", err, back)
		}
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	const tick = `"seq":1,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"Tick"`
	head := func(kind string) string {
		return `{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"` + kind + `",`
	}
	for line, want := range map[string]string{
		``:                          "unexpected end",
		`{}`:                        "kind: missing or unknown",
		`{"seq":1,"kind":"Tock"}`:   "kind: missing or unknown",
		`{"seq":1,"kind":"Tick"}`:   "time:",
		`{` + tick + `}{}`:          "after top-level value",
		`{` + tick + `,"settle":1}`: `unknown field "settle"`,
		`{` + tick + `,"Seq":1}`:    `unknown field "Seq"`,
		`{` + tick + `,"seq":1}`:    `duplicate field "seq"`,
		`{` + tick + `,"node":"n"}`: `unknown field "node"`,
		`{"seq":0,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"Tick"}`: "seq: " +
			"missing or 0",
		`{"seq":1.5,"epoch":1,"time":"2026-01-02T03:04:05Z","kind":"Tick"}`: "seq",
		`{"seq":1,"epoch":1,"time":"2326-01-02T03:04:05Z","kind":"Tick"}`:   "outside of the years",
		head("Decision") +
			`"decision":{"cycle":1,"pod":"a/b","outcome":"Scheduled","nodes":1}}`: `unknown field "decision.nodes"`,
		head("Decision") +
			`"decision":{"cycle":1,"pod":"a/b","outcome":"Placed"}}`: `decision.outcome: unknown outcome "Placed"`,
		head("Decision") +
			`"decision":{"cycle":1,"pod":"b","outcome":"Scheduled"}}`: `decision.pod: "b"`,
		head("Decision") +
			`"decision":{"cycle":1,"pod":"a/b","group":"c/d","outcome":"Scheduled"}}`: `decision.group: "c/d"`,
		head("Decision") +
			`"decision":{"cycle":1,"pod":"a/b","outcome":"Waiting","waitUntil":"tuesday"}}`: `decision.waitUntil`,
		head("Decision") +
			`"uid":"u"}`: `unknown field "uid"`,
		head("Decision") +
			`"settled":true}`: "decision: missing",
		head("Deleted") +
			`"resource":"unicorns","name":"n"}`: `unknown resource "unicorns"`,
		head("BindResult") +
			`"uid":"u","node":"n","outcome":"Perhaps"}`: `unknown outcome "Perhaps"`,
		head("EpochStarted") +
			`"id":"i","config":{ }}`: "config: not compact",
		head("Upserted") +
			`"resource":"pods","object":{"apiVersion":"v1","kind":"Node"}}`: "apiVersion and kind",
		head("Upserted") +
			`"resource":"pods","object":{"apiVersion":"v1","kind":"Pod","spec":{"nod":1}}}`: `unknown field "spec.nod"`,
		head("Upserted") + `"resource":"pods"}`: "object",
	} {
		if e, err := eventlog.ParseJSON([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nentry %+v, error %v, want one with %q", line, e, err, want)
		}
	}
}

func TestJSONLeavesTheObjectAlone(t *testing.T) {
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
	}
	e := eventlog.Entry{Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Nodes, Object: node}}
	line, err := eventlog.AppendJSON(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(line), `"apiVersion"`) != 1 || node.Kind != "Node" {
		t.Errorf("%s, and the node's kind is %q", line, node.Kind)
	}
}

func TestEntriesWithoutPublicForm(t *testing.T) {
	for name, e := range map[string]eventlog.Entry{
		"no payload":    {Seq: 1},
		"outcome":       {Seq: 1, Payload: &eventlog.Decision{}},
		"bind outcome":  {Seq: 1, Payload: &eventlog.BindResult{}},
		"evict outcome": {Seq: 1, Payload: &eventlog.EvictResult{Decision: 1}},
		"resource":      {Seq: 1, Payload: &eventlog.Deleted{Resource: "unicorns"}},
		"object":        {Seq: 1, Payload: &eventlog.Upserted{Resource: eventlog.Pods, Object: &corev1.Node{}}},
		"not UTF-8":     {Seq: 1, Payload: &eventlog.Decision{Outcome: 1, Name: "\xff"}},
		"slash":         {Seq: 1, Payload: &eventlog.Decision{Outcome: 1, Namespace: "a/b"}},
		"config":        {Seq: 1, Payload: &eventlog.EpochStarted{Config: []byte("{")}},
	} {
		if got, err := eventlog.AppendJSON([]byte("before"), e); err == nil || string(got) != "before" {
			t.Errorf("%s: %s, error %v", name, got, err)
		}
	}
}

// TestCostlyQuantitiesAreNotParsed: each of them would take minutes and gigabytes.
func TestCostlyQuantitiesAreNotParsed(t *testing.T) {
	for _, c := range []struct{ text, path string }{
		{`{"spec":{"containers":[{},{"resources":{"requests":{"cpu":"1e999999999"}}}]}}`,
			"spec.containers[1].resources.requests.cpu"},
		{`{"spec":{"overhead":{"x/y":1E-999999999}}}`, "spec.overhead.x/y"},
		{`{"status":{"allocatable":{"cpu":"1\u0065999999999"}}}`, "status.allocatable.cpu"},
		{`{"status":{"Allocatable":{"cpu":" 1e+999999999 "}}}`, "status.Allocatable.cpu"},
		{`{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"9` + strings.Repeat("9", 300) + `"}}]}}`,
			"spec.volumes[0].emptyDir.sizeLimit"},
		{`{"spec":{"devices":[{"capacity":{"memory":{"value":"1e99999"}}}]}}`, "spec.devices[0].capacity.memory.value"},
	} {
		var bad *eventlog.QuantityError
		if err := eventlog.CheckQuantities([]byte(c.text)); !errors.As(err, &bad) || bad.Path != c.path {
			t.Errorf("%.80s: %v, want an error at %s", c.text, err, c.path)
		}
		line := `{"seq":1,"epoch":1,"time":"2026-01-01T00:00:00Z","kind":"Upserted","resource":"pods","object":` +
			c.text + "}"
		if _, err := eventlog.ParseJSON([]byte(line)); !errors.As(err, &bad) {
			t.Errorf("%.80s: it is parsed: %v", c.text, err)
		}
	}
	for _, good := range []string{
		`{"metadata":{"name":"1e99999","labels":{"commit":"12e45678"}},"spec":{"containers":[{"image":"1e999999999"}]}}`,
		`{"status":{"allocatable":{"cpu":"1e3","memory":"12E"}}}`,
	} {
		if err := eventlog.CheckQuantities([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	entries := []eventlog.Entry{
		{Seq: 1, Epoch: 1, Payload: &eventlog.EpochStarted{ID: "i", Version: "v", Config: []byte("{}")}},
		{
			Seq:     2,
			Epoch:   1,
			Settled: true,
			Payload: &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "a", Name: "b", UID: "c"},
		},
		{Seq: 3, Epoch: 1, Payload: &eventlog.Tick{}},
		{Seq: 4, Epoch: 1, Payload: decision()},
		{Seq: 5, Epoch: 1, Payload: &eventlog.BindResult{UID: "u", Node: "n", Outcome: 4, Message: "m"}},
		{Seq: 6, Epoch: 1, Payload: &eventlog.Upserted{Resource: eventlog.Pods, Object: pod("p")}},
		{Seq: 7, Epoch: 1, Payload: &eventlog.EvictResult{UID: "u", Outcome: 3, Message: "m", Decision: 5,
			RetryAfter: 9}},
	}
	for _, e := range entries {
		line, err := eventlog.AppendJSON(nil, e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseMeasured(t, line)
		if err != nil {
			return
		}
		once, err := eventlog.AppendJSON(nil, e)
		if err != nil {
			t.Skip(err) // text that JSON mends, such as half a surrogate pair, or a namespace with a slash
		}
		back, err := eventlog.ParseJSON(once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if twice, err := eventlog.AppendJSON(nil, back); err != nil || !bytes.Equal(twice, once) {
			t.Fatalf("error %v\n%s, want\n%s", err, twice, once)
		}
	})
}
