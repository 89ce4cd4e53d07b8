package volumes_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// store is a state, as a store of objects.
type store struct{ *cluster.State }

func newStore() store { return store{cluster.New()} }

func (s store) Get(res eventlog.Resource, namespace, name string) eventlog.Object {
	return s.Informers().Get(res, namespace, name)
}

func (s store) List(res eventlog.Resource) []eventlog.Object { return s.Informers().List(res) }

func (s store) AssumeVolumes(pod *v1.Pod, node string, list []eventlog.VolumeClaim) error {
	return s.Volumes().Assume(pod, node, list)
}

func (s store) ForgetVolumes(pod types.UID) { s.Volumes().Forget(pod) }

func (s store) AppendState(dst []byte) []byte {
	dst, err := s.State.AppendState(dst)
	if err != nil {
		panic(err)
	}
	return dst
}

// pluginHandle is a Handle for VolumeBinding.
type pluginHandle struct {
	fwk.Handle
	state   *cluster.State
	profile string
}

func (h *pluginHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.state.Informers().Factory()
}
func (h *pluginHandle) SharedCSIManager() fwk.CSIManager       { return h.state.Informers().CSI() }
func (h *pluginHandle) ClientSet() kubernetes.Interface        { return nil }
func (h *pluginHandle) SnapshotSharedLister() fwk.SharedLister { return h.state }
func (h *pluginHandle) Parallelizer() fwk.Parallelizer         { return nil }
func (h *pluginHandle) ProfileName() string                    { return h.profile }

func mustUpsert(t testing.TB, s store, objects ...eventlog.Object) {
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
