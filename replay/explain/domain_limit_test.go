package explain

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// TestTheSumsOfADomainDoNotOverflow adds the most that nodes can offer of a resource until an int64 is too small.
func TestTheSumsOfADomainDoNotOverflow(t *testing.T) {
	info := upstream.NewNodeInfo()
	info.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceMemory: *resource.NewQuantity(cluster.MostAmount, resource.BinarySI)}}})
	for _, c := range []struct {
		nodes              int
		request, all, fits int64
	}{
		{2, cluster.MostAmount, 2 * cluster.MostAmount, 2},
		{2, 0, 2 * cluster.MostAmount, 2 * cluster.MostAmount},
		{8192, 1, 1 << 62, 1 << 62},
		{10_000, 4, 1 << 62, 2500 * cluster.MostAmount},
	} {
		nodes := slices.Repeat([]fwk.NodeInfo{info}, c.nodes)
		if all, fits := offeredBy(nodes, v1.ResourceMemory, c.request); all != c.all || fits != c.fits {
			t.Errorf("%d nodes, request %d: they offer %d, and %d members fit", c.nodes, c.request, all, fits)
		}
	}
}
