package explain

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// The limits of the list of lost nodes, and of the list of the names of their pods.
const (
	maxNodeLosses = 50
	maxLostNames  = 20
)

// The reasons of the condition DisruptionTarget of pods that are lost because of their nodes.
const (
	byTaints   = "DeletionByTaintManager"
	byEviction = "EvictionByEvictionAPI"
)

// lossOf returns the pods that an entry takes from their node because the node is lost, nil if there are none. m is in
// the state before the entry. Pods that are leaving already do not count, nor do pods for which of returns false.
func lossOf(m *scheduler.Machine, e eventlog.Entry, of func(*cluster.Pod) bool) *answer.NodeLoss {
	at := pointOf(e)
	switch p := e.Payload.(type) {
	case *eventlog.Deleted:
		if p.Resource == eventlog.Nodes {
			return lossOfNode(m, at, p.Name, of)
		}
		if pod := m.Cluster().Pods().Get(p.UID); p.Resource == eventlog.Pods && pod != nil && of(pod) {
			return lossOfPod(m, at, pod, pod.Object)
		}
	case *eventlog.Upserted:
		obj, ok := p.Object.(*v1.Pod)
		if !ok || obj.DeletionTimestamp == nil && obj.Status.Phase != v1.PodFailed {
			return nil
		}
		if pod := m.Cluster().Pods().Get(obj.UID); pod != nil && of(pod) {
			return lossOfPod(m, at, pod, obj)
		}
	}
	return nil
}

// lossOfNode is lossOf for the deletion of a node.
func lossOfNode(m *scheduler.Machine, at answer.Point, node string, of func(*cluster.Pod) bool) *answer.NodeLoss {
	if m.Cluster().Nodes().Object(node) == nil {
		return nil
	}
	var pods []*cluster.Pod
	for _, p := range m.Cluster().PodsOn(node) {
		if of(p) && stands(p) {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	slices.SortFunc(pods, func(a, b *cluster.Pod) int {
		return strings.Compare(nameOf(a.Object), nameOf(b.Object))
	})
	return lossWith(&answer.NodeLoss{Point: at, Node: node, How: "Deleted"}, pods)
}

// lossOfPod is lossOf for one pod. obj is its object after the entry, or its last one if the entry deletes it.
func lossOfPod(m *scheduler.Machine, at answer.Point, pod *cluster.Pod, obj *v1.Pod) *answer.NodeLoss {
	node := m.Cluster().Nodes().Object(pod.Node)
	if node == nil || !stands(pod) || m.AskedBy(pod.Object.UID, scheduler.Evict) > 0 {
		return nil
	}
	x := &answer.NodeLoss{Point: at, Node: pod.Node}
	switch reason := disruption(obj); {
	case reason == byTaints:
		x.How = "Tainted"
		for i := range node.Spec.Taints {
			if t := &node.Spec.Taints[i]; t.Effect == v1.TaintEffectNoExecute {
				noteTaint(x, t)
			}
		}
	case reason == byEviction && node.Spec.Unschedulable:
		x.How = "Drained"
	default:
		return nil
	}
	return lossWith(x, []*cluster.Pod{pod})
}

// noteTaint notes a taint that evicts pods as the cause. A taint of the node lifecycle controller replaces another one.
func noteTaint(x *answer.NodeLoss, t *v1.Taint) {
	how := "Tainted"
	switch t.Key {
	case v1.TaintNodeNotReady:
		how = "NotReady"
	case v1.TaintNodeUnreachable:
		how = "Unreachable"
	}
	if x.Taint != "" && (how == "Tainted" || x.How != "Tainted") {
		return
	}
	x.How, x.Taint, x.Since = how, t.Key, 0
	if t.TimeAdded != nil {
		x.Since = answer.Instant(t.TimeAdded.UnixNano())
	}
}

// stands reports whether a pod is bound or being bound, and is not leaving.
func stands(p *cluster.Pod) bool { return p.Stage >= cluster.Binding && !p.Ending() }

// lossOfOwn is lossOf for one pod. It also counts the members of its gang on the node.
func lossOfOwn(m *scheduler.Machine, e eventlog.Entry, uid types.UID) *answer.NodeLoss {
	x := lossOf(m, e, func(p *cluster.Pod) bool { return p.Object.UID == uid })
	if x == nil || x.Group == "" {
		return x
	}
	g, standing := m.Cluster().Pods().Get(uid).Group, 0
	for _, p := range m.Cluster().PodsOn(x.Node) {
		if p.Group != g || p.Stage < cluster.Binding || m.AskedBy(p.Object.UID, scheduler.Evict) > 0 {
			continue
		}
		x.OnNode++
		if stands(p) {
			standing++
		}
	}
	x.BelowMinimum = fallsBelow(g, standing)
	x.Message = phrase.NodeLost(x)
	return x
}

// fallsBelow reports whether a gang that has its minimum loses it if so many of its members lose their nodes.
func fallsBelow(g *cluster.Group, without int) bool {
	return g.Declared() && g.Met() && g.Lacking(gang.Kept)+without > 0
}

// lossWith adds the pods that are lost, all of them of one gang or none.
func lossWith(x *answer.NodeLoss, pods []*cluster.Pod) *answer.NodeLoss {
	for _, p := range pods {
		if x.Pods++; len(x.Names) < maxLostNames {
			x.Names = append(x.Names, nameOf(p.Object))
		}
	}
	if g := pods[0].Group; g != nil {
		x.Group = g.String()
		x.BelowMinimum = fallsBelow(g, len(pods))
	}
	x.Message = phrase.NodeLost(x)
	return x
}

// disruption returns the reason of a pod's condition DisruptionTarget, "" for none.
func disruption(pod *v1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

// nodeLosses are the last losses of nodes on which members of a gang were.
type nodeLosses struct {
	list    []answer.NodeLoss
	omitted int
	open    map[string]bool // nodes that have not recovered since their last loss
}

// before returns the loss of a node that an entry causes, nil for none, and adds it to the list. Callers must call it
// before they apply the entry.
func (l *nodeLosses) before(m *scheduler.Machine, e eventlog.Entry, of func(*cluster.Pod) bool) *answer.NodeLoss {
	if p, ok := e.Payload.(*eventlog.Upserted); ok {
		if node, ok := p.Object.(*v1.Node); ok && !evicts(node) {
			delete(l.open, node.Name)
			return nil
		}
	}
	x := lossOf(m, e, of)
	if x != nil {
		l.add(x)
	}
	return x
}

// evicts reports whether a node may evict pods.
func evicts(node *v1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoExecute
	})
}

// add adds a loss to the list. If the node has not recovered since its last loss, the two become one.
func (l *nodeLosses) add(x *answer.NodeLoss) {
	for i := range slices.Backward(l.list) {
		last := &l.list[i]
		if last.Node != x.Node {
			continue
		}
		if !l.open[x.Node] || last.How != x.How || last.Taint != x.Taint || last.Since != x.Since {
			break
		}
		at := x.Point
		last.Last = &at
		last.Pods += x.Pods
		last.Names = append(last.Names, x.Names[:min(len(x.Names), maxLostNames-len(last.Names))]...)
		last.BelowMinimum = last.BelowMinimum || x.BelowMinimum
		last.Message = phrase.NodeLost(last)
		return
	}
	if l.open == nil {
		l.open = map[string]bool{}
	}
	l.open[x.Node] = x.How != "Deleted"
	if len(l.list) == maxNodeLosses {
		l.list = append(l.list[:0], l.list[1:]...)
		l.omitted++
	}
	l.list = append(l.list, *x)
}

// noteNodeLoss notes the loss of a node that an entry causes, as the cause of the gang's change. Callers must call it
// before they apply the entry.
func noteNodeLoss(h *gangHistory, m *scheduler.Machine, e eventlog.Entry) {
	if x := h.lostNodes.before(m, e, h.isMember); x != nil && x.How != "Deleted" {
		h.cause = join(h.cause, phrase.NodeAndCause(x))
	}
}

// addNodeLosses merges the losses of nodes of the gangs.
func (w *compositeWatch) addNodeLosses(x *answer.GroupHistory) {
	for _, h := range w.gangs {
		x.NodeLosses = append(x.NodeLosses, h.lostNodes.list...)
		x.OmittedNodeLosses += h.lostNodes.omitted
	}
	slices.SortStableFunc(x.NodeLosses, func(a, b answer.NodeLoss) int { return cmp.Compare(a.Seq, b.Seq) })
	if more := len(x.NodeLosses) - maxNodeLosses; more > 0 {
		x.NodeLosses, x.OmittedNodeLosses = x.NodeLosses[more:], x.OmittedNodeLosses+more
	}
}
