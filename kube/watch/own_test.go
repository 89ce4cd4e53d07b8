package watch

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// declaredQuotas is a custom resource that a plugin reads.
var declaredQuotas = []eventlog.OwnResource{{
	Resource: "quotas.example.com", Version: "v1", Kind: "Quota", Namespaced: true, Fields: []string{"spec.max"},
}}

func quotaObject(name string, most int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"max": most, "note": "swordfish"}, "status": map[string]any{"used": most},
	}}
	u.SetGroupVersionKind(declaredQuotas[0].GroupVersionKind())
	u.SetNamespace("ns")
	u.SetName(name)
	u.SetUID(types.UID("u-" + name))
	return u
}

// TestADeclaredResourceIsWatched begins with a server that does not have the resource, and then one that does not allow
// to list it. A field that is not declared makes no entry.
func TestADeclaredResourceIsWatched(t *testing.T) {
	s := newServer(t)
	s.own = kindsWith(declaredQuotas)[len(kinds):]
	const quotas = eventlog.Resource("quotas.example.com")
	s.absent[quotas] = true
	w := watchServerOf(t, s, newLogState(t), declaredQuotas)
	w.sync()
	w.awaitReport("quotas.example.com: the API server does not have them: they are waited for")
	s.put(quotaObject("a", 4))
	s.edit(func() {
		s.absent[quotas] = false
		s.refused["list quotas.example.com"], s.refused["watch quotas.example.com"] = true, true
	})
	w.awaitReport("give the scheduler's ClusterRole the verbs list and watch on the resource \"quotas\" of the API " +
		"group \"example.com\"")
	s.edit(func() { clear(s.refused) })
	same(t, w.takeUntil("+ quotas.example.com ns/a u-a"), "+ quotas.example.com ns/a u-a")
	is := func(most int64) {
		t.Helper()
		got, ok := w.state.has[keyFor(quotas, "ns", "a")].(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("the log has %v", w.state.has)
		}
		at, _, _ := unstructured.NestedInt64(got.Object, "spec", "max")
		if at != most || got.GetResourceVersion() != "" {
			t.Errorf("logged: %v, want max %d", got.Object, most)
		}
		if spec, _, _ := unstructured.NestedMap(got.Object, "spec"); len(spec) != 1 || got.Object["status"] != nil {
			t.Errorf("logged: %v", got.Object)
		}
	}
	is(4)
	other := quotaObject("a", 4)
	other.Object["status"] = map[string]any{"used": int64(3)}
	s.put(other) // what is not declared
	s.put(quotaObject("a", 5))
	same(t, w.takeUntil("+ quotas.example.com ns/a u-a"), "+ quotas.example.com ns/a u-a")
	is(5)
	s.delete(quotas, "ns", "a")
	same(t, w.takeUntil("- quotas.example.com ns/a u-a"), "- quotas.example.com ns/a u-a")
	for _, m := range w.reports() {
		if strings.Contains(m, "swordfish") {
			t.Errorf("reported: %s", m)
		}
	}
}

// TestWhatTheLogHasOfADeclaredResourceIsNoEntry begins with a state that has one object as it is, and one that is gone.
func TestWhatTheLogHasOfADeclaredResourceIsNoEntry(t *testing.T) {
	encoder := eventlog.Encoder{Own: eventlog.NewOwnTrim(declaredQuotas)}
	state := cluster.New()
	state.Informers().Declare(declaredQuotas)
	s := newServer(t)
	s.own = kindsWith(declaredQuotas)[len(kinds):]
	for _, name := range []string{"gone", "same"} {
		logged, _, err := encoder.Logged(&eventlog.Upserted{
			Resource: "quotas.example.com", Object: quotaObject(name, 4)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := state.Upsert(logged.Resource, logged.Object); err != nil {
			t.Fatal(err)
		}
	}
	s.put(quotaObject("same", 4))
	known := newLogState(t)
	for res, obj := range state.Objects() {
		known.upsert(res, obj)
	}
	w := watchServerOf(t, s, known, declaredQuotas)
	same(t, w.sync(), "- quotas.example.com ns/gone u-gone")
}
