package explain

import (
	"cmp"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxUnusableRows is the number of causes that are listed for a resource.
const maxUnusableRows = 10

// refusal has the answers of a cycle about nodes: which plugin other than NodeResourcesFit refused a node. The zero
// value is of no cycle.
type refusal struct {
	pod   *cluster.Pod
	nodes map[string]string // the plugin, by node
	left  []framework.PreFilterAnswer
}

// refusalIn returns the refusals in the trace of a cycle for a pod; none for a nil trace.
func refusalIn(trace *framework.Trace, p *cluster.Pod) refusal {
	x := refusal{pod: p, nodes: map[string]string{}}
	if trace == nil {
		return x
	}
	for _, n := range trace.Refused {
		if n.Plugin != names.NodeResourcesFit {
			x.nodes[n.Node] = n.Plugin
		}
	}
	for _, step := range trace.PreFilter {
		if !step.AllNodes {
			x.left = append(x.left, step)
		}
	}
	return x
}

// of returns the plugin that refused a node, "" for none.
func (x *refusal) of(node string) string {
	for _, step := range x.left {
		if _, left := slices.BinarySearch(step.Nodes, node); !left {
			return step.Plugin
		}
	}
	return x.nodes[node]
}

// asker is one kind of pods that ask for room: they require the same of nodes, and request the same.
type asker struct {
	pod  *cluster.Pod // the first one
	pods int
	// needs are the requests of one of them, and places, by node, how many of them find room.
	needs  []cluster.Need
	places map[int]int64
	// requires is the node selector and the required node affinity; nil if no plugin looks at them.
	requires        *nodeaffinity.RequiredNodeAffinity
	cordons, taints bool // plugins look at these
	on              map[string]nodeCause
}

// askers are the pods that need room which is counted.
type askers struct {
	m        *scheduler.Machine
	kinds    []*asker
	missing  int // how many of them need room
	refused  refusal
	group    *cluster.Group // with a required topology; nil for pods that may go to any domain
	together bool           // they are members of a gang, or several: the next one gets the room that one leaves
	compares bool
}

// nodeCause says why a node takes no pod of a kind, whatever is free; the zero value is none.
type nodeCause struct {
	cause answer.RoomCause
	by    string
}

// asking returns the askers for pods of which so many need room.
func asking(m *scheduler.Machine, missing int, refused refusal, pods ...*cluster.Pod) *askers {
	a := &askers{m: m, missing: missing, refused: refused, together: missing > 1,
		compares: scheduler.ComparesTolerations(m)}
	for _, p := range pods {
		needs := podNeeds(p)
		i := slices.IndexFunc(a.kinds, func(k *asker) bool {
			return sameNodes(k.pod, p) && slices.Equal(k.needs, needs)
		})
		if i >= 0 {
			a.kinds[i].pods++
			continue
		}
		k := &asker{pod: p, pods: 1, needs: needs, places: map[int]int64{}, on: map[string]nodeCause{},
			cordons: scheduler.FiltersBy(m, p.Object, names.NodeUnschedulable),
			taints:  scheduler.FiltersBy(m, p.Object, names.TaintToleration)}
		if scheduler.FiltersBy(m, p.Object, names.NodeAffinity) {
			requires := nodeaffinity.GetRequiredNodeAffinity(p.Object)
			k.requires = &requires
		}
		a.kinds = append(a.kinds, k)
	}
	return a
}

// askingPod returns the askers for one pod, as a cycle asks for it.
func askingPod(m *scheduler.Machine, p *cluster.Pod, refused refusal) *askers {
	a := asking(m, 1, refused, p)
	if len(requiredLevels(p.Group)) > 0 {
		a.group = p.Group
	}
	return a
}

// askingGangs returns the askers for members that gangs still need.
func askingGangs(m *scheduler.Machine, missing int, refused refusal, gangs ...*cluster.Group) *askers {
	var pods []*cluster.Pod
	for _, g := range gangs {
		pods = append(pods, missingOf(g)...)
	}
	a := asking(m, missing, refused, pods...)
	if len(gangs) == 1 && len(requiredLevels(gangs[0])) > 0 {
		a.group = gangs[0]
	}
	return a
}

// missingOf returns the members that a gang's minimum can be made of: held ones count as missing.
func missingOf(g *cluster.Group) (pods []*cluster.Pod) {
	for _, p := range g.Members() {
		if p.Stage == cluster.Waiting || p.Stage == cluster.Pending && p.MayBePlaced() {
			pods = append(pods, p)
		}
	}
	return pods
}

// sameKind reports whether two pods require the same of nodes and request the same.
func sameKind(a, b *cluster.Pod) bool {
	return sameNodes(a, b) && slices.Equal(podNeeds(a), podNeeds(b))
}

// sameNodes reports whether two pods require the same of nodes.
func sameNodes(a, b *cluster.Pod) bool {
	return a.Object.Spec.SchedulerName == b.Object.Spec.SchedulerName &&
		equality.Semantic.DeepEqual(a.Object.Spec.NodeSelector, b.Object.Spec.NodeSelector) &&
		equality.Semantic.DeepEqual(requiredAffinity(a.Object), requiredAffinity(b.Object)) &&
		equality.Semantic.DeepEqual(a.Object.Spec.Tolerations, b.Object.Spec.Tolerations)
}

// requiredAffinity returns which nodes a pod requires, nil for any.
func requiredAffinity(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// on returns why a node takes no pod of the kind, whatever is free there.
func (a *askers) on(k *asker, node *v1.Node) nodeCause {
	c, known := k.on[node.Name]
	if !known {
		c = a.find(k, node)
		k.on[node.Name] = c
	}
	return c
}

func (a *askers) find(k *asker, node *v1.Node) nodeCause {
	tolerations := k.pod.Object.Spec.Tolerations
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if k.cordons && node.Spec.Unschedulable &&
		!corev1helpers.TolerationsTolerateTaint(logr.Discard(), tolerations, &cordon, a.compares) {
		return nodeCause{cause: answer.Cordoned}
	}
	if k.taints {
		hinders := func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}
		if t, hindered := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, tolerations,
			hinders, a.compares); hindered {
			return nodeCause{answer.Tainted, t.ToString()}
		}
	}
	if k.requires != nil {
		if match, err := k.requires.Match(node); err != nil || !match {
			return nodeCause{cause: answer.NotSelected}
		}
	}
	return a.refusedBy(k, node)
}

// refusedBy returns the cause for which the cycle refused the node. Refusals by the requirements of the tried pod on
// the node itself count for pods of its kind alone.
func (a *askers) refusedBy(k *asker, node *v1.Node) nodeCause {
	own := a.refused.pod != nil && sameKind(a.refused.pod, k.pod)
	switch plugin := a.refused.of(node.Name); plugin {
	case "":
	case names.NodeUnschedulable:
		if own {
			return nodeCause{cause: answer.Cordoned}
		}
	case names.TaintToleration:
		if own {
			return nodeCause{cause: answer.Tainted}
		}
	case names.NodeAffinity:
		if own {
			return nodeCause{cause: answer.NotSelected}
		}
	case gangPlugin:
		if a.group == nil { // else the domain says it
			return nodeCause{cause: answer.OtherDomain}
		}
	default:
		return nodeCause{answer.RefusedByPlugin, plugin}
	}
	return nodeCause{}
}

// parts adds up unusable room by cause.
type parts map[nodeCause]*answer.UnusableRoom

func (p parts) add(c nodeCause, node string, amount int64) {
	if amount <= 0 {
		return
	}
	part := p[c]
	if part == nil {
		part = &answer.UnusableRoom{Cause: c.cause, By: c.by}
		p[c] = part
	}
	part.Amount += amount
	if part.Nodes++; len(part.Examples) < answer.MaxExamples {
		part.Examples = append(part.Examples, node)
	}
}

// ranked returns the largest parts first, and the sum of the rest.
func (p parts) ranked() (first []answer.UnusableRoom, others int64) {
	all := make([]answer.UnusableRoom, 0, len(p))
	// any order: sorted right below
	for _, part := range p {
		all = append(all, *part)
	}
	slices.SortFunc(all, func(a, b answer.UnusableRoom) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.By, b.By))
	})
	for _, part := range all[min(maxUnusableRows, len(all)):] {
		others += part.Amount
	}
	return all[:min(maxUnusableRows, len(all))], others
}
