package framework_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// CoschedulingArgs are the arguments of another plugin with the gang plugin's name. scheduler-plugins registers such a
// type for every program that uses one of its plugins. All tests of this package run with it in the scheme: the gang
// plugin's arguments are read and defaulted as without it.
type CoschedulingArgs struct {
	metav1.TypeMeta `json:",inline"`

	PermitWaitingTimeSeconds *int64 `json:"permitWaitingTimeSeconds,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *CoschedulingArgs) DeepCopyObject() runtime.Object {
	c := *a
	return &c
}

func init() { scheme.Scheme.AddKnownTypes(configv1.SchemeGroupVersion, &CoschedulingArgs{}) }
