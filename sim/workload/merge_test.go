package workload

import (
	"strings"
	"testing"
)

// TestMergedKeysMayBeReplaced: a mapping that merges another one may replace its values, as for kubectl. Any other key
// that stands twice is refused.
func TestMergedKeysMayBeReplaced(t *testing.T) {
	const text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - &c\n    name: c\n" +
		"    resources: {requests: {cpu: 1}}\n  - "
	_, w := parse(t, text+"<<: *c\n    name: d\n")
	containers := w.Pods[0].Template.Spec.Containers
	if len(containers) != 2 || containers[1].Name != "d" || containers[1].Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("containers %+v", containers)
	}
	for _, second := range []string{
		"<<: *c\n    name: d\n    name: e\n", "name: d\n    <<: *c\n", "<<: *c\n    <<: *c\n    name: d\n",
		"<<: *c\n    name: d\nkind: Pod\n",
	} {
		if _, err := readText(text + second); err == nil || !strings.Contains(err.Error(), "already set in map") {
			t.Errorf("%q: %v", second, err)
		}
	}
}
