package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// readLog reads the export of a log: entries in their public JSON form, on a line each or on several, which may be left
// out, added and changed. The scheduler's inputs happen again, at the same offsets from the first entry. Decisions and
// their results are left out, and so are their traces in the inputs:
//
//   - A pod that was bound runs, once bound, as long as it ran there, and fails if it failed there. A pod that was
//     deleted unbound is deleted at the same offset, bound or not. A pod that existed at the log's end runs for ever.
//   - A pod that was evicted or lost with its node, and the pod that its controller made instead, are one job, which
//     runs as long as the last of these pods. Without a controller a pod is not made again: its replacement, if any, is
//     in the log.
//   - A claim that was bound is left out, since the next placement will bind it. So is a volume that was provisioned
//     or bound for a claim that the log has seen unbound. If the claim's request grows, it grows here, too.
//   - A group that was deleted after its last member is deleted after its last member.
func readLog(in *input, path string, rd io.Reader) error {
	r := newRecording(in)
	var entry bytes.Buffer
	err := jsonValues(path, rd, func(value []byte) error {
		// Values that an entry keeps as JSON, such as its configuration, are compact in the log.
		entry.Reset()
		if err := json.Compact(&entry, value); err == nil {
			value = entry.Bytes()
		}
		e, err := eventlog.ParseJSON(value)
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
	// start is the first entry's time, and last the last one's; 0 before there is one.
	start, last eventlog.Time
	nodes       map[string]int // plans of nodes that exist, by name
	pods        map[types.UID]*recordedPod
	// members counts the members that exist, by group; a group never named is not in it.
	members map[types.NamespacedName]int
	// unbound are the claims that were seen unbound, by resource and name.
	unbound map[[2]string]bool
	// claims are the claims as last seen, by namespace and name, and classes the StorageClasses.
	claims  map[[2]string]*corev1.PersistentVolumeClaim
	classes map[string]*storagev1.StorageClass
	// names are the UIDs of the pods that exist, by name.
	names map[types.NamespacedName]types.UID
	// open are the jobs that wait for the pod that their controller makes instead of one that was evicted or lost, the
	// first one first.
	open                             map[jobKey][]*recordedPod
	lost, evicted, replaced, settled int
}

// jobKey identifies the work of a pod for its controller: an index of a Job, or any pod of another controller.
type jobKey struct {
	controller types.UID
	index      string
}

// recordedPod is a pod that exists.
type recordedPod struct {
	plan    int
	bound   bool
	boundAt time.Duration
	node    string
	evicted bool // a decision, or somebody else, asked for its eviction
	job     jobKey
	left    bool          // another pod is made instead of it, or has been
	ended   time.Duration // the time of its end, 0 before
}

func newRecording(in *input) *recording {
	return &recording{
		in: in, nodes: map[string]int{}, pods: map[types.UID]*recordedPod{},
		members: map[types.NamespacedName]int{}, unbound: map[[2]string]bool{},
		claims: map[[2]string]*corev1.PersistentVolumeClaim{}, classes: map[string]*storagev1.StorageClass{},
		names: map[types.NamespacedName]types.UID{}, open: map[jobKey][]*recordedPod{},
	}
}

// finish adds the notes.
func (r *recording) finish() {
	if r.replaced > 0 {
		r.in.note("%s", counted(r.replaced, "pod came instead of one that was evicted or lost: both are one job",
			"pods came instead of pods that were evicted or lost: each is one job with the pod before it"))
	}
	if r.lost > 0 {
		r.in.note("%s time by then", counted(r.lost, "pod was lost with its node: it is taken to have run its",
			"pods were lost with their node: they are taken to have run their"))
	}
	if r.evicted > 0 {
		r.in.note("%s time by then", counted(r.evicted, "pod was evicted: it is taken to have run its",
			"pods were evicted: they are taken to have run their"))
	}
	if r.settled > 0 {
		r.in.note("%s left out", counted(r.settled, "change of a claim or volume that a placement had caused is",
			"changes of claims and volumes that placements had caused are"))
	}
}

// take adds one entry.
func (r *recording) take(e eventlog.Entry) error {
	if r.last == 0 {
		r.start = e.Time
	}
	if e.Time < r.last {
		return fmt.Errorf("entry %d is of %s, before the entry in front of it, of %s: put the entries in the order of "+
			"their times", e.Seq, e.Time, r.last)
	}
	r.last = e.Time
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
			r.stays(pod)
		}
	case *eventlog.Decision:
		for _, uid := range p.Victims {
			if pod := r.pods[uid]; pod != nil {
				r.evict(pod)
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
		grew, err := r.requestGrew(o)
		if err != nil {
			return err
		}
		if o.Spec.VolumeName == "" {
			r.unbound[key] = true
		} else if r.unbound[key] && !grew {
			r.settled++
			return nil
		}
	case *storagev1.StorageClass:
		r.classes[o.Name] = o
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
		if rec = r.instead(at, pod); rec != nil {
			break
		}
		rec = &recordedPod{plan: len(r.in.workload.Pods), job: jobOf(pod)}
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
		if isDisrupted(pod) {
			r.evict(rec)
		}
		if plan := r.podEnds(at, pod.UID); plan != nil && !rec.left {
			plan.Fails = pod.Status.Phase == corev1.PodFailed
		}
		return nil
	case at > r.in.workload.Pods[rec.plan].Arrival:
		if isDisrupted(pod) {
			r.evict(rec)
		}
		r.podChanges(at, rec, pod)
	}
	if !rec.bound && pod.Spec.NodeName != "" {
		rec.bound, rec.boundAt, rec.node = true, at, pod.Spec.NodeName
	}
	return nil
}

// podChanges adds a change of a pod. Once it is bound, only its requests matter.
func (r *recording) podChanges(at time.Duration, rec *recordedPod, pod *corev1.Pod) {
	plan := &r.in.workload.Pods[rec.plan]
	switch {
	case !rec.bound && pod.Spec.NodeName == "":
		plan.Updates = append(plan.Updates, PodUpdate{At: at, Pod: pod})
	case rec.bound:
		last := plan.Template
		if n := len(plan.Updates); n > 0 {
			last = plan.Updates[n-1].Pod
		}
		if equality.Semantic.DeepEqual(requestsOf(last), requestsOf(pod)) {
			return
		}
		resized := last.DeepCopy()
		resized.Spec.Resources, resized.Spec.Containers = pod.Spec.Resources, pod.Spec.Containers
		resized.Spec.InitContainers = pod.Spec.InitContainers
		plan.Updates = append(plan.Updates, PodUpdate{At: at, Pod: resized})
	}
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// isDisrupted reports whether the pod says that it is to end for a reason outside of it: an eviction, a preemption, or
// the loss of its node.
func isDisrupted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// jobOf returns the job of a pod; the zero value for a pod without a controller.
func jobOf(pod *corev1.Pod) jobKey {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return jobKey{}
	}
	return jobKey{owner.UID, pod.Labels[batchv1.JobCompletionIndexAnnotation]}
}

// evict notes that a pod is to go, so that its controller makes another one.
func (r *recording) evict(rec *recordedPod) {
	if rec.evicted {
		return
	}
	rec.evicted = true
	if rec.bound && rec.job.controller != "" {
		r.open[rec.job] = append(r.open[rec.job], rec)
	}
}

// stays notes that a pod that was to go stays.
func (r *recording) stays(rec *recordedPod) {
	rec.evicted = false
	r.open[rec.job] = slices.DeleteFunc(r.open[rec.job], func(o *recordedPod) bool { return o == rec })
}

// maxReplacing is the longest time from the end of a pod to the pod that its controller makes instead of it. A pod that
// comes later counts as another job.
const maxReplacing = 10 * time.Minute

// instead returns the job of a pod that comes instead of one that was evicted or lost; nil for another pod.
func (r *recording) instead(at time.Duration, pod *corev1.Pod) *recordedPod {
	job := jobOf(pod)
	if job.controller == "" {
		return nil
	}
	r.open[job] = slices.DeleteFunc(r.open[job], func(o *recordedPod) bool {
		return o.ended > 0 && at > o.ended+maxReplacing
	})
	if len(r.open[job]) == 0 {
		return nil
	}
	before := r.open[job][0]
	r.open[job] = r.open[job][1:]
	before.left = true
	rec := &recordedPod{plan: before.plan, job: job}
	r.pods[pod.UID] = rec
	plan := &r.in.workload.Pods[rec.plan]
	plan.Duration, plan.Replaced, plan.Fails = 0, false, false
	if key, ok := plan.Group(); ok {
		r.members[key]++
	}
	switch _, there := r.nodes[before.node]; {
	case before.ended == 0:
	case !there:
		r.lost--
	default:
		r.evicted--
	}
	r.replaced++
	return rec
}

// podEnds adds the end of a pod. It returns the pod's plan, nil if there is no such pod.
func (r *recording) podEnds(at time.Duration, uid types.UID) *PodPlan {
	rec := r.pods[uid]
	if rec == nil {
		return nil
	}
	delete(r.pods, uid)
	plan := &r.in.workload.Pods[rec.plan]
	name := types.NamespacedName{Namespace: plan.Namespace, Name: plan.Name}
	if r.names[name] == uid {
		delete(r.names, name)
	}
	if key, ok := plan.Group(); ok {
		r.members[key]--
	}
	_, there := r.nodes[rec.node]
	if rec.bound && !there {
		r.evict(rec)
	}
	rec.ended = at
	switch {
	case rec.left: // the pod that came instead of it says how long the job runs
		return plan
	case !rec.bound:
		plan.Deadline = max(at, plan.Arrival+1)
		return plan
	}
	plan.Duration = max(at-rec.boundAt, 1)
	switch {
	case !there:
		r.lost++
	case rec.evicted:
		r.evicted++
	default:
		return plan
	}
	plan.Replaced = true
	return plan
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
	case eventlog.PersistentVolumeClaims:
		delete(r.claims, [2]string{p.Namespace, p.Name})
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
