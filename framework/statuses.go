package framework

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// NodeStatuses says, for a pod that fits no node, why each node was refused: what PostFilter plugins read.
// It is valid until the profile's next Place. Unlike upstream's, it lists nodes in an order that never
// varies: that in which they were filtered.
type NodeStatuses struct {
	refused []refusal
	absent  *fwk.Status
	index   map[string]int // built by the first Get
}

var _ fwk.NodeToStatusReader = (*NodeStatuses)(nil)

// refusal is one node and the status that refused it.
type refusal struct {
	node   fwk.NodeInfo
	status *fwk.Status
}

// Len returns how many nodes have a status of their own.
func (s *NodeStatuses) Len() int { return len(s.refused) }

// Absent returns the status of the nodes that have none of their own.
func (s *NodeStatuses) Absent() *fwk.Status { return s.absent }

// Get returns the node's own status, or else Absent's.
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

// NodesForStatusCode returns the nodes whose status has the code: those with a status of their own as the
// profile saw them, and, if Absent has the code, all others of the lister, in the lister's order.
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
