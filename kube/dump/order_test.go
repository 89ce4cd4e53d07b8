package dump

import (
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/watch"
)

// TestTheOrderIsTheOneOfALiveRun compares the order of a dump's entries with the reconciling step of a watch.
func TestTheOrderIsTheOneOfALiveRun(t *testing.T) {
	w, err := watch.New(watch.Options{Client: fake.NewClientset(), Config: &rest.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	var live []eventlog.Resource
	for res := range w.Counts() {
		live = append(live, res)
	}
	if !slices.Equal(order, live) {
		t.Errorf("order is\n%v\nand a live run has\n%v", order, live)
	}
	if needed, optional := Resources(); len(needed)+len(optional) != len(live) {
		t.Errorf("%d resources are needed and %d optional, of %d", len(needed), len(optional), len(live))
	}
}
