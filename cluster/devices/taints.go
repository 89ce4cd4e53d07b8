package devices

import (
	"fmt"
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

// taintedSlices lists ResourceSlices with the taints that DeviceTaintRules give their devices, as kube-scheduler's
// tracker does (k8s.io/dynamic-resource-allocation/resourceslice/tracker). The rules count with the feature gate
// DRADeviceTaintRules only.
type taintedSlices struct {
	slices resourcelisters.ResourceSliceLister
	rules  resourcelisters.DeviceTaintRuleLister
	on     bool // the feature gate

	mu sync.Mutex
	// tainted are copies of the slices of which rules taint devices, by name.
	tainted map[string]*resourcev1.ResourceSlice
}

var _ fwk.ResourceSliceLister = (*taintedSlices)(nil)

func newTaintedSlices(all resourcelisters.ResourceSliceLister,
	rules resourcelisters.DeviceTaintRuleLister) *taintedSlices {
	return &taintedSlices{
		slices: all, rules: rules, tainted: map[string]*resourcev1.ResourceSlice{},
		on: utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
	}
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

// replace takes in a slice, and what it was before; either may be nil.
func (l *taintedSlices) replace(old, slice *resourcev1.ResourceSlice) {
	if !l.on {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slice == nil {
		delete(l.tainted, old.Name)
		return
	}
	l.taint(slice, l.allRules())
}

// followRule takes in a rule, and what it was before; either may be nil. It returns the slices of which the taints have
// changed.
func (l *taintedSlices) followRule(old, rule *resourcev1.DeviceTaintRule) (changed []TaintedSlice) {
	if !l.on {
		return nil
	}
	list, err := l.slices.List(labels.Everything())
	if err != nil {
		panic(fmt.Sprintf("devices: a log-fed lister cannot list ResourceSlices: %v", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rules := l.allRules()
	for _, slice := range list {
		if (old == nil || !selectsSlice(old, slice)) && (rule == nil || !selectsSlice(rule, slice)) {
			continue
		}
		before := l.seen(slice)
		l.taint(slice, rules)
		if now := l.seen(slice); !sameTaints(before, now) {
			changed = append(changed, TaintedSlice{before, now})
		}
	}
	return changed
}

// allRules returns the rules, sorted by name.
func (l *taintedSlices) allRules() []*resourcev1.DeviceTaintRule {
	rules, err := l.rules.List(labels.Everything())
	if err != nil {
		panic(fmt.Sprintf("devices: a log-fed lister cannot list DeviceTaintRules: %v", err))
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
// devices, as in kube-scheduler, although the API's documentation differs.
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
