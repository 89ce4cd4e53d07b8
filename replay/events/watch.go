package events

import (
	"bytes"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A watcher makes the events of entries. Its Before and After see each entry with the states before and after it.
type watcher struct {
	add  func(*Event)
	from uint64 // the first entry that has events

	now   eventlog.Time
	fresh []freshGang // gangs with objects that came at this instant

	// The entry at hand may change these gangs. It records the failure code, and the end of a pod.
	gangs []touchedGang
	code  answer.Code
	words string
	ended *Event

	epochOf uint64 // the epoch that records is about
	records bool
}

type freshGang struct {
	key types.NamespacedName
	at  eventlog.Entry
}

type touchedGang struct {
	key types.NamespacedName
	was explain.GangState
}

func pointOf(e eventlog.Entry) answer.Point {
	return answer.Point{Seq: e.Seq, Time: answer.Instant(e.Time)}
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// event returns an event of an entry.
func (w *watcher) event(e eventlog.Entry, kind Kind) *Event {
	return &Event{Point: pointOf(e), Kind: kind, Count: 1}
}

// Before examines an entry before it is applied: causes, and the objects that it changes or takes away.
func (w *watcher) Before(m *scheduler.Machine, e eventlog.Entry) {
	w.gangs, w.code, w.words, w.ended = w.gangs[:0], "", "", nil
	if e.Seq < w.from {
		return
	}
	if e.Time > w.now {
		w.settle(m)
		w.now = e.Time
	}
	switch p := e.Payload.(type) {
	case *eventlog.EpochStarted:
		w.epoch(m, e, p)
	case *eventlog.Upserted:
		w.upserted(m, e, p)
	case *eventlog.Deleted:
		w.deleted(m, e, p)
	case *eventlog.Decision:
		w.decided(m, e, p)
	case *eventlog.BindResult:
		w.touchPod(m, p.UID)
		w.code, w.words = explain.FailureOf(m, e)
	case *eventlog.EvictResult:
		w.evictResult(m, e, p)
	case *eventlog.Watched:
		w.watched(e, p)
	}
}

// After examines the gangs and pods that the entry concerns, when it is applied.
func (w *watcher) After(m *scheduler.Machine, e eventlog.Entry) {
	if e.Seq < w.from {
		return
	}
	if w.ended != nil {
		for _, g := range w.gangs {
			is := explain.StateOf(gangOf(m, g.key))
			w.ended.BelowMinimum = w.ended.BelowMinimum || g.was.Placed && is.Declared && !is.Placed
		}
		w.add(w.ended)
	}
	for _, g := range w.gangs {
		w.changed(m, e, g)
	}
	switch p := e.Payload.(type) {
	case *eventlog.Decision:
		w.placedPods(m, e, p)
		w.failed(m, e, p.UID)
	case *eventlog.BindResult:
		w.failed(m, e, p.UID)
	}
}

func gangOf(m *scheduler.Machine, key types.NamespacedName) *cluster.Group {
	return m.Cluster().Gangs().Named(key.Namespace, key.Name)
}

// touch notes that the entry at hand may change a gang.
func (w *watcher) touch(m *scheduler.Machine, key types.NamespacedName) {
	for _, g := range w.gangs {
		if g.key == key {
			return
		}
	}
	w.gangs = append(w.gangs, touchedGang{key, explain.StateOf(gangOf(m, key))})
}

func (w *watcher) touchPod(m *scheduler.Machine, uid types.UID) {
	if p := m.Cluster().Pods().Get(uid); p != nil && p.Group != nil {
		w.touch(m, p.Group.Key())
	}
}

func (w *watcher) epoch(m *scheduler.Machine, e eventlog.Entry, p *eventlog.EpochStarted) {
	x := w.event(e, EpochStarted)
	x.Detail = fmt.Sprintf("epoch %d started: version %s, behaviour %d", e.Epoch, p.Version, p.Behaviour)
	w.add(x)
	if m.Epoch() > 0 && !bytes.Equal(m.Config(), p.Config) {
		x := w.event(e, ConfigChanged)
		x.Detail = fmt.Sprintf("epoch %d has another configuration than epoch %d", e.Epoch, m.Epoch())
		w.add(x)
	}
}

func (w *watcher) upserted(m *scheduler.Machine, e eventlog.Entry, p *eventlog.Upserted) {
	switch obj := p.Object.(type) {
	case *v1.Node:
		w.nodeChanged(m, e, m.Cluster().Nodes().Object(obj.Name), obj)
	case *v1.Pod:
		w.podChanged(m, e, obj)
	default:
		if strings.HasPrefix(string(p.Resource), "podgroups") {
			key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
			w.touch(m, key)
			if g := gangOf(m, key); g == nil || !g.Declared() {
				w.fresh = append(w.fresh, freshGang{key, e})
			}
		}
	}
}

func (w *watcher) podChanged(m *scheduler.Machine, e eventlog.Entry, obj *v1.Pod) {
	w.touchPod(m, obj.UID)
	key, member := cluster.GroupName(obj)
	if member {
		w.touch(m, key)
	}
	pod := m.Cluster().Pods().Get(obj.UID)
	finished := obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed
	switch {
	case pod == nil && finished:
	case pod == nil && member:
		w.fresh = append(w.fresh, freshGang{key, e})
	case pod == nil:
		x := w.event(e, Created)
		priority := m.Cluster().Gangs().PriorityOf(obj)
		x.Namespace, x.Pod, x.Priority = obj.Namespace, nameOf(obj), &priority
		x.addPod(nameOf(obj), "")
		w.add(x)
	case w.lost(m, e, func(*cluster.Pod) bool { return true }):
	case obj.Status.Phase == v1.PodSucceeded:
		w.ends(e, Succeeded, pod)
	case obj.Status.Phase == v1.PodFailed:
		w.ends(e, Failed, pod)
		if w.recording(m) {
			w.ended.Detail = explain.WhyFailed(obj)
			w.ended.folds = w.ended.Detail
		}
	case w.removed(m, e, pod):
	default:
		w.boundByOthers(m, e, pod, obj)
		if w.recording(m) {
			w.statusChanged(e, pod, obj)
		}
	}
}

// recording reports whether the epoch is a recorder's.
func (w *watcher) recording(m *scheduler.Machine) bool {
	if w.epochOf != m.Epoch() {
		w.epochOf, w.records = m.Epoch(), framework.LoggedRecording(m.Config())
	}
	return w.records
}

// ends notes the end of a pod. Its event comes after the entry, when it is known what it means for the gang.
func (w *watcher) ends(e eventlog.Entry, kind Kind, pod *cluster.Pod) {
	x := w.event(e, kind)
	w.ofPod(x, pod)
	x.addPod(nameOf(pod.Object), pod.Node)
	if kind != Succeeded {
		x.causeOf = x.subject()
	}
	w.ended = x
}

// ofPod makes a pod, or its gang, the subject of an event.
func (w *watcher) ofPod(x *Event, pod *cluster.Pod) {
	x.Namespace = pod.Object.Namespace
	if pod.Group != nil {
		x.Gang = pod.Group.String()
	} else {
		x.Pod = nameOf(pod.Object)
	}
}

// lost adds the event of the pods that lose their node with an entry because the node is lost, and reports whether
// there are any. The pods for which of returns true belong to one gang, or to none.
func (w *watcher) lost(m *scheduler.Machine, e eventlog.Entry, of func(*cluster.Pod) bool) bool {
	x := w.event(e, Lost)
	all := map[string]bool{}
	loss := explain.LossOf(m, e, func(p *cluster.Pod) bool {
		if !of(p) {
			return false
		}
		x.Namespace = p.Object.Namespace
		all[nameOf(p.Object)] = true
		return true
	})
	if loss == nil {
		return false
	}
	x.loss, x.How, x.Gang, x.Node, x.BelowMinimum = loss, loss.How, loss.Group, loss.Node, loss.BelowMinimum
	x.Pods, x.Names = loss.Pods, loss.Names
	if x.Gang == "" && x.Pods == 1 {
		x.Pod = x.Names[0]
	}
	for name := range all { // any order: the filter asks whether it is there
		x.podsAll = append(x.podsAll, name)
	}
	x.addNode(loss.Node)
	x.folds = fmt.Sprint(loss.How, loss.Taint, loss.Since)
	x.causedBy, x.causeOf = nodeCause(loss.Node), x.subject()
	w.add(x)
	return true
}

func (w *watcher) deleted(m *scheduler.Machine, e eventlog.Entry, p *eventlog.Deleted) {
	switch {
	case p.Resource == eventlog.Nodes:
		w.nodeDeleted(m, e, p.Name)
	case p.Resource == eventlog.Pods:
		w.podDeleted(m, e, p.UID)
	case strings.HasPrefix(string(p.Resource), "podgroups"):
		w.touch(m, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
}

func (w *watcher) nodeDeleted(m *scheduler.Machine, e eventlog.Entry, name string) {
	if m.Cluster().Nodes().Object(name) == nil {
		return
	}
	x := w.event(e, NodeDeleted)
	x.Node, x.causeOf = name, nodeCause(name)
	x.addNode(name)
	w.add(x)
	told := map[*cluster.Group]bool{}
	for _, p := range m.Cluster().PodsOn(name) {
		if p.Group != nil {
			w.touch(m, p.Group.Key())
		}
		if !told[p.Group] {
			told[p.Group] = true
			w.lost(m, e, func(other *cluster.Pod) bool { return other.Group == p.Group })
		}
	}
}

func (w *watcher) podDeleted(m *scheduler.Machine, e eventlog.Entry, uid types.UID) {
	w.touchPod(m, uid)
	pod := m.Cluster().Pods().Get(uid)
	if pod == nil || w.lost(m, e, func(*cluster.Pod) bool { return true }) {
		return
	}
	// The event of a pod that was preempted, evicted or lost came when it was asked to go.
	evicted := m.AskedBy(uid, scheduler.Evict) > 0 || pod.Ending() && pod.Object.DeletionTimestamp == nil
	if !evicted && explain.Disruption(pod.Object) == "" {
		w.ends(e, Deleted, pod)
	}
}

// settle adds the events of the gangs that got objects at the last instant, and still cannot be tried.
func (w *watcher) settle(m *scheduler.Machine) {
	fresh := w.fresh
	w.fresh = nil
	told := map[types.NamespacedName]bool{}
	for i := len(fresh) - 1; i >= 0; i-- {
		if told[fresh[i].key] {
			fresh[i].key = types.NamespacedName{} // the last object of a gang counts
		}
		told[fresh[i].key] = true
	}
	for _, f := range fresh {
		g := gangOf(m, f.key)
		if g == nil || g.Placed() > 0 || explain.StateOf(g).Complete {
			continue
		}
		if code, words := explain.KeptBack(m, g); code != "" {
			w.waits(f.at, g, code, words)
		}
	}
}

// waits adds the event of a gang that waits.
func (w *watcher) waits(e eventlog.Entry, g *cluster.Group, code answer.Code, words string) {
	x := w.event(e, Waiting)
	x.Namespace, x.Gang, x.Code, x.Detail = g.Namespace, g.String(), code, words
	x.causedBy = x.subject()
	w.add(x)
}
