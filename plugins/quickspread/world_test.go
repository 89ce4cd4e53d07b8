package quickspread_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/rollcall-sched/rollcall/plugins/internal/plugintest"
	"github.com/rollcall-sched/rollcall/plugins/quickspread"
)

// newPair returns the plugin and upstream's, with default constraints.
func newPair(w *world, defaults ...v1.TopologySpreadConstraint) *plugintest.Pair {
	w.TB.Helper()
	return newPairWith(w, config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting,
		DefaultConstraints: defaults})
}

func newPairWith(w *world, args config.PodTopologySpreadArgs) *plugintest.Pair {
	w.TB.Helper()
	objects := informers.NewSharedInformerFactory(nil, 0)
	for _, app := range []string{"web", "db"} {
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "a"},
			Spec: v1.ServiceSpec{Selector: map[string]string{"app": app}}}
		if err := objects.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
			w.TB.Fatal(err)
		}
	}
	factory := func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return podtopologyspread.New(ctx, args, h,
			feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	}
	return plugintest.NewPair(plugintest.Context(), w.World, factory, quickspread.New, &args, objects, nil)
}

// world makes nodes and pods that spread constraints tell apart.
type world struct{ *plugintest.World }

func newWorld(tb testing.TB, seed uint64, nodes int) *world {
	w := &world{plugintest.NewWorld(tb, seed)}
	w.NewNode, w.NewPod, w.NewTrial = w.node, w.pod, w.pod
	w.Relabel = func(pod *v1.Pod) { pod.Labels = w.podLabels() }
	for range nodes {
		w.AddNode()
	}
	return w
}

func pick[T any](w *world, of ...T) T { return plugintest.Pick(w.World, of...) }

// node returns a node of that name with labels and taints.
func (w *world) node(name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if w.Chance(95) {
		n.Labels[v1.LabelHostname] = name
	}
	if w.Chance(90) {
		n.Labels[v1.LabelTopologyZone] = pick(w, "z1", "z1", "z2", "z3", "z4", "")
	}
	if w.Chance(70) {
		n.Labels["rack"] = pick(w, "r1", "r2", "r3", "r4", "r5", "r6")
	}
	if w.Chance(60) {
		n.Labels["disk"] = pick(w, "ssd", "hdd")
	}
	if w.Chance(25) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: pick(w, "gpu", "old"), Value: "yes",
			Effect: pick(w, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)})
	}
	if w.Chance(10) {
		n.Spec.Taints = append(
			n.Spec.Taints,
			v1.Taint{Key: "level", Value: pick(w, "2", "5", "8"), Effect: v1.TaintEffectNoSchedule},
		)
	}
	return n
}

// pod returns a pod for a node to have.
func (w *world) pod() *v1.Pod {
	name := w.Name()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, "a", "a", "b"), Name: name, UID: types.UID(name),
		Labels: w.podLabels()}}
	if w.Chance(10) {
		p.DeletionTimestamp = &metav1.Time{}
	}
	return p
}

func (w *world) podLabels() map[string]string {
	l := map[string]string{}
	if w.Chance(90) {
		l["app"] = pick(w, "web", "web", "db")
	}
	if w.Chance(60) {
		l["version"] = pick(w, "1", "2")
	}
	return l
}

// question returns a pod that is to be placed.
func (w *world) question() *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, "a", "a", "a", "b"), Name: "asked", UID: "asked",
		Labels: w.podLabels()}}
	if w.Chance(5) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred}}
	}
	if w.Chance(85) {
		for range 1 + w.IntN(3) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, w.constraint())
		}
	}
	if w.Chance(30) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(w, "ssd", "hdd")}
	}
	if w.Chance(30) {
		p.Spec.Affinity = &v1.Affinity{}
		if w.Chance(80) {
			term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
				Key:      pick(w, v1.LabelTopologyZone, "rack", "disk"),
				Operator: pick(w, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, "Nonsense"),
				Values:   []string{pick(w, "z1", "r1", "ssd"), pick(w, "z2", "r2", "r3")}}}}
			required := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
			p.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
		}
	}
	if w.Chance(30) {
		p.Spec.Tolerations = []v1.Toleration{
			{Key: pick(w, "gpu", "old"), Operator: v1.TolerationOpExists},
			{Key: "level", Operator: v1.TolerationOpGt, Value: pick(w, "3", "6")},
		}
	}
	return p
}

// almost returns a pod that differs in one thing only.
func (w *world) almost(pod *v1.Pod) *v1.Pod {
	pod, other := pod.DeepCopy(), w.question()
	switch w.IntN(5) {
	case 0:
		pod.Namespace = pick(w, "a", "b")
	case 1:
		pod.Spec.NodeSelector = other.Spec.NodeSelector
	case 2:
		pod.Spec.Affinity = other.Spec.Affinity
	case 3:
		pod.Spec.Tolerations = other.Spec.Tolerations
	default:
		if of := pod.Spec.TopologySpreadConstraints; len(of) > 0 {
			of[w.IntN(len(of))] = w.constraint()
		}
	}
	return pod
}

func (w *world) constraint() v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{
		MaxSkew:           int32(1 + w.IntN(3)),
		TopologyKey:       pick(w, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelHostname, "rack"),
		WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector:     w.selector(),
	}
	if w.Chance(30) {
		c.WhenUnsatisfiable = v1.ScheduleAnyway
	}
	if w.Chance(30) {
		c.MinDomains = new(int32)
		*c.MinDomains = int32(w.IntN(7))
	}
	policy := func() *v1.NodeInclusionPolicy {
		p := pick(w, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
		return &p
	}
	if w.Chance(40) {
		c.NodeAffinityPolicy = policy()
	}
	if w.Chance(40) {
		c.NodeTaintsPolicy = policy()
	}
	if w.Chance(30) {
		c.MatchLabelKeys = []string{pick(w, "version", "app")}
	}
	return c
}

func (w *world) selector() *metav1.LabelSelector {
	switch w.IntN(20) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Nonsense"}},
		}
	case 3, 4, 5:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "version",
			Operator: pick(w, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	case 6, 7:
		return &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "web"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{
					Key:      "version",
					Operator: pick(w, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn),
					Values:   []string{"1", "3"},
				},
			},
		}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(w, "web", "web", "db")}}
	}
}
