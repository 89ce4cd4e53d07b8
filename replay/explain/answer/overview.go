package answer

// Overview says what is wrong at one point of the log, the most important first.
type Overview struct {
	At Point `json:"at"`
	// KnownFrom is as Pod's.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Nodes, Pods, PendingEntities and Gangs count what there is.
	Nodes           int `json:"nodes"`
	Pods            int `json:"pods"`
	Gangs           int `json:"gangs"`
	PendingEntities int `json:"pendingEntities"`
	// Findings are what is wrong. It is empty if nothing is.
	Findings []Finding `json:"findings"`
}

// Finding is one thing that is wrong.
type Finding struct {
	// Kind is one of these, in this order: NodesDown, NodesCordoned, NeverPlaced, BelowMinimum, Waiting, Reservation,
	// Preemption.
	Kind string `json:"kind"`
	// Names are what it is about: nodes, or gangs and pods.
	Names []string `json:"names"`
	// Message says it as one sentence. Command tells more: LOG stands for the log.
	Message string `json:"message"`
	Command string `json:"command"`
}
