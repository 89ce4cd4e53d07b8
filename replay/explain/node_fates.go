package explain

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// fates follows the pods that were on a node from an entry to the point in question: what became of each, and which pod
// came in its place.
type fates struct {
	n     *nodeHistory
	from  answer.Point
	pods  []*fate
	byUID map[types.UID]*fate
	successors
	next map[types.UID]*newcomer // by the UID of the newcomer
}

// fate is one of the pods.
type fate struct {
	answer.NodePod
	name, group types.NamespacedName
	evicted     string // how
}

func newFates(n *nodeHistory, from answer.Point) *fates {
	return &fates{n: n, from: from, byUID: map[types.UID]*fate{}, successors: newSuccessors(),
		next: map[types.UID]*newcomer{}}
}

// add adds a pod on the node.
func (f *fates) add(p *cluster.Pod) {
	x := &fate{NodePod: nodePodOf(p)}
	x.name = types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
	if x.Fate = "Stays"; p.Leaving() || p.Ending() {
		x.Fate = "Leaving"
	}
	if p.Group != nil {
		x.group = p.Group.Key()
	}
	f.pods, f.byUID[x.UID] = append(f.pods, x), x
	f.successors.add(p)
}

// read reads the entries about the pods, about pods of the same names and gangs, and then about these pods.
func (f *fates) read() error {
	if len(f.pods) == 0 {
		return nil
	}
	keys := []index.Key{index.Node(f.n.x.Node)}
	for _, p := range f.pods {
		keys = append(keys, index.UID(p.UID), index.Pod(p.name))
		if p.group.Name != "" {
			keys = append(keys, index.Group(p.group))
		}
	}
	query := history.Query{From: f.from.Seq, To: history.Bound{Seq: f.n.x.At.Seq}, Keys: keys}
	for e, err := range f.n.log.Entries(f.n.ctx, query) {
		if err != nil {
			return err
		}
		f.take(e)
		f.successors.take(e, f.from)
	}
	f.matchNewcomers()
	if query.Keys = nil; len(f.next) == 0 {
		return nil
	}
	for _, p := range f.pods {
		if p.Next != nil {
			query.Keys = append(query.Keys, index.UID(p.Next.UID))
		}
	}
	for e, err := range f.n.log.Entries(f.n.ctx, query) {
		if err != nil {
			return err
		}
		f.place(e)
	}
	return nil
}

// take takes in an entry about the pods.
func (f *fates) take(e eventlog.Entry) {
	at := pointOf(e)
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			f.upserted(at, pod)
		}
	case *eventlog.Deleted:
		f.deleted(at, p)
	case *eventlog.Decision:
		f.decided(at, p)
	}
}

// upserted takes in a pod: one of the node's that ends, or a new one.
func (f *fates) upserted(at answer.Point, pod *v1.Pod) {
	x := f.byUID[pod.UID]
	if x == nil {
		return
	}
	switch {
	case x.Gone != nil:
	case pod.Status.Phase == v1.PodSucceeded:
		f.ends(x, at, "Succeeded")
		x.Gone = &at
	case pod.Status.Phase == v1.PodFailed:
		f.ends(x, at, f.howEvicted(x, pod, "Failed"))
		x.Gone = &at
	case pod.DeletionTimestamp != nil:
		f.ends(x, at, f.howEvicted(x, pod, "Deleted"))
	}
}

// howEvicted says how a pod was evicted; otherwise if it was not.
func (f *fates) howEvicted(x *fate, pod *v1.Pod, otherwise string) string {
	switch reason := disruption(pod); {
	case x.evicted != "":
		return x.evicted
	case reason == byTaints:
		return "LostWithNode"
	case reason == byEviction && f.n.cordonedAt(f.from):
		return "Drained"
	case reason == byEviction:
		return "Evicted"
	}
	return otherwise
}

// cordonedAt reports whether the node was cordoned by a change.
func (n *nodeHistory) cordonedAt(at answer.Point) bool {
	for i := range n.x.Changes {
		if c := &n.x.Changes[i]; c.Seq == at.Seq {
			return strings.Contains(c.What, Cordoned)
		}
	}
	return false
}

// ends notes what became of a pod, unless that is known already.
func (f *fates) ends(x *fate, at answer.Point, how string) {
	if x.FateAt == nil {
		x.Fate, x.FateAt = how, &at
	}
}

// deleted takes in the deletion of a pod, or of the node. Pods that are on a node when it is deleted are lost.
func (f *fates) deleted(at answer.Point, p *eventlog.Deleted) {
	if p.Resource == eventlog.Nodes && p.Name == f.n.x.Node {
		for _, x := range f.pods {
			if x.Gone == nil {
				f.ends(x, at, "LostWithNode")
			}
		}
		return
	}
	x := f.byUID[p.UID]
	if p.Resource != eventlog.Pods || x == nil || x.Gone != nil {
		return
	}
	how := "Deleted"
	if x.evicted != "" {
		how = x.evicted
	}
	f.ends(x, at, how)
	x.Gone = &at
}

// decided takes in a decision that takes pods off the node.
func (f *fates) decided(at answer.Point, d *eventlog.Decision) {
	for _, uid := range d.Victims {
		if x := f.byUID[uid]; x != nil && x.Gone == nil {
			if x.evicted = "Preempted"; d.Outcome == eventlog.Evicted {
				x.evicted = "EvictedWithGang"
			}
			f.ends(x, at, x.evicted)
		}
	}
	for _, uid := range d.Rejected {
		if x := f.byUID[uid]; x != nil && x.Gone == nil {
			f.ends(x, at, "Released")
		}
	}
}

// matchNewcomers gives each pod that went its successor.
func (f *fates) matchNewcomers() {
	next := f.pair()
	for _, x := range f.pods {
		if c := next[x.UID]; c != nil && x.FateAt != nil && x.Fate != "Succeeded" {
			x.Next, f.next[c.UID] = &c.NextPod, c
		}
	}
}

// place takes in an entry about a pod that came in the place of another one.
func (f *fates) place(e eventlog.Entry) {
	give := func(uid types.UID, node string) {
		if c := f.next[uid]; c != nil && c.Placed == nil && node != "" {
			at := pointOf(e)
			c.Node, c.Placed = node, &at
		}
	}
	switch p := e.Payload.(type) {
	case *eventlog.BindResult:
		if p.Outcome == eventlog.BindBound {
			give(p.UID, p.Node)
		}
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			give(pod.UID, pod.Spec.NodeName)
		}
	}
}

func (f *fates) list() []answer.NodePod {
	out := make([]answer.NodePod, len(f.pods))
	for i, x := range f.pods {
		out[i] = x.NodePod
	}
	return out
}
