package policies

import (
	"encoding/json"
	"strings"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/queue"
)

// ReverseNamespaces is a lane policy: each namespace has a lane, the last one in the alphabet goes first, and nothing
// passes the first of its lane.
type ReverseNamespaces struct{ view framework.PolicyView }

// NewReverseNamespaces is its factory. It takes no arguments.
func NewReverseNamespaces(_ json.RawMessage, view framework.PolicyView) (queue.LanePolicy, error) {
	return &ReverseNamespaces{view}, nil
}

// Lane returns the namespace.
func (r *ReverseNamespaces) Lane(e *queue.Entity) string { return e.Key().Namespace }

// CompareLanes puts the last namespace first.
func (r *ReverseNamespaces) CompareLanes(a, b string) int { return strings.Compare(b, a) }

// Passes lets nothing pass but members that a gang has beyond its minimum.
func (r *ReverseNamespaces) Passes(e *queue.Entity) bool {
	for _, pod := range e.Pending() {
		gang, ok := r.view.GangOf(pod)
		return ok && gang.Minimum > 0 && gang.Placed >= gang.Minimum
	}
	return true
}
