package events

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// The events that others cause. Binds and evictions by others are in every log, the rest is in the logs of
// recorders alone: other logs do not have the fields.

// removed adds the event of a pod that somebody else makes go, and reports whether there is one.
func (w *watcher) removed(m *scheduler.Machine, e eventlog.Entry, pod *cluster.Pod) bool {
	r := explain.RemovalOf(m, e)
	if r == nil {
		return false
	}
	x := w.event(e, Evicted)
	if r.Reason == v1.PodReasonPreemptionByScheduler {
		x.Kind = Preempted
	}
	w.ofPod(x, pod)
	x.addPod(nameOf(pod.Object), pod.Node)
	x.Removal, x.Author = r, r.By
	x.Detail, x.folds = r.Message, r.Message
	if x.Kind == Evicted {
		x.causedBy = nodeCause(pod.Node)
	}
	x.causeOf = x.subject()
	w.add(x)
	return true
}

// boundByOthers notes that a pod gets its node from somebody else.
func (w *watcher) boundByOthers(m *scheduler.Machine, e eventlog.Entry, pod *cluster.Pod, obj *v1.Pod) {
	node, by := explain.BoundByOthers(m, e)
	if node == "" || pod.Group != nil && !w.wasPlaced(pod.Group.Key()) {
		return // the event of the gang has it
	}
	x := w.event(e, Placed)
	w.ofPod(x, pod)
	x.again = pod.Group != nil
	if x.Gang == "" {
		x.Node = node
	}
	x.addPod(nameOf(obj), node)
	if x.Author, x.folds = by, by; by == "" && w.recording(m) {
		x.Detail = obj.Spec.SchedulerName
	}
	x.WaitedSeconds = waited(e.Time, obj)
	w.add(x)
}

// statusChanged adds the events of a recording about the status of a pod.
func (w *watcher) statusChanged(e eventlog.Entry, pod *cluster.Pod, obj *v1.Pod) {
	old := pod.Object
	add := func(kind Kind, author, detail string) {
		x := w.event(e, kind)
		w.ofPod(x, pod)
		x.Pod = nameOf(obj)
		x.addPod(x.Pod, obj.Spec.NodeName)
		x.Author, x.Detail, x.folds = author, detail, detail
		w.add(x)
	}
	if c := condition(obj, v1.PodScheduled); c != nil && c.Status == v1.ConditionFalse &&
		!sameCondition(condition(old, v1.PodScheduled), c) {
		add(Unscheduled, obj.Spec.SchedulerName, said(c))
	}
	switch is, was := obj.Status.NominatedNodeName, old.Status.NominatedNodeName; {
	case is == was || obj.Spec.NodeName != "":
	case is == "":
		add(Nominated, "", "not nominated to "+was+" any longer")
	default:
		add(Nominated, obj.Annotations[eventlog.NominatedByAnnotation], "nominated to "+is)
	}
	for _, of := range []v1.PodConditionType{v1.PodResizePending, v1.PodResizeInProgress} {
		if c := condition(obj, of); c != nil && c.Status == v1.ConditionTrue && !sameCondition(condition(old, of), c) {
			add(Resized, "", fmt.Sprintf("its resize is %s%s", resizeWord(of), behindColon(said(c))))
		}
	}
	if change := resizedTo(old, obj); change != "" {
		add(Resized, "", change)
	}
	for _, restart := range restarts(old, obj) {
		add(Restarted, "", restart)
	}
}

func behindColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func resizeWord(of v1.PodConditionType) string {
	if of == v1.PodResizePending {
		return "pending"
	}
	return "in progress"
}

// watched adds an event for each time since which changes may be missing.
func (w *watcher) watched(e eventlog.Entry, p *eventlog.Watched) {
	for _, gap := range p.Gaps() {
		x := w.event(e, ChangesMissing)
		x.gap, x.folds, x.Detail = &gap, gap.Reason, gap.Words(e.Time)
		w.add(x)
	}
}

// foldGap adds a gap to an event of an earlier one.
func (e *Event) foldGap(other *Event) {
	gap := *e.gap
	gap.Since = min(gap.Since, other.gap.Since)
	gap.Resources = slices.Concat(gap.Resources, other.gap.Resources)
	slices.Sort(gap.Resources)
	gap.Resources = slices.Compact(gap.Resources)
	e.gap, e.Detail = &gap, gap.Words(eventlog.Time(other.Time))
}

// condition returns a pod's condition of a type, nil for none.
func condition(pod *v1.Pod, of v1.PodConditionType) *v1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a != nil && b != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// said is the reason and the message of a condition.
func said(c *v1.PodCondition) string {
	if c.Reason == "" || c.Message == "" {
		return c.Reason + c.Message
	}
	return c.Reason + ": " + c.Message
}

// resizedTo says which requests of a pod's containers have changed.
func resizedTo(old, obj *v1.Pod) string {
	var changes []string
	for i := range obj.Spec.Containers {
		c := &obj.Spec.Containers[i]
		at := slices.IndexFunc(old.Spec.Containers, func(o v1.Container) bool { return o.Name == c.Name })
		if at < 0 || equality.Semantic.DeepEqual(old.Spec.Containers[at].Resources.Requests, c.Resources.Requests) {
			continue
		}
		was, is := &v1.Node{}, &v1.Node{}
		was.Status.Allocatable, is.Status.Allocatable = old.Spec.Containers[at].Resources.Requests, c.Resources.Requests
		changes = append(changes, fmt.Sprintf("container %s asks for %s", c.Name, resized(was, is)))
	}
	return strings.Join(changes, "; ")
}

// restarts says which containers of a pod have started again, and why as far as the log tells.
func restarts(old, obj *v1.Pod) (texts []string) {
	for i := range obj.Status.ContainerStatuses {
		c := &obj.Status.ContainerStatuses[i]
		named := func(o v1.ContainerStatus) bool { return o.Name == c.Name }
		at := slices.IndexFunc(old.Status.ContainerStatuses, named)
		if at < 0 || c.RestartCount <= old.Status.ContainerStatuses[at].RestartCount {
			continue
		}
		text := fmt.Sprintf("container %s was restarted (%d times so far)", c.Name, c.RestartCount)
		if t := c.LastTerminationState.Terminated; t != nil {
			text += ": " + explain.EndOf(t)
		}
		texts = append(texts, text)
	}
	return texts
}

// nodeConditions adds the events of a recording about the conditions of a node. Taints tell about Ready.
func (w *watcher) nodeConditions(old, obj *v1.Node, add func(Kind, string)) {
	for i := range obj.Status.Conditions {
		c := &obj.Status.Conditions[i]
		at := slices.IndexFunc(old.Status.Conditions, func(o v1.NodeCondition) bool { return o.Type == c.Type })
		if at >= 0 && old.Status.Conditions[at].Status == c.Status ||
			at < 0 && (c.Status == v1.ConditionTrue) == (c.Type == v1.NodeReady) {
			continue
		}
		text := fmt.Sprintf("%s is %s", c.Type, c.Status)
		if why := strings.TrimPrefix(strings.TrimSuffix(c.Reason+": "+c.Message, ": "), ": "); why != "" {
			text += ": " + why
		}
		add(NodeCondition, text)
	}
}

// byWhom says who placed a pod, behind a text, where that was somebody else.
func (e *Event) byWhom() string {
	switch {
	case e.Author != "":
		return ", bound by " + e.Author
	case e.Detail != "":
		return "; its scheduler is " + e.Detail
	}
	return ""
}

// wordsOfOthers are the words of an event that others cause; "" for other events.
func (e *Event) wordsOfOthers() string {
	if e.Removal != nil {
		return e.wordsOfRemoval(e.Removal)
	}
	by := ""
	if e.Author != "" {
		by = " by " + e.Author
	}
	switch e.Kind {
	case Unscheduled:
		return fmt.Sprintf("pod %s not scheduled%s: %s", e.Pod, by, e.Detail)
	case Nominated:
		return fmt.Sprintf("pod %s %s%s", e.Pod, e.Detail, by)
	case Resized, Restarted:
		return fmt.Sprintf("pod %s: %s", e.Pod, e.Detail)
	}
	return ""
}

// wordsOfRemoval are the words of an event of pods that somebody else makes go.
func (e *Event) wordsOfRemoval(r *answer.Removal) string {
	text := strings.TrimPrefix(r.Message, "was ")
	if e.Pods > 1 {
		return fmt.Sprintf("%s %s", e.podsOf(), text)
	}
	return fmt.Sprintf("pod %s %s", e.podsAll[0], text)
}
