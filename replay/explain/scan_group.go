package explain

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// groupScan collects the entries about a gang.
type groupScan struct {
	name  types.NamespacedName
	near  nearNames
	first *answer.Point
	stop  recorded                        // the last decision that made an attempt fail
	stops map[types.NamespacedName]uint64 // by gang: where that decision is

	members map[types.UID]*end
	objects map[eventlog.Resource]types.UID // the gang's PodGroups, "" for one that was deleted

	composite bool                          // there is a CompositePodGroup of that name
	levels    map[string]bool               // the names of CompositePodGroups that have been below it, and its own
	below     map[types.NamespacedName]bool // the gangs whose PodGroup has named one of these
	names     []naming                      // what PodGroups and CompositePodGroups of the namespace have named
}

// naming is a PodGroup, or a CompositePodGroup, that named the CompositePodGroup that it is below.
type naming struct {
	composite    bool
	name, parent string
}

func newGroupScan(namespace, name string) *groupScan {
	s := &groupScan{name: types.NamespacedName{Namespace: namespace, Name: name}, members: map[types.UID]*end{},
		objects: map[eventlog.Resource]types.UID{},
		stops:   map[types.NamespacedName]uint64{}, below: map[types.NamespacedName]bool{},
		levels: map[string]bool{name: true}}
	s.near.wanted = s.name
	return s
}

func (s *groupScan) found() bool { return s.first != nil }

func (s *groupScan) again() scanner { return newGroupScan(s.name.Namespace, s.name.Name) }

func (s *groupScan) key() index.Key { return index.Group(s.name) }

func (s *groupScan) missing() *NotFoundError {
	return &NotFoundError{Kind: "group", Name: s.name.String(), Similar: s.near.list(), Composite: s.composite ||
		len(s.below) > 0}
}

func (s *groupScan) startFrom(m *scheduler.Machine) {
	s.composite = m.Cluster().Informers().Get(eventlog.CompositePodGroups, s.name.Namespace, s.name.Name) != nil
	s.levelsFrom(m)
	g := m.Cluster().Gangs().Named(s.name.Namespace, s.name.Name)
	if g == nil {
		for _, name := range m.Cluster().Gangs().Names() {
			s.near.add(name)
		}
		return
	}
	s.first = &answer.Point{}
	for _, p := range g.Members() {
		s.members[p.Object.UID] = &end{asked: m.AskedBy(p.Object.UID, scheduler.Evict) > 0}
	}
}

func (s *groupScan) take(e eventlog.Entry) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		s.upserted(e, p)
	case *eventlog.Deleted:
		if member := s.members[p.UID]; member != nil && p.Resource == eventlog.Pods {
			member.gone = true
		}
		if _, known := s.objects[p.Resource]; known && p.Namespace == s.name.Namespace && p.Name == s.name.Name {
			s.objects[p.Resource] = ""
		}
	case *eventlog.Decision:
		s.noteVictims(p)
		if r := (recorded{pointOf(e), p}); r.failed() && p.Group != "" {
			gang := types.NamespacedName{Namespace: p.Namespace, Name: p.Group}
			if s.stops[gang] = e.Seq; gang == s.name {
				s.stop = r
			}
		}
	}
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
	if !isPod {
		if known, ok := s.objects[p.Resource]; ok && known != p.Object.GetUID() {
			s.forgetGone() // they were members of an earlier gang of that name
		}
		s.objects[p.Resource] = p.Object.GetUID()
	} else {
		member := s.members[pod.UID]
		if member == nil {
			if s.beginsAnother(pod) {
				s.forgetGone()
			}
			member = &end{}
			if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
				member.controller = owner.UID
			}
			s.members[pod.UID] = member
		}
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			member.gone, member.phase = true, pod.Status.Phase
		}
	}
}

// beginsAnother reports whether a new pod is a member of another gang of that name. It is if all earlier members are
// gone, the gang has no object, and the pod's controller made none of the earlier members.
func (s *groupScan) beginsAnother(pod *v1.Pod) bool {
	for _, uid := range s.objects {
		if uid != "" {
			return false
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	for _, member := range s.members {
		if !member.gone || owner != nil && member.controller == owner.UID {
			return false
		}
	}
	return true
}

// forgetGone forgets the members that are gone.
func (s *groupScan) forgetGone() {
	maps.DeleteFunc(s.members, func(_ types.UID, member *end) bool { return member.gone })
}

// end is the end of a member.
type end struct {
	controller         types.UID // of the pod, "" for none
	gone               bool
	phase              v1.PodPhase // "" for one that was deleted before it had ended
	preempted, evicted bool        // it was asked to go
	asked              bool        // so it was, by a decision that is not known
}

// noteVictims notes members that a decision asks to go.
func (s *groupScan) noteVictims(d *eventlog.Decision) {
	for _, uid := range d.Victims {
		if member := s.members[uid]; member != nil {
			member.preempted = member.preempted || preempts(d)
			member.evicted = member.evicted || !preempts(d)
		}
	}
}

// ends counts the members that are gone by how they went.
func (s *groupScan) ends() (n answer.Ends) {
	for _, member := range s.members {
		switch {
		case !member.gone:
		case member.preempted:
			n.Preempted++
		case member.evicted:
			n.Evicted++
		case member.asked:
			n.AskedToGo++
		case member.phase == v1.PodSucceeded:
			n.Succeeded++
		case member.phase == v1.PodFailed:
			n.Failed++
		default:
			n.Deleted++
		}
	}
	return n
}

// noteComposite notes the entry's data about a CompositePodGroup of the name, or about the composites below it.
func (s *groupScan) noteComposite(p *eventlog.Upserted) {
	if p.Object == nil || p.Object.GetNamespace() != s.name.Namespace {
		return
	}
	_, composite := p.Object.(*schedulingv1alpha3.CompositePodGroup)
	s.composite = s.composite || composite && p.Object.GetName() == s.name.Name
	if parent, ok := cluster.ParentName(p.Object); ok {
		s.noteNaming(naming{composite, p.Object.GetName(), parent.Name})
	}
}

// noteNaming notes what is below the CompositePodGroup by now.
func (s *groupScan) noteNaming(n naming) {
	switch {
	case !s.levels[n.parent]:
		if !slices.Contains(s.names, n) {
			s.names = append(s.names, n) // it may be below later
		}
	case !n.composite:
		s.below[types.NamespacedName{Namespace: s.name.Namespace, Name: n.name}] = true
	case !s.levels[n.name]:
		s.levels[n.name] = true
		for _, each := range slices.Clone(s.names) {
			if each.parent == n.name {
				s.noteNaming(each)
			}
		}
	}
}

// levelsFrom notes what is below the CompositePodGroup in a state.
func (s *groupScan) levelsFrom(m *scheduler.Machine) {
	for _, g := range m.Cluster().Gangs().Below(s.name.Namespace, s.name.Name) {
		s.below[g.Key()] = true
	}
	open := []*cluster.Composite{m.Cluster().Gangs().CompositePodGroup(s.name.Namespace, s.name.Name)}
	for len(open) > 0 && open[0] != nil {
		_, composites := open[0].Directly()
		open = open[1:]
		for _, c := range composites {
			if !s.levels[c.Name] {
				s.levels[c.Name] = true
				open = append(open, c)
			}
		}
	}
}

// gone counts the members that are.
func (s *groupScan) gone() (n int) {
	for _, member := range s.members {
		if member.gone {
			n++
		}
	}
	return n
}
