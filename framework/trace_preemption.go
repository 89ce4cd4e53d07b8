package framework

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreemptionTrace has the results of a search for pods to evict.
type PreemptionTrace struct {
	// Possible are the pods that the preemptor may preempt on the nodes that were searched, the least important first.
	Possible []types.UID
	// Options are the sets of victims that would make room, in the order in which they were found. One was chosen.
	Options []PreemptionOption
}

// PreemptionOption is one set of victims that would make room.
type PreemptionOption struct {
	// Node is the node where they make room for a single pod; "" for a gang. Domain has the nodes of the gang's domain;
	// nil for all nodes.
	Node   string
	Domain []string
	// Victims are the pods that would go, the most important first. Violations counts the ones that a disruption budget
	// protects.
	Victims    []types.UID
	Violations int
}

const traceKey fwk.StateKey = "rollcall/trace"

type keptTrace struct{ trace *Trace }

// Clone implements fwk.StateData.
func (t keptTrace) Clone() fwk.StateData { return t }

// KeepTrace lets plugins find the trace of the cycle in its state. It does nothing for nil.
func KeepTrace(state fwk.CycleState, t *Trace) {
	if t != nil {
		state.Write(traceKey, keptTrace{t})
	}
}

// TraceOf returns the trace of the cycle, nil if it records none. No decision may depend on it.
func TraceOf(state fwk.CycleState) *Trace {
	data, err := state.Read(traceKey)
	if err != nil {
		return nil
	}
	return data.(keptTrace).trace
}
