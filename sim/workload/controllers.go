package workload

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// deploymentKind is not a resource of the log: a Deployment becomes a ReplicaSet and its pods.
var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// replicated is an object of the file that asks for a number of pods from one template.
type replicated struct {
	kind     schema.GroupVersionKind
	object   metav1.Object
	replicas *int32
	// selector is nil for one that the object leaves to its template (a ReplicationController).
	selector *metav1.LabelSelector
	template *corev1.PodTemplateSpec
	// set is the StatefulSet, whose pods have identities of their own; nil for the others.
	set *appsv1.StatefulSet
}

// replicatedOf returns a ReplicaSet, ReplicationController or StatefulSet as replicated; nil for other objects.
func replicatedOf(object eventlog.Object) *replicated {
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		return &replicated{kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), object: o,
			replicas: o.Spec.Replicas, selector: o.Spec.Selector, template: &o.Spec.Template}
	case *appsv1.StatefulSet:
		return &replicated{kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), object: o,
			replicas: o.Spec.Replicas, selector: o.Spec.Selector, template: &o.Spec.Template, set: o}
	case *corev1.ReplicationController:
		r := &replicated{kind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), object: o,
			replicas: o.Spec.Replicas, template: o.Spec.Template}
		if len(o.Spec.Selector) > 0 {
			r.selector = &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		} else if o.Spec.Template != nil {
			r.selector = &metav1.LabelSelector{MatchLabels: o.Spec.Template.Labels}
		}
		return r
	}
	return nil
}

// addDeployment adds a Deployment, a kind that the log does not have.
func (m *manifest) addDeployment(d *document) error {
	o := &appsv1.Deployment{}
	if err := d.decode(o); err != nil {
		return err
	}
	if err := m.identify(d, "deployments.apps", o, true); err != nil {
		return err
	}
	m.pods = append(m.pods, podSource{doc: d, replicated: &replicated{
		kind: deploymentKind, object: o, replicas: o.Spec.Replicas, selector: o.Spec.Selector,
		template: &o.Spec.Template,
	}})
	return nil
}

// String names the object in messages.
func (r *replicated) String() string { return r.kind.Kind + " " + ObjectName(r.object) }

// key is the key with which objects name their controller.
func (r *replicated) key() ownerKey {
	return ownerKey{r.kind.GroupKind(), types.NamespacedName{
		Namespace: r.object.GetNamespace(), Name: r.object.GetName()}}
}

// uid returns the UID that the object has in the simulation.
func (r *replicated) uid() types.UID {
	if uid := r.object.GetUID(); uid != "" {
		return uid
	}
	resource := map[string]eventlog.Resource{
		"ReplicaSet": eventlog.ReplicaSets, "StatefulSet": eventlog.StatefulSets,
		"ReplicationController": eventlog.ReplicationControllers, "Deployment": "deployments.apps",
	}[r.kind.Kind]
	return UID(resource, r.object.GetNamespace(), r.object.GetName())
}

// size is the number of pods that the object asks for, 1 by default.
func (r *replicated) size() int32 {
	if r.replicas == nil {
		return 1
	}
	return *r.replicas
}

// ownerKey is an object that controls others.
type ownerKey struct {
	kind schema.GroupKind
	name types.NamespacedName
}

// ownership knows the controllers of the file's pods and ReplicaSets.
type ownership struct {
	// owned counts the living pods that name a controller.
	owned map[ownerKey]int
	// pods are one pod of each controller, for messages.
	pods map[ownerKey]string
	// pods has one pod of each controller, for messages.
	parts map[ownerKey]string
	// parts has one object of each controller that makes pods and is not a pod.
	orphans map[string][]*corev1.Pod
	// orphans are the living pods without a controller, by namespace.
	sets []*replicated
}

// newOwnership looks through all sources of pods.
func newOwnership(sources []podSource) *ownership {
	o := &ownership{owned: map[ownerKey]int{}, pods: map[ownerKey]string{}, parts: map[ownerKey]string{},
		orphans: map[string][]*corev1.Pod{}}
	for _, s := range sources {
		if object, name := s.maker(); object != nil {
			if key, ok := controllerOf(object); ok {
				o.parts[key] = name
			}
		}
		if s.replicated != nil && s.replicated.kind.Kind == "ReplicaSet" {
			o.sets = append(o.sets, s.replicated)
		}
		if s.pod == nil || hasEnded(s.pod) || s.pod.DeletionTimestamp != nil {
			continue
		}
		if key, ok := controllerOf(s.pod); ok {
			o.owned[key]++
			o.pods[key] = ObjectName(s.pod)
		} else if len(s.pod.Labels) > 0 {
			o.orphans[s.pod.Namespace] = append(o.orphans[s.pod.Namespace], s.pod)
		}
	}
	return o
}

// maker returns the object that makes pods, and its kind and name; nil for a pod.
func (s podSource) maker() (object metav1.Object, name string) {
	switch {
	case s.job != nil:
		return s.job, jobKind.Kind + " " + ObjectName(s.job)
	case s.replicated != nil:
		return s.replicated.object, s.replicated.String()
	case s.owner != nil:
		return &s.owner.meta, s.owner.String()
	}
	return nil, ""
}

// hasEnded reports whether a pod has stopped running.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// controllerOf returns the object that controls o; ok is false if there is none.
func controllerOf(o metav1.Object) (key ownerKey, ok bool) {
	ref := metav1.GetControllerOf(o)
	if ref == nil {
		return key, false
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return ownerKey{kind, types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}}, true
}

// existing counts r's pods in the file: the ones that name it, and the ones without a controller that it would adopt.
func (o *ownership) existing(r *replicated, selector labels.Selector) int {
	n := o.owned[r.key()]
	for _, pod := range o.orphans[r.object.GetNamespace()] {
		if selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return n
}

// setsOf returns the number of the Deployment's ReplicaSets in the file, and the number of pods they ask for.
func (o *ownership) setsOf(deployment *replicated, selector labels.Selector) (sets int, pods int64) {
	for _, set := range o.sets {
		key, owned := controllerOf(set.object)
		adopted := !owned && set.object.GetNamespace() == deployment.object.GetNamespace() &&
			selector.Matches(labels.Set(set.object.GetLabels()))
		if owned && key == deployment.key() || adopted {
			sets++
			pods += int64(set.size())
		}
	}
	return sets, pods
}

// addReplicas adds the pods that an object's controller would make in addition to the ones in the file.
func (m *manifest) addReplicas(d *document, r *replicated) error {
	plan, selector, err := m.planReplicas(d, r)
	if err != nil {
		return err
	}
	count := r.size()
	if r.kind == deploymentKind {
		if sets, pods := m.ownership.setsOf(r, selector); sets > 0 {
			if pods != int64(count) {
				m.in.note("%s asks for %s and its ReplicaSets in the file for %d: those of the ReplicaSets are made",
					r, counted(int(count), "pod", "pods"), pods)
			}
			return nil
		}
		r = m.replicaSetOf(r, plan.Arrival)
	}
	if r.set != nil {
		return m.addStatefulPods(d, r, plan, count)
	}
	there := m.ownership.existing(r, selector)
	if int64(there) > int64(count) {
		m.in.note("%s asks for %s and has %d in the file: all of them are kept", r,
			counted(int(count), "pod", "pods"), there)
	}
	template, err := m.replicaPod(d, r, plan)
	if err != nil {
		return err
	}
	plan.Template = template
	for k := there; k < int(count); k++ {
		if plan.Name, err = m.generatedName(r.String(), plan.Namespace, r.object.GetName()+"-", k); err != nil {
			return d.errorf("", "%w", err)
		}
		if err := m.addReplica(d, plan); err != nil {
			return err
		}
	}
	return nil
}

// planReplicas checks an object and returns the common part of its pods' plans, and its selector.
func (m *manifest) planReplicas(d *document, r *replicated) (plan PodPlan, selector labels.Selector, err error) {
	plan.Namespace = r.object.GetNamespace()
	if err := d.checkForeignAnnotations(r.object.GetAnnotations(), "", r.String()); err != nil {
		return plan, nil, err
	}
	if n := r.size(); n < 0 || n > MaxObjectPods {
		return plan, nil, d.errorf("spec.replicas", "spec.replicas: %d lies outside 0 and %d", n, MaxObjectPods)
	} else if err := m.checkRoom(d, "spec.replicas", r.String(), int64(n)); err != nil {
		return plan, nil, err
	}
	if r.template == nil {
		return plan, nil, d.errorf("spec", "spec.template: %s has no template to make pods of", r)
	}
	if o, ok := r.object.(*appsv1.Deployment); ok && o.Spec.Paused {
		return plan, nil, d.errorf("spec.paused", "spec.paused: a paused Deployment makes no pods: unpause %s, or "+
			"leave "+
			"it out", ObjectName(o))
	}
	if selector, err = metav1.LabelSelectorAsSelector(r.selector); err != nil {
		return plan, nil, d.errorf("spec.selector", "spec.selector: %w", err)
	}
	if selector.Empty() || !selector.Matches(labels.Set(r.template.Labels)) {
		return plan, nil, d.errorf("spec.selector", "spec.selector: it does not match the labels of the template of %s",
			r)
	}
	if policy := r.template.Spec.RestartPolicy; policy != "" && policy != corev1.RestartPolicyAlways {
		return plan, nil, d.errorf(templatePrefix+"spec.restartPolicy", templatePrefix+"spec.restartPolicy: %q: the "+
			"pods of a %s restart Always", policy, r.kind.Kind)
	}
	times, err := d.times("", r.object.GetAnnotations(), nil, ArrivalAnnotation, DurationAnnotation)
	if err != nil {
		return plan, nil, err
	}
	inner, err := d.times(templatePrefix, r.template.Annotations,
		memberAnnotations(&corev1.Pod{ObjectMeta: r.template.ObjectMeta, Spec: r.template.Spec}), DurationAnnotation)
	if err != nil {
		return plan, nil, err
	}
	plan.Arrival, plan.Duration = times[ArrivalAnnotation], times[DurationAnnotation]
	if own, given := inner[DurationAnnotation]; given {
		plan.Duration = own
	}
	return plan, selector, nil
}

// addReplica adds a pod.
func (m *manifest) addReplica(d *document, plan PodPlan) error {
	plan.Controller = ControllerOf(plan.Template)
	if err := m.unique(d, string(eventlog.Pods), plan.Namespace+"/"+plan.Name); err != nil {
		return err
	}
	return m.addPod(d, plan)
}

// replicaSetOf makes the ReplicaSet of a Deployment that has none in the file, with the name that its controller would
// give.
func (m *manifest) replicaSetOf(r *replicated, at time.Duration) *replicated {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*r.template))
	hash := rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.object.GetNamespace(), Name: r.object.GetName() + "-" + hash,
		OwnerReferences: []metav1.OwnerReference{r.reference()},
	}}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.Template = r.replicas, r.selector.DeepCopy(), *r.template.DeepCopy()
	metav1.SetMetaDataLabel(&set.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	set.Spec.Selector = metav1.AddLabelToSelector(set.Spec.Selector, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	set.Labels = maps.Clone(set.Spec.Template.Labels)
	if text, given := r.object.GetAnnotations()[DurationAnnotation]; given {
		set.Annotations = map[string]string{DurationAnnotation: text}
	}
	m.in.workload.Objects = append(m.in.workload.Objects,
		ObjectPlan{At: at, Resource: eventlog.ReplicaSets, Object: set})
	return replicatedOf(set)
}

// reference is the owner reference with which a pod, or a ReplicaSet, names its controller.
func (r *replicated) reference() metav1.OwnerReference {
	object := &metav1.ObjectMeta{Name: r.object.GetName(), UID: r.uid()}
	return *metav1.NewControllerRef(object, r.kind)
}

// replicaPod makes the pod of which the object's pods are copies.
func (m *manifest) replicaPod(d *document, r *replicated, plan PodPlan) (*corev1.Pod, error) {
	t := r.template
	pod := &corev1.Pod{Spec: *t.Spec.DeepCopy()}
	pod.Namespace, pod.Name = plan.Namespace, r.object.GetName()+"-0"
	if len(pod.Name) > validNameLength {
		pod.Name = pod.Name[:generatedBase] // a placeholder for the check
	}
	pod.Labels, pod.Annotations = maps.Clone(t.Labels), maps.Clone(t.Annotations)
	pod.OwnerReferences = []metav1.OwnerReference{r.reference()}
	text, given := r.object.GetAnnotations()[DurationAnnotation]
	if given && pod.Annotations[DurationAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, DurationAnnotation, text)
	}
	if r.set != nil {
		pod.Spec.Volumes = withClaims(r.set, pod.Spec.Volumes, "0") // its containers may mount them
	}
	setDefaults(pod)
	if err := m.finishPod(d, pod, templatePrefix); err != nil {
		return nil, err
	}
	return pod, nil
}

// withClaims returns the volumes of the pod of a StatefulSet with that number: its claims, and the volumes of the
// template that have other names.
func withClaims(set *appsv1.StatefulSet, template []corev1.Volume, number string) (volumes []corev1.Volume) {
	claimed := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		claimed[name] = true
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: name + "-" + set.Name + "-" + number},
		}})
	}
	for _, v := range template {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

// addStatefulPods adds the pods of a StatefulSet that are not in the file, and their claims. They come all at once, in
// the order of their numbers.
func (m *manifest) addStatefulPods(d *document, r *replicated, plan PodPlan, count int32) error {
	template, err := m.replicaPod(d, r, plan)
	if err != nil {
		return err
	}
	start := int64(0)
	if o := r.set.Spec.Ordinals; o != nil {
		if start = int64(o.Start); start < 0 || start > math.MaxInt32-int64(count) {
			return d.errorf("spec.ordinals.start", "spec.ordinals.start: %d lies outside 0 and %d", start,
				math.MaxInt32-int64(count))
		}
	}
	if count > 1 && r.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		m.in.note("the pods of %s come all at once, and not each when the one before it is ready", r)
	}
	for k := start; k < start+int64(count); k++ {
		number := strconv.FormatInt(k, 10)
		plan.Name = r.object.GetName() + "-" + number
		if _, there := m.places[string(eventlog.Pods)+" "+plan.Namespace+"/"+plan.Name]; there {
			continue
		}
		pod := *template
		pod.Labels = maps.Clone(template.Labels)
		pod.Labels[appsv1.StatefulSetPodNameLabel] = plan.Name
		pod.Labels[appsv1.PodIndexLabel] = number
		pod.Spec.Hostname, pod.Spec.Subdomain = plan.Name, r.set.Spec.ServiceName
		if err := m.addClaims(d, r.set, &pod, number, plan.Arrival); err != nil {
			return err
		}
		plan.Template = &pod
		if err := m.addReplica(d, plan); err != nil {
			return err
		}
	}
	return nil
}

// addClaims gives a pod of a StatefulSet the claims of the set's templates. It makes the ones that are not in the
// file.
func (m *manifest) addClaims(d *document, set *appsv1.StatefulSet, pod *corev1.Pod, number string,
	at time.Duration) error {
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	pod.Spec.Volumes = withClaims(set, pod.Spec.Volumes, number)
	for i := range set.Spec.VolumeClaimTemplates {
		claim := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		claim.Namespace, claim.Name = set.Namespace, claim.Name+"-"+set.Name+"-"+number
		key := string(eventlog.PersistentVolumeClaims) + " " + ObjectName(claim)
		if _, there := m.places[key]; there {
			continue
		}
		m.places[key] = d.place()
		defaults.Default(claim)
		prefix := "spec.volumeClaimTemplates[" + strconv.Itoa(i) + "]."
		if err := d.invalid(validate(claim), prefix); err != nil {
			return err
		}
		if err := m.admission.claim(claimSource{d, claim}); err != nil {
			return err
		}
		m.in.workload.Objects = append(m.in.workload.Objects,
			ObjectPlan{At: at, Resource: eventlog.PersistentVolumeClaims, Object: claim})
	}
	return nil
}
