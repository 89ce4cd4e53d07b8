package answer

// Removal says who made a pod go, where somebody else has decided.
type Removal struct {
	// Point is the first entry that says so.
	Point
	// Reason is the reason of the pod's condition DisruptionTarget, such as EvictionByEvictionAPI.
	Reason string `json:"reason"`
	// Node is the node that the pod lost.
	Node string `json:"node,omitempty"`
	// By is the scheduler or the field manager that set the condition; "" if the log does not tell.
	By string `json:"by,omitempty"`
	// For names the pods that were nominated to the node with a higher priority; "" for none, or if it was not
	// preemption.
	For string `json:"for,omitempty"`
	// Cordoned says that the node was cordoned at that time.
	Cordoned bool `json:"cordoned,omitempty"`
	// Details is the condition's message.
	Details string `json:"details,omitempty"`
	// Message is the removal in words, without its subject.
	Message string `json:"message"`
}
