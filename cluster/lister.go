package cluster

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

var _ fwk.SharedLister = (*State)(nil)

// NodeInfos implements fwk.SharedLister.
func (s *State) NodeInfos() fwk.NodeInfoLister { return s.nodes }

// StorageInfos implements fwk.SharedLister.
func (s *State) StorageInfos() fwk.StorageInfoLister { return s.nodes }

// PodGroups implements fwk.SharedLister.
func (s *State) PodGroups() fwk.PodGroupLister { return podGroupLister{s} }

// PodGroupStates implements fwk.SharedLister. Its states belong to kube-scheduler's own gang plugin (feature gate
// GenericWorkload), which does not run here: every Get fails.
func (s *State) PodGroupStates() fwk.PodGroupStateLister { return noPodGroupStates{} }

// CompositePodGroupStates implements fwk.SharedLister; see PodGroupStates.
func (s *State) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositePodGroupStates{}
}

// CompositePodGroups implements fwk.SharedLister; see PodGroupStates.
func (s *State) CompositePodGroups() fwk.CompositePodGroupLister { return noCompositePodGroups{} }

type podGroupLister struct{ s *State }

func (l podGroupLister) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	if g, ok := l.s.informers.Get(eventlog.PodGroups, namespace, name).(*schedulingv1beta1.PodGroup); ok {
		return g, nil
	}
	return nil, fmt.Errorf("pod group %s/%s: %w", namespace, name, fwk.ErrNotFound)
}

type noPodGroupStates struct{}

func (noPodGroupStates) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, fmt.Errorf("state of pod group %s/%s: %w", namespace, name, fwk.ErrNotFound)
}

type noCompositePodGroupStates struct{}

func (noCompositePodGroupStates) Get(namespace, name string) (fwk.CompositePodGroupState, error) {
	return nil, fmt.Errorf("state of composite pod group %s/%s: %w", namespace, name, fwk.ErrNotFound)
}

type noCompositePodGroups struct{}

func (noCompositePodGroups) Get(namespace, name string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, fmt.Errorf("composite pod group %s/%s: %w", namespace, name, fwk.ErrNotFound)
}
