package workload

import (
	"strings"
	"testing"
)

// TestQuantitiesThatTakeLongToParseAreRefused: each of them would take minutes, deaf to signals.
func TestQuantitiesThatTakeLongToParseAreRefused(t *testing.T) {
	requests := "spec:\n  containers:\n  - name: c\n    resources:\n      requests:\n        cpu: "
	for _, c := range []struct{ name, text, start string }{
		{"yaml", pod + requests + "'1e999999999'\n", "F:9: spec.containers[0].resources.requests.cpu: quantity"},
		{"negative exponent", pod + requests + "'1e-999999999'\n", "F:9: "},
		{"many digits", pod + requests + "'" + strings.Repeat("9", 100_000) + "'\n", "F:9: "},
		{"json",
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"cpu":"1e999999999"}}}`,
			"F:1: status.capacity.cpu: quantity"},
		{"json number", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"cpu":` +
			`1e999999999}}}`, "F:1: "},
		{"template", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    spec: " +
			"{containers: " +
			"[{name: c, resources: {limits: {cpu: '1e999999999'}}}]}\n", "F:6: "},
		{"claim of a set", replicas("apps/v1", "StatefulSet", "db", 1) + "  volumeClaimTemplates: [{metadata: " +
			"{name: d}, " +
			"spec: {resources: {requests: {storage: '1e999999999'}}}}]\n", "F:10: "},
		{"recorded", recorded("nodes",
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"cpu":"1e999999999"}}}`),
			"F:1: "},
	} {
		_, err := readText(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.start) || len(err.Error()) > 300 {
			t.Errorf("%s: got %.300v\nwant %s", c.name, err, c.start)
		}
	}
	for _, spec := range []string{"1x1cpu,a.b/c=1e999999999", "1x" + strings.Repeat("9", 1000) + "cpu",
		"1x1cpu,memory=1e30", "1x9223372036854775807cpu"} {
		if _, err := ParseNodeSpec(spec); err == nil || len(err.Error()) > 1500 {
			t.Errorf("%.40s: %v", spec, err)
		}
	}
}
