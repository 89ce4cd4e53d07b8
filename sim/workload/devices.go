package workload

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// claimTemplateKind is not a resource of the log: claims are made from a ResourceClaimTemplate.
var claimTemplateKind = resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")

// addClaimTemplate takes in a ResourceClaimTemplate.
func (m *manifest) addClaimTemplate(d *document) error {
	template := &resourcev1.ResourceClaimTemplate{}
	if err := d.decode(template); err != nil {
		return err
	}
	template.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if err := m.identify(d, "resourceclaimtemplates.resource.k8s.io", template, true); err != nil {
		return err
	}
	defaults.Default(template)
	if err := d.invalid(validateDevices(template), ""); err != nil {
		return err
	}
	if _, err := d.times("", template.Annotations, nil); err != nil {
		return err
	}
	if m.in.workload.ClaimTemplates == nil {
		m.in.workload.ClaimTemplates = map[types.NamespacedName]*resourcev1.ResourceClaimTemplate{}
	}
	m.in.workload.ClaimTemplates[types.NamespacedName{Namespace: template.Namespace, Name: template.Name}] = template
	return nil
}

// dateTaints gives the taints of devices the start of the simulation as their time, if they have none. Their default
// is the time of the clock, which would make every simulation different.
func dateTaints(object any) {
	date := func(taint *resourcev1.DeviceTaint) {
		if taint.TimeAdded == nil {
			taint.TimeAdded = &metav1.Time{Time: Start}
		}
	}
	if rule, ok := object.(*resourcev1.DeviceTaintRule); ok {
		date(&rule.Spec.Taint)
	}
	slice, ok := object.(*resourcev1.ResourceSlice)
	if !ok {
		return
	}
	for i := range slice.Spec.Devices {
		for k := range slice.Spec.Devices[i].Taints {
			date(&slice.Spec.Devices[i].Taints[k])
		}
	}
}
