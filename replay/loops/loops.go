package loops

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/entities"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// Options say what is searched.
type Options struct {
	// From and Last are the first and the last entry of the range. Only evictions in it count, and only time in it.
	From, Last uint64
}

// Find reads a range of a log and reports the loops in it.
func Find(ctx context.Context, log *history.Log, o Options) (*Report, error) {
	m, err := log.Nearest(o.From - min(1, o.From))
	if err != nil {
		return nil, err
	}
	s := &search{Options: o, pods: map[types.UID]*life{}}
	if m.Seq() > 0 {
		for _, p := range m.Cluster().Pods().All() {
			l := s.come(p.Object)
			if l.node = p.Node; p.Stage == cluster.Bound {
				l.bound, l.since = true, m.Now()
			}
		}
	}
	for e, err := range log.Entries(ctx, history.Query{From: m.Seq() + 1, To: history.Bound{Seq: o.Last}}) {
		if err != nil {
			return nil, err
		}
		if e.Seq >= o.From && !s.within {
			s.begin(e.Time)
		}
		s.seq, s.now = e.Seq, e.Time
		s.take(e)
	}
	return s.report(), nil
}

// search is a search under way.
type search struct {
	Options
	within  bool // the range has begun
	start   eventlog.Time
	seq     uint64
	now     eventlog.Time
	pods    map[types.UID]*life
	vacant  []*life // pods that went and have no successor yet, in the order in which they were evicted
	evicted []*eviction
}

// life is a pod, from its first entry to its last.
type life struct {
	object *v1.Pod
	uid    types.UID
	entity string
	node   string
	bound  bool
	since  eventlog.Time // when it was bound
	by     *eviction     // that it is evicted by; nil for none
	left   eventlog.Time // when it was gone from its node
	gone   bool
	line   *lineage
}

// lineage is a pod and its successors.
type lineage struct {
	name  string // of the first pod
	times int    // how often one of them was evicted and went
}

// eviction has the pods of one entity that one Decision evicts.
type eviction struct {
	seq        uint64
	time       eventlog.Time
	by, victim string
	pods       []*life
	round      int // the largest number of evictions in a lineage of its pods, this one included
	lost       cost
}

// begin begins the range: nothing counts that was before.
func (s *search) begin(at eventlog.Time) {
	s.within, s.start, s.vacant = true, at, nil
}

// come notes a pod.
func (s *search) come(o *v1.Pod) *life {
	l := &life{object: o, uid: o.UID, node: o.Spec.NodeName}
	if old := s.predecessor(o); old != nil {
		l.line = old.line
	} else {
		l.line = &lineage{name: o.Namespace + "/" + o.Name}
	}
	l.entity = entities.Entity{Kind: entities.Pod, Name: l.line.name}.Label()
	if g, ok := cluster.GroupName(o); ok {
		l.entity = entities.Entity{Kind: entities.Gang, Name: g.String()}.Label()
	}
	s.pods[o.UID] = l
	return l
}

// predecessor returns the pod in whose place a new one comes, and takes it off the vacant ones; nil for none.
func (s *search) predecessor(o *v1.Pod) *life {
	group, grouped := cluster.GroupName(o)
	owner := metav1.GetControllerOf(o)
	same := []func(*life) bool{
		func(old *life) bool { return old.object.Name == o.Name },
		func(old *life) bool {
			its := metav1.GetControllerOf(old.object)
			return owner != nil && its != nil && its.UID == owner.UID
		},
		func(old *life) bool {
			its, ok := cluster.GroupName(old.object)
			return grouped && ok && its == group
		},
	}
	for _, is := range same {
		i := slices.IndexFunc(s.vacant, func(old *life) bool { return old.object.Namespace == o.Namespace && is(old) })
		if i >= 0 {
			old := s.vacant[i]
			s.vacant = slices.Delete(s.vacant, i, i+1)
			return old
		}
	}
	return nil
}

// take notes what an entry means for pods.
func (s *search) take(e eventlog.Entry) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			s.upserted(pod)
		}
	case *eventlog.Deleted:
		if l := s.pods[p.UID]; l != nil && p.Resource == eventlog.Pods {
			s.leave(l, false)
			delete(s.pods, p.UID)
		}
	case *eventlog.BindResult:
		if l := s.pods[p.UID]; l != nil && p.Outcome == eventlog.BindBound && !l.bound {
			l.bound, l.since = true, s.now
		}
	case *eventlog.EvictResult:
		stays := p.Outcome == eventlog.EvictGivenUp || p.Outcome == eventlog.EvictWithdrawn
		if l := s.pods[p.UID]; l != nil && stays && l.by != nil && !l.gone && l.by.seq == p.Decision {
			s.stay(l)
		}
	case *eventlog.Decision:
		s.decided(p)
	}
}

func (s *search) upserted(pod *v1.Pod) {
	l := s.pods[pod.UID]
	if l == nil {
		l = s.come(pod)
	}
	l.object = pod
	if pod.Spec.NodeName != "" && !l.bound {
		l.bound, l.since, l.node = true, s.now, pod.Spec.NodeName
	}
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		s.leave(l, pod.Status.Phase == v1.PodSucceeded)
	}
}

// leave notes that a pod leaves its node. An evicted pod that has completed its work meanwhile loses nothing, and
// nobody comes in its place.
func (s *search) leave(l *life, completed bool) {
	if l.gone {
		return
	}
	l.gone, l.left = true, s.now
	if l.by == nil {
		return
	}
	if completed {
		s.stay(l)
		return
	}
	if l.bound {
		l.by.lost.add(l.object, s.now.Sub(max(l.since, s.start)))
	}
}

// stay notes that an evicted pod does not go for the preemptor.
func (s *search) stay(l *life) {
	l.by.pods = slices.DeleteFunc(l.by.pods, func(o *life) bool { return o == l })
	s.vacant = slices.DeleteFunc(s.vacant, func(o *life) bool { return o == l })
	l.by = nil
	l.line.times--
}

// decided notes the evictions of a Decision. The rest of a gang that fell below its minimum has successors too, but
// nobody preempted it.
func (s *search) decided(d *eventlog.Decision) {
	if l := s.pods[d.UID]; l != nil && d.Node != "" {
		l.node = d.Node
	}
	by := s.pods[d.UID]
	if !s.within || by == nil || d.Outcome == eventlog.Evicted {
		return
	}
	made := map[string]*eviction{}
	for _, uid := range d.Victims {
		v := s.pods[uid]
		if v == nil || v.gone || v.by != nil || v.entity == by.entity {
			continue
		}
		x := made[v.entity]
		if x == nil {
			x = &eviction{seq: s.seq, time: s.now, by: by.entity, victim: v.entity}
			made[v.entity] = x
			s.evicted = append(s.evicted, x)
		}
		v.by = x
		v.line.times++
		x.pods, x.round = append(x.pods, v), max(x.round, v.line.times)
		s.vacant = append(s.vacant, v)
	}
}
