package framework

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// NodeStatuses has the reason why each node was refused, for a pod that fits no node. PostFilter plugins read it. It is
// valid until the profile's next Place. Unlike upstream's, it always lists the nodes in the order in which they were
// filtered.
type NodeStatuses struct {
	refused []refusal
	absent  *fwk.Status
	index   map[string]int // built by the first Get
}

var _ fwk.NodeToStatusReader = (*NodeStatuses)(nil)

// refusal is a node and the status that refused it.
type refusal struct {
	node   fwk.NodeInfo
	status *fwk.Status
}

// Len returns the number of nodes with a status of their own.
func (s *NodeStatuses) Len() int { return len(s.refused) }

// Absent returns the status of the other nodes.
func (s *NodeStatuses) Absent() *fwk.Status { return s.absent }

// Get returns the node's own status, or Absent's.
func (s *NodeStatuses) Get(nodeName string) *fwk.Status {
	if s.index == nil {
		s.index = make(map[string]int, len(s.refused))
		for i, r := range s.refused {
			s.index[r.node.Node().Name] = i
		}
	}
	if i, ok := s.index[nodeName]; ok {
		return s.refused[i].status
	}
	return s.absent
}

// NodesForStatusCode returns the nodes whose status has the code. These are the nodes with such a status of their own.
// If Absent has the code, all nodes of the lister without a status of their own belong to them too, and the result is
// in the lister's order.
func (s *NodeStatuses) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	if s.absent.Code() == code {
		all, err := lister.List()
		if err != nil || len(s.refused) == 0 {
			return all, err
		}
		var out []fwk.NodeInfo
		for _, n := range all {
			if s.Get(n.Node().Name).Code() == code {
				out = append(out, n)
			}
		}
		return out, nil
	}
	var out []fwk.NodeInfo
	for _, r := range s.refused {
		if r.status.Code() == code {
			out = append(out, r.node)
		}
	}
	return out, nil
}
