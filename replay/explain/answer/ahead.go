package answer

// MaxAhead is the number of entities ahead that QueuePlace names at most.
const MaxAhead = 100

// AheadEntity is an entity of the queue that has its turn before another one.
type AheadEntity struct {
	// Kind is group, composite or pod, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Priority is the priority that counts in the queue.
	Priority int32 `json:"priority"`
	// State is its state in the queue, as QueuePlace has it.
	State string `json:"state"`
	// Why is the reason for which it is ahead, in words.
	Why string `json:"why"`
	// ActiveSince is the time at which it was first active; zero if it never was.
	ActiveSince Instant `json:"activeSince,omitzero"`
	// Attempts is the number of its attempts. RejectedBy are the plugins that refused the last one.
	Attempts   int      `json:"attempts"`
	RejectedBy []string `json:"rejectedBy,omitempty"`
}
