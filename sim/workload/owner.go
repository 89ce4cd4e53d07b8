package workload

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
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

// podOwner is an object of the file that makes pods, of a kind of the table podKinds.
type podOwner struct {
	row     *podKind
	version string
	meta    metav1.ObjectMeta
	tree    map[string]any
	// cluster is the name of the Ray cluster.
	cluster string
	// pods is the total number of pods of its sets so far.
	pods int64
}

// podKindOf returns the row of the table, nil if the kind has none.
func podKindOf(kind schema.GroupVersionKind) *podKind {
	for i := range podKinds {
		if podKinds[i].kind == kind.GroupKind() && slices.Contains(podKinds[i].versions, kind.Version) {
			return &podKinds[i]
		}
	}
	return nil
}

// String names the object in messages.
func (o *podOwner) String() string { return o.row.String() + " " + ObjectName(&o.meta) }

// String names the kind in messages.
func (k *podKind) String() string { return cmp.Or(k.called, k.kind.Kind) }

// key is the key with which objects name their controller.
func (o *podOwner) key() ownerKey {
	return ownerKey{o.row.kind, types.NamespacedName{Namespace: o.meta.Namespace, Name: o.meta.Name}}
}

// resource is the API server's name for objects of the kind.
func (k *podKind) resource() string { return strings.ToLower(k.kind.Kind) + "s." + k.kind.Group }

// addOwner adds an object of a kind of the table.
func (m *manifest) addOwner(d *document, row *podKind) error {
	o := &podOwner{row: row}
	if err := d.decode(&o.tree); err != nil {
		return err
	}
	o.version, _ = o.tree["apiVersion"].(string)
	part, err := d.part("metadata", o.tree["metadata"])
	if err != nil {
		return err
	}
	if err := part.decode(&o.meta); err != nil {
		return err
	}
	if err := m.identify(d, row.resource(), &o.meta, true); err != nil {
		return err
	}
	if err := d.checkForeignAnnotations(o.meta.Annotations, "", o.String()); err != nil {
		return err
	}
	if err := row.checkFields(d, o.tree); err != nil {
		return err
	}
	o.cluster = o.meta.Name
	if row.kind.Kind == "RayJob" {
		if o.cluster, err = m.nameFor("rayclusters.ray.io", o.meta.Namespace, o.meta.Name+"-"); err != nil {
			return d.errorf("metadata.name", "%w", err)
		}
	}
	m.pods = append(m.pods, podSource{doc: d, owner: o})
	return nil
}

// hasEnded reports whether the object no longer makes pods.
func (o *podOwner) hasEnded() bool {
	e := &o.row.ended
	if value, _ := fieldAt(o.tree, e.path).(string); e.path != "" && slices.Contains(e.values, value) {
		return true
	}
	conditions, _ := fieldAt(o.tree, "status.conditions").([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := fieldAt(c, "type").(string)
		return slices.Contains(e.conditions, condition) && fieldAt(c, "status") == "True"
	})
}

// sizedSet is a set of pods in one object.
type sizedSet struct {
	*podSet
	// path is the path of the set; name is its name.
	path, name string
	// template is the path of the pod template, relative to the object, with a dot at the end.
	template string
	body     any
	// count is the number of pods of each of the groups, least the number of them that the gang needs.
	count, groups, least int
	// runs are the times of a CronJob.
	runs []time.Duration
	// leastSaid says that the object gives least.
	leastSaid bool
}

// addOwnersPods adds the pods that the object's controller would make.
func (m *manifest) addOwnersPods(d *document, o *podOwner) error {
	if o.hasEnded() {
		m.endedOwners[o.row.String()]++
		return nil
	}
	if field := o.row.suspend; field != "" && fieldAt(o.tree, field) == true {
		m.suspended[o.row.String()]++
		return nil
	}
	for _, parts := range []map[ownerKey]string{m.ownership.parts, m.ownership.pods} {
		if part := parts[o.key()]; part != "" {
			return d.errorf("metadata.name", "%s and %s, which it made, are both in the file: leave one of them out", o,
				part)
		}
	}
	sets, err := o.sizes(d)
	if err != nil {
		return err
	}
	for i := range sets {
		if s := &sets[i]; !s.job {
			if err := o.makes(m, d, s, s.count); err != nil {
				return err
			}
		}
	}
	plan, err := o.plan(d)
	if err != nil {
		return err
	}
	gang, err := m.gangOf(d, o, sets, plan.Arrival)
	if err != nil {
		return err
	}
	for i := range sets {
		add := m.addSet
		if sets[i].job {
			add = m.addSetOfJobs
		}
		if err := add(d, o, &sets[i], plan, gang); err != nil {
			return err
		}
	}
	return nil
}

// plan returns the common part of the plans of the object's pods.
func (o *podOwner) plan(d *document) (plan PodPlan, err error) {
	says := []string{}
	if o.row.needs != "" {
		says = append(says, o.row.needs)
	}
	if o.row.gang.name != "" {
		says = append(cluster.OwnAnnotations(), GangAnnotation)
	}
	times, err := d.times("", o.meta.Annotations, says, ArrivalAnnotation, DurationAnnotation)
	if err != nil {
		return plan, err
	}
	plan = PodPlan{Namespace: o.meta.Namespace, Arrival: times[ArrivalAnnotation], Duration: times[DurationAnnotation]}
	field := o.row.deadline
	seconds, err := d.number(field, o.at(field), 0, 1, int(maxSeconds))
	if err != nil || seconds == 0 {
		return plan, err
	}
	if plan.Deadline = plan.Arrival + time.Duration(seconds)*time.Second; plan.Deadline > MaxOffset {
		return plan, d.errorf(field, "%s: the deadline lies beyond %s", field, MaxOffset)
	}
	return plan, nil
}

// at returns the value of a field, nil if it is missing.
func (o *podOwner) at(field string) any {
	if field == "" {
		return nil
	}
	return fieldAt(o.tree, field)
}

// sizes returns the sets of the object that have pods, or might have.
func (o *podOwner) sizes(d *document) (sets []sizedSet, err error) {
	for i := range o.row.sets {
		set := &o.row.sets[i]
		if value, _ := o.at(set.only).(string); set.only != "" && !slices.Contains(set.values, value) {
			continue
		}
		list, isList := strings.CutSuffix(set.at, "[]")
		elements := []any{o.at(list)}
		if isList {
			elements, _ = o.at(list).([]any)
		}
		for k, element := range elements {
			path := list
			if isList {
				path += "[" + strconv.Itoa(k) + "]"
			}
			s := sizedSet{podSet: set, path: path, name: set.name}
			if there, err := o.size(d, &s, element, k); err != nil {
				return nil, err
			} else if there {
				sets = append(sets, s)
			}
		}
	}
	if len(sets) == 0 {
		return nil, d.errorf("spec", "spec: %s has no template to make pods of (looked for %s)", o,
			o.row.sets[0].at+"."+o.row.sets[0].template)
	}
	return sets, nil
}

// size fills in the values of the k-th element of a set; false if it has no template at all.
func (o *podOwner) size(d *document, s *sizedSet, element any, k int) (there bool, err error) {
	if s.key != "" {
		s.name, _ = fieldAt(element, s.key).(string)
		if s.name == "" && s.unnamed == "" {
			return false, d.errorf(s.path, "%s.%s: it is missing", s.path, s.key)
		}
		if s.name == "" {
			s.name = s.unnamed + strconv.Itoa(k)
		}
	}
	s.template, s.body = s.path+"."+s.podSet.template+".", fieldAt(element, s.podSet.template)
	if s.body == nil && s.otherwise != "" {
		s.template, s.body = s.otherwise+".", o.at(s.otherwise)
	}
	if s.body == nil && !s.missing {
		if element == nil {
			return false, nil
		}
		return false, d.errorf(s.path, "%s: %s has no template to make pods of", strings.TrimSuffix(s.template, "."), o)
	}
	groups := s.podSet.groups
	if s.schedule != "" {
		s.runs, err = o.runs(d, s.path+"."+s.schedule, fieldAt(element, s.schedule))
		s.groups = len(s.runs)
	} else if s.job {
		groups = s.path + "." + groups
		s.groups, err = d.number(groups, fieldAt(element, s.podSet.groups), 1, 0, MaxPods)
	} else {
		s.groups, err = d.number(groups, o.at(groups), 1, 0, MaxPods)
	}
	if err != nil {
		return false, err
	}
	return true, o.count(d, s, element)
}

// count fills in the number of a set's pods in each group.
func (o *podOwner) count(d *document, s *sizedSet, element any) error {
	number := func(field string, absent int) (n int, err error) {
		if field == "" {
			return absent, nil
		}
		return d.number(s.path+"."+field, fieldAt(element, field), absent, 0, MaxPods)
	}
	var numbers [4]int
	for i, f := range []struct {
		field  string
		absent int
	}{{s.podSet.count, s.absent}, {s.lowest, 0}, {s.highest, MaxPods}, {s.times, 1}} {
		if i == 0 && f.field == "" {
			f.absent = 1
		}
		var err error
		if numbers[i], err = number(f.field, f.absent); err != nil {
			return err
		}
	}
	s.count = max(0, min(max(numbers[0], numbers[1]), numbers[2])*numbers[3]-s.less)
	if s.off != "" && fieldAt(element, s.off) == true {
		s.count = 0
	}
	if s.count > MaxObjectPods {
		return d.errorf(s.path, "%s: %d pods: one object can make %d", s.path, s.count, MaxObjectPods)
	}
	least, err := number(s.podSet.least, s.count)
	if err != nil {
		return err
	}
	if s.least = least; least > s.count {
		return d.errorf(s.path+"."+s.podSet.least, "%s.%s: %d is above the %d pods there are", s.path, s.podSet.least,
			least, s.count)
	}
	s.leastSaid = s.podSet.least != "" && fieldAt(element, s.podSet.least) != nil
	return nil
}

// names returns the replacer of the variables of a pattern. A trailing ? stays.
func (o *podOwner) names(set string, group, index int) *strings.Replacer {
	return strings.NewReplacer("$namespace", o.meta.Namespace, "$name", o.meta.Name, "$cluster", o.cluster,
		"$set", strings.ToLower(set), "$group", strconv.Itoa(group), "$index", strconv.Itoa(index))
}

// addSet adds the pods of one template.
func (m *manifest) addSet(d *document, o *podOwner, s *sizedSet, plan PodPlan, gang *ownersGang) error {
	if s.count == 0 || s.groups == 0 {
		return nil
	}
	template, err := s.decode(d)
	if err != nil {
		return err
	}
	pod, err := m.podOf(d, o, s, template, &plan, gang)
	if err != nil {
		return err
	}
	// A set without a count of its own is the pod number 0 of each group.
	first := s.first
	for group := range s.groups {
		for index := first; index < first+s.count; index++ {
			names := o.names(s.name, group, index)
			copied := *pod
			copied.Labels = maps.Clone(pod.Labels)
			if copied.Labels == nil {
				copied.Labels = map[string]string{}
			}
			for name, value := range s.labels {
				copied.Labels[name] = names.Replace(value)
			}
			gang.join(s, &copied, names)
			copied.OwnerReferences = []metav1.OwnerReference{o.reference(s, names)}
			plan.Name = names.Replace(s.pod)
			if base, generated := strings.CutSuffix(plan.Name, "?"); generated {
				copied.GenerateName = base
				if plan.Name, err = m.generatedName(o.String()+" "+s.name, plan.Namespace, base, index); err != nil {
					return d.errorf("", "%w", err)
				}
			}
			plan.Template = &copied
			if err := d.checkPodName(o, &plan); err != nil {
				return err
			}
			if err := m.addReplica(d, plan); err != nil {
				return err
			}
		}
	}
	return nil
}

// makes counts the pods of one more set of the object, which has each of them in every group.
func (o *podOwner) makes(m *manifest, d *document, s *sizedSet, each int) error {
	o.pods += int64(s.groups) * int64(each)
	return m.checkRoom(d, s.path, o.String(), o.pods)
}

// decode decodes the pod template of a set.
func (s *sizedSet) decode(d *document) (*corev1.PodTemplateSpec, error) {
	template := &corev1.PodTemplateSpec{}
	if s.body == nil {
		return submitter(), nil
	}
	part, err := d.part(strings.TrimSuffix(s.template, "."), s.body)
	if err != nil {
		return nil, err
	}
	return template, part.decode(template)
}

// podOf makes the pod of which a set's pods are copies, and checks it.
func (m *manifest) podOf(d *document, o *podOwner, s *sizedSet, template *corev1.PodTemplateSpec, plan *PodPlan,
	gang *ownersGang) (*corev1.Pod, error) {
	pod := &corev1.Pod{Spec: template.Spec}
	pod.Namespace, pod.Name = o.meta.Namespace, "template"
	pod.Labels, pod.Annotations = maps.Clone(template.Labels), maps.Clone(template.Annotations)
	if text, given := o.meta.Annotations[DurationAnnotation]; given && pod.Annotations[DurationAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, DurationAnnotation, text)
	}
	if class, _ := o.at(o.row.priority).(string); pod.Spec.PriorityClassName == "" {
		pod.Spec.PriorityClassName = class
	}
	if name, _ := o.at(o.row.scheduler).(string); pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = name
	}
	if name, named := cluster.GroupName(pod); named && gang.takes(s) {
		path := strings.TrimSuffix(s.template, ".")
		return nil, d.errorf(path, "%s: its pods name the gang %s, and %s makes one of its own: leave out one of them",
			path, name, o)
	}
	gang.join(s, pod, o.names(s.name, 0, s.first))
	if i := s.init; i != nil && (i.beside == "" || o.at(i.beside) != nil) {
		pod.Spec.InitContainers = append(slices.Clip(pod.Spec.InitContainers), i.container(&pod.Spec))
	}
	setDefaults(pod)
	own, err := d.times(s.template, template.Annotations, memberAnnotations(pod), DurationAnnotation)
	if err != nil {
		return nil, err
	}
	if duration, given := own[DurationAnnotation]; given {
		plan.Duration = duration
	}
	return pod, m.finishPod(d, pod, s.template)
}

// reference is the owner reference with which the pods of a set name their controller.
func (o *podOwner) reference(s *sizedSet, names *strings.Replacer) metav1.OwnerReference {
	version, kind, name, uid := o.version, o.row.kind.Kind, o.meta.Name, o.meta.UID
	if s.owner.version != "" && (s.owner.kind != kind || s.owner.name != "$cluster") {
		version, kind, name, uid = s.owner.version, s.owner.kind, names.Replace(s.owner.name), ""
	}
	gvk := schema.FromAPIVersionAndKind(version, kind)
	if uid == "" {
		uid = UID(eventlog.Resource(strings.ToLower(kind)+"s."+gvk.Group), o.meta.Namespace, name)
	}
	return *metav1.NewControllerRef(&metav1.ObjectMeta{Name: name, UID: uid}, gvk)
}

// checkPodName refuses a name that the API server would refuse.
func (d *document) checkPodName(o *podOwner, plan *PodPlan) error {
	meta := metav1.ObjectMeta{Namespace: plan.Namespace, Name: plan.Name, Labels: plan.Template.Labels}
	if list := validateMeta(&meta, true); len(list) > 0 {
		return d.errorf("metadata.name", "%s: its pod %s: %w", o, cut(plan.Name, 80), list[0])
	}
	return nil
}

// addSetOfJobs adds the pods of the Jobs that an object makes.
func (m *manifest) addSetOfJobs(d *document, o *podOwner, s *sizedSet, plan PodPlan, _ *ownersGang) error {
	part, err := d.part(strings.TrimSuffix(s.template, "."), s.body)
	if err != nil {
		return err
	}
	template := &batchv1.JobTemplateSpec{}
	if err := part.decode(template); err != nil {
		return err
	}
	if err := part.checkForeignAnnotations(template.Annotations, "", "the template of the Jobs"); err != nil {
		return err
	}
	each, _, err := jobSize(part, &batchv1.Job{Spec: template.Spec})
	if err != nil {
		return err
	}
	if err := o.makes(m, d, s, int(each)); err != nil {
		return err
	}
	if s.indexed && template.Spec.CompletionMode == nil {
		indexed := batchv1.IndexedCompletion
		template.Spec.CompletionMode = &indexed
	}
	for group := range s.groups {
		names := o.names(s.name, group, 0)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: names.Replace(s.pod)}}
		template.Spec.DeepCopyInto(&job.Spec)
		if job.Spec.Template.Labels == nil {
			job.Spec.Template.Labels = map[string]string{}
		}
		for name, value := range s.labels {
			job.Spec.Template.Labels[name] = names.Replace(value)
		}
		job.Annotations = maps.Clone(template.Annotations)
		for _, name := range []string{ArrivalAnnotation, DurationAnnotation} {
			if text, given := o.meta.Annotations[name]; given && job.Annotations[name] == "" {
				metav1.SetMetaDataAnnotation(&job.ObjectMeta, name, text)
			}
		}
		if s.runs != nil {
			job.Name = strings.ReplaceAll(job.Name, "$run", runName(s.runs[group]))
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, ArrivalAnnotation, s.runs[group].String())
		}
		if err := m.identify(part, "jobs.batch", job, true); err != nil {
			return err
		}
		if err := m.addJobPods(part, job); err != nil {
			return err
		}
	}
	return nil
}
