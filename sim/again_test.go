package sim

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rollcall-sched/rollcall/sim/workload"
)

// TestAPodWaitsUntilThePodOfItsNameIsGone has the StatefulSet's pod web-0 placed later than in the recording: its
// successor comes when it is gone, and one whose time is over by then never comes. firstFit complains of two live pods
// of one name.
func TestAPodWaitsUntilThePodOfItsNameIsGone(t *testing.T) {
	nodes, err := workload.ParseNodeSpec("1x4cpu")
	if err != nil {
		t.Fatal(err)
	}
	four := podOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")})
	w := &workload.Workload{Pods: []workload.PodPlan{
		{Namespace: "default", Name: "first", Template: four, Duration: 10 * time.Minute},
		{Namespace: "default", Name: "web-0", UID: "one", Template: four, Arrival: time.Minute, Duration: time.Minute},
		{Namespace: "default", Name: "web-0", UID: "two", Template: four, Arrival: 2 * time.Minute,
			Deadline: 5 * time.Minute},
		{Namespace: "default", Name: "web-0", UID: "three", Template: four, Arrival: 5 * time.Minute,
			Duration: time.Minute},
		{Namespace: "default", Name: "web-0", UID: "four", Template: four, Arrival: 6 * time.Minute,
			Duration: time.Minute},
	}}
	f := newFirstFit(t)
	run(t, f, nodes, w, Options{})
	want := strings.TrimLeft(`
10m0s    - pods first
10m0s    web-0 on node-00 Bound
11m0s    - pods web-0
11m0s    + pods web-0
11m0s    web-0 on node-00 Bound
12m0s    - pods web-0
12m0s    + pods web-0
12m0s    web-0 on node-00 Bound
13m0s    - pods web-0
`, "\n")
	if got := f.text(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
}
