package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// fail notes how the pod by itself was refused; alike ones after each other are one time.
func (s *podScan) fail(code answer.Code, at answer.Point) {
	if s.failedAs != code {
		s.failedAs, s.failedSince = code, at.Time
	}
	s.failedAt = at
}

// failedIn notes what a decision on the pod, or one that released it, means for it.
func (s *podScan) failedIn(r recorded, held recorded) {
	switch {
	case !r.failed():
		s.failedAs = ""
	case held.exists() && held.decision.Outcome == eventlog.Waiting:
		code := answer.BrokenOff
		if r.at.Time >= answer.Instant(held.decision.WaitUntil) {
			code = answer.PermitTimedOut
		}
		s.fail(code, r.at)
	case r.decision.Outcome == eventlog.Error:
		s.fail(answer.PluginFailed, r.at)
	default:
		s.fail(answer.Unplaceable, r.at)
	}
}

// refusedAlone says how a pod by itself was refused last.
type refusedAlone struct {
	failedAs    answer.Code // "" if it was not since it had a node
	failedSince answer.Instant
	failedAt    answer.Point
}

// podScan collects the entries about a pod, and the decisions that stopped gangs.
type podScan struct {
	name   types.NamespacedName
	near   nearNames
	seen   bool
	uid    types.UID
	object *v1.Pod // as its last entry said

	group        types.NamespacedName // the gang that it names
	created      answer.Point
	earlier      int
	gone         *answer.Point
	goneHow      string
	last, placed recorded // its last decision, and the last that gave it a node
	allowed      *answer.Point
	released     *answer.Point
	bind         *answer.Bind
	stops        map[types.NamespacedName]recorded     // by gang: the decision that made its last attempt fail
	gangs        map[types.NamespacedName]answer.Point // where the log first has each
	attempts     int                                   // of its entity, when last seen in the queue
	firstQueued  eventlog.Time
	refusedAlone
	resized    recorded // the last decision on a resize that the kubelet has put off since
	unreserved *answer.ReservationEnd
	lastNode   string // where it stood, when last seen in the cluster

	lost             podLosses
	preempted        []recorded // the last decisions that preempted others for it or its gang, at most maxPreemptions
	earlierPreempted int        // how many came before those

	results []*answer.EvictResult // the latest result of each eviction that these decisions asked for

	others othersBind // by nobody that the log has a decision of

	own []uint64 // if it is gone: the entries that may name the pod itself, or begin an epoch
}

func newPodScan(namespace, name string) *podScan {
	s := &podScan{name: types.NamespacedName{Namespace: namespace, Name: name},
		stops: map[types.NamespacedName]recorded{},
		gangs: map[types.NamespacedName]answer.Point{}}
	s.near.wanted = s.name
	return s
}

func (s *podScan) found() bool { return s.seen }

func (s *podScan) again() scanner { return newPodScan(s.name.Namespace, s.name.Name) }

func (s *podScan) key() index.Key { return index.Pod(s.name) }

func (s *podScan) missing() *NotFoundError {
	return &NotFoundError{Kind: "pod", Name: s.name.String(), Similar: s.near.list()}
}

func (s *podScan) startFrom(m *scheduler.Machine) {
	p := m.Cluster().Pods().Named(s.name.Namespace, s.name.Name)
	if p == nil {
		for _, other := range m.Cluster().Pods().All() {
			s.near.add(types.NamespacedName{Namespace: other.Object.Namespace, Name: other.Object.Name})
		}
		return
	}
	s.seen, s.uid, s.object = true, p.Object.UID, p.Object
	s.lost.others.removed.was = p.Object
	s.group, _ = cluster.GroupName(p.Object)
	s.lost.own.uid = s.uid
	s.lost.own.placed(p.Node)
	s.others.seen, s.others.known = p.Node == "", p.Node != ""
}

func (s *podScan) take(e eventlog.Entry) {
	defer s.noteLoss(e)
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if gang, ok := gangOf(p); ok {
			if _, known := s.gangs[gang]; !known {
				s.gangs[gang] = pointOf(e)
			}
		}
		if pod, ok := p.Object.(*v1.Pod); ok {
			s.upserted(e, pod)
		}
	case *eventlog.Deleted:
		if p.Resource == eventlog.Pods && s.seen && p.UID == s.uid {
			s.ended(e, "Deleted")
		}
	case *eventlog.Decision:
		s.decided(recorded{pointOf(e), p})
	case *eventlog.EvictResult:
		s.heard(e, p)
	case *eventlog.BindResult:
		if s.seen && p.UID == s.uid && !s.isLate(p) {
			s.bind = bindOf(e, p)
			if p.Outcome == eventlog.BindFailed || p.Outcome == eventlog.BindConflict {
				s.fail(answer.BindFailed, pointOf(e))
			}
		}
	}
}

// heard notes the result of an eviction of the pod, or of one for it or its gang.
func (s *podScan) heard(e eventlog.Entry, p *eventlog.EvictResult) {
	own := s.seen && p.UID == s.uid
	if own || slices.ContainsFunc(s.preempted, func(r recorded) bool { return r.at.Seq == p.Decision }) {
		s.results = noteResult(s.results, evictResultOf(e, p))
	}
}

// isLate reports whether the result is of an earlier bind than the last one that was asked for.
func (s *podScan) isLate(p *eventlog.BindResult) bool {
	switch {
	case p.Decision == 0:
		return false // it does not say
	case s.allowed != nil:
		return p.Decision != s.allowed.Seq
	}
	return s.placed.exists() && p.Decision != s.placed.at.Seq
}

func (s *podScan) upserted(e eventlog.Entry, pod *v1.Pod) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if name != s.name {
		s.near.add(name)
		return
	}
	if !s.seen || pod.UID != s.uid {
		earlier := s.earlier
		if s.seen {
			earlier++
		}
		*s = podScan{name: s.name, near: s.near, stops: s.stops, gangs: s.gangs, seen: true, uid: pod.UID,
			created: pointOf(e), earlier: earlier, lost: podLosses{own: s.lost.own, earlier: s.lost.earlier}}
		s.group, _ = cluster.GroupName(pod)
	}
	if s.object != nil && s.object.Spec.NodeName == "" && pod.Spec.NodeName != "" {
		s.lost.others.boundAt = pointOf(e)
	}
	s.lost.others.removed.see(e, pod)
	s.object = pod
	s.others.see(e, pod)
	if !resource.IsPodResizeDeferred(pod) {
		s.resized = recorded{}
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		s.ended(e, string(pod.Status.Phase))
	}
}

// ended notes the first end of the pod: one that has finished is deleted later.
func (s *podScan) ended(e eventlog.Entry, how string) {
	if s.gone == nil {
		at := pointOf(e)
		s.gone, s.goneHow = &at, how
	}
}

func (s *podScan) decided(r recorded) {
	d := r.decision
	s.notePreemption(r)
	if group := (types.NamespacedName{Namespace: d.Namespace, Name: d.Group}); d.Group != "" {
		switch {
		case r.failed():
			s.stops[group] = r
		case d.Outcome == eventlog.Scheduled:
			delete(s.stops, group) // the gang has its minimum: the earlier reason does not count any longer
		}
	}
	if s.seen && d.UID == s.uid && d.Outcome == eventlog.Reserved {
		s.unreserved = reservationEnd(r.at, d)
	}
	if !s.seen || d.Outcome == eventlog.Reserved || d.Outcome == eventlog.Evicted ||
		d.Outcome == eventlog.Asked {
		return // no cycle of a pod's
	}
	if d.UID == s.uid && r.failed() && s.object.Spec.NodeName != "" {
		s.resized = r
		return
	}
	if d.UID == s.uid {
		s.failedIn(r, s.last)
		s.last, s.released = r, nil
		if d.Node != "" {
			s.placed, s.allowed, s.bind = r, nil, nil
		}
	}
	if slices.Contains(d.Allowed, s.uid) {
		s.allowed = &r.at
	}
	if slices.Contains(d.Rejected, s.uid) {
		if d.UID != s.uid {
			s.fail(answer.BrokenOff, r.at)
		}
		s.released = &r.at
	}
}

// notePreemption notes what a decision may mean for the pod as a victim, and whether others have to go for it.
func (s *podScan) notePreemption(r recorded) {
	d := r.decision
	switch {
	case !s.seen:
	case d.Outcome == eventlog.Evicted && slices.Contains(d.Victims, s.uid):
		s.lost.evicted = r
	case mayPreempt(d, s.uid):
		s.lost.to = r
	}
	own := s.seen && (d.UID == s.uid || d.Group != "" && d.Namespace == s.group.Namespace && d.Group == s.group.Name)
	if !own || !preempts(d) {
		return
	}
	if len(s.preempted) == maxPreemptions {
		s.preempted = append(s.preempted[:0], s.preempted[1:]...)
		s.earlierPreempted++
	}
	s.preempted = append(s.preempted, r)
}

// bound reports whether the pod has certainly been bound where its last decision placed it. A bind result alone is no
// proof: it has no effect for a pod that is not being bound.
func (s *podScan) bound() bool {
	return s.bind != nil && s.bind.Outcome == eventlog.BindBound.String() && s.failedAs == "" && s.released == nil &&
		s.placed.exists() && s.placed.at == s.last.at && s.placed.decision.Node == s.bind.Node
}

// before and after make the second reading one for the pod by itself.
// before sees the state before the entry, which is new to the scan where the visit continues from a snapshot.
func (s *podScan) before(m *scheduler.Machine, _ eventlog.Entry) { s.noteStanding(m) }

func (s *podScan) after(m *scheduler.Machine, _ eventlog.Entry) { s.noteStanding(m) }

// noteStanding remembers, in the second reading, what is lost when the pod leaves the queue and the cluster.
func (s *podScan) noteStanding(m *scheduler.Machine) {
	if m.Seq() == 0 {
		return
	}
	if p := m.Cluster().Pods().Get(s.uid); p != nil {
		s.lastNode = p.Node
	}
	if entity := m.Queue().Find(s.uid); entity != nil && !entity.Resize() {
		s.attempts, s.firstQueued = entity.Attempts(), entity.FirstActive()
	}
}

// podIn returns the pod in the last state that was visited, nil if it was gone at the point in question. That state may
// be one before it went.
func (s *podScan) podIn(m *scheduler.Machine) *cluster.Pod {
	if s.wentBehind(m) {
		return nil
	}
	return m.Cluster().Pods().Get(s.uid)
}

// wentBehind reports whether the pod is deleted behind a state.
func (s *podScan) wentBehind(m *scheduler.Machine) bool {
	return s.gone != nil && s.goneHow == "Deleted" && s.gone.Seq > m.Seq()
}

// needs says that only entries that name the pod, its gang or its node change the answer. If the pod is gone, or bound,
// no later state changes it either, unless an effect for it is outstanding, or its victims are reported.
func (s *podScan) needs(m *scheduler.Machine, ahead []uint64, names *history.Names) history.Need {
	p := m.Cluster().Pods().Get(s.uid)
	if waitsInComposite(m, p) {
		return history.EveryEntry // decisions on the other gangs of the composite count too, and name neither of them
	}
	if s.isOpen(m) ||
		p != nil && (p.Stage != cluster.Bound || !knows(names, p)) {
		return history.SelectedEntries
	}
	if s.gone != nil {
		ahead = s.ownAhead(ahead)
		if p != nil && s.wentBehind(m) && len(ahead) == 1 && ahead[0] == s.gone.Seq {
			return history.NothingMore // all that is left to tell is that it goes
		}
	}
	if len(ahead) == 0 && (p == nil || p.Group == nil || p.Group.Composite() == nil && knowsMembers(names, p.Group)) {
		return history.NothingMore
	}
	return history.SelectedEntries
}

// isOpen reports whether something about the pod is still to come, so that later states count.
func (s *podScan) isOpen(m *scheduler.Machine) bool {
	return m.Queue().Find(s.uid) != nil || s.lost.to.exists() || len(s.preempted) > 0 || s.mayBeLost(m.Seq()) ||
		m.AskedBy(s.uid, scheduler.Evict) > 0 || m.AskedBy(s.uid, scheduler.Bind) > 0
}

// waitsInComposite reports whether a pod is in the queue with other gangs of a CompositePodGroup.
func waitsInComposite(m *scheduler.Machine, p *cluster.Pod) bool {
	return p != nil && p.Group != nil && p.Group.Composite() != nil && m.Queue().Find(p.Object.UID) != nil
}

// ownAhead returns which of the entries ahead count for a pod that is gone.
func (s *podScan) ownAhead(ahead []uint64) []uint64 {
	if len(ahead) == 0 {
		return nil
	}
	i, _ := slices.BinarySearch(s.own, ahead[0])
	return s.own[i:]
}
