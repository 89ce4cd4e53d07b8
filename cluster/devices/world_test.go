package devices_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// pluginHandle is a Handle for DynamicResources.
type pluginHandle struct {
	fwk.Handle
	state   *cluster.State
	profile string
	client  kubernetes.Interface
}

func (h *pluginHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.state.Informers().Factory()
}
func (h *pluginHandle) SharedDRAManager() fwk.SharedDRAManager { return h.state.Devices() }
func (h *pluginHandle) ClientSet() kubernetes.Interface        { return h.client }
func (h *pluginHandle) Parallelizer() fwk.Parallelizer         { return nil }
func (h *pluginHandle) ProfileName() string                    { return h.profile }

func newPlugin(t testing.TB, s *cluster.State) fwk.Plugin {
	t.Helper()
	pl, err := plugins.NewInTreeRegistry()[dynamicresources.Name](context.Background(),
		&config.DynamicResourcesArgs{}, &pluginHandle{state: s, profile: "default-scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

// mustUpsert feeds objects of any resources but pods.
func mustUpsert(t testing.TB, s *cluster.State, objects ...eventlog.Object) {
	t.Helper()
	for _, obj := range objects {
		res, ok := eventlog.ResourceOf(obj)
		if !ok {
			t.Fatalf("%T is of no resource", obj)
		}
		var err error
		if node, ok := obj.(*v1.Node); ok {
			_, err = s.UpsertNode(node)
		} else {
			_, err = s.Upsert(res, obj)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func namesOf[T metav1.Object](objects []T, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetNamespace()+"/"+obj.GetName())
	}
	return names
}

func worldNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
}
