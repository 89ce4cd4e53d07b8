package scheduler

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/queue"
)

// Pods that wait in Permit, outside of the cycles of their own gang.

// waits are the waiting pods, with memos of the pods whose wait must end.
type waits struct {
	pods     *framework.WaitingPods
	entities *entities
	effects  *effects
	bindings *bindingCycles
	now      func() eventlog.Time

	// A memo of broken: unless doubtful, no waiting pod is broken before until.
	doubtful    bool
	until       eventlog.Time
	noneOverdue bool // a memo of overdue
}

func newWaits(c *cluster.State, e *effects, b *bindingCycles, now func() eventlog.Time) *waits {
	s := &waits{pods: framework.NewWaitingPods(c.Waits()), effects: e, bindings: b, now: now}
	s.forgetMemos()
	return s
}

func (s *waits) forgetMemos() { s.doubtful, s.noneOverdue = true, false }

// broken returns the first waiting pod, in the order of decisions, whose wait must end, and the reason.
func (s *waits) broken() (found *cluster.Wait, why string) {
	if s.pods.Len() == 0 || !s.doubtful && s.now() < s.until {
		return nil, ""
	}
	s.pods.Each(func(w *cluster.Wait) bool {
		if why = s.whyBroken(w); why != "" {
			found = w
		}
		return found == nil
	})
	if found == nil {
		s.doubtful = false
		s.until, _ = s.pods.Deadline()
	}
	return found, why
}

// recheck ends the memo of broken, unless the entry cannot have ended a wait: it is a decision that only adds one more
// waiting pod. Without this, each placed member of a gang would cause a check of all members before it, and a gang of n
// members would cost n*n.
func (s *waits) recheck(entry eventlog.Entry) {
	d, ok := entry.Payload.(*eventlog.Decision)
	if !ok || d.Outcome != eventlog.Waiting || len(d.Rejected) > 0 || len(d.Approvals) > 0 {
		s.doubtful, s.noneOverdue = true, false
		return
	}
	// The new waiting pod takes room on its own node only, so Overcommitted(p) tells whether it took room that others
	// hold. That happens if its profile does not filter by resources, or in a log that was altered.
	p := s.entities.cluster.Pods().Get(d.UID)
	w, held := s.pods.Get(d.UID)
	if !held || s.whyBroken(w) != "" || s.entities.cluster.Overcommitted(p) {
		s.doubtful = true
	}
	if p.Group != nil && p.Group.Suffices(gang.OnNodes) {
		s.noneOverdue = false
	}
	s.until = min(s.until, d.WaitUntil)
}

// whyBroken returns the reason why a pod's wait must end, "" if it may continue.
func (s *waits) whyBroken(w *cluster.Wait) string {
	p, prof := s.entities.cluster.Pods().Get(w.Pod.Object.UID), s.entities.profiles.of(w.Pod.Object)
	switch {
	case prof == nil:
		return fmt.Sprintf("no profile schedules the pods of %q any more", w.Pod.Object.Spec.SchedulerName)
	case slices.ContainsFunc(w.Plugins, func(plugin string) bool { return !prof.Has(framework.Permit, plugin) }):
		return "a plugin that holds it is not configured any more"
	case w.Until <= s.now():
		return "it waited until its deadline"
	case s.entities.cluster.Nodes().Object(w.Pod.Node) == nil:
		return fmt.Sprintf("node %q is gone", w.Pod.Node)
	case p.Object.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case s.entities.profiles.roomChecked[w.Pod.Object.Spec.SchedulerName] && s.entities.cluster.Overcommitted(p):
		return fmt.Sprintf("node %q has too little for its pods by now", w.Pod.Node)
	}
	return s.whyStuck(w)
}

// whyStuck returns the reason why a wait cannot succeed: no cycle of another member will come that could complete the
// gang, or the gang does not exist any more. It returns "" if the pod may continue to wait.
func (s *waits) whyStuck(w *cluster.Wait) string {
	g, held := s.entities.cluster.Pods().Get(w.Pod.Object.UID).Group, slices.Contains(w.Plugins, coscheduling.Name)
	if !held && (g == nil || !plansGangs(s.entities.profiles.of(w.Pod.Object))) {
		return ""
	}
	if g != nil && g.Refusal() != "" {
		return g.Refusal() // came up while the pod waited: it is not known any more how many members are needed
	}
	if g != nil && !g.Declared() {
		return "its pod group does not exist any more"
	}
	if g != nil && (g.Suffices(gang.OnNodes) || g.NonStrict()) {
		return "" // the minimum is there, and another plugin holds a member; or the mode is NonStrict
	}
	if !held {
		return "its pod group has fallen below its minimum"
	}
	switch e := s.entities.queue.Find(w.Pod.Object.UID); {
	case e == nil || e.State() != queue.InFlight:
		return "the attempt to place its pod group has ended"
	case e.NumToTry() == 0:
		return "its pod group has no other member to place"
	case g != nil && !s.possible(g):
		return "its pod group has too few members left to place"
	}
	return ""
}

// holderOf returns the plugin that a wait that failed is attributed to: the gang plugin, or another plugin that holds
// the pod if its gang has its minimum.
func holderOf(w *cluster.Wait, g *cluster.Group) string {
	held := slices.Contains(w.Plugins, coscheduling.Name)
	if g != nil && !g.Suffices(gang.OnNodes) && (held || !g.NonStrict()) {
		return coscheduling.Name
	}
	for _, plugin := range w.Plugins {
		if plugin != coscheduling.Name {
			return plugin
		}
	}
	return coscheduling.Name
}

// overdue returns the first waiting pod that only the gang plugin holds although its gang has its minimum; nil if there
// is none. A cycle of the gang would have allowed it, but the minimum came about without one. Example: of a gang with
// minimum 3 two members wait, and the minimum is lowered to 2.
func (s *waits) overdue() (found *cluster.Wait) {
	if s.pods.Len() == 0 || s.noneOverdue {
		return nil
	}
	cleared := map[*cluster.Group]int{}
	s.eachCleared(func(_ *cluster.Wait, g *cluster.Group) bool {
		cleared[g]++
		return true
	})
	judged := map[*cluster.Group]bool{}
	s.eachCleared(func(w *cluster.Wait, g *cluster.Group) bool {
		if g == nil || judged[g] {
			return true
		}
		judged[g] = true
		u := g.Tally(func(each *cluster.Group, n *gang.Counts) { n.Cleared = cleared[each] })
		if u.OwnSuffices(gang.Free) {
			found = w
		}
		return found == nil
	})
	s.noneOverdue = found == nil
	return found
}

// onlyGangHolds reports whether no plugin but the gang plugin holds the pod.
func onlyGangHolds(w *cluster.Wait) bool {
	return !slices.ContainsFunc(w.Plugins, func(plugin string) bool { return plugin != coscheduling.Name })
}

// eachCleared calls do for every waiting pod that only the gang plugin holds, with its gang, in the order of decisions,
// until do returns false.
func (s *waits) eachCleared(do func(*cluster.Wait, *cluster.Group) bool) {
	s.pods.Each(func(w *cluster.Wait) bool {
		return !onlyGangHolds(w) || do(w, s.entities.cluster.Pods().Get(w.Pod.Object.UID).Group)
	})
}

// cleared counts the waiting members of g that only the gang plugin holds.
func (s *waits) cleared(g *cluster.Group) int {
	if !s.entities.profiles.otherPermits {
		return g.Waiting()
	}
	n := 0
	s.eachCleared(func(_ *cluster.Wait, of *cluster.Group) bool {
		if of == g {
			n++
		}
		return true
	})
	return n
}

// tally returns the counts of the gangs that are admitted together with g, with the progress of the current attempt.
func (s *waits) tally(g *cluster.Group) gang.Unit {
	return g.Tally(func(each *cluster.Group, n *gang.Counts) {
		n.Untried, n.Cleared = s.entities.left(each), s.cleared(each)
	})
}

// possible reports whether g can be admitted if all members that the attempt under way has still to try find a node.
func (s *waits) possible(g *cluster.Group) bool {
	u := s.tally(g)
	return u.OwnSuffices(gang.Possible)
}

// goesOn reports whether the attempt under way is to try the members that it has not tried yet. It always is for a
// single pod.
func (s *waits) goesOn(e *queue.Entity) bool {
	gangs := s.entities.gangsOf(e.Key())
	if len(gangs) == 0 {
		return true
	}
	u := s.tally(gangs[0])
	return u.GoesOn()
}

// endsAttempt reports whether a refusal ends the attempt on the whole entity. It does for a single pod. It also does
// for a member whose gang the gang plugin gave up, unless other gangs that are admitted with it can continue without
// it.
func (s *waits) endsAttempt(key queue.Key, d *eventlog.Decision) bool {
	if key.Type == fwk.PodKeyType {
		return true
	}
	if !blamesGang(d) {
		return false
	}
	u := s.tally(s.entities.cluster.Pods().Get(d.UID).Group)
	return u.EndsAttempt()
}

// forGang reports whether the gang plugin holds the pod.
func (s *waits) forGang(uid types.UID) bool {
	w, ok := s.pods.Get(uid)
	return ok && slices.Contains(w.Plugins, coscheduling.Name)
}

// takeVerdicts ends the cycle and writes the plugins' verdicts on waiting pods. An allowed pod has every plugin's
// approval, so only the approvals of pods that still wait are written beside it.
func (s *waits) takeVerdicts(d *eventlog.Decision) {
	v := s.pods.EndCycle()
	d.Allowed, d.Rejected = v.Allowed, v.Rejected
	if len(v.Approvals) == len(v.Allowed) {
		return
	}
	settled := make(map[types.UID]bool, len(v.Allowed)+len(v.Rejected))
	for _, uid := range slices.Concat(v.Allowed, v.Rejected) {
		settled[uid] = true
	}
	for _, a := range v.Approvals {
		if !settled[a.UID] {
			d.Approvals = append(d.Approvals, a)
		}
	}
}

// allow has a waiting pod bound on the node where it waits.
func (s *waits) allow(seq uint64, p *cluster.Pod) {
	o := p.Object
	s.effects.add(
		Effect{
			Kind:      Bind,
			Seq:       seq,
			Namespace: o.Namespace,
			Name:      o.Name,
			UID:       o.UID,
			Node:      p.Node,
			Volumes:   p.Volumes,
		},
	)
	s.entities.cluster.Allow(p)
	p.Since = s.now()
}

// release takes a waiting pod off its node and returns the key of its entity. freed is the pod as it was on the node,
// if other entities must learn of the room. It is nil for a pod that the attempt under way has placed: a gang's cycles
// run back to back, so no cycle of another pod can have missed that room.
func (s *waits) release(uid types.UID) (key queue.Key, freed *v1.Pod, err error) {
	p := s.entities.cluster.Pods().Get(uid)
	if p == nil || p.Stage != cluster.Waiting {
		return queue.Key{}, nil, fmt.Errorf("rejected pod %s is not waiting", uid)
	}
	key = s.entities.keyOf(p)
	if !s.entities.queue.PlacedByAttempt(uid) {
		freed = p.Placed()
	}
	s.bindings.end(p, false)
	if freed != nil {
		err = s.entities.cluster.Release(p)
	} else {
		err = s.entities.cluster.Retract(p)
	}
	if err != nil {
		return queue.Key{}, nil, err
	}
	s.entities.markPending(key, p)
	return key, freed, nil
}

// hold makes a pod wait on the node that its decision gives it.
func (s *waits) hold(seq uint64, key queue.Key, p *cluster.Pod, d *eventlog.Decision) error {
	s.bindings.begin(p, d.Node)
	wait := cluster.Wait{Seq: seq, Until: d.WaitUntil, Plugins: d.WaitFor}
	if err := s.entities.cluster.Hold(p, d.Node, d.Volumes, wait); err != nil {
		return err
	}
	if err := s.entities.cluster.AssumeDevices(p, d.Devices); err != nil {
		return err
	}
	p.Since = s.now()
	s.entities.queue.MarkPlaced(key, d.UID)
	s.conclude(key)
	return nil
}

// conclude ends the attempt of an entity in flight if it has no member left to try, or not enough of them. If members
// wait for others that will not come, it does nothing: the next decision releases them (see whyStuck), and then ends
// the attempt.
func (s *waits) conclude(key queue.Key) {
	e := s.entities.queue.Get(key)
	if e == nil || e.State() != queue.InFlight || e.NumToTry() > 0 && s.goesOn(e) {
		return
	}
	for _, uid := range e.PlacedMembers() {
		g := s.entities.cluster.Pods().Get(uid).Group
		if s.forGang(uid) && (g == nil || !g.Suffices(gang.OnNodes) && !g.NonStrict()) {
			return
		}
	}
	s.entities.queue.Finish(key)
}
