package explain

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// successors pairs the pods that gangs lose, on all nodes, with the new members of these gangs. So a new pod succeeds
// one lost pod alone, whatever node is asked about.
type successors struct {
	members map[types.UID]member
	lost    []loss
	// came are the new pods of the same names and gangs, in the order of their entries.
	came []*newcomer
	seen map[types.UID]bool // of came
}

// member is a pod of a gang that had pods on the node. over says that it has ended, well or not.
type member struct {
	name, group types.NamespacedName
	over        bool
}

// loss is the entry at which a pod was lost.
type loss struct {
	uid types.UID
	member
	seq uint64
}

// newcomer is a pod that came later.
type newcomer struct {
	answer.NextPod
	group types.NamespacedName
	taken bool
}

func newSuccessors() successors {
	return successors{members: map[types.UID]member{}, seen: map[types.UID]bool{}}
}

// add adds a pod of the node, and the other members of its gang.
func (s *successors) add(p *cluster.Pod) {
	pods := []*cluster.Pod{p}
	if p.Group != nil {
		pods = p.Group.Members()
	}
	for _, p := range pods {
		s.members[p.Object.UID] = memberOf(p.Object)
	}
}

func memberOf(pod *v1.Pod) member {
	m := member{name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
	m.group, _ = cluster.GroupName(pod)
	return m
}

// take takes in an entry about the members.
func (s *successors) take(e eventlog.Entry, from answer.Point) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		pod, ok := p.Object.(*v1.Pod)
		if !ok {
			return
		}
		if _, known := s.members[pod.UID]; !known {
			s.noteNewcomer(pointOf(e), pod, from)
		}
		switch {
		case pod.Status.Phase == v1.PodSucceeded:
			s.end(pod.UID, 0)
		case pod.Status.Phase == v1.PodFailed, pod.DeletionTimestamp != nil:
			s.end(pod.UID, e.Seq)
		}
	case *eventlog.Deleted:
		s.end(p.UID, e.Seq)
	case *eventlog.Decision:
		for _, uid := range p.Victims {
			s.end(uid, e.Seq)
		}
	}
}

// end notes that a member ends at an entry. It is lost, unless seq is 0.
func (s *successors) end(uid types.UID, seq uint64) {
	m, known := s.members[uid]
	if !known || m.over {
		return
	}
	m.over = true
	s.members[uid] = m
	if seq > 0 {
		s.lost = append(s.lost, loss{uid, m, seq})
	}
}

// noteNewcomer notes a new pod with the name or the gang of one of the members.
func (s *successors) noteNewcomer(at answer.Point, pod *v1.Pod, from answer.Point) {
	if s.seen[pod.UID] {
		return
	}
	s.seen[pod.UID] = true
	m := memberOf(pod)
	if created := eventlog.TimeOf(pod.CreationTimestamp.Time); !pod.CreationTimestamp.IsZero() &&
		answer.Instant(created) < from.Time {
		return // it was there before
	}
	s.members[pod.UID] = m
	next := answer.NextPod{Pod: m.name.String(), UID: pod.UID, Came: at}
	s.came = append(s.came, &newcomer{NextPod: next, group: m.group})
}

// pair returns the successors by the lost pod: the next new pod of its name, or else the next new member of its gang,
// in the order of the losses.
func (s *successors) pair() map[types.UID]*newcomer {
	slices.SortStableFunc(s.lost, func(a, b loss) int { return cmp.Compare(a.seq, b.seq) })
	next := map[types.UID]*newcomer{}
	for _, is := range []func(*loss, *newcomer) bool{
		func(x *loss, c *newcomer) bool { return c.Pod == x.name.String() },
		func(x *loss, c *newcomer) bool { return x.group.Name != "" && c.group == x.group },
	} {
		for i := range s.lost {
			x := &s.lost[i]
			if next[x.uid] != nil {
				continue
			}
			at := slices.IndexFunc(s.came, func(c *newcomer) bool {
				return !c.taken && c.Came.Seq >= x.seq && is(x, c)
			})
			if at >= 0 {
				s.came[at].taken = true
				next[x.uid] = s.came[at]
			}
		}
	}
	return next
}
