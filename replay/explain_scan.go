package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// recorded is a decision with its place in the log; the zero value is none.
type recorded struct {
	at       Point
	decision *eventlog.Decision
}

func (r recorded) exists() bool { return r.decision != nil }

func (r recorded) failed() bool {
	return r.exists() && (r.decision.Outcome == eventlog.Unschedulable || r.decision.Outcome == eventlog.Error)
}

// scanner is what the first reading of the log collects, without a Machine.
type scanner interface {
	take(e eventlog.Entry)
	// begin tells of the state behind which the log is known, if that is not the empty one.
	begin(m *scheduler.Machine)
	// found says whether an entry taken so far has what is looked for.
	found() bool
	// missing is the error for when none has.
	missing() *NotFoundError
}

// scanPrefix hands s the entries up to the point in question and returns the last one's place. If what is
// looked for is not among them, it reads on for as long as it takes to say where it comes.
func scanPrefix(ctx context.Context, read Reader, opts *ExplainOptions, s scanner) (Point, error) {
	at, err := beginScan(opts, s)
	if err != nil {
		return at, err
	}
	var missing *NotFoundError
	for e, err := range read(opts.Base + 1) {
		if err != nil {
			return at, err
		}
		if err := ctx.Err(); err != nil {
			return at, err
		}
		if missing == nil && !opts.reaches(e) {
			if s.found() {
				return at, nil
			}
			missing = s.missing()
			missing.KnownFrom = opts.knownFrom()
		}
		s.take(e)
		if missing == nil {
			at = pointOf(e)
		} else if s.found() {
			first := pointOf(e)
			missing.At, missing.First = at, &first
			return at, missing
		}
		opts.progress(e.Seq)
	}
	switch {
	case missing == nil && opts.AtSeq > at.Seq:
		return at, fmt.Errorf("entry %d is not in the log: its last one is %d", opts.AtSeq, at.Seq)
	case missing == nil && !s.found():
		missing = s.missing()
		missing.KnownFrom = opts.knownFrom()
	case missing == nil:
		return at, nil
	}
	missing.At = at
	return at, missing
}

// beginScan lets s look at the state behind which the log is known, and returns that entry's place.
func beginScan(opts *ExplainOptions, s scanner) (at Point, err error) {
	if opts.Base == 0 {
		return at, nil
	}
	m, err := opts.state(opts.Base)
	if err != nil {
		return at, err
	}
	at = Point{Seq: m.Seq(), Time: Instant(m.Now())}
	switch {
	case opts.AtSeq > 0 && opts.AtSeq < at.Seq:
		return at, fmt.Errorf("entry %d is before what is known: the first state is that after %s", opts.AtSeq, at)
	case opts.AtTime > 0 && opts.AtTime < m.Now():
		return at, fmt.Errorf("%s is before what is known: the first state is that after %s", Instant(opts.AtTime), at)
	}
	s.begin(m)
	return at, nil
}

// podScan collects what the log says of a pod, and of what stopped gangs.
type podScan struct {
	name   types.NamespacedName
	near   nearNames
	seen   bool
	uid    types.UID
	object *v1.Pod // as its last entry said

	group        types.NamespacedName // the gang that it names
	created      Point
	earlier      int
	gone         *Point
	goneHow      string
	last, placed recorded // its last decision, and the last that gave it a node
	allowed      *Point
	released     *Point
	bind         *BindExplanation
	stops        map[types.NamespacedName]recorded // by gang: the decision that made its last attempt fail
	gangs        map[types.NamespacedName]Point    // where the log first has each
	attempts     int                               // of its entity, when last seen in the queue
	firstQueued  eventlog.Time
	failedAs     Code // how the pod by itself was refused last, "" if it was not since it had a node
	failedSince  Instant
	failedAt     Point
	lastNode     string // where it stood, when last seen in the cluster
}

func newPodScan(namespace, name string) *podScan {
	s := &podScan{name: types.NamespacedName{Namespace: namespace, Name: name}, stops: map[types.NamespacedName]recorded{},
		gangs: map[types.NamespacedName]Point{}}
	s.near.wanted = s.name
	return s
}

func (s *podScan) found() bool { return s.seen }

func (s *podScan) missing() *NotFoundError {
	return &NotFoundError{Kind: "pod", Name: s.name.String(), Similar: s.near.list()}
}

func (s *podScan) begin(m *scheduler.Machine) {
	p := m.Cluster().PodNamed(s.name.Namespace, s.name.Name)
	if p == nil {
		return
	}
	s.seen, s.uid, s.object = true, p.Object.UID, p.Object
	s.group, _ = cluster.GroupName(p.Object)
}

func (s *podScan) take(e eventlog.Entry) {
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
	case *eventlog.BindResult:
		if s.seen && p.UID == s.uid {
			s.bind = bindOf(e, p)
			if p.Outcome == eventlog.BindFailed || p.Outcome == eventlog.BindConflict {
				s.fail(BindFailed, pointOf(e))
			}
		}
	}
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
		*s = podScan{name: s.name, near: s.near, stops: s.stops, gangs: s.gangs, seen: true, uid: pod.UID, created: pointOf(e), earlier: earlier}
		s.group, _ = cluster.GroupName(pod)
	}
	s.object = pod
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
	if group := (types.NamespacedName{Namespace: d.Namespace, Name: d.Group}); d.Group != "" {
		switch {
		case r.failed():
			s.stops[group] = r
		case d.Outcome == eventlog.Scheduled:
			delete(s.stops, group) // the gang has its minimum: what stopped it before does so no more
		}
	}
	if !s.seen || d.Outcome == eventlog.Reserved || d.Outcome == eventlog.Evicted {
		return // no cycle of a pod's
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
			s.fail(BrokenOff, r.at)
		}
		s.released = &r.at
	}
}

// history is that of the pod's gang, to be collected if the pod may be pending with it; nil if it is not.
func (s *podScan) history(knownFrom uint64) *groupHistory {
	if s.group.Name == "" || s.gone != nil || s.object.Spec.NodeName != "" || s.bind != nil && s.bind.Outcome == eventlog.BindBound.String() {
		return nil
	}
	first := s.gangs[s.group]
	if knownFrom > 0 {
		first = Point{} // it may have been there before
	}
	return &groupHistory{group: s.group, first: &first}
}

// before and after make the second reading one for the pod by itself.
func (s *podScan) before(*scheduler.Machine, eventlog.Entry) {}

func (s *podScan) after(m *scheduler.Machine, _ eventlog.Entry) { s.noteStanding(m) }

// podOfGang watches a pod and the gang that it is pending with.
type podOfGang struct {
	*podScan
	gang *groupHistory
}

func (w podOfGang) before(m *scheduler.Machine, e eventlog.Entry) { w.gang.before(m, e) }

func (w podOfGang) after(m *scheduler.Machine, e eventlog.Entry) {
	w.podScan.after(m, e)
	w.gang.after(m, e)
}

// noteStanding remembers, in the second reading, what is lost when the pod leaves the queue and the cluster.
func (s *podScan) noteStanding(m *scheduler.Machine) {
	if m.Seq() == 0 {
		return
	}
	if p := m.Cluster().Pod(s.uid); p != nil {
		s.lastNode = p.Node
	}
	if entity := m.Queue().Find(s.uid); entity != nil {
		s.attempts, s.firstQueued = entity.Attempts(), entity.FirstActive()
	}
}

// groupScan collects what the log says of a gang.
type groupScan struct {
	name  types.NamespacedName
	near  nearNames
	first *Point
	stop  recorded                        // the last decision that made an attempt fail
	stops map[types.NamespacedName]uint64 // by gang: where that decision is

	members map[types.UID]bool // true once gone

	composite bool                          // there is a CompositePodGroup of that name
	below     map[types.NamespacedName]bool // the gangs whose PodGroup has named it
}

func newGroupScan(namespace, name string) *groupScan {
	s := &groupScan{name: types.NamespacedName{Namespace: namespace, Name: name}, members: map[types.UID]bool{},
		stops: map[types.NamespacedName]uint64{}, below: map[types.NamespacedName]bool{}}
	s.near.wanted = s.name
	return s
}

func (s *groupScan) found() bool { return s.first != nil }

func (s *groupScan) missing() *NotFoundError {
	return &NotFoundError{Kind: "group", Name: s.name.String(), Similar: s.near.list(), Composite: s.composite || len(s.below) > 0}
}

func (s *groupScan) begin(m *scheduler.Machine) {
	s.composite = m.Cluster().Informers().Get(eventlog.CompositePodGroups, s.name.Namespace, s.name.Name) != nil
	for _, g := range m.Cluster().GangsNaming(s.name.Namespace, s.name.Name) {
		s.below[g.Key()] = true
	}
	g := m.Cluster().Group(s.name.Namespace, s.name.Name)
	if g == nil {
		return
	}
	s.first = &Point{}
	for _, p := range g.Members() {
		s.members[p.Object.UID] = false
	}
}

func (s *groupScan) take(e eventlog.Entry) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		s.upserted(e, p)
	case *eventlog.Deleted:
		if _, ok := s.members[p.UID]; ok && p.Resource == eventlog.Pods {
			s.members[p.UID] = true
		}
	case *eventlog.Decision:
		if r := (recorded{pointOf(e), p}); r.failed() && p.Group != "" {
			gang := types.NamespacedName{Namespace: p.Namespace, Name: p.Group}
			if s.stops[gang] = e.Seq; gang == s.name {
				s.stop = r
			}
		}
	}
}

// gangOf returns the gang whose member or PodGroup the entry brings; ok is false for another one.
func gangOf(p *eventlog.Upserted) (name types.NamespacedName, ok bool) {
	if pod, isPod := p.Object.(*v1.Pod); isPod {
		return cluster.GroupName(pod)
	}
	if p.Resource == eventlog.PodGroups || p.Resource == eventlog.XPodGroups {
		return types.NamespacedName{Namespace: p.Object.GetNamespace(), Name: p.Object.GetName()}, true
	}
	return name, false
}

func (s *groupScan) upserted(e eventlog.Entry, p *eventlog.Upserted) {
	s.noteComposite(p)
	name, ok := gangOf(p)
	if !ok {
		return
	}
	pod, isPod := p.Object.(*v1.Pod)
	if name != s.name {
		s.near.add(name)
		return
	}
	if s.first == nil {
		at := pointOf(e)
		s.first = &at
	}
	if isPod {
		s.members[pod.UID] = pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	}
}

// noteComposite notes what the entry says of a CompositePodGroup of the name.
func (s *groupScan) noteComposite(p *eventlog.Upserted) {
	switch o := p.Object.(type) {
	case *schedulingv1alpha3.CompositePodGroup:
		s.composite = s.composite || o.Namespace == s.name.Namespace && o.Name == s.name.Name
	case *schedulingv1beta1.PodGroup:
		if parent := o.Spec.ParentCompositePodGroupName; parent != nil && o.Namespace == s.name.Namespace && *parent == s.name.Name {
			s.below[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = true
		}
	}
}

// gone counts the members that are.
func (s *groupScan) gone() (n int) {
	for _, gone := range s.members {
		if gone {
			n++
		}
	}
	return n
}

// nearNames collects the names that someone who got one wrong may have meant.
type nearNames struct {
	wanted types.NamespacedName
	// elsewhere have the same name in another namespace; akin have the same namespace, and one name begins
	// with the other, or both with the same part up to the last dash. Sorted, each at most maxNear.
	elsewhere, akin []string
}

const maxNear = 5

func (n *nearNames) add(name types.NamespacedName) {
	switch {
	case name.Name == n.wanted.Name:
		n.elsewhere = insertNear(n.elsewhere, name.String())
	case name.Namespace == n.wanted.Namespace && n.isAkin(name.Name):
		n.akin = insertNear(n.akin, name.String())
	}
}

func (n *nearNames) isAkin(name string) bool {
	wanted := n.wanted.Name
	if strings.HasPrefix(name, wanted) || strings.HasPrefix(wanted, name) {
		return true
	}
	dash := strings.LastIndexByte(wanted, '-')
	return dash > 0 && strings.HasPrefix(name, wanted[:dash+1])
}

func insertNear(list []string, name string) []string {
	i, known := slices.BinarySearch(list, name)
	if known || i == maxNear {
		return list
	}
	list = slices.Insert(list, i, name)
	return list[:min(maxNear, len(list))]
}

// list returns the nearest names: the same one elsewhere before akin ones.
func (n *nearNames) list() []string {
	all := slices.Concat(n.elsewhere, n.akin)
	all = all[:min(maxNear, len(all))]
	slices.Sort(all)
	return all
}
