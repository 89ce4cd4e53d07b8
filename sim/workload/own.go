package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// addOwn adds an object of a resource that the configuration declares because a plugin reads it. It has the same
// fields as in the log: the declared ones.
func (m *manifest) addOwn(d *document, own eventlog.OwnResource) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(d.body); err != nil {
		return d.errorf("", "%w", err)
	}
	if err := m.identify(d, string(own.Resource), object, own.Namespaced); err != nil {
		return err
	}
	if err := d.invalid(validateMeta(object, own.Namespaced), ""); err != nil {
		return err
	}
	times, err := d.times("", object.GetAnnotations(), nil, ArrivalAnnotation)
	if err != nil {
		return err
	}
	kept, err := eventlog.NewOwnTrim([]eventlog.OwnResource{own}).Trim(own.Resource, object)
	if err != nil {
		return d.errorf("", "%w", err)
	}
	m.in.workload.Objects = append(m.in.workload.Objects,
		ObjectPlan{At: times[ArrivalAnnotation], Resource: own.Resource, Object: kept})
	return nil
}
