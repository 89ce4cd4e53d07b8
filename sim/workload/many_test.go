package workload

import (
	"fmt"
	"strings"
	"testing"
)

// TestTooManyPodsAreRefusedBeforeTheyAreMade: each number below lies within its own bounds, and their product or sum
// does not. A reader that made the pods first would use up the machine's memory.
func TestTooManyPodsAreRefusedBeforeTheyAreMade(t *testing.T) {
	const million = 1_000_000
	job := func(n int) string { return fmt.Sprintf("%s  completions: %d\n", jobHead, n) }
	jobSet := func(replicas, completions int, names ...string) string {
		var text strings.Builder
		text.WriteString("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\nspec:\n" +
			"  replicatedJobs:\n")
		for _, name := range names {
			fmt.Fprintf(&text, "  - {name: %s, replicas: %d, template: {spec: {completions: %d, parallelism: 1, "+
				"template: {spec: {containers: [{name: c}]}}}}}\n", name, replicas, completions)
		}
		return text.String()
	}
	workers := "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l}\nspec:\n" +
		"  replicas: 10000000\n  leaderWorkerTemplate: {size: 10000000, workerTemplate: {spec: {containers: " +
		"[{name: c}]}}}\n"
	tasks := "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: v}\nspec:\n  tasks:\n" +
		strings.Repeat("  - {replicas: 900000, template: {spec: {containers: [{name: c}]}}}\n", 2)
	for _, c := range []struct{ name, text, start, reason string }{
		{"completions", job(million + 1), "F:6: ", "spec.completions: 1000001 lies outside 1 and 1000000"},
		{"parallelism", jobHead + "  parallelism: 10000000\n", "F:6: ",
			"spec.parallelism: 10000000 lies outside 1 and 1000000"},
		{"deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 1000001, " +
			"selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, " +
			"spec: {containers: [{name: c}]}}}\n", "F:4: ",
			"spec.replicas: 1000001 lies outside 0 and 1000000"},
		{"product", jobSet(million, million, "a"), "F:6: ",
			"JobSet default/j makes 1000000000000 pods: one object can make 1000000"},
		{"sum", jobSet(1, million/2+1, "a", "b"), "F:7: ",
			"JobSet default/j makes 1000002 pods: one object can make 1000000"},
		{"leader and workers", workers, "F:", "pods: one object can make 1000000"},
		{"sum of tasks", tasks, "F:7: ", "Volcano Job default/v makes 1800000 pods: one object can make 1000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readText(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.start) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got  %v\nwant %s… %s", err, c.start, c.reason)
			}
		})
	}
}
