package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// pluginHandle is the least of a fwk.Handle that in-tree plugins need to be made.
type pluginHandle struct {
	fwk.Handle
	informers *Informers
	devices   fwk.SharedDRAManager
	snapshot  fwk.SharedLister
	profile   string
	client    kubernetes.Interface
}

func (h *pluginHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.informers.Factory()
}
func (h *pluginHandle) SharedCSIManager() fwk.CSIManager       { return h.informers.CSI() }
func (h *pluginHandle) SharedDRAManager() fwk.SharedDRAManager { return h.devices }
func (h *pluginHandle) ClientSet() kubernetes.Interface        { return h.client }
func (h *pluginHandle) SnapshotSharedLister() fwk.SharedLister { return h.snapshot }
func (h *pluginHandle) Parallelizer() fwk.Parallelizer         { return nil }
func (h *pluginHandle) ProfileName() string                    { return h.profile }

// mustUpsert feeds objects of any resources.
func mustUpsert(t testing.TB, f *Informers, objects ...eventlog.Object) {
	t.Helper()
	for _, obj := range objects {
		res, ok := eventlog.ResourceOf(obj)
		if !ok {
			t.Fatalf("%T is of no resource", obj)
		}
		if _, err := f.Upsert(res, obj); err != nil {
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

// typedListers are the generated listers for the resources of in-tree plugins and of added ones.
var typedListers = map[eventlog.Resource]func(informers.SharedInformerFactory, labels.Selector) []string{
	eventlog.Pods: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().Pods().Lister().List(s))
	},
	eventlog.Nodes: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().Nodes().Lister().List(s))
	},
	eventlog.Namespaces: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().Namespaces().Lister().List(s))
	},
	eventlog.Services: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().Services().Lister().List(s))
	},
	eventlog.ReplicationControllers: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().ReplicationControllers().Lister().List(s))
	},
	eventlog.PersistentVolumes: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().PersistentVolumes().Lister().List(s))
	},
	eventlog.PersistentVolumeClaims: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Core().V1().PersistentVolumeClaims().Lister().List(s))
	},
	eventlog.ReplicaSets: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Apps().V1().ReplicaSets().Lister().List(s))
	},
	eventlog.StatefulSets: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Apps().V1().StatefulSets().Lister().List(s))
	},
	eventlog.PodDisruptionBudgets: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Policy().V1().PodDisruptionBudgets().Lister().List(s))
	},
	eventlog.PriorityClasses: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Scheduling().V1().PriorityClasses().Lister().List(s))
	},
	eventlog.PodGroups: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Scheduling().V1beta1().PodGroups().Lister().List(s))
	},
	eventlog.StorageClasses: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Storage().V1().StorageClasses().Lister().List(s))
	},
	eventlog.CSINodes: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Storage().V1().CSINodes().Lister().List(s))
	},
	eventlog.CSIDrivers: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Storage().V1().CSIDrivers().Lister().List(s))
	},
	eventlog.CSIStorageCapacities: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Storage().V1().CSIStorageCapacities().Lister().List(s))
	},
	eventlog.VolumeAttachments: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Storage().V1().VolumeAttachments().Lister().List(s))
	},
	eventlog.ResourceClaims: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Resource().V1().ResourceClaims().Lister().List(s))
	},
	eventlog.ResourceSlices: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Resource().V1().ResourceSlices().Lister().List(s))
	},
	eventlog.DeviceClasses: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Resource().V1().DeviceClasses().Lister().List(s))
	},
	eventlog.DeviceTaintRules: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Resource().V1().DeviceTaintRules().Lister().List(s))
	},
	eventlog.CompositePodGroups: func(f informers.SharedInformerFactory, s labels.Selector) []string {
		return namesOf(f.Scheduling().V1alpha3().CompositePodGroups().Lister().List(s))
	},
	// None of client-go's resources: only the generic lister has them.
	eventlog.XPodGroups:       nil,
	eventlog.VolcanoPodGroups: nil,
	eventlog.KAIPodGroups:     nil,
}

func TestEveryListerListsByNamespaceThenName(t *testing.T) {
	for _, res := range eventlog.Resources() {
		t.Run(string(res), func(t *testing.T) {
			f := NewInformers()
			var want []string
			for _, ns := range []string{"a", "a-b", "b"} {
				for i := range 20 {
					want = append(want, fmt.Sprintf("%s/n%02d", ns, i))
				}
			}
			for _, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(want)) {
				obj := eventlog.NewObject(res)
				ns, name, _ := strings.Cut(want[at], "/")
				obj.SetNamespace(ns)
				obj.SetName(name)
				obj.SetLabels(map[string]string{"in": ns})
				mustUpsert(t, f, obj)
			}
			typed, known := typedListers[res]
			if !known {
				t.Fatal("no lister is tested: add one")
			}
			if typed != nil {
				if got := typed(f.Factory(), labels.Everything()); !slices.Equal(got, want) {
					t.Errorf("typed lister: %v", got)
				}
				if got := typed(
					f.Factory(),
					labels.SelectorFromSet(labels.Set{"in": "a-b"}),
				); !slices.Equal(
					got,
					want[20:40],
				) {
					t.Errorf("typed lister with a selector: %v", got)
				}
			}
			group := schema.ParseGroupResource(string(res))
			generic, err := f.Factory().ForResource(group.WithVersion("v1"))
			if err != nil {
				t.Fatal(err)
			}
			all, err := generic.Lister().List(labels.Everything())
			if got := namesOf(asMeta(all), err); !slices.Equal(got, want) {
				t.Errorf("generic lister: %v", got)
			}
			some, err := generic.Lister().ByNamespace("a-b").List(labels.Everything())
			if got := namesOf(asMeta(some), err); !slices.Equal(got, want[20:40]) {
				t.Errorf("generic lister of a namespace: %v", got)
			}
			if got := namesOf(f.List(res), nil); !slices.Equal(got, want) {
				t.Errorf("List: %v", got)
			}
		})
	}
}

func asMeta(objects []runtime.Object) []metav1.Object {
	out := make([]metav1.Object, len(objects))
	for i, obj := range objects {
		out[i] = obj.(metav1.Object)
	}
	return out
}

func TestHandlersHearChangesInOrderAndExistingObjectsFirst(t *testing.T) {
	f := NewInformers()
	var heard []string
	listen := func(who string) cache.ResourceEventHandlerDetailedFuncs {
		name := func(obj any) string { return obj.(*v1.Namespace).Name + obj.(*v1.Namespace).ResourceVersion }
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(obj any, initial bool) {
				heard = append(heard, fmt.Sprintf("%s add %s %v", who, name(obj), initial))
			},
			UpdateFunc: func(old, obj any) {
				heard = append(heard, fmt.Sprintf("%s update %s to %s", who, name(old), name(obj)))
			},
			DeleteFunc: func(obj any) { heard = append(heard, fmt.Sprintf("%s delete %s", who, name(obj))) },
		}
	}
	namespace := func(name, version string) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	mustUpsert(t, f, namespace("b", "1"), namespace("a", "1"))
	informer := f.Factory().Core().V1().Namespaces().Informer()
	first, err := informer.AddEventHandler(listen("first"))
	if err != nil || !first.HasSynced() || !cache.IsDone(first.HasSyncedChecker()) || !informer.HasSynced() {
		t.Fatalf("a new handler is not in sync: %v", err)
	}
	if _, err := informer.AddEventHandlerWithOptions(listen("second"), cache.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	mustUpsert(t, f, namespace("a", "2"))
	if err := informer.RemoveEventHandler(first); err != nil {
		t.Fatal(err)
	}
	if old := f.Delete(eventlog.Namespaces, "", "a"); old == nil || old.GetResourceVersion() != "2" {
		t.Errorf("Delete returned %v", old)
	}
	if old := f.Delete(eventlog.Namespaces, "", "a"); old != nil {
		t.Errorf("Delete of what is gone returned %v", old)
	}
	mustUpsert(t, f, namespace("c", "1"))
	want := []string{
		"first add a1 true", "first add b1 true", "second add a1 true", "second add b1 true",
		"first update a1 to a2", "second update a1 to a2", "second delete a2", "second add c1 false",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(heard, "\n"), strings.Join(want, "\n"))
	}
}

func TestUpsertRefusesWhatIsOfAnotherType(t *testing.T) {
	f := NewInformers()
	var none *v1.Pod
	for name, c := range map[string]struct {
		res eventlog.Resource
		obj eventlog.Object
	}{
		"unknown resource": {"widgets", &v1.Pod{}},
		"other type":       {eventlog.Pods, &v1.Node{}},
		"typed nil":        {eventlog.Pods, none},
		"nil":              {eventlog.Pods, nil},
	} {
		if _, err := f.Upsert(c.res, c.obj); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if f.Get(eventlog.Pods, "", "") != nil || f.Get("widgets", "", "") != nil || f.List("widgets") != nil ||
		f.Delete("widgets", "", "") != nil {
		t.Error("something is there that was never put")
	}
}

func TestFactoryHasEmptyInformersForWhatTheLogDoesNotCarry(t *testing.T) {
	f := NewInformers()
	factory := f.Factory()
	factory.StartWithContext(context.Background())
	if got, err := factory.Batch().V1().Jobs().Lister().List(labels.Everything()); err != nil || len(got) != 0 {
		t.Errorf("jobs: %v, %v", got, err)
	}
	if factory.InformerFor(&batchv1.Job{}, nil).GetStore() != factory.Batch().V1().Jobs().Informer().GetStore() {
		t.Error("two stores for one type")
	}
	if _, err := factory.ForResource(batchv1.SchemeGroupVersion.WithResource("jobs")); err == nil {
		t.Error("ForResource promises a resource that the log does not carry")
	}
	synced := factory.WaitForCacheSyncWithContext(context.Background())
	if synced.Err != nil || len(synced.Synced) != len(eventlog.Resources())+1 {
		t.Errorf("synced: %v", synced)
	}
	factory.Shutdown()
	for name, group := range map[string]any{
		"admissionregistration": factory.Admissionregistration(), "internal": factory.Internal(),
		"apps":        factory.Apps(),
		"autoscaling": factory.Autoscaling(), "certificates": factory.Certificates(),
		"coordination": factory.Coordination(),
		"discovery":    factory.Discovery(), "events": factory.Events(), "extensions": factory.Extensions(),
		"flowcontrol": factory.Flowcontrol(), "lifecycle": factory.Lifecycle(), "networking": factory.Networking(),
		"node": factory.Node(), "rbac": factory.Rbac(), "storagemigration": factory.Storagemigration(),
	} {
		if group == nil {
			t.Errorf("group %s is nil", name)
		}
	}
}

func TestRunningAnInformerDoesNothing(t *testing.T) {
	informer := NewInformers().Factory().Core().V1().Pods().Informer()
	informer.RunWithContext(t.Context())
	informer.GetController().RunWithContext(t.Context())
	if !informer.GetController().HasSynced() || informer.IsStopped() || informer.LastSyncResourceVersion() != "" {
		t.Error("the informer is not at rest and in sync")
	}
	if err := informer.SetTransform(func(obj any) (any, error) { return obj, nil }); err == nil {
		t.Error("a transform is accepted")
	}
	if err := informer.SetWatchErrorHandlerWithContext(nil); err != nil {
		t.Error(err)
	}
}

func TestEveryPluginOfTheDefaultProfileCanBeMade(t *testing.T) {
	state := New()
	registry := plugins.NewInTreeRegistry()
	args := map[string]runtime.Object{}
	for _, c := range defaults.PluginConfigsV1 {
		args[c.Name] = c.Args
	}
	// Two profiles share the informers; each plugin's second instance must not be refused.
	for _, profile := range []string{"default-scheduler", "other"} {
		for _, p := range defaults.PluginsV1.MultiPoint.Enabled {
			if p.Name == "DefaultPreemption" {
				continue // It is not run here: it reaches for chance and for the API server.
			}
			handle := &pluginHandle{informers: state.Informers(), devices: state.Devices(), snapshot: state,
				profile: profile}
			if _, err := registry[p.Name](t.Context(), args[p.Name], handle); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
}

func TestStateIsTheSameWhateverWayItCameAbout(t *testing.T) {
	var objects []eventlog.Object
	for _, res := range eventlog.Resources() {
		if res == eventlog.Pods || res == eventlog.Nodes {
			continue
		}
		for _, name := range []string{"x", "y", "z"} {
			obj := eventlog.NewObject(res)
			obj.SetNamespace("ns")
			obj.SetName(name)
			obj.SetAnnotations(map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"})
			objects = append(objects, obj)
		}
	}
	straight, winding := New(), New()
	upsert := func(s *State, objects ...eventlog.Object) {
		for _, obj := range objects {
			res, _ := eventlog.ResourceOf(obj)
			if _, err := s.Upsert(res, obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	bytesOf := func(s *State) []byte {
		state, err := s.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	upsert(straight, objects...)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, at := range rng.Perm(len(objects)) {
		early := objects[at].DeepCopyObject().(eventlog.Object)
		early.SetLabels(map[string]string{"early": "yes"})
		upsert(winding, early)
	}
	for _, at := range rng.Perm(len(objects)) {
		if res, _ := eventlog.ResourceOf(objects[at]); at%2 == 0 {
			winding.Delete(res, "ns", objects[at].GetName())
		}
		upsert(winding, objects[at])
	}
	if !bytes.Equal(bytesOf(straight), bytesOf(winding)) {
		t.Error("the state's bytes depend on history")
	}
	before := bytesOf(straight)
	for _, obj := range objects {
		res, _ := eventlog.ResourceOf(obj)
		changed := obj.DeepCopyObject().(eventlog.Object)
		changed.SetAnnotations(map[string]string{"a": "1"})
		upsert(straight, changed)
		if bytes.Equal(bytesOf(straight), before) {
			t.Errorf("a change of %s %s is not in the state's bytes", res, obj.GetName())
		}
		upsert(straight, obj)
	}
}

func TestCSIManagerReadsTheLog(t *testing.T) {
	f := NewInformers()
	mustUpsert(
		t,
		f,
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
	)
	if got := namesOf(f.CSI().CSINodes().List()); !slices.Equal(got, []string{"/n1", "/n2"}) {
		t.Errorf("CSINodes: %v", got)
	}
	if _, err := f.CSI().CSINodes().Get("n1"); err != nil {
		t.Error(err)
	}
}
