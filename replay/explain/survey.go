package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Survey answers for all entities in one state. It reads no log: what only the history of an entity tells is left
// out. Callers must not change the Machine while they use it.
type Survey struct {
	r      *rerun // of that state; it has no reading
	turns  []*queue.Entity
	places map[queue.Key]int
	ahead  map[queue.Key]int

	trials *scheduler.Trials
	tried  map[queue.Key]*verdict
	never  bounds
	failed error // the first trial that could not be made

	undecided bool // nobody decides in the log: what waits in turn is tried as well
}

// NewSurveyOf returns a Survey of a state of a log.
func NewSurveyOf(log *history.Log, m *scheduler.Machine) *Survey {
	s := NewSurvey(m)
	s.undecided = log.Undecided(m) != ""
	return s
}

// asked is as rerun.asked.
func (s *Survey) asked(code answer.Code) bool {
	return ofAnAttempt(code) || code == answer.InTurn && s.undecided
}

// NewSurvey returns a Survey of a state.
func NewSurvey(m *scheduler.Machine) *Survey {
	at := answer.Point{Seq: m.Seq(), Time: answer.Instant(m.Now())}
	s := &Survey{
		r: &rerun{reading: &reading{opts: &Options{}}, at: at, machine: m, done: map[uint64]*answer.Decision{}},

		trials: scheduler.TrialsOf(m), tried: map[queue.Key]*verdict{}, places: map[queue.Key]int{},
	}
	s.never = boundsOf(s.r)
	if q := m.Queue(); q != nil {
		s.turns, s.ahead = queue.InOrder(q), queue.NumAhead(q)
	}
	for i, e := range s.turns {
		s.places[e.Key()] = i + 1
	}
	return s
}

// At returns the entry after which the state is.
func (s *Survey) At() answer.Point { return s.r.at }

// Err returns the first error of a trial; nil if there was none.
func (s *Survey) Err() error { return s.failed }

// Turns returns the entities that wait, in the order of their turns.
func (s *Survey) Turns() []*queue.Entity { return s.turns }

// Pending returns the pending gangs and the pending pods of no gang. The ones in the queue come first, in the order of
// their turns, and then the others by name. wanted limits the answer; nil wants all.
func (s *Survey) Pending(wanted func(kind string, name types.NamespacedName) bool) (list []answer.Pending, err error) {
	m := s.r.machine
	if wanted == nil {
		wanted = func(string, types.NamespacedName) bool { return true }
	}
	for _, name := range m.Cluster().Gangs().Names() {
		if !wanted("gang", name) {
			continue
		}
		g := m.Cluster().Gangs().Named(name.Namespace, name.Name)
		if _, standing := s.Gang(g); standing != nil && !s.byPods(g) {
			list = append(list, s.pendingGang(g, standing))
		}
	}
	pods := m.Cluster().Pods().That(func(p *cluster.Pod) bool { return p.Stage <= cluster.Waiting && s.byItself(p) })
	for _, p := range pods {
		if wanted("pod", types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}) {
			list = append(list, s.pendingPod(p, s.Pod(p)))
		}
	}
	slices.SortStableFunc(list, func(a, b answer.Pending) int {
		last := func(x *answer.Pending) int { return cmp.Or(x.Position, len(s.turns)+1) }
		return cmp.Or(cmp.Compare(last(&a), last(&b)), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return list, s.failed
}

// byItself reports whether a pod is pending for reasons of its own, and not with its gang.
func (s *Survey) byItself(p *cluster.Pod) bool {
	if p.Group == nil {
		return true
	}
	e := s.r.machine.Queue().Find(p.Object.UID)
	return e != nil && !isGang(e) && !e.Resize()
}

// byPods reports whether the members of a gang are scheduled as pods of no gang.
func (s *Survey) byPods(g *cluster.Group) bool { return slices.ContainsFunc(g.Members(), s.byItself) }

// Gang returns the stage of a gang, and why it is pending; nil if it is not. Gangs that explain tells apart as
// Preempted, Evicted and BelowMinimum are all BelowMinimum, because a state does not have the reason.
func (s *Survey) Gang(g *cluster.Group) (stage string, x *answer.Standing) {
	m := s.r.machine
	h := &gangHistory{group: g.Key(), first: &answer.Point{}}
	h.begun(m)
	if g.Met() && h.placed == nil {
		h.placed = &answer.Point{}
		h.note(m, 0)
	}
	h.done = g.Met() && g.Placed() == 0 && g.Succeeded() >= g.Min()
	code, _ := h.code(m)
	if code == "" {
		return h.stage(g), nil
	}
	e := h.entityIn(m)
	reason := &answer.Reason{Code: code, Group: g.String()}
	if e != nil {
		reason.Attempts = e.Attempts()
	}
	if reason.KeptOut = h.keptOut(m, g, false); code == answer.Gated && len(reason.KeptOut) == 0 {
		reason.KeptOut = h.keptOut(m, g, true)
	}
	place := s.place(e)
	h.addWait(reason, m, g, nil, place)
	x = &answer.Standing{Code: code, NextRetry: reason.NextRetry}
	if s.asked(code) {
		s.addVerdict(x, s.try(e), g, s.never.gang(g))
	} else {
		x.Why = h.predicateOf(reason, s.r, g, nil)
	}
	return h.stage(g), x
}

// Pod returns why a pod of no gang is pending; nil if it is not.
func (s *Survey) Pod(p *cluster.Pod) *answer.Standing {
	if p.Stage >= cluster.Binding {
		return nil
	}
	m := s.r.machine
	e := m.Queue().Find(p.Object.UID)
	x := &answer.Pod{Pod: nameOf(p.Object), UID: p.Object.UID, At: s.r.at, Stage: p.Stage.String(), Node: p.Node,
		SchedulerName: p.Object.Spec.SchedulerName, Ignored: !m.Schedules(p.Object),
		Terminating: p.Object.DeletionTimestamp != nil, Queue: s.place(e)}
	if e != nil {
		x.GatingPlugin, x.GatingMessage, _ = e.Gate(p.Object.UID)
	}
	code := podCode(m, x, p, "")
	reason := &answer.Reason{Code: code}
	x.Reason = reason
	out := &answer.Standing{Code: code}
	switch {
	case s.asked(code):
		out.NextRetry = answer.NextRetry{At: x.Queue.RetryAt, Words: x.Queue.NextRetry}
		s.addVerdict(out, s.try(e), nil, s.never.pod(p))
		return out
	case code == answer.BeingEvicted:
		out.Why = "is being evicted and will not be placed"
		if by := m.AskedBy(p.Object.UID, scheduler.Evict); by > 0 {
			out.Why += fmt.Sprintf(": asked to go by entry %d", by)
		}
	case code == answer.HeldByPermit:
		if held, ok := m.WaitingPods().Get(p.Object.UID); ok {
			reason.WaitsFor.Plugins = held.Plugins
			out.NextRetry.Words = fmt.Sprintf("released at %s at the latest", answer.Instant(held.Until))
		}
		out.Why = phrase.PodPending(x)
	default:
		out.Why = strings.TrimPrefix(phrase.PodPending(x), "is pending: ")
	}
	if out.NextRetry.Words == "" && x.Queue != nil {
		out.NextRetry = answer.NextRetry{At: x.Queue.RetryAt, Words: x.Queue.NextRetry}
	}
	return out
}

// addVerdict adds the result of a trial of the gang, or of a pod of no gang if g is nil, and the bound of it.
func (s *Survey) addVerdict(x *answer.Standing, v *verdict, g *cluster.Group, never bound) {
	if s.undecided {
		x.NextRetry = answer.NextRetry{Words: othersTurn}
	}
	if v == nil {
		x.Code, x.Why = answer.FailedBefore, "its last attempt failed; it is tried "+x.NextRetry.Words
		return
	}
	x.Evicts = v.evicted
	if v.fits(g) {
		if x.Fits = true; !s.undecided {
			x.Code = answer.FitsNow
		}
		x.Why = "a node would take it now"
		if g != nil {
			x.Why = fmt.Sprintf("would find nodes now for %s", phrase.Count(int64(v.found), "member", "members"))
		}
		x.Why += "; it is tried " + x.NextRetry.Words
		return
	}
	f := &v.fail
	x.Code, x.Why = f.code, f.inShort()
	if g != nil && f.gang != g.Key() && !f.together {
		x.Why = fmt.Sprintf("waits for gang %s, which it is admitted together with: %s", f.gang, x.Why)
	}
	if never.why == "" {
		never = refusedWhole(f)
	}
	if x.Never = never.why; x.Never != "" {
		x.Code, x.Why = answer.NeverFits, x.Never
	}
	if never.until != "" && !s.undecided {
		x.NextRetry = answer.NextRetry{Words: never.until}
	}
}

// Place returns the place of an entity in the queue, without the names of the entities ahead.
func (s *Survey) Place(e *queue.Entity) *answer.QueuePlace { return s.place(e) }

// Requests returns the requests of a pod that are above 0.
func (s *Survey) Requests(p *cluster.Pod) []answer.Amount {
	amounts := []answer.Amount{}
	for _, need := range podNeeds(p) {
		if need.Amount > 0 && need.Resource != v1.ResourcePods {
			amounts = append(amounts, answer.Amount{Resource: need.Resource, Amount: need.Amount})
		}
	}
	return amounts
}

// place returns the place of an entity in the queue, with the number of entities ahead and without their names; nil if
// the entity is nil.
func (s *Survey) place(e *queue.Entity) *answer.QueuePlace {
	if e == nil {
		return nil
	}
	place := queuePlaceWith(s.r.machine, e, func(q *answer.QueuePlace) { q.Ahead = s.ahead[e.Key()] })
	return &place
}

func (s *Survey) pendingGang(g *cluster.Group, standing *answer.Standing) answer.Pending {
	m := s.r.machine
	x := answer.Pending{Kind: "gang", Name: g.String(), Standing: *standing}
	if g.Beyond() {
		_, deleted, _ := m.Cluster().Gangs().KeptBack(g)
		x.BeyondMinimum = g.Pending() + g.Waiting() - deleted
	}
	var pods []*cluster.Pod
	for _, p := range g.Members() {
		if p.Stage <= cluster.Waiting {
			pods = append(pods, p)
		}
	}
	members := g.Lacking(gang.Assigned)
	switch {
	case g.Beyond():
		members = x.BeyondMinimum
	case !g.Declared():
		members = len(pods)
	}
	if len(pods) > 0 {
		x.Priority = m.Cluster().Gangs().PriorityOf(pods[0].Object)
	} else if priority, ok := g.Priority(); ok {
		x.Priority = priority
	}
	s.addFacts(&x, m.GangEntity(g.Namespace, g.Name), pods, members)
	return x
}

func (s *Survey) pendingPod(p *cluster.Pod, standing *answer.Standing) answer.Pending {
	m := s.r.machine
	x := answer.Pending{Kind: "pod", Name: nameOf(p.Object), Standing: *standing,
		Priority: m.Cluster().Gangs().PriorityOf(p.Object)}
	s.addFacts(&x, m.Queue().Find(p.Object.UID), []*cluster.Pod{p}, 1)
	return x
}

// addFacts adds what an entity's pods need, since when they wait, and its place in the queue.
func (s *Survey) addFacts(x *answer.Pending, e *queue.Entity, pods []*cluster.Pod, members int) {
	for _, p := range pods {
		t := answer.Instant(p.Object.CreationTimestamp.UnixNano())
		if !p.Object.CreationTimestamp.IsZero() && (x.Since == 0 || t < x.Since) {
			x.Since = t
		}
	}
	x.Needs = needsOf(pods, members)
	if e == nil {
		return
	}
	if s.undecided {
		return // its scheduler has a queue of its own
	}
	x.Position, x.State, x.Attempts = s.places[e.Key()], e.State().String(), e.Attempts()
	if e.State() == queue.Active {
		ahead := s.ahead[e.Key()]
		x.Ahead = &ahead
	}
}

// needsOf adds up what so many of the pods need at least.
func needsOf(pods []*cluster.Pod, members int) answer.PodsNeed {
	x := answer.PodsNeed{Members: members, Total: []answer.Amount{}}
	if len(pods) == 0 || members <= 0 {
		return x
	}
	each := podNeeds(pods[0])
	alike := !slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return !slices.Equal(podNeeds(p), each) })
	if alike {
		for _, need := range each {
			if need.Amount > 0 && need.Resource != v1.ResourcePods {
				x.Each = append(x.Each, answer.Amount{Resource: need.Resource, Amount: need.Amount})
			}
		}
	}
	for _, need := range smallestNeeds(pods, min(members, len(pods))) {
		if need.Resource != v1.ResourcePods {
			x.Total = append(x.Total, answer.Amount{Resource: need.Resource, Amount: need.Amount})
		}
	}
	return x
}

// try makes a trial of an entity; nil if there is nothing to try, or if a plugin has a memory that cannot be copied.
func (s *Survey) try(e *queue.Entity) *verdict {
	if e == nil {
		return nil
	}
	if v, made := s.tried[e.Key()]; made {
		return v
	}
	v, err := s.trial(e)
	var forgetful *scheduler.NotStatefulError
	if err != nil && !errors.As(err, &forgetful) && s.failed == nil {
		s.failed = fmt.Errorf("try %s at entry %d: %w", e.Key().Name, s.r.at.Seq, err)
	}
	s.tried[e.Key()] = v
	return v
}
