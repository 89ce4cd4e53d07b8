package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestWhatTracesDeclareIsAnAnnotationThatPodsShare(t *testing.T) {
	swf, err := readText(`; Version: 2
7  100 -1  60  3 -1 -1  5 99 -1 1 -1 -1 -1 0 -1 -1 -1
8  200 -1   0 -1 -1 -1  2 -1 -1 1 -1 -1 -1 0 -1 -1 -1
9  200 -1  -1  1 -1 -1 -1 30 -1 0 -1 -1 -1 0 -1 -1 -1
11 300 -1 5400  1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
12 300 -1  99  1 -1 -1 -1  0 -1 1 -1 -1 -1 0 -1 -1 -1
`)
	if err != nil {
		t.Fatal(err)
	}
	openb, err := readText(openbPodsHead +
		"a,1,1,0,0,,LS,Running,10,70,10\nb,1,1,0,0,,LS,Running,10,10,10\nc,2,1,0,0,,LS,Running,0,60,10\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range append(swf.workload.Pods, openb.workload.Pods...) {
		built := p.Build(p.Template, "u", 0)
		if errs := validate(built); len(errs) > 0 {
			t.Error(errs)
		}
		logged := eventlog.Trim(eventlog.Pods, built)
		got = append(got,
			fmt.Sprintf("%s runs %s, declares %s", p.Name, p.Duration, logged.GetAnnotations()[DurationAnnotation]))
	}
	want := `job-7-0 runs 1m0s, declares 1m39s
job-7-1 runs 1m0s, declares 1m39s
job-7-2 runs 1m0s, declares 1m39s
job-8-0 runs 1s, declares 1s
job-8-1 runs 1s, declares 1s
job-9-0 runs 30s, declares 30s
job-11-0 runs 1h30m0s, declares 1h30m0s
job-12-0 runs 1m39s, declares 1m39s
a runs 1m0s, declares 1m0s
b runs 1s, declares 1s
c runs 1m0s, declares 1m0s`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	pods := swf.workload.Pods
	pods[0].Annotations["shared"] = "yes"
	if pods[2].Annotations["shared"] == "" || pods[7].Annotations["shared"] == "" ||
		pods[0].Template != pods[7].Template {
		t.Error("pods of one duration have annotations or templates of their own")
	}
}

func TestAJobsDurationIsDeclaredByItsPods(t *testing.T) {
	const job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: %s, annotations: {rollcall.dev/duration: " +
		"10m}}\nspec: {template: {metadata: {%s}, spec: {containers: [{name: c}]}}}\n"
	in, err := readText(fmt.Sprintf(job, "a", "") + fmt.Sprintf(job, "b", "annotations: {rollcall.dev/duration: 5m}"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"10m", "5m"} {
		p := &in.workload.Pods[i]
		if got := p.Build(p.Template, "u", 0).Annotations[DurationAnnotation]; got != want ||
			p.Duration.String() != want+"0s" {
			t.Errorf("%s declares %q and runs %s", p.Name, got, p.Duration)
		}
	}
}
