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

// admitter runs the admission plugins for the objects of a manifest, and counts the objects that they change.
type admitter struct {
	in     *input
	chain  *admission.Chain // nil until an object needs it
	counts map[admitted]*admittedCount
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
	case corev1.SchemeGroupVersion.WithKind("ResourceQuota"):
		return &corev1.ResourceQuota{}
	case nodev1.SchemeGroupVersion.WithKind("RuntimeClass"):
		return &nodev1.RuntimeClass{}
	}
	return nil
}

// addUnlogged adds an object that is not logged: admission plugins read it, or nobody does.
func (m *manifest) addUnlogged(d *document, kind schema.GroupVersionKind) error {
	object := admissionObject(kind)
	if object == nil {
		return m.leaveOut(d, kind)
	}
	if err := d.decode(object); err != nil {
		return err
	}
	defaults.Default(object)
	_, global := object.(*nodev1.RuntimeClass)
	if err := m.identify(d, strings.ToLower(kind.Kind), object, !global); err != nil {
		return err
	}
	if err := d.invalid(validateAPI(object), ""); err != nil {
		return err
	}
	if _, err := d.times("", object.GetAnnotations(), nil); err != nil {
		return err
	}
	if quota, ok := object.(*corev1.ResourceQuota); ok {
		m.in.addQuota(quota)
		return nil
	}
	if err := m.admission.read(object); err != nil {
		return d.errorf("", "%w", err)
	}
	return nil
}

// addQuota adds a ResourceQuota, and notes which of its limits are not carried out, because they are not about pods.
func (in *input) addQuota(quota *corev1.ResourceQuota) {
	in.workload.Quotas = append(in.workload.Quotas, quota)
	var others []string
	for name := range quota.Spec.Hard { // any order: they are sorted
		if !admission.LimitsPods(name) {
			others = append(others, string(name))
		}
	}
	if slices.Sort(others); len(others) > 0 {
		in.note("quota %s limits %s, which a simulation does not", ObjectName(quota), strings.Join(others, ", "))
	}
}

// read gives the admission plugins an object to read.
func (a *admitter) read(object runtime.Object) error {
	if err := a.start(); err != nil {
		return err
	}
	return a.chain.Add(object)
}

// start makes the admission plugins, unless they are made.
func (a *admitter) start() (err error) {
	if a.chain == nil {
		a.chain, err = admission.New()
	}
	return err
}

// pod gives a pod the values that it gets on create. An API server has admitted a pod with a UID and a priority:
// its plugins do not see that one again. prefix is the path of the pod in the document.
func (a *admitter) pod(d *document, pod *corev1.Pod, prefix string) error {
	if err := a.start(); err != nil {
		return err
	}
	chain := a.chain
	if pod.UID != "" && pod.Spec.Priority != nil {
		chain = nil
	}
	changed, err := create(pod, chain)
	if err != nil {
		return d.errorf(prefix+refusedField(err), "%w%s", err, adviceOnRefusal(err))
	}
	for _, plugin := range changed {
		a.count(d, plugin, "pod", pod)
	}
	if pod.Spec.PreemptionPolicy == nil {
		always := corev1.PreemptLowerPriority
		pod.Spec.PreemptionPolicy = &always
	}
	return nil
}

// claim gives a claim the values that it gets on create. An API server has admitted a claim with a UID.
func (a *admitter) claim(s claimSource) error {
	if err := a.start(); err != nil || s.claim.UID != "" {
		return err
	}
	plugin, err := createClaim(s.claim, a.chain)
	if err != nil {
		return s.doc.errorf("spec", "%w", err)
	}
	if plugin != "" {
		a.count(s.doc, plugin, "claim", s.claim)
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

// adviceOnRefusal returns the advice on a refusal, "" for none.
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

// count counts an object that an admission plugin has changed.
func (a *admitter) count(d *document, plugin, kind string, o metav1.Object) {
	key := admitted{plugin, kind, o.GetNamespace()}
	if a.counts[key] == nil {
		at := d.place()
		name := o.GetName()
		if name == "" {
			name = o.GetGenerateName()
		}
		a.counts[key] = &admittedCount{first: fmt.Sprintf("%s, %s:%d", name, at.path, at.line)}
	}
	a.counts[key].number++
}

// note notes the objects that admission plugins have changed.
func (a *admitter) note() {
	keys := slices.SortedFunc(maps.Keys(a.counts), func(x, y admitted) int {
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
	})
	for _, key := range keys {
		c := a.counts[key]
		if c.number == 1 {
			a.in.note("admission plugin %s changed a %s of namespace %s: %s",
				key.plugin, key.kind, key.namespace, c.first)
			continue
		}
		a.in.note("admission plugin %s changed %d %ss of namespace %s, the first is %s", key.plugin, c.number, key.kind,
			key.namespace, c.first)
	}
}
