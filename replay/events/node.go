package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// nodeChanged adds the events of a node that becomes obj; old is nil for a node that joins.
func (w *watcher) nodeChanged(m *scheduler.Machine, e eventlog.Entry, old, obj *v1.Node) {
	add := func(kind Kind, detail string) {
		x := w.event(e, kind)
		x.Node, x.Detail, x.folds = obj.Name, detail, detail
		x.addNode(obj.Name)
		x.causeOf = nodeCause(obj.Name)
		w.add(x)
	}
	if old == nil {
		add(NodeJoined, "")
		old = &v1.Node{}
		old.Status = obj.Status
	}
	troubles := []struct {
		key  string
		kind Kind
	}{{v1.TaintNodeNotReady, NodeNotReady}, {v1.TaintNodeUnreachable, NodeUnreachable}}
	bad := false
	for _, t := range troubles {
		is := hasTaint(obj, t.key)
		if bad = bad || is; is && !hasTaint(old, t.key) {
			add(t.kind, "")
		}
	}
	if !bad && (hasTaint(old, v1.TaintNodeNotReady) || hasTaint(old, v1.TaintNodeUnreachable)) {
		add(NodeReady, "")
	}
	switch {
	case obj.Spec.Unschedulable && !old.Spec.Unschedulable:
		add(NodeCordoned, "")
	case !obj.Spec.Unschedulable && old.Spec.Unschedulable:
		add(NodeUncordoned, "")
	}
	before, after := otherTaints(old), otherTaints(obj)
	for _, t := range after {
		if !slices.Contains(before, t) {
			add(NodeTainted, t)
		}
	}
	for _, t := range before {
		if !slices.Contains(after, t) {
			add(NodeUntainted, t)
		}
	}
	if change := resized(old, obj); change != "" {
		add(NodeResized, change)
	}
	if w.recording(m) {
		w.nodeConditions(old, obj, add)
	}
}

// nodeCause is the key of an event of a node as a cause.
func nodeCause(name string) string { return "node " + name }

func hasTaint(node *v1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == key })
}

// otherTaints returns the taints that no other kind of event tells about.
func otherTaints(node *v1.Node) (taints []string) {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		switch t.Key {
		case v1.TaintNodeNotReady, v1.TaintNodeUnreachable, v1.TaintNodeUnschedulable:
		default:
			taints = append(taints, t.ToString())
		}
	}
	return taints
}

// resized says which allocatable amounts of a node change.
func resized(old, obj *v1.Node) string {
	was, is := old.Status.Allocatable, obj.Status.Allocatable
	names := slices.Sorted(maps.Keys(was))
	names = slices.AppendSeq(names, maps.Keys(is))
	slices.Sort(names)
	var changes []string
	for _, name := range slices.Compact(names) {
		if a, b := was[name], is[name]; a.Cmp(b) != 0 {
			changes = append(changes, fmt.Sprintf("%s %s, was %s", name, b.String(), a.String()))
		}
	}
	return strings.Join(changes, "; ")
}
