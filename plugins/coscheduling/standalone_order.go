package coscheduling

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// queuedPod is an entity of a stock kube-scheduler that is a single pod, and not its own pod group.
type queuedPod interface{ GetPod() *v1.Pod }

var _ queuedPod = (*upstream.QueuedPodInfo)(nil)

// standing is an entity's place in the queue.
type standing struct {
	priority int32
	since    time.Time
	name     string
}

// Less orders by priority, higher first, then by time, then by name. All members of a gang, and of the gangs that are
// admitted with it, have one place, so that two gangs do not take each other's nodes. The priority is the gang's own if
// it has one. The time is the creation of the gang's object, or of its first member if there is no object. If there are
// several gangs, the first counts.
func (s *standalone) Less(a, b fwk.QueuedEntityInfo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, y := s.standing(a), s.standing(b)
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.name, y.name)) < 0
}

func (s *standalone) standing(e fwk.QueuedEntityInfo) standing {
	at := standing{priority: e.GetPriority(), since: firstQueued(e)}
	one, ok := e.(queuedPod)
	if !ok {
		return at // the scheduler's own pod group
	}
	pod := one.GetPod()
	at.name = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()
	if g := s.view.GroupOf(pod); g != nil {
		p, own := g.Priority()
		at.since, at.name = s.view.since(g), g.String()
		if composite := g.Composite(); composite != nil {
			p, own = composite.Priority()
			at.name = composite.String()
			for _, each := range composite.Gangs() {
				if t := s.view.since(each); t.Before(at.since) {
					at.since = t
				}
			}
		}
		if own {
			at.priority = p
		}
	}
	return at
}

// since returns the time for g's place in the queue. After the first call it does not change as long as the gang
// exists.
func (v *view) since(g *cluster.Group) time.Time {
	r := v.record(g)
	if !r.since.IsZero() {
		return r.since
	}
	for _, res := range cluster.GroupResources() {
		if obj := v.state.Informers().Get(res, g.Namespace, g.Name); obj != nil {
			r.since = obj.GetCreationTimestamp().Time
			return r.since
		}
	}
	for _, p := range g.Members() {
		if t := p.Object.CreationTimestamp.Time; r.since.IsZero() || t.Before(r.since) {
			r.since = t
		}
	}
	return r.since
}
