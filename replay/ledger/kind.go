package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// kind is a kind of pods that wait: they require the same of nodes, and request the same.
type kind struct {
	key     string
	pod     *v1.Pod // the first one
	amounts []int64
	// requires is the node selector and the required node affinity; nil if no plugin looks at them, or there is none.
	requires                  *nodeaffinity.RequiredNodeAffinity
	cordons, taints, compares bool // plugins look at these
}

// kindOf returns the kind of a pod.
func (b *book) kindOf(p *cluster.Pod) *kind {
	key, amounts := b.kindKey(p), b.amounts(p.Requests())
	if k := b.line.kinds[key]; k != nil {
		return k
	}
	obj := p.Object
	k := &kind{key: key, pod: obj, amounts: amounts,
		cordons:  scheduler.FiltersBy(b.m, obj, names.NodeUnschedulable),
		taints:   scheduler.FiltersBy(b.m, obj, names.TaintToleration),
		compares: scheduler.ComparesTolerations(b.m)}
	selects := len(obj.Spec.NodeSelector) > 0 || requiredAffinity(obj) != nil
	if selects && scheduler.FiltersBy(b.m, obj, names.NodeAffinity) {
		requires := nodeaffinity.GetRequiredNodeAffinity(obj)
		k.requires = &requires
	}
	b.line.kinds[key] = k
	return k
}

// kindKey tells kinds apart. Kinds are also ordered by it.
func (b *book) kindKey(p *cluster.Pod) string {
	var text strings.Builder
	requests := p.Requests()
	amounts := b.amounts(requests)
	for i, name := range b.resources {
		if amount := at(amounts, i); amount > 0 {
			fmt.Fprintf(&text, "%s=%d ", name, amount)
		}
	}
	spec := &p.Object.Spec
	parts := strings.Fields(text.String())
	slices.Sort(parts) // the resources came in another order in another part
	text.Reset()
	text.WriteString(spec.SchedulerName + "\n" + strings.Join(parts, " "))
	if len(spec.NodeSelector) > 0 || requiredAffinity(p.Object) != nil || len(spec.Tolerations) > 0 {
		more, err := json.Marshal([]any{spec.NodeSelector, requiredAffinity(p.Object), spec.Tolerations})
		if err != nil {
			panic(fmt.Sprintf("the constraints of pod %s/%s: %v", p.Object.Namespace, p.Object.Name, err))
		}
		text.WriteString("\n")
		text.Write(more)
	}
	return text.String()
}

// requiredAffinity returns which nodes a pod requires, nil for any.
func requiredAffinity(pod *v1.Pod) *v1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// refused returns why a node takes no pod of the kind, whatever is free; 0 for nothing.
func (k *kind) refused(n *v1.Node) Column {
	tolerations := k.pod.Spec.Tolerations
	if k.cordons && n.Spec.Unschedulable {
		cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
		if !corev1helpers.TolerationsTolerateTaint(logr.Discard(), tolerations, &cordon, k.compares) {
			return IdleCordoned
		}
	}
	if k.taints && len(n.Spec.Taints) > 0 {
		hinders := func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}
		if _, hindered := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, tolerations,
			hinders, k.compares); hindered {
			return IdleTainted
		}
	}
	if k.requires != nil {
		if match, err := k.requires.Match(n); err != nil || !match {
			return IdleNotSelected
		}
	}
	return 0
}

// places returns how many pods of the kind find room on a node, as far as resources are concerned. Resources that the
// node may have as devices are not counted.
func (b *book) places(k *kind, n *node) int64 {
	return b.placesOn(k, n.alloc, n.free, n.slots)
}

func (b *book) placesOn(k *kind, alloc, free []int64, slots int64) int64 {
	for i, amount := range k.amounts {
		if amount == 0 || at(alloc, i) == 0 && b.m.Cluster().Devices().Stands(b.resources[i]) {
			continue
		}
		slots = min(slots, at(free, i)/amount)
	}
	return max(0, slots)
}
