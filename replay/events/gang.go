package events

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// decided looks at a decision before it is applied.
func (w *watcher) decided(m *scheduler.Machine, e eventlog.Entry, d *eventlog.Decision) {
	w.touchPod(m, d.UID)
	for _, uid := range slices.Concat(d.Allowed, d.Rejected, d.Victims) {
		w.touchPod(m, uid)
	}
	switch d.Outcome {
	case eventlog.Evicted:
		w.takenAway(m, e, append([]types.UID{d.UID}, d.Victims...), func(x *Event) {
			x.Kind, x.Detail = Evicted, explain.WhyEvicted(d)
			x.causedBy = x.subject()
		})
		return
	case eventlog.Reserved:
		w.reserved(m, e, d)
		return
	}
	if by := explain.PreemptionOf(m, e); by != nil {
		w.takenAway(m, e, by.UIDs, func(x *Event) {
			x.Kind, x.By = Preempted, &by.By
			x.causedBy, x.causeOf = "came gang "+by.By.Group, x.subject()
		})
		return
	}
	w.code, w.words = explain.FailureOf(m, e)
}

// takenAway adds an event for each gang with pods that have to go, and for each pod of no gang.
func (w *watcher) takenAway(m *scheduler.Machine, e eventlog.Entry, uids []types.UID, fill func(*Event)) {
	of := map[string]*Event{}
	var list []*Event
	for _, uid := range uids {
		pod := m.Cluster().Pods().Get(uid)
		if pod == nil {
			continue
		}
		x := w.event(e, "")
		w.ofPod(x, pod)
		if known := of[x.subject()]; known != nil {
			x = known
		} else {
			of[x.subject()], list = x, append(list, x)
		}
		x.addPod(nameOf(pod.Object), pod.Node)
	}
	for _, x := range list {
		fill(x)
		w.add(x)
	}
}

// reserved adds the event of a reservation that begins, changes or ends.
func (w *watcher) reserved(m *scheduler.Machine, e eventlog.Entry, d *eventlog.Decision) {
	x := w.event(e, Reserved)
	if pod := m.Cluster().Pods().Get(d.UID); pod != nil {
		w.ofPod(x, pod)
	}
	if len(d.Places) == 0 {
		x.Kind, x.Detail = ReservationEnded, d.Ended.String()
		w.add(x)
		return
	}
	for _, p := range d.Places {
		name := ""
		if pod := m.Cluster().Pods().Get(p.UID); pod != nil {
			name = nameOf(pod.Object)
		}
		x.addPod(name, p.Node)
	}
	x.Detail = "from " + Clock(d.WaitUntil) + " on"
	w.add(x)
}

// evictResult adds the event of an eviction that does not happen.
func (w *watcher) evictResult(m *scheduler.Machine, e eventlog.Entry, p *eventlog.EvictResult) {
	w.touchPod(m, p.UID)
	pod := m.Cluster().Pods().Get(p.UID)
	if pod == nil {
		return
	}
	how := ""
	switch p.Outcome {
	case eventlog.EvictRefused:
		how = "refused"
	case eventlog.EvictGivenUp:
		how = "given up"
	case eventlog.EvictWithdrawn:
		how = "withdrawn"
	default:
		return
	}
	x := w.event(e, EvictionRefused)
	w.ofPod(x, pod)
	x.addPod(nameOf(pod.Object), pod.Node)
	x.Detail = fmt.Sprintf("the eviction of %s was %s", nameOf(pod.Object), how)
	if p.Message != "" {
		x.Detail += ": " + p.Message
	}
	w.add(x)
}

// failed adds, after an entry, the event of a failure that it records, if the attempt on the gang is over.
func (w *watcher) failed(m *scheduler.Machine, e eventlog.Entry, uid types.UID) {
	pod := m.Cluster().Pods().Get(uid)
	if w.code == "" || pod == nil {
		return
	}
	if g := pod.Group; g != nil && !explain.StateOf(g).Placed {
		entity := m.GangEntity(g.Namespace, g.Name)
		if entity == nil || entity.State() != queue.InFlight && entity.State() != queue.Asking {
			w.waits(e, g, w.code, w.words)
		}
		return
	}
	x := w.event(e, Waiting)
	w.ofPod(x, pod)
	x.Pod, x.Code, x.Detail = nameOf(pod.Object), w.code, w.words
	x.addPod(x.Pod, "")
	w.add(x)
}

// placedPods adds the events of pods that get their nodes by a decision by themselves: pods of no gang, and members
// beyond the minimum.
func (w *watcher) placedPods(m *scheduler.Machine, e eventlog.Entry, d *eventlog.Decision) {
	uids := d.Allowed
	if d.Outcome == eventlog.Scheduled {
		uids = append([]types.UID{d.UID}, d.Allowed...)
	}
	for _, uid := range uids {
		pod := m.Cluster().Pods().Get(uid)
		if pod == nil || pod.Stage < cluster.Binding {
			continue
		}
		if pod.Group != nil && !w.wasPlaced(pod.Group.Key()) {
			continue // the event of the gang has it
		}
		x := w.event(e, Placed)
		w.ofPod(x, pod)
		x.again = pod.Group != nil
		if x.Gang == "" {
			x.Node = pod.Node
		}
		x.addPod(nameOf(pod.Object), pod.Node)
		x.WaitedSeconds = waited(e.Time, pod.Object)
		w.add(x)
	}
}

// wasPlaced reports whether a gang had its minimum before the entry.
func (w *watcher) wasPlaced(key types.NamespacedName) bool {
	return slices.ContainsFunc(w.gangs, func(g touchedGang) bool { return g.key == key && g.was.Placed })
}

// waited returns the seconds since the last of the pods was created; nil if the log does not tell.
func waited(now eventlog.Time, pods ...*v1.Pod) *float64 {
	var last eventlog.Time
	for _, p := range pods {
		last = max(last, eventlog.TimeOf(p.CreationTimestamp.Time))
	}
	if last == 0 {
		return nil
	}
	seconds := max(0, now.Sub(last)).Seconds()
	return &seconds
}

// changed adds the events of a gang whose state is another one after the entry.
func (w *watcher) changed(m *scheduler.Machine, e eventlog.Entry, t touchedGang) {
	g := gangOf(m, t.key)
	is := explain.StateOf(g)
	x := w.event(e, "")
	x.Namespace, x.Gang = t.key.Namespace, t.key.String()
	switch {
	case t.was.Declared && !is.Declared:
		x.Kind = GangDeleted
		w.add(x)
		return
	case g == nil:
		return
	case t.was.Declared && is.Declared && t.was.Priority != is.Priority:
		changed := *x
		changed.Kind, changed.Priority, changed.Detail = PriorityChanged, &is.Priority, fmt.Sprint(t.was.Priority)
		w.add(&changed)
	}
	switch {
	case !t.was.Placed && is.Placed:
		w.placed(e, x, g)
	case !t.was.Complete && is.Complete && g.Placed() == 0:
		x.Kind, x.Pods, x.Priority = Complete, g.Count(gang.Present), &is.Priority
		x.causedBy, x.causeOf = x.subject(), "came "+x.subject()
		w.add(x)
	}
}

// placed adds the event of a gang that has its minimum on nodes.
func (w *watcher) placed(e eventlog.Entry, x *Event, g *cluster.Group) {
	x.Kind = Placed
	var pods []*v1.Pod
	for _, p := range g.Members() {
		if p.Stage >= cluster.Binding && !p.Ending() && !p.Leaving() {
			x.addPod(nameOf(p.Object), p.Node)
			pods = append(pods, p.Object)
		}
	}
	x.WaitedSeconds = waited(e.Time, pods...)
	w.add(x)
}
