package quickaffinity_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/rollcall-sched/rollcall/plugins/internal/plugintest"
	"github.com/rollcall-sched/rollcall/plugins/quickaffinity"
)

// world has also namespaces that change.
type world struct {
	*plugintest.World
	ctx        context.Context // the plugins' life
	namespaces cache.Indexer
	handlers   []cache.ResourceEventHandler // of namespaces
}

// handle has an informer of namespaces that tells the plugin at once.
type handle struct {
	fwk.Handle
	w *world
}

// SharedInformerFactory returns informers. The informer of namespaces calls the plugin at once.
func (h handle) SharedInformerFactory() informers.SharedInformerFactory {
	return told{SharedInformerFactory: h.Handle.SharedInformerFactory(), w: h.w}
}

// told is an informer factory down to the informer of namespaces, whose handlers the world calls.
type told struct {
	informers.SharedInformerFactory
	w *world
}

func (t told) Core() core.Interface     { return toldCore{t.SharedInformerFactory.Core(), t.w} }
func (t toldCore) V1() corev1.Interface { return toldV1{t.Interface.V1(), t.w} }
func (t toldV1) Namespaces() corev1.TypedNamespaceInformer {
	return toldNamespaces{t.Interface.Namespaces(), t.w}
}
func (t toldNamespaces) Informer() cache.SharedIndexInformer {
	return toldInformer{t.TypedNamespaceInformer.Informer(), t.w}
}
func (t toldInformer) AddEventHandler(handler cache.ResourceEventHandler) (
	cache.ResourceEventHandlerRegistration, error) {
	t.w.handlers = append(t.w.handlers, handler)
	return registration{}, nil
}
func (t toldInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error {
	t.w.handlers = nil // there is one
	return nil
}

type registration struct {
	cache.ResourceEventHandlerRegistration
}

type (
	toldCore struct {
		core.Interface
		w *world
	}
	toldV1 struct {
		corev1.Interface
		w *world
	}
	toldNamespaces struct {
		corev1.TypedNamespaceInformer
		w *world
	}
	toldInformer struct {
		cache.SharedIndexInformer
		w *world
	}
)

// newPair returns the plugin and upstream's.
func newPair(w *world, args config.InterPodAffinityArgs) *plugintest.Pair {
	w.TB.Helper()
	objects := informers.NewSharedInformerFactory(nil, 0)
	w.namespaces = objects.Core().V1().Namespaces().Informer().GetIndexer()
	for _, name := range []string{"a", "b"} { // c is not there
		w.setNamespace(name)
	}
	factory := func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return interpodaffinity.New(ctx, args, h,
			feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	}
	return plugintest.NewPair(w.ctx, w.World, factory, quickaffinity.New, &args, objects,
		func(h fwk.Handle) fwk.Handle { return handle{h, w} })
}

// quick returns the plugin itself.
func quick(p *plugintest.Pair) *quickaffinity.Affinity { return p.Ours.(*quickaffinity.Affinity) }

func newWorld(tb testing.TB, seed uint64, nodes int) *world {
	w := &world{World: plugintest.NewWorld(tb, seed), ctx: plugintest.Context()}
	w.NewNode, w.NewPod, w.NewTrial, w.Extra = w.node, w.pod, w.nominated, w.changeNamespace
	w.Relabel = func(pod *v1.Pod) { pod.Labels = w.podLabels() }
	for range nodes {
		w.AddNode()
	}
	return w
}

func pick[T any](w *world, of ...T) T { return plugintest.Pick(w.World, of...) }

func (w *world) changeNamespace() {
	if name := pick(w, "a", "b", "c"); w.Chance(60) {
		w.setNamespace(name)
	} else {
		w.deleteNamespace(name)
	}
	w.Changed()
}

func (w *world) setNamespace(name string) {
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if w.Chance(80) {
		n.Labels["team"] = pick(w, "red", "blue")
	}
	w.putNamespace(n)
}

func (w *world) putNamespace(n *v1.Namespace) {
	if err := w.namespaces.Add(n); err != nil {
		w.TB.Fatal(err)
	}
	for _, h := range w.handlers {
		h.OnUpdate(nil, n)
	}
}

func (w *world) deleteNamespace(name string) {
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.namespaces.Delete(n); err != nil {
		w.TB.Fatal(err)
	}
	for _, h := range w.handlers {
		h.OnDelete(cache.DeletedFinalStateUnknown{Key: name, Obj: n})
	}
}

// node returns a node of that name with labels.
func (w *world) node(name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if w.Chance(3) {
		n.Labels = nil
		return n
	}
	if w.Chance(95) {
		n.Labels[v1.LabelHostname] = name
	}
	if w.Chance(90) {
		n.Labels[v1.LabelTopologyZone] = pick(w, "z1", "z1", "z2", "z3", "z4", "")
	}
	if w.Chance(80) {
		n.Labels["row"] = pick(w, "1", "2") // only nominated pods ask for it
	}
	if w.Chance(70) {
		n.Labels["rack"] = pick(w, "r1", "r2", "r3", "r4", "r5", "r6")
	}
	return n
}

// pod returns a pod for a node to have.
func (w *world) pod() *v1.Pod {
	name := w.Name()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, "a", "a", "b", "c"), Name: name,
		UID: types.UID(name), Labels: w.podLabels()}}
	if w.Chance(10) {
		p.DeletionTimestamp = &metav1.Time{}
	}
	if w.Chance(35) {
		p.Spec.Affinity = w.affinity(p, false)
	}
	return p
}

func (w *world) podLabels() map[string]string {
	l := map[string]string{"unasked": fmt.Sprint(w.IntN(1000))}
	for i := range 3 {
		if w.Chance(70) {
			l[fmt.Sprint("other-", i)] = pick(w, "1", "2")
		}
	}
	if w.Chance(90) {
		l["app"] = pick(w, "web", "web", "db")
	}
	if w.Chance(1) {
		l["app"] = "first"
	}
	if w.Chance(60) {
		l["version"] = pick(w, "1", "2")
	}
	if w.Chance(5) {
		return nil
	}
	return l
}

// nominated returns a pod that was not asked about and is on no node. It may have terms on a label that nobody else has
// asked for.
func (w *world) nominated() *v1.Pod {
	p := w.pod()
	if w.Chance(70) {
		key := fmt.Sprint("other-", w.IntN(3))
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey:   pick(w, v1.LabelTopologyZone, v1.LabelHostname, "row", "row"),
				Namespaces:    []string{"a", "b", "c"},
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: pick(w, "1", "2")}}}}}}
	}
	return p
}

// question returns a pod that is to be placed.
func (w *world) question() *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, "a", "a", "a", "b", "c"), Name: "asked", UID: "asked",
		Labels: w.podLabels()}}
	if w.Chance(5) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred}}
	}
	if w.Chance(85) {
		p.Spec.Affinity = w.affinity(p, true)
	}
	if w.Chance(15) { // a pod that is to be with others like it, of which it may be the first
		p.Labels = map[string]string{"app": "first"}
		term := v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			TopologyKey: pick(w, v1.LabelTopologyZone, v1.LabelHostname)}
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	return p
}

// affinity returns terms of a pod. Those of pods on nodes can be read.
func (w *world) affinity(of *v1.Pod, faults bool) *v1.Affinity {
	a := &v1.Affinity{}
	if w.Chance(60) {
		a.PodAffinity = &v1.PodAffinity{}
		for range w.IntN(3) {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, w.term(of, faults))
		}
		a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = w.weighted(of, faults)
	}
	if w.Chance(60) {
		a.PodAntiAffinity = &v1.PodAntiAffinity{}
		for range w.IntN(2 + w.IntN(2)) {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
				a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, w.term(of, faults))
		}
		a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = w.weighted(of, faults)
	}
	return a
}

func (w *world) weighted(of *v1.Pod, faults bool) (out []v1.WeightedPodAffinityTerm) {
	for range w.IntN(3) {
		out = append(out, v1.WeightedPodAffinityTerm{Weight: pick(w, int32(1), 10, 50, 100, 0),
			PodAffinityTerm: w.term(of, faults)})
	}
	return out
}

func (w *world) term(of *v1.Pod, faults bool) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{
		LabelSelector: w.selector(faults),
		TopologyKey:   pick(w, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelHostname, "rack", "nobody-has-it"),
	}
	switch w.IntN(8) {
	case 0, 1:
		t.Namespaces = []string{pick(w, "a", "b", "c")}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 3:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(w, "red", "blue")}}
	case 4:
		t.Namespaces = []string{pick(w, "a", "b", "c")}
		t.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team",
			Operator: pick(w, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpExists)}}}
	}
	// The API server has put these into the selector by the time that anybody schedules.
	if w.Chance(20) && t.LabelSelector != nil {
		key, operator := "version", metav1.LabelSelectorOpIn
		if w.Chance(50) {
			operator, t.MismatchLabelKeys = metav1.LabelSelectorOpNotIn, []string{key}
		} else {
			t.MatchLabelKeys = []string{key}
		}
		if value, ok := of.Labels[key]; ok {
			t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
	return t
}

func (w *world) selector(faults bool) *metav1.LabelSelector {
	switch n := w.IntN(20); {
	case n == 0:
		return nil
	case n == 1 && w.Chance(50): // a label that may not have been asked for before
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: fmt.Sprint("rare-", w.IntN(100)), Operator: metav1.LabelSelectorOpDoesNotExist}}}
	case n == 1:
		return &metav1.LabelSelector{}
	case n == 2 && faults:
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Nonsense"}},
		}
	case n < 6:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "version",
			Operator: pick(w, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	case n < 8:
		return &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "web"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "version",
				Operator: pick(w, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{"1", "3"}}},
		}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(w, "web", "web", "db")}}
	}
}
