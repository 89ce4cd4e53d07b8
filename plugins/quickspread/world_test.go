package quickspread_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/quickspread"
)

// both are the plugin and upstream's, as kube-scheduler would start them.
type both struct {
	ours   *quickspread.Spread
	theirs *podtopologyspread.PodTopologySpread
	list   *lister
}

// lister lists the nodes that were given last.
type lister struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (l *lister) NodeInfos() fwk.NodeInfoLister { return l }

func (l *lister) List() ([]fwk.NodeInfo, error) { return l.nodes, nil }

func newBoth(tb testing.TB, defaults ...v1.TopologySpreadConstraint) both {
	tb.Helper()
	return newBothWith(tb, config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting,
		DefaultConstraints: defaults})
}

func newBothWith(tb testing.TB, args config.PodTopologySpreadArgs) both {
	tb.Helper()
	list := &lister{}
	metrics.Register()
	ctx := quiet()
	objects := informers.NewSharedInformerFactory(nil, 0)
	for _, app := range []string{"web", "db"} {
		service := &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "a"},
			Spec:       v1.ServiceSpec{Selector: map[string]string{"app": app}},
		}
		if err := objects.Core().V1().Services().Informer().GetIndexer().Add(service); err != nil {
			tb.Fatal(err)
		}
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithSnapshotSharedLister(list),
		frameworkruntime.WithInformerFactory(objects), frameworkruntime.WithParallelism(1))
	if err != nil {
		tb.Fatal(err)
	}
	var factory frameworkruntime.PluginFactory = func(ctx context.Context, args runtime.Object,
		h fwk.Handle) (fwk.Plugin, error) {
		return podtopologyspread.New(
			ctx,
			args,
			h,
			feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
		)
	}
	theirs, err := factory(ctx, &args, handle)
	if err != nil {
		tb.Fatal(err)
	}
	ours, err := quickspread.New(factory)(ctx, &args, handle)
	if err != nil {
		tb.Fatal(err)
	}
	return both{ours.(*quickspread.Spread), theirs.(*podtopologyspread.PodTopologySpread), list}
}

func quiet() context.Context { return framework.Quiet(context.Background()) }

// world is nodes and pods that change.
type world struct {
	*rand.Rand
	tb    testing.TB
	nodes []fwk.NodeInfo // by name
	last  int            // number of the last name given
}

func newWorld(tb testing.TB, seed uint64, nodes int) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 6)), tb: tb}
	for range nodes {
		w.addNode()
	}
	return w
}

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

func pick[T any](w *world, of ...T) T { return of[w.IntN(len(of))] }

// node returns a node of that name with labels and taints.
func (w *world) node(name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if w.chance(95) {
		n.Labels[v1.LabelHostname] = name
	}
	if w.chance(90) {
		n.Labels[v1.LabelTopologyZone] = pick(w, "z1", "z1", "z2", "z3", "z4", "")
	}
	if w.chance(70) {
		n.Labels["rack"] = pick(w, "r1", "r2", "r3", "r4", "r5", "r6")
	}
	if w.chance(60) {
		n.Labels["disk"] = pick(w, "ssd", "hdd")
	}
	if w.chance(25) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: pick(w, "gpu", "old"), Value: "yes",
			Effect: pick(w, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)})
	}
	if w.chance(10) {
		n.Spec.Taints = append(
			n.Spec.Taints,
			v1.Taint{Key: "level", Value: pick(w, "2", "5", "8"), Effect: v1.TaintEffectNoSchedule},
		)
	}
	return n
}

func (w *world) addNode() {
	w.last++
	// Names that come to stand anywhere in the list.
	name := fmt.Sprintf("n%03d-%d", w.IntN(1000), w.last)
	info := upstream.NewNodeInfo()
	info.SetNode(w.node(name))
	for range w.IntN(4) {
		info.AddPodInfo(w.info(w.pod()))
	}
	at, _ := slices.BinarySearchFunc(
		w.nodes,
		name,
		func(n fwk.NodeInfo, name string) int { return strings.Compare(n.Node().Name, name) },
	)
	w.nodes = slices.Insert(w.nodes, at, fwk.NodeInfo(info))
}

func (w *world) info(pod *v1.Pod) fwk.PodInfo {
	info, err := upstream.NewPodInfo(pod)
	if err != nil {
		w.tb.Fatal(err)
	}
	return info
}

// pod returns a pod for a node to have.
func (w *world) pod() *v1.Pod {
	w.last++
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(w, "a", "a", "b"),
			Name:      fmt.Sprint("p", w.last),
			UID:       types.UID(fmt.Sprint(w.last)),
			Labels:    w.podLabels(),
		},
	}
	if w.chance(10) {
		p.DeletionTimestamp = &metav1.Time{}
	}
	return p
}

func (w *world) podLabels() map[string]string {
	l := map[string]string{}
	if w.chance(90) {
		l["app"] = pick(w, "web", "web", "db")
	}
	if w.chance(60) {
		l["version"] = pick(w, "1", "2")
	}
	return l
}

// change is one thing that happens to the world.
func (w *world) change() {
	if len(w.nodes) == 0 {
		w.addNode()
		return
	}
	at := w.IntN(len(w.nodes))
	info := w.nodes[at].(*upstream.NodeInfo)
	switch w.IntN(10) {
	case 0:
		w.addNode()
	case 1:
		if len(w.nodes) > 3 {
			w.nodes = slices.Delete(w.nodes, at, at+1)
		}
	case 2:
		info.SetNode(w.node(info.Node().Name))
	case 3, 4, 5:
		info.AddPodInfo(w.info(w.pod()))
	default:
		if len(info.Pods) == 0 {
			return
		}
		pod := info.Pods[w.IntN(len(info.Pods))].GetPod()
		if err := info.RemovePod(klog.FromContext(quiet()), pod); err != nil {
			w.tb.Fatal(err)
		}
		if w.chance(60) { // it is another from now on: with other labels, or being deleted
			again := pod.DeepCopy()
			if w.chance(50) {
				again.DeletionTimestamp = &metav1.Time{}
			} else {
				again.Labels = w.podLabels()
			}
			info.AddPodInfo(w.info(again))
		}
	}
}

// question returns a pod that is to be placed.
func (w *world) question() *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(w, "a", "a", "a", "b"),
			Name:      "asked",
			UID:       "asked",
			Labels:    w.podLabels(),
		},
	}
	if w.chance(5) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred}}
	}
	if w.chance(85) {
		for range 1 + w.IntN(3) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, w.constraint())
		}
	}
	if w.chance(30) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(w, "ssd", "hdd")}
	}
	if w.chance(30) {
		p.Spec.Affinity = &v1.Affinity{}
		if w.chance(80) {
			p.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
						{
							Key: pick(
								w,
								v1.LabelTopologyZone,
								"rack",
								"disk",
							),
							Operator: pick(w, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, "Nonsense"),
							Values:   []string{pick(w, "z1", "r1", "ssd"), pick(w, "z2", "r2", "r3")},
						},
					}}},
				},
			}
		}
	}
	if w.chance(30) {
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
	if w.chance(30) {
		c.WhenUnsatisfiable = v1.ScheduleAnyway
	}
	if w.chance(30) {
		c.MinDomains = new(int32)
		*c.MinDomains = int32(w.IntN(7))
	}
	policy := func() *v1.NodeInclusionPolicy {
		p := pick(w, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
		return &p
	}
	if w.chance(40) {
		c.NodeAffinityPolicy = policy()
	}
	if w.chance(40) {
		c.NodeTaintsPolicy = policy()
	}
	if w.chance(30) {
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
