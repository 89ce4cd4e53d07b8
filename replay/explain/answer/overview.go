package answer

// Overview says what is wrong at one point of the log, the most important first.
type Overview struct {
	At Point `json:"at"`
	// KnownFrom is as Pod's.
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Undecided is as Pod's.
	Undecided string `json:"undecided,omitempty"`
	// Nodes, Pods, PendingEntities and Gangs count the objects.
	Nodes           int `json:"nodes"`
	Pods            int `json:"pods"`
	Gangs           int `json:"gangs"`
	PendingEntities int `json:"pendingEntities"`
	// Findings are the things that are wrong, none if nothing is.
	Findings []Finding `json:"findings"`
}

// Finding is one thing that is wrong.
type Finding struct {
	// Kind is one of these, in this order: NodesDown, NodesCordoned, NeverPlaced, LostNodes, BelowMinimum, Waiting,
	// Reservation, Preemption.
	Kind string `json:"kind"`
	// Names are the nodes, or the gangs and pods, with the problem.
	Names []string `json:"names"`
	// Message says it as one sentence. Command tells more: LOG is to be replaced by the log.
	Message string `json:"message"`
	Command string `json:"command"`
}
