package preemption_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

const namespace = "ml"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster, what the plugin is to know beside it, and the plugin's profile.
type world struct {
	nodes   []*v1.Node
	pods    []*v1.Pod // with a node
	groups  []*schedulingv1beta1.PodGroup
	budgets []*policyv1.PodDisruptionBudget
	waiting []*v1.Pod // nominated, without a node

	state   *cluster.State
	left    map[string]int // by gang
	domains [][]string
	profile *framework.Profile

	extended *framework.PreemptVerdict
	vain     map[types.UID][]string
}

// The world is the framework.Evictions of the plugin, and the Nominator.
func (w *world) State() *cluster.State     { return w.state }
func (w *world) GangPlugin() string        { return "Coscheduling" }
func (w *world) Left(g *cluster.Group) int { return w.left[g.Name] }
func (w *world) DomainsAnew(*cluster.Group, []string) ([][]string, bool) {
	return w.domains, w.domains != nil
}

func (w *world) TakesEmpty([]*cluster.Pod, int) bool                          { return true }
func (w *world) TakesCleared([]*cluster.Pod, int, int32, bool) bool           { return true }
func (w *world) KeepsMemos() bool                                             { return true }
func (w *world) DomainsBelow(*cluster.Composite, []string) ([][]string, bool) { return nil, false }
func (w *world) Going(types.UID) bool                                         { return false }
func (w *world) Spared(types.UID) bool                                        { return false }
func (w *world) Extended(*v1.Pod) *framework.PreemptVerdict                   { return w.extended }
func (w *world) InVain(uid types.UID) ([]string, bool)                        { return w.vain[uid], false }
func (w *world) PriorityOf(p *v1.Pod) int32                                   { return w.state.Gangs().PriorityOf(p) }
func (w *world) DeleteNominatedPodIfExists(*v1.Pod)                           {}
func (w *world) NominatedNode(uid types.UID) string {
	return w.state.Pods().Get(uid).Object.Status.NominatedNodeName
}
func (w *world) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (w *world) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}

func (w *world) NominatedPodsForNode(node string) (pods []fwk.PodInfo) {
	for _, p := range w.waiting {
		if p.Status.NominatedNodeName == node {
			pods = append(pods, w.state.Pods().Get(p.UID).Info())
		}
	}
	return pods
}

const justPreemption = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {disabled: [{name: Coscheduling}, {name: GangScheduling}]}}}]
`

// build brings the objects into a state and makes the profile that looks at it.
func (w *world) build(must func(error)) {
	w.state = cluster.New()
	cfg := mustConfig(must)
	informers := w.state.Informers()
	var err error
	ctx := framework.WithoutLogger(context.Background())
	w.profile, err = framework.NewProfile(ctx, registry(), cfg, framework.World{
		Lister:    w.state,
		Informers: informers.Factory(),
		CSI:       informers.CSI(),
		DRA:       w.state.Devices(),
		Evictions: w,
		Nominator: w,
		Version:   func() uint64 { return w.state.Changed(cluster.PluginInputs) }, // memos are kept
		Now:       func() time.Time { return epoch },
	})
	must(err)
	for _, n := range w.nodes {
		_, err := w.state.UpsertNode(n)
		must(err)
	}
	for _, g := range w.groups {
		_, err := w.state.Upsert(eventlog.PodGroups, g)
		must(err)
	}
	for _, b := range w.budgets {
		_, err := w.state.Upsert(eventlog.PodDisruptionBudgets, b)
		must(err)
	}
	for _, p := range slices.Concat(w.pods, w.waiting) {
		_, err := w.state.UpsertPod(p)
		must(err)
	}
}

func registry() framework.Registry { return plugins.NewRegistry() }

func mustConfig(must func(error)) config.KubeSchedulerProfile {
	cfg, err := framework.LoadConfig([]byte(justPreemption), "test.yaml")
	must(err)
	return cfg.Profiles[0]
}

// verdict is the result of a cycle.
type verdict struct {
	fits        bool // it needs no preemption
	node        string
	victims     string // sorted names, separated by spaces
	nominations map[string]string
	why         string
}

// ask runs the pod's cycle up to PostFilter.
func (w *world) ask(pod *v1.Pod) verdict {
	ctx, state := framework.WithoutLogger(context.Background()), framework.NewCycleState()
	placement := w.profile.Place(ctx, state, pod, 0, nil)
	if placement.Status == nil {
		return verdict{fits: true, node: placement.Node}
	}
	result, status := w.profile.PostFilter(ctx, state, pod, placement.Statuses, nil)
	v := verdict{why: status.Message(), nominations: map[string]string{}}
	if result != nil {
		v.node = result.NominatedNodeName
	}
	if p := preemption.Proposed(state); p != nil {
		var names []string
		for _, uid := range p.Victims {
			names = append(names, w.state.Pods().Get(uid).Object.Name)
		}
		slices.Sort(names)
		v.victims = strings.Join(names, " ")
		for _, n := range p.Nominations {
			v.nominations[w.state.Pods().Get(n.UID).Object.Name] = n.Node
		}
	}
	return v
}

func quantities(cpu, gpu, pods int64) v1.ResourceList {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI)}
	if gpu > 0 {
		list["nvidia.com/gpu"] = *resource.NewQuantity(gpu, resource.DecimalSI)
	}
	if pods > 0 {
		list[v1.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	}
	return list
}

func nodeOf(i int, cpu, gpu, pods int64) *v1.Node {
	name := fmt.Sprintf("n%d", i)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Labels = map[string]string{"zone": fmt.Sprintf("z%d", i%2), v1.LabelHostname: name}
	n.Status.Allocatable = quantities(cpu, gpu, pods)
	return n
}

func podOf(name string, cpu, gpu int64, priority int32) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Priority = &priority
	p.Spec.Containers = []v1.Container{
		{Name: "main", Resources: v1.ResourceRequirements{Requests: quantities(cpu, gpu, 0)}},
	}
	return p
}

// drawWorld draws a crowded cluster. Every pod has another start time, so that upstream leaves nothing to chance but
// nodes on which the same group would have to go.
func drawWorld(t *rapid.T, groups bool) *world {
	w := &world{left: map[string]int{}}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := nodeOf(
			i,
			rapid.Int64Range(2, 6).Draw(t, "cpu"),
			rapid.Int64Range(0, 2).Draw(t, "gpu"),
			rapid.Int64Range(3, 8).Draw(t, "pods"),
		)
		n.Spec.Unschedulable = rapid.IntRange(0, 9).Draw(t, "cordoned") == 0
		w.nodes = append(w.nodes, n)
	}
	if groups {
		for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
			g := &schedulingv1beta1.PodGroup{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace,
					Name:      fmt.Sprintf("g%d", i),
					UID:       types.UID(fmt.Sprintf("group-%d", i)),
				},
			}
			g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}
			g.Spec.Priority = ptr.To(rapid.Int32Range(0, 4).Draw(t, "group's priority"))
			if rapid.Bool().Draw(t, "all") {
				g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
			}
			w.groups = append(w.groups, g)
		}
	}
	starts := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
		for i := range 40 {
			if !yield(i) {
				return
			}
		}
	})).Draw(t, "starts")
	for _, n := range w.nodes {
		left, room := n.Status.Allocatable.Cpu().Value(), n.Status.Allocatable.Pods().Value()
		for room > 0 && left >= 0 && rapid.IntRange(0, 9).Draw(t, "another pod") > 0 && len(w.pods) < 40 {
			cpu := min(rapid.Int64Range(0, 3).Draw(t, "cpu"), left)
			p := podOf(fmt.Sprintf("p%02d", len(w.pods)), cpu, 0, rapid.Int32Range(0, 4).Draw(t, "priority"))
			p.Spec.NodeName = n.Name
			p.Status.StartTime = &metav1.Time{Time: epoch.Add(time.Duration(starts[len(w.pods)]) * time.Minute)}
			p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app")}
			if len(w.groups) > 0 && rapid.IntRange(0, 2).Draw(t, "of a group") == 0 {
				g := rapid.SampledFrom(w.groups).Draw(t, "group")
				p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.Name}
				p.Spec.Priority = g.Spec.Priority
			}
			drawOddities(t, p)
			w.pods = append(w.pods, p)
			left, room = left-cpu, room-1
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "budgets") {
		b := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace,
				Name:      fmt.Sprintf("b%d", i),
				UID:       types.UID(fmt.Sprintf("budget-%d", i)),
			},
		}
		b.Spec.Selector = &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "covers")},
		}
		b.Status.DisruptionsAllowed = rapid.Int32Range(0, 2).Draw(t, "allows")
		w.budgets = append(w.budgets, b)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "nominated") {
		p := podOf(
			fmt.Sprintf("nominated%d", i),
			rapid.Int64Range(1, 3).Draw(t, "cpu"),
			0,
			rapid.Int32Range(2, 6).Draw(t, "priority"),
		)
		p.Status.NominatedNodeName = rapid.SampledFrom(w.nodes).Draw(t, "to").Name
		w.waiting = append(w.waiting, p)
	}
	return w
}

// drawOddities gives a pod fields that matter to filters other than the resources' filter.
func drawOddities(t *rapid.T, p *v1.Pod) {
	switch rapid.IntRange(0, 11).Draw(t, "oddity") {
	case 0:
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP, ContainerPort: 80}}
	case 1, 2:
		apart := v1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{
					"app": rapid.SampledFrom([]string{"a", "b", "new"}).Draw(t, "apart from"),
				},
			},
			TopologyKey: rapid.SampledFrom([]string{"zone", v1.LabelHostname}).Draw(t, "apart by"),
		}
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{apart},
			},
		}
	case 3:
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		}
	case 4:
		if p.Spec.NodeName != "" {
			p.DeletionTimestamp = &metav1.Time{Time: epoch}
			p.Status.Conditions = []v1.PodCondition{
				{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler},
			}
		}
	}
}

// drawPreemptor draws a pod that comes into the world.
func drawPreemptor(t *rapid.T, w *world) *v1.Pod {
	p := podOf(
		"new",
		rapid.Int64Range(0, 5).Draw(t, "cpu"),
		rapid.Int64Range(0, 3).Draw(t, "gpu")/2,
		rapid.Int32Range(1, 6).Draw(t, "priority"),
	)
	p.Labels = map[string]string{"app": "new"}
	drawOddities(t, p)
	if rapid.IntRange(0, 9).Draw(t, "never") == 0 {
		p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	}
	if rapid.IntRange(0, 4).Draw(t, "was nominated") == 0 {
		p.Status.NominatedNodeName = rapid.SampledFrom(w.nodes).Draw(t, "to").Name
	}
	return p
}

func mustOf(t interface {
	Fatal(...any)
	Helper()
}) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

var _ testing.TB
