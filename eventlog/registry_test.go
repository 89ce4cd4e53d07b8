package eventlog_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestEveryResourceIsRegisteredOnce(t *testing.T) {
	all := eventlog.Resources()
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || len(all) != 25 {
		t.Errorf("resources are %v, want 25, sorted, each once", all)
	}
	kinds := make(map[string]eventlog.Resource)
	for _, res := range all {
		obj := eventlog.NewObject(res)
		if got, ok := eventlog.ResourceOf(obj); !ok || got != res {
			t.Errorf("%s: its object is taken for one of %q", res, got)
		}
		kind := eventlog.KindFor(res).String()
		if other, ok := kinds[kind]; ok {
			t.Errorf("%s and %s are both %s", res, other, kind)
		}
		kinds[kind] = res
		group := eventlog.KindFor(res).Group
		if name := string(res); group != "" && name[len(name)-len(group):] != group {
			t.Errorf("%s is of group %s", res, group)
		}
	}
}

func TestOnlyKnownTypesAreResources(t *testing.T) {
	for _, obj := range []eventlog.Object{nil, (*corev1.Pod)(nil), &corev1.ConfigMap{}} {
		if res, ok := eventlog.ResourceOf(obj); ok {
			t.Errorf("%T is taken for an object of %s", obj, res)
		}
	}
	if eventlog.NewObject("unicorns") != nil || eventlog.Namespaced("unicorns") ||
		!eventlog.KindFor("unicorns").Empty() {
		t.Error("an unknown resource is known")
	}
	if !eventlog.Namespaced(eventlog.Pods) || eventlog.Namespaced(eventlog.Nodes) {
		t.Error("pods live in a namespace, nodes do not")
	}
}
