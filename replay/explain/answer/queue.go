package answer

// QueuePlace is the place of a pod or a gang in the queue.
type QueuePlace struct {
	// Entity is pod or podgroup: what has its turn as one.
	Entity string `json:"entity"`
	// State is Gated, Active, Backoff, Unschedulable, InFlight, Placed or Asking (HTTP extenders).
	State string `json:"state"`
	// Retryable says, of an Unschedulable entity, that it is due for a retry as soon as the nodes together have room.
	Retryable bool `json:"owed,omitempty"`
	// Since is the time when it came to rest as Unschedulable or Gated. It stays the same when an event asks for a
	// retry.
	Since Instant `json:"since,omitzero"`
	// Ahead is the number of others that have their turn first, if it is Active.
	Ahead int `json:"ahead,omitempty"`
	// AheadOf are these others, in the order of their turns, at most MaxAhead (100). MoreAhead is the number of the
	// rest.
	AheadOf   []AheadEntity `json:"aheadOf,omitempty"`
	MoreAhead int           `json:"moreAhead,omitempty"`
	// BackoffUntil is the time at which its backoff ends or ended.
	BackoffUntil Instant `json:"backoffUntil,omitzero"`
	// RejectedBy are the plugins that refused its last attempt: a change that concerns one of them brings the next.
	RejectedBy []string `json:"rejectedBy,omitempty"`
	// GatingPlugin gated a member last, and GatingMessage is its message.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
	// RetryAt is the time at which it is tried again, or tested again if it is gated, if only time passes. It is zero
	// if something else has to happen. NextRetry says it in words.
	RetryAt   Instant `json:"retryAt,omitzero"`
	NextRetry string  `json:"nextRetry"`
}

// Reserved is a reservation. At is the time at which there is room on so many Nodes, as the running pods declare.
type Reserved struct {
	At    Instant `json:"at"`
	Nodes int     `json:"nodes"`
}

// ReservationEnd is the entry that ended a reservation, and why: Ended is the name that the log has for it.
type ReservationEnd struct {
	Point
	Ended string `json:"ended"`
	Why   string `json:"why"`
}

// Blocks says that nobody passes the first in line since then, and on how many Nodes how many Pods of the Needed ones
// find room by now.
type Blocks struct {
	Since  Instant `json:"since"`
	Nodes  int     `json:"nodes"`
	Pods   int     `json:"pods"`
	Needed int     `json:"needed"`
}

// NextRetry is the time of the next attempt.
type NextRetry struct {
	// At is the time of the attempt, or of the next check, if only time passes; zero if something else has to happen.
	At Instant `json:"at,omitzero"`
	// Words say it in full.
	Words string `json:"words"`
}

// WaitsFor is the event that has to happen.
type WaitsFor struct {
	// Kind is one of these: Object (a PodGroup or CompositePodGroup), Agreement (an end of the contradiction),
	// Configuration, Members, Gates, Gangs, Permit, Room, Change (an event for one of the plugins). Time, Turn, Cycles
	// (its own are running), Extenders (their answers), Nothing.
	Kind string `json:"kind"`
	// Plugins are the plugins that must change their answer: they refused, gate, or hold.
	Plugins []string `json:"plugins,omitempty"`
	// Groups are the gangs, or the object, that it waits for: namespace/name, at most 5. It is the CompositePodGroup
	// that is to have more gangs below it if those are not known.
	Groups []string `json:"groups,omitempty"`
	// Members is the number of missing members, Ahead the number of others that have their turn first.
	Members int `json:"members,omitempty"`
	Ahead   int `json:"ahead,omitempty"`
	// Until is the end of a backoff, or of the time for which members are held.
	Until Instant `json:"until,omitzero"`
}
