// Package admission runs the admission plugins of the API server that change or refuse what is scheduled.
//
// The plugins are Kubernetes' own, with their default configuration, in the API server's order. A simulation has no API
// server. So its objects go through a Chain, as they would on create. DefaultStorageClass is written here: its package
// would need a dozen modules that mount volumes.
package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	schedulinghelpers "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	storageutil "k8s.io/kubernetes/pkg/apis/storage/util"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
)

// registers are the plugins in the order of kube-apiserver's AllOrderedPlugins.
var registers = []struct {
	name     string
	register func(*upstream.Plugins)
}{
	{limitranger.PluginName, limitranger.Register},
	{priority.PluginName, priority.Register},
	{defaulttolerationseconds.PluginName, defaulttolerationseconds.Register},
	{podtolerationrestriction.PluginName, podtolerationrestriction.Register},
	{runtimeclass.PluginName, runtimeclass.Register},
}

// Chain is the plugins, with the objects that they read.
type Chain struct {
	plugins []plugin
	stores  struct{ namespaces, limits, priorities, runtimes cache.Store }
	storage []*storagev1.StorageClass
	// limited are the namespaces with a LimitRange, restricted the namespaces with tolerations of their own.
	limited, restricted map[string]bool
}

// waiting is implemented by plugins that wait for their informers, by embedding upstream's Handler.
type waiting interface {
	SetReadyFunc(ready upstream.ReadyFunc)
}

var _ waiting = (*upstream.Handler)(nil)

// plugin is a plugin and its name.
type plugin struct {
	name string
	run  upstream.Interface
}

// A Refusal is the error of a plugin that refuses an object.
type Refusal struct {
	// Plugin is the plugin's name, as kube-apiserver's flag --enable-admission-plugins has it.
	Plugin string
	Err    error
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("%v (admission plugin %s)", r.Err, r.Plugin) }

// Unwrap returns the plugin's error.
func (r *Refusal) Unwrap() error { return r.Err }

// New returns a Chain that knows the system's priority classes.
func New() (*Chain, error) {
	factory := informers.NewSharedInformerFactory(client{}, 0)
	c := &Chain{limited: map[string]bool{}, restricted: map[string]bool{}}
	c.stores.namespaces = factory.Core().V1().Namespaces().Informer().GetStore()
	c.stores.limits = factory.Core().V1().LimitRanges().Informer().GetStore()
	c.stores.priorities = factory.Scheduling().V1().PriorityClasses().Informer().GetStore()
	c.stores.runtimes = factory.Node().V1().RuntimeClasses().Informer().GetStore()

	initialize := initializer.New(client{}, nil, factory, nil, utilfeature.DefaultFeatureGate, nil, nil, nil)
	all := upstream.NewPlugins()
	for _, p := range registers {
		p.register(all)
		run, err := all.InitPlugin(p.name, nil, initialize)
		if err != nil {
			return nil, fmt.Errorf("start admission plugin %s: %w", p.name, err)
		}
		if waits, ok := run.(waiting); ok {
			waits.SetReadyFunc(func() bool { return true }) // the informers are filled and never run
		}
		c.plugins = append(c.plugins, plugin{p.name, run})
	}
	for _, class := range schedulinghelpers.SystemPriorityClasses() {
		if err := c.Add(class); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add gives the plugins an object to read: a Namespace, a LimitRange, a PriorityClass, a RuntimeClass or a
// StorageClass. Other objects say nothing to them.
func (c *Chain) Add(object runtime.Object) error {
	switch o := object.(type) {
	case *corev1.Namespace:
		_, defaults := o.Annotations[podtolerationrestriction.NSDefaultTolerations]
		_, allowed := o.Annotations[podtolerationrestriction.NSWLTolerations]
		if defaults || allowed {
			c.restricted[o.Name] = true
		}
		return c.stores.namespaces.Add(o)
	case *corev1.LimitRange:
		c.limited[o.Namespace] = true
		return c.stores.limits.Add(o)
	case *schedulingv1.PriorityClass:
		return c.stores.priorities.Add(o)
	case *nodev1.RuntimeClass:
		return c.stores.runtimes.Add(o)
	case *storagev1.StorageClass:
		c.storage = append(c.storage, o)
	}
	return nil
}

// AdmitPod lets the plugins change a pod that is created. It returns the names of the plugins that have changed more
// than every pod gets: its priority, and its tolerations of nodes that are not ready. The error is a Refusal.
func (c *Chain) AdmitPod(pod *core.Pod) (changed []string, err error) {
	for _, p := range c.plugins {
		if !c.concerns(p.name, pod) {
			continue
		}
		var before *core.Pod
		if !concernsAll(p.name) {
			before = pod.DeepCopy()
		}
		own := pod.Spec.PreemptionPolicy
		if p.name == priority.PluginName {
			pod.Spec.PreemptionPolicy = nil
		}
		if err := p.admit(podAttributes(pod)); err != nil {
			return nil, err
		}
		if own != nil {
			pod.Spec.PreemptionPolicy = own
		}
		if before != nil && !equality.Semantic.DeepEqual(before, pod) {
			changed = append(changed, p.name)
		}
	}
	return changed, nil
}

// ValidatePod lets the plugins refuse a pod that has all its defaults. The error is a Refusal.
func (c *Chain) ValidatePod(pod *core.Pod) error {
	for _, p := range c.plugins {
		validating, ok := p.run.(upstream.ValidationInterface)
		if !ok || !c.concerns(p.name, pod) {
			continue
		}
		if err := validating.Validate(context.Background(), podAttributes(pod), nil); err != nil {
			return &Refusal{p.name, err}
		}
	}
	return nil
}

// AdmitClaim lets the plugins change or refuse a PersistentVolumeClaim that is created. It returns the name of the
// plugin that has changed it, "" for none. The error is a Refusal.
func (c *Chain) AdmitClaim(claim *core.PersistentVolumeClaim) (changed string, err error) {
	attributes := upstream.NewAttributesRecord(claim, nil, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		claim.Namespace, claim.Name, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "",
		upstream.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	if c.limited[claim.Namespace] {
		if err := c.limits().Validate(context.Background(), attributes, nil); err != nil {
			return "", &Refusal{limitranger.PluginName, err}
		}
	}
	if class := DefaultClass(c.storage); class != nil && !helper.PersistentVolumeClaimHasClass(claim) {
		claim.Spec.StorageClassName = &class.Name
		return defaultStorageClass, nil
	}
	return "", nil
}

// limits returns the plugin LimitRanger.
func (c *Chain) limits() upstream.ValidationInterface {
	return c.plugins[0].run.(upstream.ValidationInterface)
}

// defaultStorageClass is the name of the plugin that gives claims without a class the default one.
const defaultStorageClass = "DefaultStorageClass"

// DefaultClass returns the default StorageClass, nil for none: of several the newest, and among these the first by
// name. That is GetDefaultClass of k8s.io/kubernetes/pkg/volume/util.
func DefaultClass(classes []*storagev1.StorageClass) (class *storagev1.StorageClass) {
	for _, c := range classes {
		if !storageutil.IsDefaultAnnotation(c.ObjectMeta) {
			continue
		}
		if class == nil || cmp.Or(class.CreationTimestamp.Time.Compare(c.CreationTimestamp.Time),
			strings.Compare(c.Name, class.Name)) < 0 {
			class = c
		}
	}
	return class
}

// admit lets the plugin change an object, if it changes any.
func (p *plugin) admit(attributes upstream.Attributes) error {
	mutating, ok := p.run.(upstream.MutationInterface)
	if !ok {
		return nil
	}
	if err := mutating.Admit(context.Background(), attributes, nil); err != nil {
		return &Refusal{p.name, err}
	}
	return nil
}

// concerns reports whether a plugin can change or refuse a pod. A pod with a priority and no class keeps its priority,
// a pod with a preemption policy keeps that, and a pod with an overhead and no class keeps its overhead. The plugins
// would refuse them: these fields are a privilege where people share a cluster.
// PodTolerationRestriction is not enabled in kube-apiserver by default: it concerns the pods of namespaces that have
// its annotations.
func (c *Chain) concerns(plugin string, pod *core.Pod) bool {
	switch plugin {
	case limitranger.PluginName:
		return c.limited[pod.Namespace]
	case priority.PluginName:
		return pod.Spec.Priority == nil || pod.Spec.PriorityClassName != ""
	case podtolerationrestriction.PluginName:
		return c.restricted[pod.Namespace]
	case runtimeclass.PluginName:
		return pod.Spec.RuntimeClassName != nil
	}
	return true
}

// concernsAll reports whether a plugin changes every pod.
func concernsAll(plugin string) bool {
	return slices.Contains([]string{priority.PluginName, defaulttolerationseconds.PluginName}, plugin)
}

func podAttributes(pod *core.Pod) upstream.Attributes {
	return upstream.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", upstream.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{})
}
