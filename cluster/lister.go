package cluster

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// The state is what plugins see as the snapshot of a cycle: nothing changes it while a cycle runs.
var (
	_ fwk.SharedLister   = (*State)(nil)
	_ fwk.NodeInfoLister = (*State)(nil)
)

// NodeInfos implements fwk.SharedLister.
func (s *State) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos implements fwk.SharedLister.
func (s *State) StorageInfos() fwk.StorageInfoLister { return s }

// List implements fwk.NodeInfoLister: every node that exists, sorted by name. The slice must not be changed.
func (s *State) List() ([]fwk.NodeInfo, error) { return s.listed, nil }

// HavePodsWithAffinityList implements fwk.NodeInfoLister, sorted by name.
func (s *State) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return s.withAffinity.list(), nil }

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister, sorted by name.
func (s *State) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.withAntiAffinity.list(), nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList implements fwk.NodeInfoLister, sorted by name. Pods are such only
// under the feature gate InterPodAffinityHostnameFastPath. The list is not nil, also if it is empty.
func (s *State) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	if nodes := s.withWideAntiAffinity.list(); nodes != nil {
		return nodes, nil
	}
	return []fwk.NodeInfo{}, nil
}

// Get implements fwk.NodeInfoLister. The error for a name that no node has says so.
func (s *State) Get(name string) (fwk.NodeInfo, error) {
	if n, ok := s.nodes[name]; ok && n.exists {
		return n.info, nil
	}
	return nil, fmt.Errorf("node %q not found", name)
}

// IsPVCUsedByPods implements fwk.StorageInfoLister; key is namespace/name.
func (s *State) IsPVCUsedByPods(key string) bool {
	for _, info := range s.listed {
		if info.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

// PodGroups implements fwk.SharedLister.
func (s *State) PodGroups() fwk.PodGroupLister { return podGroupLister{s} }

// PodGroupStates implements fwk.SharedLister. Its states are those of kube-scheduler's own gang plugin
// (feature gate GenericWorkload), which does not run here: every Get fails.
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
