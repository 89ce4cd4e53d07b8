package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/sim/workload/admission"
)

// The objects of files go through the API server's admission plugins, as on create.

// claimSource is a PersistentVolumeClaim of a file.
type claimSource struct {
	doc   *document
	claim *corev1.PersistentVolumeClaim
}

// admitted names an admission plugin, and the kind of the objects of a namespace that it has changed.
type admitted struct{ plugin, kind, namespace string }

// admittedCount counts such objects. first is the first of them, with its place.
type admittedCount struct {
	number int
	first  string
}

// admissionObject returns a new object of a kind that only admission plugins read, nil for other kinds.
func admissionObject(kind schema.GroupVersionKind) eventlog.Object {
	switch kind {
	case corev1.SchemeGroupVersion.WithKind("LimitRange"):
		return &corev1.LimitRange{}
	case nodev1.SchemeGroupVersion.WithKind("RuntimeClass"):
		return &nodev1.RuntimeClass{}
	}
	return nil
}

// addAdmissionObject adds an object that only admission plugins read.
func (m *manifest) addAdmissionObject(d *document, kind schema.GroupVersionKind, object eventlog.Object) error {
	if err := d.decode(object); err != nil {
		return err
	}
	defaults.Default(object)
	_, namespaced := object.(*corev1.LimitRange)
	if err := m.identify(d, strings.ToLower(kind.Kind), object, namespaced); err != nil {
		return err
	}
	if err := d.invalid(validateAPI(object), ""); err != nil {
		return err
	}
	if _, err := d.times("", object.GetAnnotations(), nil); err != nil {
		return err
	}
	if err := m.readsAdmission(object); err != nil {
		return d.errorf("", "%w", err)
	}
	return nil
}

// readsAdmission gives the admission plugins an object to read.
func (m *manifest) readsAdmission(object runtime.Object) error {
	chain, err := m.chain()
	if err != nil {
		return err
	}
	return chain.Add(object)
}

// chain returns the admission plugins.
func (m *manifest) chain() (*admission.Chain, error) {
	if m.admission == nil {
		var err error
		if m.admission, err = admission.New(); err != nil {
			return nil, err
		}
	}
	return m.admission, nil
}

// admitPod gives a pod the values that it gets on create. An API server has admitted a pod with a UID and a priority:
// its plugins do not see that one again. prefix is the path of the pod in the document.
func (m *manifest) admitPod(d *document, pod *corev1.Pod, prefix string) error {
	chain, err := m.chain()
	if err != nil {
		return err
	}
	if pod.UID != "" && pod.Spec.Priority != nil {
		chain = nil
	}
	changed, err := create(pod, chain)
	if err != nil {
		return d.errorf(prefix+refusedField(err), "%w%s", err, adviceOnRefusal(err))
	}
	for _, plugin := range changed {
		m.noteChange(d, plugin, "pod", pod)
	}
	if pod.Spec.PreemptionPolicy == nil {
		always := corev1.PreemptLowerPriority
		pod.Spec.PreemptionPolicy = &always
	}
	return nil
}

// admitClaim gives a claim the values that it gets on create. An API server has admitted a claim with a UID.
func (m *manifest) admitClaim(s claimSource) error {
	chain, err := m.chain()
	if err != nil || s.claim.UID != "" {
		return err
	}
	plugin, err := createClaim(s.claim, chain)
	if err != nil {
		return s.doc.errorf("spec", "%w", err)
	}
	if plugin != "" {
		m.noteChange(s.doc, plugin, "claim", s.claim)
	}
	return nil
}

// refusedField returns the path of the field in a pod that made an admission plugin refuse it.
func refusedField(err error) string {
	if refusal := (*admission.Refusal)(nil); errors.As(err, &refusal) {
		switch refusal.Plugin {
		case priority.PluginName:
			return "spec.priorityClassName"
		case runtimeclass.PluginName:
			return "spec.runtimeClassName"
		}
	}
	return "spec"
}

// adviceOnRefusal returns what to do about a refusal, "" if the refusal says it.
func adviceOnRefusal(err error) string {
	if refusal := (*admission.Refusal)(nil); errors.As(err, &refusal) {
		switch {
		case refusal.Plugin == priority.PluginName && strings.Contains(err.Error(), "no PriorityClass"):
			return ": put the PriorityClass into the files"
		case refusal.Plugin == runtimeclass.PluginName && strings.Contains(err.Error(), "not found"):
			return ": put the RuntimeClass into the files"
		}
	}
	return ""
}

// noteChange counts an object that an admission plugin has changed.
func (m *manifest) noteChange(d *document, plugin, kind string, o metav1.Object) {
	key := admitted{plugin, kind, o.GetNamespace()}
	if m.admitted[key] == nil {
		at := d.place()
		name := o.GetName()
		if name == "" {
			name = o.GetGenerateName()
		}
		m.admitted[key] = &admittedCount{first: fmt.Sprintf("%s, %s:%d", name, at.path, at.line)}
	}
	m.admitted[key].number++
}

// noteAdmitted notes what admission plugins have changed.
func (m *manifest) noteAdmitted() {
	keys := slices.SortedFunc(maps.Keys(m.admitted), func(a, b admitted) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, key := range keys {
		c := m.admitted[key]
		if c.number == 1 {
			m.in.note("admission plugin %s changed a %s of namespace %s: %s", key.plugin, key.kind, key.namespace, c.first)
			continue
		}
		m.in.note("admission plugin %s changed %d %ss of namespace %s, the first is %s", key.plugin, c.number, key.kind,
			key.namespace, c.first)
	}
}
