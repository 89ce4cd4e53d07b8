package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Start is the virtual instant at which every simulation begins. All offsets in plans count from it and lie
// between 0 and MaxOffset.
var Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// MaxOffset bounds every offset and duration of a plan, so that no sum of two leaves the range of a log's time.
const MaxOffset = 100 * 365 * 24 * time.Hour

// The limits of readers and plans. They are far above any real cluster and far below the resources of a machine.
const (
	// MaxNodes is the largest number of nodes of a simulation.
	MaxNodes = 200_000
	// MaxPods is the largest number of pods of a workload.
	MaxPods = 10_000_000
	// MaxObjectPods is the largest number of pods that one object of Kubernetes can make. It is checked before any is
	// made.
	MaxObjectPods = 1_000_000
)

// NodePlan is the life of one node.
type NodePlan struct {
	// Node is the node as it joins. Its UID and creation time are filled in where they are empty. It is shared,
	// never changed.
	Node *corev1.Node
	// Joins is the time at which the node joins.
	Joins time.Duration
	// Fails is the time at which the node is lost and its pods with it; 0 is never. It lies after Joins.
	Fails time.Duration
	// Cordoned and Uncordoned are the times at which spec.unschedulable is set and cleared; 0 is never.
	Cordoned, Uncordoned time.Duration
	// Drained is the time at which it is cordoned and its pods are evicted; 0 is never.
	Drained time.Duration
	// Outages are the times at which its kubelet is not ready, or does not answer.
	Outages []Outage
	// Updates are other changes of the node. Changes at a time when the node does not exist are skipped.
	Updates []NodeUpdate
}

// Outage is a time at which a node exists and does not work as it should. The outages of a node do not overlap.
type Outage struct {
	// From is its beginning, after the node joins. Until is its end, after From; 0 is never.
	From, Until time.Duration
	// Unreachable says that the kubelet does not answer. Otherwise it answers that the node is not ready.
	Unreachable bool
}

// EndsBefore reports whether the outage has ended before a time.
func (o Outage) EndsBefore(at time.Duration) bool { return o.Until != 0 && o.Until < at }

// NodeUpdate is a change of a node.
type NodeUpdate struct {
	// At is the time at which the node changes.
	At time.Duration
	// Node is the node from then on; shared, never changed.
	Node *corev1.Node
}

// Workload is the input of a simulation: the pods and the objects that they need.
type Workload struct {
	// Objects are everything but nodes and pods, in the order in which they come where their times are equal.
	Objects []ObjectPlan
	// Pods are the pods, in the order in which they arrive where their times are equal.
	Pods []PodPlan
	// ClaimTemplates are the ResourceClaimTemplates from which claims are made for pods. They exist all the time.
	ClaimTemplates map[types.NamespacedName]*resourcev1.ResourceClaimTemplate
	// Quotas are the ResourceQuotas. They exist all the time.
	Quotas []*corev1.ResourceQuota
	// Notes tell people which parts of the source were left out or changed.
	Notes []string

	// schedulers are the scheduler names of the pods that come without a node.
	schedulers map[string]schedulerUse
}

// schedulerUse is the first pod for a scheduler, and its place.
type schedulerUse struct {
	pod string
	at  place
}

// CheckProfiles refuses, with an *InputError, a pod that comes without a node and is for none of the profiles, by their
// scheduler names: nobody would ever place it.
func (w *Workload) CheckProfiles(profiles []string) error {
	for _, name := range slices.Sorted(maps.Keys(w.schedulers)) {
		if use := w.schedulers[name]; !slices.Contains(profiles, name) {
			return &InputError{use.at.path, use.at.line, fmt.Errorf("pod %s: spec.schedulerName %q is none of the "+
				"configuration's profiles (%s), and nobody would place the pod: name one of them, or add a profile",
				use.pod, cut(name, 60), strings.Join(profiles, ", "))}
		}
	}
	return nil
}

// add adds another workload.
func (w *Workload) add(other *Workload) {
	w.Objects, w.Pods = append(w.Objects, other.Objects...), append(w.Pods, other.Pods...)
	w.Notes = append(w.Notes, other.Notes...)
	w.Quotas = append(w.Quotas, other.Quotas...)
	if w.ClaimTemplates == nil {
		w.ClaimTemplates = other.ClaimTemplates
	} else {
		maps.Copy(w.ClaimTemplates, other.ClaimTemplates)
	}
	if w.schedulers == nil {
		w.schedulers = map[string]schedulerUse{}
	}
	// any order: each name has one entry
	for name, use := range other.schedulers {
		if _, known := w.schedulers[name]; !known {
			w.schedulers[name] = use
		}
	}
}

// noteSchedulers notes the schedulers of the pods. path is their file. places are the places of pods, by "pods " and
// their names; nil if they are not known.
func (w *Workload) noteSchedulers(path string, places map[string]place) {
	w.schedulers = map[string]schedulerUse{}
	var last *corev1.Pod
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Template == last || p.Template.Spec.NodeName != "" {
			continue
		}
		last = p.Template
		if name := p.Template.Spec.SchedulerName; w.schedulers[name].pod == "" {
			pod := p.Namespace + "/" + p.Name
			at, known := places[string(eventlog.Pods)+" "+pod]
			if !known {
				at.path = path
			}
			w.schedulers[name] = schedulerUse{pod, at}
		}
	}
}

// ObjectPlan is the arrival, change or deletion of an object that is neither a node nor a pod.
type ObjectPlan struct {
	// At is the time at which it happens.
	At time.Duration
	// Resource is the object's resource.
	Resource eventlog.Resource
	// Object is the object from then on; for a deletion only namespace, name and UID count. Its UID and creation time
	// are filled in where they are empty. It is shared, never changed.
	Object eventlog.Object
	// Delete says that the object is deleted.
	Delete bool
}

// PodPlan is the life of one pod. The pod itself is built from it when it arrives.
type PodPlan struct {
	// Namespace and Name are the pod's.
	Namespace, Name string
	// UID is the pod's; "" to derive it from namespace and name.
	UID types.UID
	// Arrival is the time at which the pod is created.
	Arrival time.Duration
	// Duration is the time that the pod runs once it is bound; 0 is for ever. The pod's own spec.activeDeadlineSeconds
	// cuts it short.
	Duration time.Duration
	// Deadline is the time at which the pod is deleted, bound or not; 0 is never. It lies after Arrival.
	Deadline time.Duration
	// Template is the pod except for name, namespace, UID and creation time. A template with spec.nodeName makes a pod
	// that arrives already bound. Shared by pods, never changed.
	Template *corev1.Pod
	// Annotations, if not nil, are the pod's instead of the template's. Shared by pods, never changed.
	Annotations map[string]string
	// Labels, if not nil, are the pod's instead of the template's. Shared by pods, never changed.
	Labels map[string]string
	// PodGroup, if not empty, becomes the pod's spec.schedulingGroup.podGroupName.
	PodGroup string
	// Batch, if not nil, holds the pod back until its turn.
	Batch *Batch
	// Updates are changes of the pod. Once it is bound, only changes of its requests are carried out.
	Updates []PodUpdate
	// Fails says that the pod fails at the end of its Duration. Otherwise it succeeds.
	Fails bool
	// Controller makes the pod again after it was evicted or lost; nil for none. Shared by pods, never changed.
	Controller *Controller
	// Replaced says that the workload has this pod's replacement, so that no pod is to be made again.
	Replaced bool
}

// PodUpdate is a change of a pod.
type PodUpdate struct {
	// At is the time at which the pod changes; it lies after its arrival.
	At time.Duration
	// Pod is the pod from then on; shared, never changed.
	Pod *corev1.Pod
}

// Batch is a set of pods of which only some exist at a time, such as the pods of a Job. The first Parallelism of the
// plans that share a Batch arrive at their Arrival. Each of the others arrives, in order, when one ends.
type Batch struct {
	// Parallelism is the number that exist at a time, at least 1.
	Parallelism int
}

// uidSpace is the namespace of all derived UIDs.
var uidSpace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("rollcall.dev"))

// UID derives the UID of a simulated object: a version 5 UUID of its resource, namespace and name.
func UID(resource eventlog.Resource, namespace, name string) types.UID {
	key := string(resource) + "/" + name
	if namespace != "" {
		key = string(resource) + "/" + namespace + "/" + name
	}
	return types.UID(uuid.NewSHA1(uidSpace, []byte(key)).String())
}

// declarations are the annotations that declare how long pods will hold their resources, one for all pods of a
// duration.
type declarations map[time.Duration]map[string]string

func (d declarations) of(duration time.Duration) map[string]string {
	annotations := d[duration]
	if annotations == nil {
		annotations = map[string]string{DurationAnnotation: duration.String()}
		d[duration] = annotations
	}
	return annotations
}

// Build makes the pod with that UID that arrived at t and has template's present fields. It shares the template's
// fields below their first level.
func (p *PodPlan) Build(template *corev1.Pod, uid types.UID, t time.Duration) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec, Status: template.Status}
	pod.Namespace, pod.Name, pod.UID = p.Namespace, p.Name, uid
	if p.Annotations != nil {
		pod.Annotations = p.Annotations
	}
	if p.Labels != nil {
		pod.Labels = p.Labels
	}
	if pod.CreationTimestamp.IsZero() {
		pod.CreationTimestamp = metav1.NewTime(Start.Add(t))
	}
	if p.PodGroup != "" {
		name := p.PodGroup
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	return pod
}

// EffectiveUID returns the pod's UID, derived if the plan gives none.
func (p *PodPlan) EffectiveUID() types.UID {
	if p.UID != "" {
		return p.UID
	}
	return UID(eventlog.Pods, p.Namespace, p.Name)
}

// Runs returns the time for which the pod runs once bound, 0 for ever.
func (p *PodPlan) Runs() time.Duration {
	d := p.Duration
	if s := p.Template.Spec.ActiveDeadlineSeconds; s != nil {
		if limit := time.Duration(*s) * time.Second; d == 0 || limit < d {
			d = limit
		}
	}
	return d
}

// Group returns the name of the pod's group; ok is false for a pod without a group.
func (p *PodPlan) Group() (name types.NamespacedName, ok bool) {
	if p.PodGroup != "" {
		return types.NamespacedName{Namespace: p.Namespace, Name: p.PodGroup}, true
	}
	name, ok = cluster.GroupName(p.Template)
	name.Namespace = p.Namespace // a template may have none
	return name, ok
}

// GroupMinimum returns the number of members that the group needs at once; gang is false for a group without a
// minimum, and for an object that is no group.
func GroupMinimum(o eventlog.Object) (minimum int, gang bool) {
	switch g := o.(type) {
	case *schedulingv1beta1.PodGroup:
		if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
			return max(1, int(gang.MinCount)), true
		}
	case *v1alpha1.PodGroup:
		return max(1, int(g.Spec.MinMember)), true
	case *volcano.PodGroup:
		return max(1, cluster.GangSize(eventlog.VolcanoPodGroups, o)), true
	case *kai.PodGroup:
		return max(1, cluster.GangSize(eventlog.KAIPodGroups, o)), true
	}
	return 0, false
}

// Check returns an error if the plan is invalid.
func (p *PodPlan) Check() error {
	if err := CheckOffset(p.Arrival, p.Duration, p.Deadline); err != nil {
		return err
	}
	if p.Deadline != 0 && p.Deadline <= p.Arrival {
		return fmt.Errorf("deadline %s is not after its arrival at %s", p.Deadline, p.Arrival)
	}
	if p.Batch != nil && p.Batch.Parallelism < 1 {
		return fmt.Errorf("parallelism %d of its batch is below 1", p.Batch.Parallelism)
	}
	for _, u := range p.Updates {
		if err := CheckOffset(u.At); err != nil {
			return err
		}
	}
	return nil
}

// CheckOffset returns an error for an offset outside [0, MaxOffset].
func CheckOffset(offsets ...time.Duration) error {
	for _, d := range offsets {
		if d < 0 || d > MaxOffset {
			return fmt.Errorf("offset or duration %s lies outside 0 and %s", d, MaxOffset)
		}
	}
	return nil
}

// ObjectName returns namespace/name, or the name of an object without a namespace.
func ObjectName(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}
