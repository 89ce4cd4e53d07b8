package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Rehearsal is a hypothetical world with other pods on the nodes. While it lasts, all plugins of the profile see this
// world. End returns to the real one, which never changes. A rehearsal covers neither plugins' own reservations nor
// volumes. A profile has at most one at a time.
type Rehearsal struct {
	p       *Profile
	search  *search
	without string
	only    *fwk.PreFilterResult // nil: all nodes
}

// stage is the World's Lister as plugins see it. During a rehearsal it returns the changed nodes instead of the real
// ones.
type stage struct {
	fwk.SharedLister                         // the real one
	changed          map[string]fwk.NodeInfo // nil: there is no rehearsal
	listed           []fwk.NodeInfo          // List's result; nil after a change of changed
	unnominated      map[types.UID]bool      // pods whose nominations do not count
}

// Rehearse begins a rehearsal in which the nominations of the given pods do not count. PreFilter skips the plugin named
// without.
func (h *handle) Rehearse(without string, unnominated map[types.UID]bool) *Rehearsal {
	s := &h.p.stage
	if s.changed != nil {
		panic("framework: a rehearsal begins before the one before it has ended")
	}
	s.changed, s.listed, s.unnominated = map[string]fwk.NodeInfo{}, nil, unnominated
	r := &Rehearsal{p: h.p, search: &search{}, without: without}
	r.search.init(h.p)
	return r
}

// End returns to the real world.
func (r *Rehearsal) End() {
	r.p.stage.changed, r.p.stage.listed, r.p.stage.unnominated = nil, nil, nil
	r.p.classes.rehearsals++
}

// AddPod adds a pod to the node that it names.
func (r *Rehearsal) AddPod(pod fwk.PodInfo) error {
	node, err := r.p.stage.change(pod.GetPod().Spec.NodeName)
	if err != nil {
		return err
	}
	node.AddPodInfo(pod)
	return nil
}

// RemovePod removes a pod from the node that it names.
func (r *Rehearsal) RemovePod(pod fwk.PodInfo) error {
	node, err := r.p.stage.change(pod.GetPod().Spec.NodeName)
	if err != nil {
		return err
	}
	if err := node.RemovePod(klog.Logger{}, pod.GetPod()); err != nil {
		return err
	}
	if removed := r.p.world.Removed; removed != nil {
		removed(node, pod.GetPod())
	}
	return nil
}

// Renew marks the node as changed, so that memos about it do not apply. Callers use it when the node's devices change.
// It ignores a node that does not exist.
func (r *Rehearsal) Renew(node string) {
	if info, err := r.p.stage.change(node); err == nil {
		info.(*upstream.NodeInfo).Generation = upstream.NewNodeInfo().Generation // a number that no node has had
	}
}

// Limit restricts Place to the nodes with these names; nil removes the limit.
func (r *Rehearsal) Limit(nodes []string) {
	r.only = nil
	if nodes != nil {
		r.only = &fwk.PreFilterResult{NodeNames: sets.New(nodes...)}
	}
}

// Place is Profile.Place over all nodes, or over the nodes of the limit.
func (r *Rehearsal) Place(ctx context.Context, pod *v1.Pod) Placement {
	r.setPod(ctx, pod)
	return r.search.place(0)
}

// Fits reports whether the pod can be placed on the node.
func (r *Rehearsal) Fits(ctx context.Context, pod *v1.Pod, node string) bool {
	c := r.search
	r.setPod(ctx, pod)
	nodes, err := r.p.stage.List()
	if err != nil || !c.preFilter(nodes).IsSuccess() || !c.preFilters.AllNodes() && !c.preFilters.NodeNames.Has(node) {
		return false
	}
	info, err := r.p.stage.Get(node)
	return err == nil && c.filterNode(info) == nil && (c.reserved == nil || c.reserved.Why(info) == nil)
}

// Feasible returns all nodes on which the pod can be placed, within the limit, by name. filtered counts the nodes that
// were filtered. ok is false after an error of a plugin.
func (r *Rehearsal) Feasible(ctx context.Context, pod *v1.Pod) (nodes []fwk.NodeInfo, filtered int, ok bool) {
	c := r.search
	r.setPod(ctx, pod)
	list, err := r.p.stage.List()
	if err != nil {
		return nil, 0, false
	}
	c.template = c.templateOf(list)
	if status := c.preFilter(list); !status.IsSuccess() {
		return nil, len(list), !status.IsError()
	}
	c.classify(len(list))
	if !c.preFilters.AllNodes() {
		list = c.narrowed
	}
	status := c.filterNodes(list, 0, len(list)+1)
	return slices.Clone(c.feasible), len(list), status == nil
}

// AllKnown reports whether the dependencies of all filters are known: no plugin of others filters.
func (r *Rehearsal) AllKnown() bool { return !r.p.uncounted }

// Nodes returns all nodes as plugins see them, in the order of the cluster's list.
func (r *Rehearsal) Nodes() ([]fwk.NodeInfo, error) { return r.p.stage.List() }

// Node returns a node as plugins see it.
func (r *Rehearsal) Node(name string) (fwk.NodeInfo, error) { return r.p.stage.Get(name) }

func (r *Rehearsal) setPod(ctx context.Context, pod *v1.Pod) {
	r.search.setPod(ctx, NewCycleState(), pod, nil)
	r.search.exempt.plugin = r.without
	if r.search.preFilters = r.only; r.only != nil {
		r.search.existing()
	}
}

// change returns a copy of the node that may be changed.
func (s *stage) change(name string) (fwk.NodeInfo, error) {
	if info, ok := s.changed[name]; ok {
		return info, nil
	}
	info, err := s.SharedLister.NodeInfos().Get(name)
	if err != nil {
		return nil, err
	}
	info = info.Snapshot()
	s.changed[name], s.listed = info, nil
	return info, nil
}

// The stage is a SharedLister. During a rehearsal it is its own NodeInfoLister.
var (
	_ fwk.SharedLister      = (*stage)(nil)
	_ fwk.NodeInfoLister    = (*stage)(nil)
	_ fwk.StorageInfoLister = (*stage)(nil)
)

// NodeInfos implements fwk.SharedLister.
func (s *stage) NodeInfos() fwk.NodeInfoLister {
	if s.changed == nil {
		return s.SharedLister.NodeInfos()
	}
	return s
}

// StorageInfos implements fwk.SharedLister.
func (s *stage) StorageInfos() fwk.StorageInfoLister {
	if s.changed == nil {
		return s.SharedLister.StorageInfos()
	}
	return s
}

// List implements fwk.NodeInfoLister, in the order of the real lister.
func (s *stage) List() ([]fwk.NodeInfo, error) {
	if s.listed != nil {
		return s.listed, nil
	}
	nodes, err := s.SharedLister.NodeInfos().List()
	if err != nil || len(s.changed) == 0 {
		return nodes, err
	}
	s.listed = slices.Clone(nodes)
	for i, n := range nodes {
		if info, ok := s.changed[n.Node().Name]; ok {
			s.listed[i] = info
		}
	}
	return s.listed, nil
}

// Get implements fwk.NodeInfoLister.
func (s *stage) Get(name string) (fwk.NodeInfo, error) {
	if info, ok := s.changed[name]; ok {
		return info, nil
	}
	return s.SharedLister.NodeInfos().Get(name)
}

// HavePodsWithAffinityList implements fwk.NodeInfoLister.
func (s *stage) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	nodes, err := s.SharedLister.NodeInfos().HavePodsWithAffinityList()
	return s.replace(nodes, func(n fwk.NodeInfo) bool { return len(n.GetPodsWithAffinity()) > 0 }), err
}

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister.
func (s *stage) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	nodes, err := s.SharedLister.NodeInfos().HavePodsWithRequiredAntiAffinityList()
	return s.replace(nodes, func(n fwk.NodeInfo) bool { return len(n.GetPodsWithRequiredAntiAffinity()) > 0 }), err
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList implements fwk.NodeInfoLister. It returns nil if the real lister
// does, which means that it does not list such nodes.
func (s *stage) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	nodes, err := s.SharedLister.NodeInfos().HavePodsWithRequiredNonHostScopedAntiAffinityList()
	if nodes == nil {
		return nil, err
	}
	belongs := func(n fwk.NodeInfo) bool { return len(n.GetPodsWithRequiredNonHostScopedAntiAffinity()) > 0 }
	return s.replace(nodes, belongs), err
}

// replace returns the unchanged nodes of the list, and the changed nodes for which belongs returns true, by name.
func (s *stage) replace(nodes []fwk.NodeInfo, belongs func(fwk.NodeInfo) bool) []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, n := range nodes {
		if _, ok := s.changed[n.Node().Name]; !ok {
			out = append(out, n)
		}
	}
	// any order: sorted right below
	for _, n := range s.changed {
		if belongs(n) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return out
}

// IsPVCUsedByPods implements fwk.StorageInfoLister; key is namespace/name.
func (s *stage) IsPVCUsedByPods(key string) bool {
	nodes, err := s.List()
	if err != nil {
		panic(fmt.Sprintf("framework: list nodes of a rehearsal: %v", err))
	}
	return slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n.GetPVCRefCounts()[key] > 0 })
}
