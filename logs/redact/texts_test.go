package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestAFieldOfTheStateThatIsNotKnownIsRefused: a text that nobody has thought about does not reach a bundle.
func TestAFieldOfTheStateThatIsNotKnownIsRefused(t *testing.T) {
	w := newWalker(NewNames([]byte("a key for tests only")))
	for field, want := range map[string]string{
		"nickname": `the field "nickname" of the state is not known here`, "state": "a plugin keeps a state of its own",
	} {
		if _, err := w.stateField(field, []byte("ada")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("field %s: error %v", field, err)
		}
	}
	w.replace = true
	b, err := w.stateField("gating message", []byte("PodGroup ml/ada is not there"))
	if err != nil || string(b) != Dropped {
		t.Errorf("a message is %q, %v", b, err)
	}
}

// TestTextsThatNoSimulationHas redacts payloads with texts that come from API servers, extenders and users.
func TestTextsThatNoSimulationHas(t *testing.T) {
	payloads := []eventlog.Payload{
		&eventlog.BindResult{UID: "uid-zoe", Node: "node-zoe", Outcome: eventlog.BindFailed,
			Message: "user zoe may not"},
		&eventlog.EvictResult{UID: "uid-zoe", Outcome: eventlog.EvictDone, Decision: 3, Message: "zoe's budget"},
		&eventlog.ExtenderResult{UID: "uid-zoe", Decision: 3, Answers: []eventlog.ExtenderAnswer{
			{Name: "https://zoe.example/x", Refused: []eventlog.ExtenderRefusal{{Code: "Unschedulable",
				Reason: "<zoe> has it", Nodes: []string{"node-zoe"}}}, PrioritizeError: "ask zoe"}}},
		&eventlog.Upserted{Resource: "quotas.example.com", Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Quota",
			"metadata": map[string]any{"name": "quota-zoe", "namespace": "ns-zoe", "uid": "uid-zoe2"},
			"spec": map[string]any{"owner": "zoe", "max": map[string]any{"cpu": "10"},
				"list": []any{"zoe b", "In"}, "of": map[string]any{"ns-zoe": "5"}, "host": "1042"}}}},
		&eventlog.BindResult{UID: "uid-zoe", Node: "1042", Outcome: eventlog.BindFailed},
		&eventlog.EpochStarted{ID: "zoe", Config: []byte(`{"extenders":[{"urlPrefix":"https://zoe.example/x",` +
			`"filterVerb":"filter","bindVerb":"zoe/bind"}],"leaderElection":{"resourceName":"zoe"},"profiles":[{"pluginConfig":[{"args":` +
			`{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` +
			`[{"matchExpressions":[{"key":"team","operator":"In","values":["zoe"]},{"key":"size","operator":"Gt","values":["12"]}]}]}}},` +
			`"name":"NodeAffinity"},{"args":{"limit":3,"in":"ns-zoe","mode":"Tight","of":{"ns-zoe":5}},"name":"Other"}],` +
			`"schedulerName":"zoe-scheduler"}]}`)},
	}
	names := NewNames([]byte("a key for tests only"))
	w := newWalker(names)
	for _, p := range payloads {
		w.payload(p)
	}
	if err := names.Assign(); err != nil {
		t.Fatal(err)
	}
	w.replace = true
	var all strings.Builder
	for _, p := range payloads {
		text, err := json.Marshal(w.payload(p))
		if err != nil {
			t.Fatal(err)
		}
		if epoch, ok := w.payload(p).(*eventlog.EpochStarted); ok {
			text = append(text, epoch.Config...)
		}
		all.Write(text)
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	for _, name := range []string{"zoe", "1042"} {
		if strings.Contains(all.String(), name) {
			t.Errorf("%s is left: %s", name, all.String())
		}
	}
	for _, kept := range []string{`"cpu":"10"`, `"In"`, `"kind":"Quota"`, `"limit":3`, `"mode":"Tight"`,
		`"values":["12"]`, `"filterVerb":"filter"`, "https://"} {
		if !strings.Contains(all.String(), kept) {
			t.Errorf("%s is not kept: %s", kept, all.String())
		}
	}
	if w.keptArguments["Other"] != 2 { // in both replacements of the epoch
		t.Errorf("%v texts were kept in arguments", w.keptArguments)
	}
}

func TestAWordIsNoPartOfAnother(t *testing.T) {
	for text, want := range map[string]bool{
		`device.driver == "gpu.nvidia.com"`: false, `device.attributes["x"].id == "1"`: true, `id`: true, ``: false,
		`nvidia id_ Xid`: false, `device.attributes["x"]["id"]`: true,
	} {
		if got := hasWord(text, "id"); got != want {
			t.Errorf("hasWord(%q, id) is %v", text, got)
		}
	}
}

// TestAConfigurationOfAnotherFormIsNoPanic has arguments of plugins where no profile has them.
func TestAConfigurationOfAnotherFormIsNoPanic(t *testing.T) {
	for config, want := range map[string]string{
		`{"profiles":[{"pluginConfig":[{}]}],"x":{"pluginConfig":[{}]}}`: "",
		`{"profiles":5}`: "configuration: ",
	} {
		w := newWalker(NewNames([]byte("a key for tests only")))
		if got := string(w.config([]byte(config))); want == "" && (got != config || w.err != nil) {
			t.Errorf("%s became %s, %v", config, got, w.err)
		}
		if want != "" && (w.err == nil || !strings.Contains(w.err.Error(), want)) {
			t.Errorf("%s: error %v", config, w.err)
		}
	}
}
