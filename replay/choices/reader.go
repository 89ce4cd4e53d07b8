package choices

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Options say what a Reader finds out.
type Options struct {
	// Trials has each gang tried as a whole when the log has its first member on a node. A trial costs a copy of the
	// state.
	Trials bool
	// By returns who bound a pod, "" if that is not known; nil for nobody knows.
	By func(uid types.UID) string
}

// A Reader rates binds. It needs memory for each node, and none for pods.
type Reader struct {
	opts  Options
	epoch Epoch
	nodes map[string]answer.ChangeBefore
	// Came counts the pods that were on a node when the log first had them, and were not bound while it was read.
	Came int
}

// NewReader returns a Reader for a log from its first entry on.
func NewReader(opts Options) *Reader {
	return &Reader{opts: opts, nodes: map[string]answer.ChangeBefore{}}
}

// Epoch says when an epoch of a log began.
type Epoch struct {
	// Began is the time of its first entry, and Listed the time of the next one, which brings the first list. All
	// entries of that list have the time. 0 is not known yet.
	Began, Listed eventlog.Time
}

// In tells a Reader that starts in the middle of a log in which epoch it is.
func (r *Reader) In(epoch Epoch) { r.epoch = epoch }

// Before returns the choice that an entry brings, nil if it brings none. m is the state before the entry.
func (r *Reader) Before(m *scheduler.Machine, e eventlog.Entry) (*answer.Choice, error) {
	if r.epoch.Listed == 0 && r.epoch.Began > 0 {
		r.epoch.Listed = e.Time
	}
	switch p := e.Payload.(type) {
	case *eventlog.EpochStarted:
		r.epoch = Epoch{Began: e.Time}
	case *eventlog.Deleted:
		r.deleted(m, e, p)
	case *eventlog.Upserted:
		switch obj := p.Object.(type) {
		case *v1.Node:
			r.note(e, obj.Name, "the node changed")
		case *v1.Pod:
			return r.pod(m, e, obj)
		}
	}
	return nil, nil
}

// note records a change of a node.
func (r *Reader) note(e eventlog.Entry, node, what string) {
	r.nodes[node] = answer.ChangeBefore{Point: pointOf(e), What: what}
}

// noteOn records a change of the pods on a node, if the state has the node.
func (r *Reader) noteOn(m *scheduler.Machine, e eventlog.Entry, node, what string) {
	if _, err := m.Cluster().Nodes().Get(node); err == nil {
		r.note(e, node, what)
	}
}

// deleted records what went.
func (r *Reader) deleted(m *scheduler.Machine, e eventlog.Entry, p *eventlog.Deleted) {
	switch p.Resource {
	case eventlog.Nodes:
		delete(r.nodes, p.Name)
	case eventlog.Pods:
		if was := m.Cluster().Pods().Get(p.UID); was != nil && was.Node != "" {
			r.noteOn(m, e, was.Node, fmt.Sprintf("pod %s/%s left it", p.Namespace, p.Name))
		}
	}
}

// lateBy is the longest time from the creation of a pod to the entry that has it first, if it was made while the log
// was written. Creation times are in full seconds.
const lateBy = 10 * time.Second

// pod looks at an entry that brings a pod.
func (r *Reader) pod(m *scheduler.Machine, e eventlog.Entry, pod *v1.Pod) (*answer.Choice, error) {
	node, was := pod.Spec.NodeName, m.Cluster().Pods().Get(pod.UID)
	if node == "" || was != nil && was.Node != "" {
		return nil, nil
	}
	defer r.noteOn(m, e, node, fmt.Sprintf("pod %s/%s was bound there", pod.Namespace, pod.Name))
	var waiting *v1.Pod
	switch {
	case was != nil:
		waiting = was.Object
	case IsNew(r.epoch.Began, e.Time, pod):
		waiting = beforeBind(pod)
	default:
		r.Came++
		return nil, nil
	}
	x := &answer.Choice{Point: pointOf(e), Pod: pod.Namespace + "/" + pod.Name, UID: pod.UID, Node: node,
		Scheduler: pod.Spec.SchedulerName, Together: was == nil,
		AfterGap: was != nil && e.Epoch > 1 && e.Time == r.epoch.Listed}
	if r.opts.By != nil {
		x.By = r.opts.By(pod.UID)
	}
	r.rate(m, x, waiting)
	if x.Verdict == answer.Infeasible {
		if last, ok := r.nodes[node]; ok {
			x.NodeChanged = &last
		}
	}
	return x, r.addGang(m, x, waiting)
}

// beforeBind returns a pod as it was before its bind, as far as its scheduler reads it.
func beforeBind(pod *v1.Pod) *v1.Pod {
	without := *pod
	without.Spec.NodeName, without.Status = "", v1.PodStatus{Phase: v1.PodPending,
		ResourceClaimStatuses:       pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	return &without
}

// IsNew reports whether a pod that a log first has on a node, at a time, was made just now and since the epoch began.
// Otherwise it may have been there before, and the state before its bind is not known. The kubelet's own pods are made
// with a node, and are never new.
func IsNew(began, at eventlog.Time, pod *v1.Pod) bool {
	for _, o := range pod.OwnerReferences {
		if o.Kind == "Node" {
			return false
		}
	}
	made := eventlog.TimeOf(pod.CreationTimestamp.Time)
	return !pod.CreationTimestamp.IsZero() && made > began && at.Sub(made) <= lateBy
}

func pointOf(e eventlog.Entry) answer.Point {
	return answer.Point{Seq: e.Seq, Time: answer.Instant(e.Time)}
}

// addGang adds what Rollcall would have done with the pod's gang.
func (r *Reader) addGang(m *scheduler.Machine, x *answer.Choice, pod *v1.Pod) error {
	name, ok := cluster.GroupName(pod)
	if !ok || !scheduler.PlansGangs(m, pod) {
		return nil
	}
	g := m.Cluster().Gangs().Named(name.Namespace, name.Name)
	x.Gang = gangOf(g, name, x.Together)
	if !r.opts.Trials || g == nil || x.Gang.OnNodes > 0 || x.Together {
		return nil
	}
	fits, tried, err := tryGang(m, pod.UID, name)
	if tried {
		x.Gang.Fits = &fits
	}
	return err
}
