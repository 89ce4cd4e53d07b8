package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Recorder wraps the VolumeBinding plugin's binder and remembers the results of the last Reserve, so that a cycle can
// record them and take them back. It passes all other calls through except BindPodVolumes: binding volumes is an
// effect, never part of a cycle.
type Recorder struct {
	binder volumebinding.SchedulerVolumeBinder
	last   []eventlog.VolumeClaim
}

var _ volumebinding.SchedulerVolumeBinder = (*Recorder)(nil)

// errBindInCycle is returned by BindPodVolumes.
var errBindInCycle = errors.New("volumes are bound by an effect, not by the plugin's PreBind")

// Record puts a recorder into pl if it is upstream's VolumeBinding plugin, and returns it; ok is
// false for any other plugin. It fails if upstream's types are not the ones that the recorder can read.
func Record(pl fwk.Plugin) (recorder *Recorder, ok bool, err error) {
	binding, ok := pl.(*volumebinding.VolumeBinding)
	if !ok {
		return nil, false, nil
	}
	if r, already := binding.Binder.(*Recorder); already {
		return r, true, nil
	}
	if err := checkBindingInfo(); err != nil {
		return nil, false, err
	}
	recorder = &Recorder{binder: binding.Binder}
	binding.Binder = recorder
	return recorder, true, nil
}

// Captured returns the results of the last AssumePodVolumes since Reset, sorted by claim. For every claim of the pod
// that was not bound yet it has the volume, or "" if one is to be provisioned. It is empty if there was nothing to
// decide or the call failed. It stays when the plugin's Unreserve takes the assumption back.
func (r *Recorder) Captured() []eventlog.VolumeClaim { return slices.Clone(r.last) }

// Reset forgets what was captured; call it before every cycle.
func (r *Recorder) Reset() { r.last = nil }

// GetPodVolumeClaims implements volumebinding.SchedulerVolumeBinder.
func (r *Recorder) GetPodVolumeClaims(logger klog.Logger, pod *v1.Pod) (*volumebinding.PodVolumeClaims, error) {
	return r.binder.GetPodVolumeClaims(logger, pod)
}

// FindPodVolumes implements volumebinding.SchedulerVolumeBinder.
func (r *Recorder) FindPodVolumes(
	logger klog.Logger,
	pod *v1.Pod,
	claims *volumebinding.PodVolumeClaims,
	node *v1.Node,
) (*volumebinding.PodVolumes, volumebinding.ConflictReasons, error) {
	return r.binder.FindPodVolumes(logger, pod, claims, node)
}

// AssumePodVolumes implements volumebinding.SchedulerVolumeBinder and captures the outcome.
func (r *Recorder) AssumePodVolumes(
	logger klog.Logger,
	pod *v1.Pod,
	node string,
	volumes *volumebinding.PodVolumes,
) (bool, error) {
	r.last = nil
	allBound, err := r.binder.AssumePodVolumes(logger, pod, node, volumes)
	if err != nil || allBound {
		return allBound, err
	}
	for _, b := range volumes.StaticBindings {
		r.last = append(r.last, readBinding(b))
	}
	for _, p := range volumes.DynamicProvisions {
		r.last = append(r.last, eventlog.VolumeClaim{Claim: p.PVC.Name})
	}
	slices.SortFunc(r.last, func(a, b eventlog.VolumeClaim) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Volume, b.Volume))
	})
	// A pod may mount one claim twice.
	r.last = slices.Compact(r.last)
	return false, nil
}

// RevertAssumedPodVolumes implements volumebinding.SchedulerVolumeBinder.
func (r *Recorder) RevertAssumedPodVolumes(volumes *volumebinding.PodVolumes) {
	r.binder.RevertAssumedPodVolumes(volumes)
}

// BindPodVolumes implements volumebinding.SchedulerVolumeBinder; it refuses.
func (r *Recorder) BindPodVolumes(context.Context, *v1.Pod, *volumebinding.PodVolumes) error {
	return errBindInCycle
}

// bindingFields are the fields of volumebinding.BindingInfo that have no accessor.
var bindingFields = map[string]reflect.Type{
	"pvc": reflect.TypeFor[*v1.PersistentVolumeClaim](),
	"pv":  reflect.TypeFor[*v1.PersistentVolume](),
}

// checkBindingInfo checks the fields of BindingInfo that readBinding uses.
func checkBindingInfo() error {
	info := reflect.TypeFor[volumebinding.BindingInfo]()
	// any order: any missing field is an error, and both are named
	for name, want := range bindingFields {
		if field, ok := info.FieldByName(name); !ok || field.Type != want {
			return fmt.Errorf(
				"read volume bindings: %v has no field %q of type %v; this binary was built with a Kubernetes "+
					"version it does not know",
				info,
				name,
				want,
			)
		}
	}
	return nil
}

// readBinding returns the names of the claim and the volume of a BindingInfo. Its fields are unexported, and reflection
// may read the strings in them; upstream has no other way to ask which claim a BindingInfo is about.
func readBinding(b *volumebinding.BindingInfo) eventlog.VolumeClaim {
	info := reflect.ValueOf(b).Elem()
	return eventlog.VolumeClaim{
		Claim:  info.FieldByName("pvc").Elem().FieldByName("Name").String(),
		Volume: info.FieldByName("pv").Elem().FieldByName("Name").String(),
	}
}
