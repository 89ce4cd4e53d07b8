package explain

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// verdict is the result of a trial, without the explanation of its decisions. It costs a fraction of a trial with one.
type verdict struct {
	alone    bool // it is about a pod of no gang
	at       answer.Point
	fail     failure // the last one of the last attempt
	found    int
	evicted  int
	complete map[types.NamespacedName]bool // the gangs that would have their minimum
}

// fits reports whether all that is needed would find nodes. g is the gang, nil for a pod of no gang.
func (v *verdict) fits(g *cluster.Group) bool {
	if g == nil || g.Beyond() {
		return !v.fail.known()
	}
	return v.complete[g.Key()]
}

// trial makes a trial of an entity.
func (s *Survey) trial(e *queue.Entity) (*verdict, error) {
	next := e.Next()
	if next == nil {
		return nil, nil
	}
	t, err := s.trials.Next(next.UID)
	if err != nil || t == nil {
		return nil, err
	}
	v := &verdict{alone: !isGang(e), at: s.r.at, complete: map[types.NamespacedName]bool{}}
	attempt := 0
	for {
		d, ok := t.Decide(nil)
		if !ok {
			break
		}
		if n := t.Attempts(); n != attempt { // another one, in another domain
			attempt, v.fail, v.found = n, failure{}, 0
		}
		if v.take(t.Machine(), &d) {
			return v, nil
		}
		if err := t.Apply(&d); err != nil {
			return nil, err
		}
	}
	v.lookAt(t.Machine(), e)
	return v, nil
}

// take looks at the next decision of a trial. It reports whether the result is known: the decision need not be applied
// then, which leaves the trial's Machine to the next one.
func (v *verdict) take(m *scheduler.Machine, d *eventlog.Decision) (over bool) {
	pod := m.Cluster().Pods().Get(d.UID)
	rec := recorded{v.at, d}
	v.evicted += len(d.Victims)
	if !rec.failed() {
		v.found++
		g := pod.Group
		if v.alone || g == nil {
			return v.alone
		}
		if d.Outcome == eventlog.Scheduled && g.Composite() == nil && !g.Beyond() && g.Lacking(gang.OnNodes) <= 1 {
			v.complete[g.Key()] = true
			return true
		}
		return false
	}
	f := failure{recorded: rec, pod: nameOf(pod.Object)}
	if pod.Group != nil {
		f.gang = pod.Group.Key()
	}
	f.judge(m, pod)
	v.fail = f
	return v.alone || len(d.Victims) > 0 || f.code == answer.LacksRoom && !d.Elsewhere
}

// lookAt notes the gangs of an entity that have their minimum on nodes once the trial is over.
func (v *verdict) lookAt(m *scheduler.Machine, e *queue.Entity) {
	gangs := m.Cluster().Gangs()
	note := func(g *cluster.Group) {
		if g != nil {
			v.complete[g.Key()] = g.Lacking(gang.OnNodes) <= 0
		}
	}
	for _, p := range e.Pending() {
		g := gangs.OfPod(p)
		note(g)
		if g != nil && g.Composite() != nil {
			for _, other := range g.Composite().Gangs() {
				note(gangs.Named(other.Namespace, other.Name))
			}
		}
	}
}
