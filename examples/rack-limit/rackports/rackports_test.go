package rackports

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// handle shows the plugin two racks of one node each, and no other objects.
type handle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
}

func (h *handle) SnapshotSharedLister() fwk.SharedLister { return h }
func (h *handle) NodeInfos() fwk.NodeInfoLister          { return h }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(nil, 0) // it is never started
}

// Get returns the node a1 of rack a, and so on.
func (h *handle) Get(name string) (fwk.NodeInfo, error) {
	node := framework.NewNodeInfo()
	node.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": name[:1]}}})
	return node, nil
}

func newPlugin(t *testing.T) *RackPorts {
	t.Helper()
	args := &runtime.Unknown{Raw: []byte(`{"rackLabel":"rack","ports":2}`), ContentType: runtime.ContentTypeJSON}
	plugin, err := New(t.Context(), args, &handle{})
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*RackPorts)
}

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{needsPort: "yes"},
	}}
}

// fits reports whether the node takes another pod.
func fits(t *testing.T, p *RackPorts, name string) bool {
	t.Helper()
	node, _ := (&handle{}).Get(name)
	return p.Filter(t.Context(), nil, pod("another"), node).IsSuccess()
}

func TestAPortIsKeptUntilItIsGivenBack(t *testing.T) {
	p := newPlugin(t)
	for _, name := range []string{"one", "two"} {
		if status := p.Reserve(t.Context(), nil, pod(name), "a1"); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	if fits(t, p, "a1") || !fits(t, p, "b1") {
		t.Error("rack a has two ports and two pods: its nodes take no other, and those of rack b do")
	}
	if status := p.Reserve(t.Context(), nil, pod("three"), "a1"); status.Code() != fwk.Unschedulable {
		t.Errorf("a third port is reserved: %v", status)
	}
	p.Unreserve(t.Context(), nil, pod("one"), "a1")
	p.Unreserve(t.Context(), nil, pod("never"), "a1") // as the framework may
	p.Reserve(t.Context(), nil, pod("three"), "a1")
	if has, _ := p.portOf(pod("three")); has != (port{"a", 1}) {
		t.Errorf("the port is %v, want the lowest that is free", has)
	}
	p.gone(pod("two"))
	if !fits(t, p, "a1") {
		t.Error("the port of a pod that is gone is still taken")
	}
	if status := p.PreBind(t.Context(), nil, pod("two"), "a1"); status.IsSuccess() {
		t.Error("a pod without its port is bound")
	}
	if status := p.PreBind(t.Context(), nil, pod("three"), "a1"); !status.IsSuccess() {
		t.Errorf("a pod with its port: %v", status)
	}
}

// TestTheMemoryIsWrittenTheSameAndRestored reserves in two orders what comes to the same.
func TestTheMemoryIsWrittenTheSameAndRestored(t *testing.T) {
	var written []string
	for _, order := range []string{"a1 b1 c1 d1", "d1 c1 b1 a1"} {
		p := newPlugin(t)
		for _, node := range strings.Fields(order) {
			p.Reserve(t.Context(), nil, pod("on-"+node), node)
		}
		written = append(written, string(p.AppendState([]byte("before "))))
	}
	if written[0] != written[1] || !strings.HasPrefix(written[0], `before {"on-a1":{"rack":"a","number":1},`) {
		t.Errorf("one memory is written in two ways:\n%s", strings.Join(written, "\n"))
	}
	again := newPlugin(t)
	if err := again.RestoreState([]byte(strings.TrimPrefix(written[0], "before "))); err != nil {
		t.Fatal(err)
	}
	if got := "before " + string(again.AppendState(nil)); got != written[0] {
		t.Errorf("restored is %s, want %s", got, written[0])
	}
	if status := again.PreBind(t.Context(), nil, pod("on-c1"), "c1"); !status.IsSuccess() {
		t.Errorf("a port that was restored: %v", status)
	}
}
