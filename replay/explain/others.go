package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// This file finds the things that others have done to a pod, as far as the log tells.

// RemovalOf tells, on the state before an entry, that somebody else makes a pod go, if the entry is the first that says
// so; otherwise nil. It says nothing about evictions that decisions of the log ask for.
func RemovalOf(m *scheduler.Machine, e eventlog.Entry) *answer.Removal {
	up, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return nil
	}
	obj, ok := up.Object.(*v1.Pod)
	if !ok || disruption(obj) == "" || m.AskedBy(obj.UID, scheduler.Evict) > 0 {
		return nil
	}
	pod := m.Cluster().Pods().Get(obj.UID)
	if pod == nil || disruption(pod.Object) != "" {
		return nil
	}
	x := &answer.Removal{Point: pointOf(e), Node: pod.Node, By: obj.Annotations[eventlog.DisruptedByAnnotation]}
	for i := range obj.Status.Conditions {
		if c := &obj.Status.Conditions[i]; c.Type == v1.DisruptionTarget {
			x.Reason, x.Details = c.Reason, c.Message
		}
	}
	if node := m.Cluster().Nodes().Object(pod.Node); node != nil {
		x.Cordoned = node.Spec.Unschedulable
	}
	if x.Reason == v1.PodReasonPreemptionByScheduler {
		// kube-scheduler begins the message with the name of the victim's scheduler.
		if by, _, ok := strings.Cut(x.Details, ": preempting"); ok {
			x.By = by
		}
		var names []string
		for _, p := range m.Cluster().Pods().All() {
			if isPreemptor(p.Object, obj, pod.Node) {
				names = append(names, nameOf(p.Object))
			}
		}
		x.For = oneOf(names)
	}
	x.Message = phrase.Removal(x)
	return x
}

// isPreemptor reports whether a pod may be the one for which a victim was preempted on a node: it is nominated to the
// node, and has a higher priority.
func isPreemptor(p, victim *v1.Pod, node string) bool {
	return node != "" && p.Status.NominatedNodeName == node && p.UID != victim.UID &&
		corev1helpers.PodPriority(p) > corev1helpers.PodPriority(victim)
}

// oneOf names the pods of which one is meant.
func oneOf(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	const most = 3
	text := "one of " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// nominationPause is the longest time between a victim's eviction and the nomination of its preemptor that an answer
// looks for: kube-scheduler writes the two beside each other.
const nominationPause = 10 * time.Second

// removal tells the removal of a pod at the entry that says it first, in a log without decisions. at is the last entry
// of the answer.
func removal(ctx context.Context, log *history.Log, e eventlog.Entry, at uint64) (*answer.Removal, error) {
	m, err := log.At(ctx, e.Seq-1)
	if err != nil {
		return nil, err
	}
	if log.Undecided(m) == "" {
		return nil, nil
	}
	x := RemovalOf(m, e)
	if x == nil || x.Reason != v1.PodReasonPreemptionByScheduler || x.For != "" {
		return x, nil
	}
	victim := e.Payload.(*eventlog.Upserted).Object.(*v1.Pod)
	var names []string
	query := history.Query{From: e.Seq + 1, To: history.Bound{Seq: at}, Kinds: []eventlog.Kind{eventlog.KindUpserted}}
	for later, err := range log.Entries(ctx, query) {
		if err != nil {
			return nil, err
		}
		if later.Time > e.Time.Add(nominationPause) {
			break
		}
		if p, ok := later.Payload.(*eventlog.Upserted).Object.(*v1.Pod); ok && isPreemptor(p, victim, x.Node) {
			names = append(names, nameOf(p))
		}
	}
	x.For = oneOf(names)
	x.Message = phrase.Removal(x)
	return x, nil
}

// BoundByOthers returns the node that an entry gives a pod which no decision has placed, on the state before the entry,
// and who bound it, as far as the log tells. The node is "" if the entry does no such thing.
func BoundByOthers(m *scheduler.Machine, e eventlog.Entry) (node, by string) {
	up, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return "", ""
	}
	obj, ok := up.Object.(*v1.Pod)
	if !ok || obj.Spec.NodeName == "" {
		return "", ""
	}
	pod := m.Cluster().Pods().Get(obj.UID)
	if pod == nil || pod.Stage != cluster.Pending {
		return "", ""
	}
	return obj.Spec.NodeName, obj.Annotations[eventlog.BoundByAnnotation]
}

// WhyFailed says why a pod has failed, as far as its status tells: its reason and message, or how its containers ended.
func WhyFailed(pod *v1.Pod) string {
	if s := &pod.Status; s.Reason != "" || s.Message != "" {
		return strings.TrimPrefix(strings.TrimSuffix(s.Reason+": "+s.Message, ": "), ": ")
	}
	var ends []string
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if t := list[i].State.Terminated; t != nil && (t.ExitCode != 0 || t.Signal != 0) {
				ends = append(ends, "container "+list[i].Name+": "+EndOf(t))
			}
		}
	}
	return strings.Join(ends, "; ")
}

// EndOf says how a container ended.
func EndOf(t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Signal != 0 {
		text += fmt.Sprintf(", signal %d", t.Signal)
	}
	if t.Reason != "" {
		text = t.Reason + ", " + text
	}
	return text
}

// evictedByOthers explains the last removal of a pod that somebody else has decided.
func (s *evictionScan) evictedByOthers() (*answer.PodEviction, error) {
	r, err := removal(s.ctx, s.log, s.others.last, s.at.Seq)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, &NotEvictedError{s.name.String(), s.at}
	}
	pod := s.others.last.Payload.(*eventlog.Upserted).Object.(*v1.Pod)
	x := &answer.PodEviction{Pod: s.name.String(), UID: pod.UID, At: s.at, Kind: "ByOthers", Removal: r,
		Message: fmt.Sprintf("%s, at %s (entry %d)", r.Message, r.Time, r.Seq),
		Rule:    "somebody else has decided: the log has no rule for it"}
	if r.Node != "" {
		x.Message += ", and lost node " + r.Node
	}
	if s.base > 0 {
		x.KnownFrom = s.base + 1
	}
	if key, ok := cluster.GroupName(pod); ok {
		x.Group = key.String()
	}
	return x, nil
}

// byOthers are the things that others have done to a pod.
type byOthers struct {
	boundAt answer.Point // where the log first has its node, if it had the pod without one before
	removed removalWatch
}

// A removalWatch finds the entries that say first that somebody makes a pod go.
type removalWatch struct {
	was  *v1.Pod
	last eventlog.Entry // Seq 0 for none
}

// see takes in an entry with the pod.
func (w *removalWatch) see(e eventlog.Entry, pod *v1.Pod) {
	before := w.was
	if w.was = pod; before == nil || before.UID != pod.UID {
		return
	}
	if disruption(pod) != "" && disruption(before) == "" {
		w.last = e
	}
}
