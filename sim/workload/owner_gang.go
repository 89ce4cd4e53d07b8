package workload

import (
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// ownersGang is the gang, or are the gangs, of an object's pods; nil for none.
type ownersGang struct {
	rule *gangRule
	// pattern is the pattern of the name.
	pattern string
}

// takes reports whether the pods of a set are members.
func (g *ownersGang) takes(s *sizedSet) bool { return g != nil && !s.apart }

// join makes a pod of the set a member.
func (g *ownersGang) join(s *sizedSet, pod *corev1.Pod, names *strings.Replacer) {
	if !g.takes(s) {
		return
	}
	name := names.Replace(g.pattern)
	if g.rule.label {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, g.rule.by, name)
		return
	}
	pod.Annotations = maps.Clone(pod.Annotations) // copies of a pod share it
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, g.rule.by, name)
}

// wantsGang reports whether the object asks for a gang.
func (o *podOwner) wantsGang(d *document) (bool, error) {
	rule := &o.row.gang
	if text, given := o.meta.Annotations[GangAnnotation]; given {
		wanted, err := strconv.ParseBool(text)
		if err != nil || rule.always && !wanted {
			return false, d.errorf("metadata.annotations."+GangAnnotation, "annotation %s: %q: want \"true\"",
				GangAnnotation, cut(text, 40))
		}
		return wanted, nil
	}
	_, labelled := o.meta.Labels[rule.askedLabel]
	return rule.name != "" && (rule.always || rule.asked != "" && o.at(rule.asked) != nil || labelled), nil
}

// gangOf returns the gang of an object's pods, and adds its PodGroups unless they are in the file.
func (m *manifest) gangOf(d *document, o *podOwner, sets []sizedSet, at time.Duration) (*ownersGang, error) {
	if wanted, err := o.wantsGang(d); err != nil || !wanted {
		return nil, err
	}
	rule := &o.row.gang
	gang := &ownersGang{rule: rule, pattern: rule.name}
	if rule.always && o.meta.UID != "" {
		gang.pattern += "-" + string(o.meta.UID) // as Volcano names it
	}
	groups, minimum, err := gang.minimum(d, o, sets)
	if err != nil || minimum == 0 {
		return gang, err
	}
	spec := v1alpha1.PodGroupSpec{MinMember: int32(minimum)}
	if err := o.gangSpec(d, &spec); err != nil {
		return nil, err
	}
	for group := range groups {
		if err := m.addGang(d, o, gang.pattern, group, spec, at); err != nil {
			return nil, err
		}
	}
	return gang, nil
}

// minimum returns the number of gangs, and the number of pods that each needs; 0 without pods.
func (g *ownersGang) minimum(d *document, o *podOwner, sets []sizedSet) (groups, minimum int, err error) {
	groups = 1
	members, least, explicit := 0, 0, false
	for i := range sets {
		if s := &sets[i]; g.takes(s) {
			members, least = members+s.count, least+s.least
			explicit = explicit || s.leastSaid && s.least < s.count
			if strings.Contains(g.pattern, "$group") {
				groups = s.groups
			}
		}
	}
	if members == 0 || groups == 0 {
		return 0, 0, nil
	}
	field := g.rule.minimum
	if minimum, err = d.number(field, o.at(field), least, 0, mostMembers); err != nil {
		return 0, 0, err
	}
	if minimum == 0 {
		minimum = least
	}
	switch {
	case minimum > members:
		err = d.errorf(field, "%s: %d is above the %d pods of %s", field, minimum, members, o)
	case minimum < 1:
		err = d.errorf("spec", "spec: %s is a gang of no pod", o)
	case explicit && minimum >= least && minimum < members:
		err = d.errorf("spec", "spec: a minimum for each of its sets of pods is not carried out: make the minimum of "+
			"each its replicas, or %s of %s less than their sum", field, o)
	}
	return groups, minimum, err
}

// gangSpec fills in the gang's further requirements.
func (o *podOwner) gangSpec(d *document, spec *v1alpha1.PodGroupSpec) error {
	rule := &o.row.gang
	if value := o.at(rule.timeout); value != nil {
		seconds, err := d.number(rule.timeout, value, 0, 0, mostMembers)
		if err != nil {
			return err
		}
		timeout := int32(seconds)
		spec.ScheduleTimeoutSeconds = &timeout
	}
	if value := o.at(rule.resources); value != nil {
		part, err := d.part(rule.resources, value)
		if err != nil {
			return err
		}
		return part.decode(&spec.MinResources)
	}
	return nil
}

// addGang adds a PodGroup, unless the file has one of its name.
func (m *manifest) addGang(d *document, o *podOwner, pattern string, number int, spec v1alpha1.PodGroupSpec,
	at time.Duration) error {
	name := types.NamespacedName{Namespace: o.meta.Namespace, Name: o.names("", number, 0).Replace(pattern)}
	for _, res := range cluster.GroupResources() {
		if _, there := m.places[string(res)+" "+name.String()]; there && m.made[name] == "" {
			return nil
		}
	}
	if other := m.made[name]; other != "" {
		return d.errorf("metadata.name", "%s and %s both make the PodGroup %s", other, o, name)
	}
	m.made[name] = o.String()
	object := &v1alpha1.PodGroup{Spec: spec}
	object.Namespace, object.Name = name.Namespace, name.Name
	for _, key := range cluster.OwnAnnotations() {
		if text, given := o.meta.Annotations[key]; given {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, key, text)
		}
	}
	if err := d.invalid(validateMeta(object, true), ""); err != nil {
		return err
	}
	return m.addPodGroup(d, object, at)
}

// addPodGroup checks a PodGroup that a reader made, and adds it.
func (m *manifest) addPodGroup(d *document, object *v1alpha1.PodGroup, at time.Duration) error {
	if err := d.invalid(validate(object), ""); err != nil {
		return err
	}
	if err := d.checkGang(eventlog.XPodGroups, object, ""); err != nil {
		return err
	}
	m.in.workload.Objects = append(m.in.workload.Objects,
		ObjectPlan{At: at, Resource: eventlog.XPodGroups, Object: object})
	return nil
}
