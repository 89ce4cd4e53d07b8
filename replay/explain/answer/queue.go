package answer

// QueuePlace is where a pod or a gang is in the queue.
type QueuePlace struct {
	// Entity is pod or podgroup: what has its turn as one.
	Entity string `json:"entity"`
	// State is Gated, Active, Backoff, Unschedulable, InFlight, Placed or Asking (HTTP extenders).
	State string `json:"state"`
	// Retryable says, of an Unschedulable entity, that it is due for a retry as soon as the nodes together have room.
	Retryable bool `json:"owed,omitempty"`
	// Since is when it came to rest as Unschedulable or Gated; it stays what it was while a retry is owed.
	Since Instant `json:"since,omitzero"`
	// Ahead is how many others have their turn first, if it is Active.
	Ahead int `json:"ahead,omitempty"`
	// BackoffUntil is when its backoff ends or ended.
	BackoffUntil Instant `json:"backoffUntil,omitzero"`
	// RejectedBy are the plugins that refused its last attempt: a change that concerns one of them brings the next.
	RejectedBy []string `json:"rejectedBy,omitempty"`
	// GatingPlugin gated a member last, and GatingMessage is what it said.
	GatingPlugin  string `json:"gatingPlugin,omitempty"`
	GatingMessage string `json:"gatingMessage,omitempty"`
	// RetryAt is when it is tried (or, if gated, looked at) again though nothing but time passes; zero if
	// something else has to happen. NextRetry says it in words.
	RetryAt   Instant `json:"retryAt,omitzero"`
	NextRetry string  `json:"nextRetry"`
}

// Reserved is a reservation: At is when there is room by what is declared of the pods that run, on so many Nodes.
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

// NextRetry is when the next attempt comes.
type NextRetry struct {
	// At is when it comes, or when it is asked again whether it can, though nothing but time passes; zero if something
	// else has to happen.
	At Instant `json:"at,omitzero"`
	// Words say it in full.
	Words string `json:"words"`
}

// WaitsFor is what has to happen.
type WaitsFor struct {
	// Kind is Object (a PodGroup or CompositePodGroup), Agreement (an end of the contradiction), Configuration,
	// Members, Gates, Gangs, Permit, Room, Change (an event that concerns one of the plugins), Time, Turn, Cycles (its
	// own are running), Extenders (their answers), or Nothing.
	Kind string `json:"kind"`
	// Plugins are those that must change their mind: that refused, gate, or hold.
	Plugins []string `json:"plugins,omitempty"`
	// Groups are the gangs, or the object, that it waits for: namespace/name, at most 5. It is the CompositePodGroup
	// that is to have more gangs below it if those are not known.
	Groups []string `json:"groups,omitempty"`
	// Members is how many members are missing, Ahead how many others have their turn first.
	Members int `json:"members,omitempty"`
	Ahead   int `json:"ahead,omitempty"`
	// Until is the end of a backoff, or of the time for which members are held.
	Until Instant `json:"until,omitzero"`
}
