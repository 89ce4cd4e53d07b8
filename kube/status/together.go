package status

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Statuses of pods that do not follow from a cycle of their own.

// together holds the facts about gangs that later statuses need. attempts and refusals are emptied when they are full.
type together struct {
	attempts map[queue.Key]attempt           // the last attempt on each CompositePodGroup
	refusals map[types.NamespacedName]reason // why the last attempt on each gang failed
	told     map[types.NamespacedName]string // the text that was written for each gang that contradicts itself
}

// attempt is an attempt on a CompositePodGroup: its number, and the names of the gangs that were refused in it.
type attempt struct {
	number  int
	refused map[string]bool
}

// maxAttempts is the most entries that attempts and refusals have.
const maxAttempts = 10_000

func newTogether() together {
	return together{map[queue.Key]attempt{}, map[types.NamespacedName]reason{}, map[types.NamespacedName]string{}}
}

// contradicted returns the reason for the conditions of a gang's pods and of its PodGroup while the gang is refused. It
// is not Unschedulable, for which an autoscaler would make nodes: no node helps.
func contradicted(g *cluster.Group) reason {
	return reason{corev1.PodReasonSchedulerError, "pod group " + g.String() + " is refused: " + refusalOf(g)}
}

// refusalOf returns why a gang is refused: for a reason of its own, or with its CompositePodGroup. It returns "" for a
// gang that is not refused.
func refusalOf(g *cluster.Group) string {
	if why := g.Refusal(); why != "" {
		return why
	}
	if c := g.Composite(); c != nil {
		if why := c.Refusal(); why != "" {
			return "as part of " + c.String() + ": " + why
		}
	}
	return ""
}

// judgedBelow writes the statuses of gangs that are refused because of a CompositePodGroup that has come or changed.
func (s *Status) judgedBelow(m *scheduler.Machine, obj eventlog.Object) {
	c := m.Cluster().Gangs().CompositePodGroup(obj.GetNamespace(), obj.GetName())
	if c == nil {
		return
	}
	for _, g := range c.Gangs() {
		s.judgedGroup(m, g)
	}
}

// judged writes to a pod that has come or changed that its gang is refused. When the refusal is new or has another
// text, it writes that to all members. p is nil if the pod is gone.
func (s *Status) judged(m *scheduler.Machine, p *cluster.Pod) {
	if p == nil || p.Group == nil || !isPending(m, p) || s.judgedGroup(m, p.Group) || refusalOf(p.Group) == "" {
		return
	}
	if why := contradicted(p.Group); !s.saysOf(p, why) {
		s.refused(m, p, why)
	}
}

// judgedGroup writes to the members of a gang that it is refused. It writes that to the PodGroup too, if the Machine
// would place any of the members. It reports whether it has written now.
func (s *Status) judgedGroup(m *scheduler.Machine, g *cluster.Group) bool {
	told := s.together.told
	if refusalOf(g) == "" {
		delete(told, g.Key())
		return false
	}
	why := contradicted(g)
	words := why.message
	if _, obj := declaring(g); obj != nil {
		words = string(obj.GetUID()) + " " + words
	}
	if told[g.Key()] == words {
		return false
	}
	ours := false
	for _, member := range g.Members() {
		if isPending(m, member) {
			s.refused(m, member, why)
			ours = true
		}
	}
	if !ours {
		return false
	}
	if len(told) >= maxAttempts {
		clear(told)
	}
	told[g.Key()] = words
	s.showGroup(g, groupStatus{condition: why.condition(), refused: true})
	return true
}

// condition returns the condition of a PodGroup.
func (r reason) condition() *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionFalse, Reason: r.reason, Message: r.message}
}

// saysOf reports whether a pod's condition says so, or is about to.
func (s *Status) saysOf(p *cluster.Pod, why reason) bool {
	want := &corev1.PodCondition{Status: corev1.ConditionFalse, Reason: why.reason, Message: why.message}
	if c := s.pods.waiting(p.Object.UID).condition; c != nil {
		return says(c, want)
	}
	seen, there := s.opts.Seen(p.Object.UID)
	return says(s.own.newer(p.Object.UID, seen, there).Scheduled, want)
}

// joined writes why a pod has no node into its condition, if the pod came when its gang had failed already, and if
// nothing is tried for it until that would help. So it does for one whose gang waits for others below a
// CompositePodGroup of which others do not: kube-scheduler tries those, and says so.
func (s *Status) joined(m *scheduler.Machine, uid types.UID) {
	p := m.Cluster().Pods().Get(uid)
	if p == nil || p.Group == nil || p.Stage != cluster.Pending || len(p.Object.Spec.SchedulingGates) > 0 {
		return
	}
	e := m.Queue().Find(uid)
	if e == nil {
		return
	}
	if seen, there := s.opts.Seen(uid); there && seen.Scheduled != nil {
		return
	}
	why, known := s.together.refusals[p.Group.Key()]
	switch above := p.Group.Above(); {
	case known && e.Failed() && (e.State() == queue.Unschedulable || e.State() == queue.Backoff):
		why.message = "gang " + p.Group.Name + " is not placed: " + why.message
	case e.State() == queue.Gated && len(above) > 0 && p.Group.Composite() != above[0]:
		why = reason{reason: corev1.PodReasonUnschedulable, message: e.GatingMessage()}
	default:
		return
	}
	s.refused(m, p, why)
}

// remember keeps the reason why a gang was not placed, for members that come later.
func (t *together) remember(g *cluster.Group, why reason) {
	if len(t.refusals) >= maxAttempts {
		clear(t.refusals)
	}
	t.refusals[g.Key()] = why
}

// othersRefused is groupRefused for the gangs that are admitted together with a pod's, when an attempt on all of them
// has ended with the pod's refusal. Gangs that were refused in the attempt themselves keep their own status.
func (s *Status) othersRefused(m *scheduler.Machine, p *cluster.Pod, why reason) {
	e := m.Queue().Find(p.Object.UID)
	if e == nil || e.Key().Type != fwk.CompositePodGroupKeyType {
		return
	}
	attempts := s.together.attempts
	if len(attempts) >= maxAttempts {
		clear(attempts)
	}
	if last := attempts[e.Key()]; last.number != e.Attempts() || last.refused == nil {
		attempts[e.Key()] = attempt{e.Attempts(), map[string]bool{}}
	}
	refused := attempts[e.Key()].refused
	refused[p.Group.Name] = true
	if e.State() == queue.InFlight {
		return
	}
	why.message = "gang " + p.Group.Name + " is not placed: " + why.message
	for _, g := range p.Group.Unit() {
		if !refused[g.Name] && g.Declared() && !isPlaced(g) {
			s.groupRefused(m, g, nil, why, 0)
		}
	}
}
