package explain

import (
	v1 "k8s.io/api/core/v1"
)

// The words for the status of a node.
const (
	Ready       = "Ready"
	NotReady    = "NotReady"
	Unreachable = "Unreachable"
	Tainted     = "Tainted"
	Cordoned    = "Cordoned"
)

// NodeStatus returns the status of a node: Ready, NotReady or Unreachable, then Tainted if another taint evicts pods,
// then Cordoned.
func NodeStatus(node *v1.Node) []string {
	is, tainted := Ready, false
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			if is = NotReady; c.Status == v1.ConditionUnknown {
				is = Unreachable
			}
		}
	}
	for i := range node.Spec.Taints {
		switch t := &node.Spec.Taints[i]; {
		case t.Key == v1.TaintNodeUnreachable:
			is = Unreachable
		case t.Key == v1.TaintNodeNotReady && is == Ready:
			is = NotReady
		case t.Key == v1.TaintNodeNotReady:
		case t.Effect == v1.TaintEffectNoExecute:
			tainted = true
		}
	}
	status := []string{is}
	if tainted {
		status = append(status, Tainted)
	}
	if node.Spec.Unschedulable {
		status = append(status, Cordoned)
	}
	return status
}
