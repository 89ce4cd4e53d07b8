package plugins

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// The result of Filter for a node is often remembered from the pod before (framework/classes.go), and then Filter is
// not called for it. But Score and Reserve read the state that Filter leaves in the cycle. So they call it for their
// node if it was not called.

// searchedKey is the key in the cycle's state of the nodes that were searched for devices.
const searchedKey fwk.StateKey = dynamicresources.Name + "/rollcall.dev/searched"

// searched are the nodes for which Filter was called in a cycle.
type searched struct {
	// scores says that the choice of devices makes a difference to the score.
	scores bool

	mu    sync.Mutex
	nodes map[string]struct{}
	// beside are the nominated pods beside which the pod must get other devices than Filter has found.
	beside map[string][]*v1.Pod
}

// Clone implements fwk.StateData: what Filter leaves behind is shared with copies of the state, too.
func (s *searched) Clone() fwk.StateData { return s }

func (s *searched) add(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node] = struct{}{}
}

func (s *searched) has(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.nodes[node]
	return ok
}

// keepBeside notes that the pod must leave nominated pods their devices.
func (s *searched) keepBeside(node string, nominated []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.beside == nil {
		s.beside = map[string][]*v1.Pod{}
	}
	s.beside[node] = nominated
}

// begin has the cycle take note of the nodes that are searched.
func (p *boundedDevices) begin(state fwk.CycleState, pod *v1.Pod) {
	s := &searched{nodes: map[string]struct{}{}}
	for _, claim := range p.claimsOf(pod) {
		for _, request := range claim.Spec.Devices.Requests {
			s.scores = s.scores || len(request.FirstAvailable) > 0
		}
	}
	state.Write(searchedKey, s)
}

// claimsOf returns the existing claims of the pod.
func (p *boundedDevices) claimsOf(pod *v1.Pod) (claims []*resourcev1.ResourceClaim) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim, err := p.handle.SharedDRAManager().ResourceClaims().Get(pod.Namespace, *name); err == nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// search has the node searched if it was not in this cycle.
func (p *boundedDevices) search(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(searchedKey)
	if err != nil || data.(*searched).has(node.Node().Name) {
		return nil
	}
	return p.Filter(ctx, state, pod, node)
}

// Score implements fwk.ScorePlugin.
func (p *boundedDevices) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) (int64, *fwk.Status) {
	if data, err := state.Read(searchedKey); err == nil && data.(*searched).scores {
		if status := p.search(ctx, state, pod, node); !status.IsSuccess() {
			return 0, status
		}
	}
	return p.DynamicResources.Score(ctx, state, pod, node)
}

// Reserve implements fwk.ReservePlugin.
func (p *boundedDevices) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if data, err := state.Read(searchedKey); err == nil {
		node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
		if err != nil {
			return fwk.AsStatus(err)
		}
		if status := p.search(ctx, state, pod, node); !status.IsSuccess() {
			return status
		}
		if keepers := data.(*searched).beside[nodeName]; len(keepers) > 0 {
			if status := p.reserveBeside(ctx, state, pod, node, keepers); !status.IsSuccess() {
				return status
			}
		}
	}
	return p.DynamicResources.Reserve(ctx, state, pod, nodeName)
}
