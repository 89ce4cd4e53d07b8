package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// The annotations that give objects their virtual times. Offsets are Go durations from the start (90s, 1h30m).
const (
	// ArrivalAnnotation is the time at which the object is created: an offset, or an RFC 3339 time that is not before
	// Start. Every kind but Node takes it.
	ArrivalAnnotation = "rollcall.dev/arrival"
	// DurationAnnotation is the time that a Pod, or each pod of a Job, runs once bound, above 0; without it, for ever.
	DurationAnnotation = "rollcall.dev/duration"
)

// annotationPrefix begins all annotations of ours: an unknown one is an error.
const annotationPrefix = "rollcall.dev/"

// jobKind is not a resource of the log: a Job becomes its pods.
var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// manifest reads the objects of Kubernetes files.
type manifest struct {
	in *input
	// kinds are the kinds that the log knows, by group, version and kind.
	kinds map[schema.GroupVersionKind]eventlog.Resource
	// places are the places of objects, by resource and name.
	places map[string]place
	// pods and claims are kept back until the admission plugins know all objects that they read.
	pods      []podSource
	claims    []claimSource
	admission admitter
	// ownership is known once all documents are read.
	ownership *ownership
	// ended counts the pods that are left out, endedOwners by kind the ended objects that made pods, and suspended the
	// suspended ones.
	dropped     dropped
	ended       int
	endedOwners map[string]int
	suspended   map[string]int
	// deleted counts the pods that are being deleted.
	deleted int
	// leftOut counts the objects that play no part in scheduling, by kind.
	leftOut map[string]int
	// generated counts, by resource and generateName, the objects with a generated name.
	generated map[string]int
	// made are the PodGroups that are not in the file, by the object that makes them.
	made map[types.NamespacedName]string
}

// podSource is a Pod, a Job, an object that asks for replicas of a pod, or an object of a kind of the table podKinds.
type podSource struct {
	doc        *document
	pod        *corev1.Pod
	job        *batchv1.Job
	replicated *replicated
	owner      *podOwner
}

// newManifest returns a manifest that adds to in. Objects are decoded strictly and given the API's defaults. Pods,
// nodes, volumes and claims are checked as the API server does, with two exceptions, since nothing is run: a container
// may have no image, and a Job's pods no restart policy.
func newManifest(in *input) *manifest {
	m := &manifest{
		in: in, kinds: map[schema.GroupVersionKind]eventlog.Resource{}, places: map[string]place{},
		admission: admitter{in: in, counts: map[admitted]*admittedCount{}}, endedOwners: map[string]int{},
		suspended: map[string]int{}, leftOut: map[string]int{}, dropped: newDropped(),
		generated: map[string]int{}, made: map[types.NamespacedName]string{},
	}
	for _, res := range eventlog.Resources() {
		m.kinds[eventlog.KindFor(res)] = res
	}
	return m
}

// finish adds the pods, once all files are read.
func (m *manifest) finish() error {
	in := m.in
	if err := m.checkTotal(); err != nil {
		return err
	}
	for _, source := range m.claims {
		if err := m.admission.claim(source); err != nil {
			return err
		}
	}
	m.ownership = newOwnership(m.pods)
	for _, source := range m.pods {
		before := len(in.workload.Pods)
		if err := m.addPods(source); err != nil {
			return err
		}
		m.dropped.gangless(source, in.workload.Pods[before:])
	}
	in.places = m.places
	m.noteMeaningless()
	m.admission.note()
	in.noteUnbindable()
	if m.ended > 0 {
		in.note("%s left out", counted(m.ended, "pod that has ended is", "pods that have ended are"))
	}
	if m.deleted > 0 {
		in.note("%s", counted(m.deleted, "pod that is being deleted is gone after its grace period",
			"pods that are being deleted are gone after their grace periods"))
	}
	for _, kind := range slices.Sorted(maps.Keys(m.endedOwners)) {
		in.note("%s left out", counted(m.endedOwners[kind], kind+" that has ended is", kind+"s that have ended are"))
	}
	for _, kind := range slices.Sorted(maps.Keys(m.suspended)) {
		in.note("%s: those of one that is resumed come with suspend: false at %s", counted(m.suspended[kind],
			kind+" that is suspended makes no pods", kind+"s that are suspended make no pods"), ArrivalAnnotation)
	}
	m.dropped.note(in)
	return nil
}

// add adds one document.
func (m *manifest) add(d *document) error {
	var t metav1.TypeMeta
	if err := json.Unmarshal(d.body, &t); err != nil {
		return d.errorf("", "not an API object: %w", err)
	}
	if t.APIVersion == "" || t.Kind == "" {
		return d.errorf("", "apiVersion or kind is missing")
	}
	kind := schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
	if t.APIVersion == "v1" && t.Kind == "List" {
		return m.addList(d)
	}
	m.dropped.read(d, kind)
	switch kind {
	case jobKind:
		return m.addJob(d)
	case deploymentKind:
		return m.addDeployment(d)
	case claimTemplateKind:
		return m.addClaimTemplate(d)
	}
	if row := podKindOf(kind); row != nil && (row.needs == "" || d.annotated(row.needs)) {
		return m.addOwner(d, row)
	}
	for _, own := range m.in.own {
		if kind == own.GroupVersionKind() {
			return m.addOwn(d, own)
		}
	}
	res, known := m.kinds[kind]
	if !known {
		return m.addUnlogged(d, kind)
	}
	if res == eventlog.VolcanoPodGroups || res == eventlog.KAIPodGroups {
		var err error
		if d, err = d.withoutStatus(); err != nil {
			return err
		}
	}
	object := eventlog.NewObject(res)
	if err := d.decode(object); err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if err := m.identify(d, string(res), object, eventlog.Namespaced(res)); err != nil {
		return err
	}
	return m.addObject(d, res, object)
}

// addList adds the items of a List.
func (m *manifest) addList(d *document) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta   `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := d.decode(&list); err != nil {
		return err
	}
	for i, body := range list.Items {
		item := &document{path: d.path, line: d.line, offset: d.offset, body: body}
		if d.tree != nil {
			item.tree = deepest(d.tree, []string{"items", fmt.Sprint(i)})
			item.line = d.offset + item.tree.Line
			if item.tree.Kind == 0 {
				item.tree = nil
			}
		}
		if err := m.add(item); err != nil {
			return err
		}
	}
	return nil
}

// identify gives a namespaced object its namespace and checks that its name is unique.
func (m *manifest) identify(d *document, resource string, o metav1.Object, namespaced bool) error {
	if namespaced && o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	if o.GetName() == "" && o.GetGenerateName() != "" && namespaced {
		name, err := m.nameFor(resource, o.GetNamespace(), o.GetGenerateName())
		if err != nil {
			return d.errorf("metadata.generateName", "%w", err)
		}
		o.SetName(name)
	}
	if o.GetName() == "" {
		return d.errorf("metadata", "metadata.name is missing")
	}
	if err := d.invalid(validateMeta(o, namespaced), ""); err != nil {
		return err
	}
	if err := d.checkLabels("", o.GetLabels()); err != nil {
		return err
	}
	return m.unique(d, resource, ObjectName(o))
}

// checkLabels refuses one of our annotations that is used as a label. prefix is the path of the labelled object in the
// document.
func (d *document) checkLabels(prefix string, labels map[string]string) error {
	for _, name := range slices.Concat(cluster.OwnAnnotations(), []string{ArrivalAnnotation, DurationAnnotation},
		nodeTimes, nodeOutages) {
		if _, given := labels[name]; given {
			return d.errorf(prefix+"metadata.labels."+name, "label %s has no meaning here: it is an annotation", name)
		}
	}
	return nil
}

// unique checks that no two objects of a resource have the same name.
func (m *manifest) unique(d *document, resource, name string) error {
	key := resource + " " + name
	if first, twice := m.places[key]; twice && first.path != d.path {
		return d.errorf("metadata.name", "%s stands twice, first at %s:%d", key, first.path, first.line)
	} else if twice {
		return d.errorf("metadata.name", "%s stands twice, first on line %d", key, first.line)
	}
	m.places[key] = d.place()
	return nil
}

// addObject adds an object of a resource that the log knows.
func (m *manifest) addObject(d *document, res eventlog.Resource, object eventlog.Object) error {
	dateTaints(object)
	defaults.Default(object)
	switch o := object.(type) {
	case *corev1.Node:
		return m.addNode(d, o)
	case *corev1.Pod:
		m.pods = append(m.pods, podSource{doc: d, pod: o})
		return nil
	case *corev1.PersistentVolumeClaim:
		m.claims = append(m.claims, claimSource{d, o})
	case *corev1.PersistentVolume:
		makeAvailable(o)
	}
	if err := d.invalid(validate(object), ""); err != nil {
		return err
	}
	if err := m.admission.read(object); err != nil {
		return d.errorf("", "%w", err)
	}
	if err := d.checkGang(res, object, ""); err != nil {
		return err
	}
	var says []string
	if cluster.DeclaresGroups(res) {
		says = cluster.OwnAnnotations()
	}
	allowed := []string{ArrivalAnnotation}
	if r := replicatedOf(object); r != nil {
		m.pods = append(m.pods, podSource{doc: d, replicated: r})
		allowed = append(allowed, DurationAnnotation)
	}
	times, err := d.times("", object.GetAnnotations(), says, allowed...)
	if err != nil {
		return err
	}
	m.in.workload.Objects = append(m.in.workload.Objects,
		ObjectPlan{At: times[ArrivalAnnotation], Resource: res, Object: object})
	return nil
}

// makeAvailable gives an unclaimed volume without a phase the phase that the PersistentVolume controller would. With
// the phase from the API's defaults, VolumeBinding ignores the volume.
func makeAvailable(pv *corev1.PersistentVolume) {
	if (pv.Status.Phase == "" || pv.Status.Phase == corev1.VolumePending) && pv.Spec.ClaimRef == nil {
		pv.Status.Phase = corev1.VolumeAvailable
	}
}

// addPods adds the pods of a source.
func (m *manifest) addPods(s podSource) error {
	switch {
	case s.job != nil:
		return m.addJobPods(s.doc, s.job)
	case s.replicated != nil:
		return m.addReplicas(s.doc, s.replicated)
	case s.owner != nil:
		return m.addOwnersPods(s.doc, s.owner)
	}
	if hasEnded(s.pod) {
		m.ended++
		return nil
	}
	times, err := s.doc.times("", s.pod.Annotations, memberAnnotations(s.pod), ArrivalAnnotation, DurationAnnotation)
	if err != nil {
		return err
	}
	if err := m.finishPod(s.doc, s.pod, ""); err != nil {
		return err
	}
	plan := PodPlan{
		Namespace: s.pod.Namespace, Name: s.pod.Name, UID: s.pod.UID, Template: s.pod,
		Arrival: times[ArrivalAnnotation], Duration: times[DurationAnnotation], Controller: ControllerOf(s.pod),
	}
	if s.pod.DeletionTimestamp != nil {
		m.deleted++
		plan.Deadline = plan.Arrival + gracePeriod(s.pod)
	}
	return m.addPod(s.doc, plan)
}

// gracePeriod is the time for which a pod that is being deleted may still run, at least a second.
func gracePeriod(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if s := cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds); s != nil {
		seconds = *s
	}
	return time.Duration(min(max(1, seconds), maxSeconds)) * time.Second
}

// addPod adds a plan.
func (m *manifest) addPod(d *document, plan PodPlan) error {
	if len(m.in.workload.Pods) >= MaxPods {
		return d.errorf("", "more than %d pods", MaxPods)
	}
	m.in.workload.Pods = append(m.in.workload.Pods, plan)
	return nil
}

// finishPod gives a pod the values that admission would, and checks it. prefix is the path of the pod in the document.
func (m *manifest) finishPod(d *document, pod *corev1.Pod, prefix string) error {
	if err := m.admission.pod(d, pod, prefix); err != nil {
		return err
	}
	if err := d.invalid(validate(pod), prefix); err != nil {
		return err
	}
	if err := d.checkLabels(prefix, pod.Labels); err != nil {
		return err
	}
	if err := d.checkForeign(pod, prefix); err != nil {
		return err
	}
	return d.checkGang(eventlog.Pods, pod, prefix)
}

// checkGang refuses an object whose gang would be refused, and a gang of more pods than a workload can have.
func (d *document) checkGang(res eventlog.Resource, object eventlog.Object, prefix string) error {
	path := strings.TrimSuffix(prefix, ".")
	if fault := cluster.Fault(res, object); fault != "" {
		// The text begins "has FIELD" or "has annotation NAME".
		words := append(strings.Fields(fault), "", "", "")
		if at := strings.TrimSuffix(words[1], ":"); at == "annotation" {
			path = prefix + "metadata.annotations." + words[2]
		} else if strings.HasPrefix(at, "spec.") {
			path = prefix + at
		}
		return d.errorf(path, "%s %s %s", res, ObjectName(object), fault)
	}
	if n := cluster.GangSize(res, object); n > MaxPods {
		return d.errorf(path, "%s %s: a gang of %d: a workload has at most %d pods", res, ObjectName(object), n,
			MaxPods)
	}
	return nil
}

// memberAnnotations are our annotations about the pod's gang; there are none without a gang.
func memberAnnotations(pod *corev1.Pod) []string {
	if _, ok := cluster.GroupName(pod); !ok {
		return nil
	}
	return cluster.OwnAnnotations()
}

// times reads our annotations. The ones in says are left to the scheduler, the allowed ones are times, and all others
// are errors. prefix is the path of the annotated object in the document.
func (d *document) times(prefix string, annotations map[string]string, says []string,
	allowed ...string) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	prefix += "metadata.annotations."
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(name, annotationPrefix) && !slices.Contains(allowed, name) &&
			!slices.Contains(says, name) {
			return nil, d.errorf(prefix+name, "annotation %s has no meaning here%s", cut(name, 60),
				didYouMean(name, slices.Concat(allowed, says)))
		}
	}
	for _, name := range allowed {
		text, given := annotations[name]
		if !given {
			continue
		}
		at, err := parseOffset(name, text)
		if err != nil {
			return nil, d.errorf(prefix+name, "annotation %s: %w", name, err)
		}
		times[name] = at
	}
	return times, nil
}

// parseOffset reads the value of one of our annotations.
func parseOffset(name, text string) (time.Duration, error) {
	at, err := ParseDuration(text)
	if err != nil {
		t, timeErr := time.Parse(time.RFC3339Nano, text)
		if timeErr != nil || name != ArrivalAnnotation {
			return 0, fmt.Errorf("%q is not a duration such as 90s or 1h30m", cut(text, 40))
		}
		at = t.Sub(Start)
	}
	if at < 0 || at > MaxOffset {
		return 0, fmt.Errorf("%q lies outside %s and %s", cut(text, 40), Start.Format(time.RFC3339),
			Start.Add(MaxOffset).Format(time.RFC3339))
	}
	if at == 0 && name != ArrivalAnnotation && name != JoinsAnnotation {
		return 0, fmt.Errorf("%q is not above 0", cut(text, 40))
	}
	return at, nil
}
