package scheduler

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/gang"
	"github.com/rollcall-sched/rollcall/queue"
)

// What stands in the queue for a pod: the pod itself, its gang, or all gangs that are admitted with it.

// keyOf returns what stands in the queue for pod.
func (m *Machine) keyOf(p *cluster.Pod) queue.Key {
	if p.Group != nil && plansGangs(m.profileOf(p.Object)) {
		return keyOfGang(p.Group)
	}
	return fwk.PodKey(p.Object.Namespace, p.Object.Name)
}

func keyOfGang(g *cluster.Group) queue.Key {
	if c := g.Composite(); c != nil {
		return fwk.CompositePodGroupKey(c.Namespace, c.Name)
	}
	return fwk.PodGroupKey(g.Namespace, g.Name)
}

// GangEntity returns what stands in the queue for the gang of that name: itself, or all that are admitted with it; nil
// if no member does.
func (m *Machine) GangEntity(namespace, name string) *queue.Entity {
	g := m.cluster.Group(namespace, name)
	if g == nil || m.queue == nil {
		return nil
	}
	return m.queue.Get(keyOfGang(g))
}

// gangsOf returns the gangs that stand in the queue by that key; none for a pod.
func (m *Machine) gangsOf(key queue.Key) []*cluster.Group {
	switch key.Type {
	case fwk.PodGroupKeyType:
		if g := m.cluster.Group(key.Namespace, key.Name); g != nil {
			return []*cluster.Group{g}
		}
	case fwk.CompositePodGroupKeyType:
		if c := m.cluster.Composite(key.Namespace, key.Name); c != nil {
			return c.Gangs()
		}
	}
	return nil
}

// compositeOf returns the composite that an entity is, nil for none.
func (m *Machine) compositeOf(e *queue.Entity) *cluster.Composite {
	if key := e.Key(); key.Type == fwk.CompositePodGroupKeyType {
		return m.cluster.Composite(key.Namespace, key.Name)
	}
	return nil
}

// partOf is the queue's Part: the gang of a member, by which a composite's members are told apart.
func (m *Machine) partOf(pod *v1.Pod) string {
	if name, ok := m.cluster.GangOf(pod); ok {
		return name.String()
	}
	return ""
}

// left counts the members of g that the attempt under way has still to try.
func (m *Machine) left(g *cluster.Group) int {
	key := keyOfGang(g)
	e := m.queue.Get(key)
	switch {
	case e == nil:
		return 0
	case key.Type == fwk.CompositePodGroupKeyType:
		return e.NumUntriedOf(g.String())
	}
	return e.NumUntried()
}

// tally returns the counts of the gangs that are admitted together with g, with what is known of the attempt under way.
func (m *Machine) tally(g *cluster.Group) gang.Unit {
	return g.Tally(func(each *cluster.Group, n *gang.Counts) { n.Untried, n.Cleared = m.left(each), m.cleared(each) })
}

// goesOn reports whether the attempt under way has reason to try the members that are left to try. For a pod by itself
// it always has.
func (m *Machine) goesOn(e *queue.Entity) bool {
	gangs := m.gangsOf(e.Key())
	if len(gangs) == 0 {
		return true
	}
	u := m.tally(gangs[0])
	return u.GoesOn()
}

// endsAttempt reports whether a refusal is that of the whole entity: a pod's own, or one in which the gang plugin had a
// part, which then speaks for the gang, unless others that are admitted with it can go on without it.
func (m *Machine) endsAttempt(key queue.Key, d *eventlog.Decision) bool {
	if key.Type == fwk.PodKeyType {
		return true
	}
	if !blamesGang(d) {
		return false
	}
	u := m.tally(m.cluster.Pod(d.UID).Group)
	return u.EndsAttempt()
}

// standing is what holds for a gang as a whole.
type standing struct {
	declared  bool
	refused   bool // by what it says itself
	unrefused bool // what it is admitted with is not refused
	min       int  // 0 for one that is refused
	key       queue.Key
}

func (m *Machine) standingOf(name types.NamespacedName) standing {
	g := m.cluster.Group(name.Namespace, name.Name)
	if g == nil {
		return standing{min: 1, key: fwk.PodGroupKey(name.Namespace, name.Name)}
	}
	key := keyOfGang(g)
	c := g.Composite()
	s := standing{refused: g.Refusal() != "", unrefused: c == nil || c.Refusal() == "", key: key}
	if !s.refused && s.unrefused {
		s.declared, s.min = g.Declared(), g.Min()
	}
	return s
}

// restand has the queue look again at all of a gang if what holds for the gang as a whole is another thing than it was:
// whether it contradicts itself, what it needs, and what it is admitted with. Otherwise a pod that comes costs the same
// however large its gang is.
func (m *Machine) restand(name types.NamespacedName, before standing) {
	after := m.standingOf(name)
	if after == before {
		return
	}
	if after.key != before.key {
		m.rekey(m.cluster.Group(name.Namespace, name.Name))
		m.recheck(before.key)
	}
	m.recheck(after.key)
	for _, c := range m.cluster.CompositesNaming(name) {
		m.recheck(fwk.CompositePodGroupKey(c.Namespace, c.Name))
	}
	if after.declared && before.declared && after.min < before.min {
		m.queue.Activate(after.key)
	}
}

// rekey moves the gang's members to the entity that they belong to by now.
func (m *Machine) rekey(g *cluster.Group) {
	if g == nil {
		return
	}
	for _, p := range g.Members() {
		e := m.queue.Find(p.Object.UID)
		if e == nil {
			continue
		}
		if key := m.keyOf(p); key != e.Key() {
			m.queue.Add(key, p.Object)
			if p.Stage != cluster.Pending {
				m.queue.Hold(key, p.Object.UID)
			}
		}
	}
}

// recheck has the queue look again at the members of an entity.
func (m *Machine) recheck(key queue.Key) { m.queue.Recheck(key) }

// recompose has the queue look again at the gangs below a CompositePodGroup that came, changed or went.
func (m *Machine) recompose(namespace, name string) {
	for _, g := range m.cluster.GangsNaming(namespace, name) {
		m.rekey(g)
		m.recheck(keyOfGang(g))
		m.queue.Retry(keyOfGang(g))
	}
}

// dequeue takes a pod out of the queue, whatever stands there for it.
func (m *Machine) dequeue(uid types.UID) {
	if e := m.queue.Find(uid); e != nil {
		m.queue.Delete(e.Key(), uid)
	}
}
