package workload

import (
	"strings"
	"testing"
)

func TestSmallFilesThatMakeTooMuchAreRefused(t *testing.T) {
	job := "---\n{apiVersion: batch/v1, kind: Job, metadata: {generateName: j-}, spec: {parallelism: 1000000, " +
		"template: {spec: {containers: [{name: c}]}}}}\n"
	aliases := "a: &a [" + strings.Repeat("x,", 200) + "]\nb: &b [" + strings.Repeat("*a,", 200) + "]\nc: [" +
		strings.Repeat("*b,", 200) + "]\n"
	swf := ""
	for _, id := range []string{"1", "2", "3"} {
		swf += id + " 0 -1 5 4000000 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n"
	}
	for name, c := range map[string]struct{ text, start, reason string }{
		"Jobs": {strings.Repeat(job, 11), "F:22: ",
			"11000000 pods with the objects before: a workload can have 10000000"},
		"SWF":     {swf, "F:3: ", "12000000 pods with the jobs before: a workload can have 10000000"},
		"aliases": {aliases, "F:1: ", "its aliases (*name) make 16"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			allocated := testing.AllocsPerRun(1, func() { _, err = readText(c.text) })
			if err == nil || !strings.HasPrefix(err.Error(), c.start) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got  %v\nwant %s… %s", err, c.start, c.reason)
			}
			if allocated > 100_000 {
				t.Errorf("%.0f allocations before it was refused", allocated)
			}
		})
	}
}
