package workload

import (
	"strings"
	"testing"
)

// recorded is the export of a log of one entry: an object that came.
func recorded(resource, object string) string {
	return `{"seq":1,"epoch":1,"time":"2026-01-01T00:00:00Z","kind":"Upserted","resource":"` + resource + `","object":` +
		object + "}\n"
}

// TestAmountsOutOfRangeAreRefused: in recorded entries too, which nobody has validated.
func TestAmountsOutOfRangeAreRefused(t *testing.T) {
	node := func(list string) string {
		return recorded("nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{`+list+
			`}}}`)
	}
	pod := func(spec string) string {
		return recorded("pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"x","uid":"u"},"spec":{`+
			spec+`}}`)
	}
	requests := func(list string) string {
		return pod(`"containers":[{"name":"c","resources":{"requests":{` + list + `}}}]`)
	}
	for _, c := range []struct{ name, text, reason string }{
		{"negative allocatable", node(`"cpu":"-1"`), "nodes n: status.allocatable[cpu]"},
		{"cpu beyond 64 bits of thousandths", node(`"cpu":"9223372036854775807"`), "nodes n: status.allocatable[cpu]"},
		{"memory beyond 64 bits", node(`"memory":"16Ei"`), "nodes n: status.allocatable[memory]"},
		{"negative request", requests(`"memory":"-1Gi"`), "pods x/p: spec.containers[0].resources.requests[memory]"},
		{"cpu request", requests(`"cpu":"9223372036854776"`), "must not be above 1125899906842624m"},
		{"scalar request", requests(`"example.com/x":"9223372036854775807"`), "requests[example.com/x]"},
		{"request of an init container", pod(`"initContainers":[{"name":"c","resources":{"requests":{"cpu":"-1"}}}]`),
			"spec.initContainers[0].resources.requests[cpu]"},
		{"overhead", pod(`"overhead":{"cpu":"-1"}`), "spec.overhead[cpu]"},
		{"request of the pod", pod(`"resources":{"requests":{"cpu":"-1"}}`), "spec.resources.requests[cpu]"},
		{"port", pod(`"containers":[{"name":"c","ports":[{"hostPort":65536}]}]`), "spec.containers[0].ports[0].hostPort"},
		{"negative port", pod(`"containers":[{"name":"c","ports":[{"hostPort":-1}]}]`), "must lie between 0 and 65535"},
		{"deadline", pod(`"activeDeadlineSeconds":9223372036854775807`), "spec.activeDeadlineSeconds"},
		{"minimum resources", recorded("podgroups.scheduling.x-k8s.io", `{"apiVersion":"scheduling.x-k8s.io/v1alpha1",`+
			`"kind":"PodGroup","metadata":{"name":"g","namespace":"x"},"spec":{"minResources":{"cpu":"-1"}}}`),
			"podgroups.scheduling.x-k8s.io x/g: spec.minResources[cpu]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readText(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), "F:1: ") || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %v\nwant F:1: … %s", err, c.reason)
			}
		})
	}
	for _, good := range []string{node(`"cpu":"96","memory":"768Gi","nvidia.com/gpu":"8"`), requests(`"cpu":"0"`)} {
		if _, err := readText(good); err != nil {
			t.Error(err)
		}
	}
}

func TestAPodOfNoProfileIsRefused(t *testing.T) {
	_, w := parse(t, pod+podTail+"---\n"+strings.Replace(pod, "a}", "b}", 1)+
		"spec: {schedulerName: kai-scheduler, containers: [{name: c}]}\n")
	err := w.CheckProfiles([]string{"default-scheduler", "x"})
	const want = `test.yaml:6: pod default/b: spec.schedulerName "kai-scheduler" is none of the configuration's profiles ` +
		`(default-scheduler, x)`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := w.CheckProfiles([]string{"default-scheduler", "kai-scheduler"}); err != nil {
		t.Error(err)
	}
	// One that has its node takes up room, whatever its scheduler is.
	_, w = parse(t, pod+"spec: {schedulerName: other, nodeName: n1, containers: [{name: c}]}\n")
	if err := w.CheckProfiles([]string{"default-scheduler"}); err != nil {
		t.Error(err)
	}
}
