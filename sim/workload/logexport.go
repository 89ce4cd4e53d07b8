package workload

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// isLogLine reports whether a line is the first one of a log's export.
func isLogLine(line string) bool { return strings.HasPrefix(line, `{"seq":`) }

// readLog reads the export of a log: one entry in its public JSON form a line. The scheduler's inputs happen again, at
// the same offsets from the first entry. Decisions and their results are left out, and so are their traces in the
// inputs:
//
//   - A pod that was bound runs, once bound, as long as it ran there. A pod that was deleted unbound is deleted at the
//     same offset, bound or not. A pod that existed at the log's end runs for ever.
//   - A pod that was evicted or lost with its node is not made again: its replacement is in the log.
//   - A claim that was bound is left out, since the next placement will bind it. So is a volume that was provisioned
//     or bound for a claim that the log has seen unbound.
//   - A group that was deleted after its last member is deleted after its last member.
func readLog(in *input, path string, rd io.Reader) error {
	r := newRecording(in)
	err := lines(path, rd, func(_ int, line []byte) error {
		if len(strings.TrimSpace(string(line))) == 0 {
			return nil
		}
		e, err := eventlog.ParseJSON(line)
		if err != nil {
			return err
		}
		return r.take(e)
	})
	r.finish()
	return err
}

// recording turns a log's entries into plans.
type recording struct {
	in *input
	// start is the first entry's time; last the sequence number of the last entry seen.
	start eventlog.Time
	last  uint64
	nodes map[string]int // plans of nodes that exist, by name
	pods  map[types.UID]*recordedPod
	// members counts the members that exist, by group; a group never named is not in it.
	members map[types.NamespacedName]int
	// unbound are the claims that were seen unbound, by resource and name.
	unbound map[[2]string]bool
	// names are the UIDs of the pods that exist, by name.
	names                  map[types.NamespacedName]types.UID
	lost, evicted, settled int
}

// recordedPod is a pod that exists.
type recordedPod struct {
	plan    int
	bound   bool
	boundAt time.Duration
	node    string
	evicted bool // a decision asked for its eviction
}

func newRecording(in *input) *recording {
	return &recording{
		in: in, nodes: map[string]int{}, pods: map[types.UID]*recordedPod{},
		members: map[types.NamespacedName]int{}, unbound: map[[2]string]bool{},
		names: map[types.NamespacedName]types.UID{},
	}
}

// finish adds the notes.
func (r *recording) finish() {
	if r.lost > 0 {
		r.in.note("%d pods were lost with their node: they are taken to have run their time by then", r.lost)
	}
	if r.evicted > 0 {
		r.in.note("%d pods were evicted: they are taken to have run their time by then", r.evicted)
	}
	if r.settled > 0 {
		r.in.note("%d changes of claims and volumes that placements had caused are left out", r.settled)
	}
}

// take adds one entry.
func (r *recording) take(e eventlog.Entry) error {
	if r.last != 0 && e.Seq != r.last+1 {
		return fmt.Errorf("entry %d follows entry %d", e.Seq, r.last)
	}
	if r.last == 0 {
		r.start = e.Time
	}
	r.last = e.Seq
	at := e.Time.Sub(r.start)
	if err := CheckOffset(at); err != nil {
		return err
	}
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if err := checkAmounts(p.Object); err != nil {
			return fmt.Errorf("%s %s: %w", p.Resource, ObjectName(p.Object), err)
		}
		return r.upserted(at, p)
	case *eventlog.Deleted:
		r.deleted(at, p)
	case *eventlog.BindResult:
		if pod := r.pods[p.UID]; pod != nil && p.Outcome == eventlog.BindBound && !pod.bound {
			pod.bound, pod.boundAt, pod.node = true, at, p.Node
		}
	case *eventlog.EvictResult:
		stays := p.Outcome == eventlog.EvictGivenUp || p.Outcome == eventlog.EvictWithdrawn
		if pod := r.pods[p.UID]; pod != nil && stays {
			pod.evicted = false
		}
	case *eventlog.Decision:
		for _, uid := range p.Victims {
			if pod := r.pods[uid]; pod != nil {
				pod.evicted = true
			}
		}
	}
	return nil
}

// upserted adds an object that came or changed.
func (r *recording) upserted(at time.Duration, p *eventlog.Upserted) error {
	switch o := p.Object.(type) {
	case *corev1.Node:
		if i, there := r.nodes[o.Name]; there {
			r.in.nodes[i].Updates = append(r.in.nodes[i].Updates, NodeUpdate{At: at, Node: o})
			return nil
		}
		if len(r.in.nodes) >= MaxNodes {
			return fmt.Errorf("more than %d nodes", MaxNodes)
		}
		r.nodes[o.Name] = len(r.in.nodes)
		r.in.nodes = append(r.in.nodes, NodePlan{Node: o, Joins: at})
		return nil
	case *corev1.Pod:
		return r.podUpserted(at, o)
	case *corev1.PersistentVolumeClaim:
		key := [2]string{o.Namespace, o.Name}
		if o.Spec.VolumeName == "" {
			r.unbound[key] = true
		} else if r.unbound[key] {
			r.settled++
			return nil
		}
	case *corev1.PersistentVolume:
		if ref := o.Spec.ClaimRef; ref != nil && r.unbound[[2]string{ref.Namespace, ref.Name}] {
			r.settled++
			return nil
		}
	}
	r.in.workload.Objects = append(r.in.workload.Objects, ObjectPlan{At: at, Resource: p.Resource, Object: p.Object})
	return nil
}

// podUpserted adds a pod that came or changed.
func (r *recording) podUpserted(at time.Duration, pod *corev1.Pod) error {
	rec := r.pods[pod.UID]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case rec == nil && ended:
		return nil
	case rec == nil:
		if pod.UID == "" {
			return errors.New("a pod without UID")
		}
		if len(r.in.workload.Pods) >= MaxPods {
			return fmt.Errorf("more than %d pods", MaxPods)
		}
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		if other, taken := r.names[name]; taken {
			return fmt.Errorf("pod %s comes with UID %s while the pod of that name with UID %s is there", name, pod.UID,
				other)
		}
		r.names[name] = pod.UID
		rec = &recordedPod{plan: len(r.in.workload.Pods)}
		r.pods[pod.UID] = rec
		plan := PodPlan{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Arrival: at, Template: pod,
			Controller: ControllerOf(pod),
		}
		if key, ok := plan.Group(); ok {
			r.members[key]++
		}
		r.in.workload.Pods = append(r.in.workload.Pods, plan)
	case ended:
		r.podEnds(at, pod.UID)
		return nil
	case !rec.bound && pod.Spec.NodeName == "" && at > r.in.workload.Pods[rec.plan].Arrival:
		plan := &r.in.workload.Pods[rec.plan]
		plan.Updates = append(plan.Updates, PodUpdate{At: at, Pod: pod})
	}
	if !rec.bound && pod.Spec.NodeName != "" {
		rec.bound, rec.boundAt, rec.node = true, at, pod.Spec.NodeName
	}
	return nil
}

// podEnds adds the end of a pod.
func (r *recording) podEnds(at time.Duration, uid types.UID) {
	rec := r.pods[uid]
	if rec == nil {
		return
	}
	delete(r.pods, uid)
	plan := &r.in.workload.Pods[rec.plan]
	delete(r.names, types.NamespacedName{Namespace: plan.Namespace, Name: plan.Name})
	if key, ok := plan.Group(); ok {
		r.members[key]--
	}
	if !rec.bound {
		plan.Deadline = max(at, plan.Arrival+1)
		return
	}
	plan.Duration = max(at-rec.boundAt, 1)
	switch _, there := r.nodes[rec.node]; {
	case !there:
		r.lost++
	case rec.evicted:
		r.evicted++
	default:
		return
	}
	plan.Replaced = true
}

// deleted adds the deletion of an object.
func (r *recording) deleted(at time.Duration, p *eventlog.Deleted) {
	switch p.Resource {
	case eventlog.Pods:
		r.podEnds(at, p.UID)
		return
	case eventlog.Nodes:
		if i, there := r.nodes[p.Name]; there {
			delete(r.nodes, p.Name)
			r.in.nodes[i].Fails = max(at, r.in.nodes[i].Joins+1)
		}
		return
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		if left, named := r.members[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]; named && left == 0 {
			return
		}
	}
	object := eventlog.NewObject(p.Resource)
	if object == nil { // of a plugin
		object = &unstructured.Unstructured{Object: map[string]any{}}
	}
	object.SetNamespace(p.Namespace)
	object.SetName(p.Name)
	object.SetUID(p.UID)
	r.in.workload.Objects = append(r.in.workload.Objects,
		ObjectPlan{At: at, Resource: p.Resource, Object: object, Delete: true})
}
