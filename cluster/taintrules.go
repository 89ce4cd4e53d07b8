package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// taintedSlices lists ResourceSlices with the taints that DeviceTaintRules give their devices, as kube-scheduler's
// tracker does (k8s.io/dynamic-resource-allocation/resourceslice/tracker). The rules count with the feature gate
// DRADeviceTaintRules only.
type taintedSlices struct {
	slices resourcelisters.ResourceSliceLister
	rules  resourcelisters.DeviceTaintRuleLister

	mu sync.Mutex
	// tainted are copies of the slices of which rules taint devices, by name.
	tainted map[string]*resourcev1.ResourceSlice
	// changed are the slices that the rule which changed last has changed, until they are taken.
	changed []TaintedSlice
}

var _ fwk.ResourceSliceLister = (*taintedSlices)(nil)

// TaintedSlice is a ResourceSlice of which a DeviceTaintRule has changed the taints, as plugins saw it before and see
// it now.
type TaintedSlice struct{ Before, Now *resourcev1.ResourceSlice }

func newTaintedSlices(all resourceinformers.ResourceSliceInformer,
	rules resourceinformers.DeviceTaintRuleInformer) *taintedSlices {
	l := &taintedSlices{
		slices: all.Lister(), rules: rules.Lister(), tainted: map[string]*resourcev1.ResourceSlice{},
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules) {
		return l
	}
	_, err := all.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.follow(obj.(*resourcev1.ResourceSlice)) },
		UpdateFunc: func(_, obj any) { l.follow(obj.(*resourcev1.ResourceSlice)) },
		DeleteFunc: func(obj any) { l.forget(obj.(*resourcev1.ResourceSlice)) },
	})
	rule := func(obj any) *resourcev1.DeviceTaintRule { return obj.(*resourcev1.DeviceTaintRule) }
	_, ruleErr := rules.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.followRule(rule(obj)) },
		UpdateFunc: func(old, obj any) { l.followRule(rule(old), rule(obj)) },
		DeleteFunc: func(obj any) { l.followRule(rule(obj)) },
	})
	if err := errors.Join(err, ruleErr); err != nil {
		panic(fmt.Sprintf("cluster: a fresh informer refuses a handler: %v", err))
	}
	return l
}

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister, sorted by name.
func (l *taintedSlices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	list, err := l.slices.List(labels.Everything())
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tainted) == 0 {
		return list, err
	}
	for i, slice := range list {
		list[i] = l.seen(slice)
	}
	return list, err
}

// TakeTainted returns the ResourceSlices of which the DeviceTaintRule that changed last has changed the taints, sorted
// by name, once.
func (f *Informers) TakeTainted() []TaintedSlice {
	l := f.dra.slices
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed = nil
	return changed
}

// follow takes in a slice that is new or has changed.
func (l *taintedSlices) follow(slice *resourcev1.ResourceSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taint(slice, l.allRules())
}

func (l *taintedSlices) forget(slice *resourcev1.ResourceSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tainted, slice.Name)
}

// followRule takes in a rule that has come or gone, or both forms of one that has changed.
func (l *taintedSlices) followRule(forms ...*resourcev1.DeviceTaintRule) {
	list, err := l.slices.List(labels.Everything())
	if err != nil {
		panic(fmt.Sprintf("cluster: a log-fed lister cannot list ResourceSlices: %v", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = nil
	rules := l.allRules()
	for _, slice := range list {
		if !slices.ContainsFunc(forms, func(r *resourcev1.DeviceTaintRule) bool { return selectsSlice(r, slice) }) {
			continue
		}
		before := l.seen(slice)
		l.taint(slice, rules)
		if now := l.seen(slice); !sameTaints(before, now) {
			l.changed = append(l.changed, TaintedSlice{before, now})
		}
	}
}

// allRules returns the rules, sorted by name.
func (l *taintedSlices) allRules() []*resourcev1.DeviceTaintRule {
	rules, err := l.rules.List(labels.Everything())
	if err != nil {
		panic(fmt.Sprintf("cluster: a log-fed lister cannot list DeviceTaintRules: %v", err))
	}
	return rules
}

// seen returns the slice as plugins see it.
func (l *taintedSlices) seen(slice *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	if tainted := l.tainted[slice.Name]; tainted != nil {
		return tainted
	}
	return slice
}

// taint notes the slice with the taints of the rules, if there are any for it. The slice is not changed.
func (l *taintedSlices) taint(slice *resourcev1.ResourceSlice, rules []*resourcev1.DeviceTaintRule) {
	tainted := slice
	for _, rule := range rules {
		if !selectsSlice(rule, slice) {
			continue
		}
		for i := range slice.Spec.Devices {
			if s := rule.Spec.DeviceSelector; s != nil && s.Device != nil && *s.Device != slice.Spec.Devices[i].Name {
				continue
			}
			if tainted == slice {
				tainted = slice.DeepCopy()
			}
			taints := &tainted.Spec.Devices[i].Taints
			*taints = append(*taints, rule.Spec.Taint)
		}
	}
	if tainted == slice {
		delete(l.tainted, slice.Name)
	} else {
		l.tainted[slice.Name] = tainted
	}
}

// selectsSlice reports whether devices of the slice may have the rule's taint. A rule without a selector is for all
// devices, as in kube-scheduler, whatever the API's documentation says of it.
func selectsSlice(rule *resourcev1.DeviceTaintRule, slice *resourcev1.ResourceSlice) bool {
	s := rule.Spec.DeviceSelector
	return s == nil || (s.Driver == nil || *s.Driver == slice.Spec.Driver) &&
		(s.Pool == nil || *s.Pool == slice.Spec.Pool.Name)
}

// sameTaints reports whether two forms of a slice have the same taints.
func sameTaints(a, b *resourcev1.ResourceSlice) bool {
	return a == b || slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(x, y resourcev1.Device) bool {
		return slices.EqualFunc(x.Taints, y.Taints, func(s, t resourcev1.DeviceTaint) bool {
			return s.Key == t.Key && s.Value == t.Value && s.Effect == t.Effect
		})
	})
}
