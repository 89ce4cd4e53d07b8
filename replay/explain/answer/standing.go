package answer

// Standing says why an entity is pending, from the state at one entry alone. It does not know how the last attempt
// failed, because only the log before that entry does. So the code of an entity whose last attempt failed is the code
// with which an attempt would fail at that entry: Reason.Now has the same.
type Standing struct {
	// Code is FailedBefore if the last attempt failed and the next one would find nodes: Fits is true then.
	Code Code `json:"code"`
	Fits bool `json:"fits,omitempty"`
	// Why says the reason in short.
	Why string `json:"why"`
	// Never says why no end of other pods helps the entity: the cluster, or the entity, has to change. It is "" if the
	// entity may be placed some day.
	Never string `json:"never,omitempty"`
	// Evicts is the number of pods that an attempt would evict.
	Evicts int `json:"evicts,omitempty"`
	// NextRetry is the time of the next attempt.
	NextRetry NextRetry `json:"nextRetry"`
}

// PodsNeed has the pods of an entity that need nodes, with their requests.
type PodsNeed struct {
	// Members is the number of pods.
	Members int `json:"members"`
	// Each are the requests of each of the pods, if they request the same.
	Each []Amount `json:"each,omitempty"`
	// Total is the least that so many of the pods request.
	Total []Amount `json:"total"`
}

// Pending is an entity that has pods without a node, at one entry.
type Pending struct {
	// Kind is gang or pod, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Since is the creation of the first of its pods that are not bound or being bound; of a gang without such a pod it
	// is zero.
	Since Instant `json:"since,omitzero"`
	// BeyondMinimum is the number of pending members if the gang has its minimum on nodes.
	BeyondMinimum int `json:"beyondMinimum,omitempty"`
	Standing
	Needs PodsNeed `json:"needs"`
	// Position is its place in the order of turns, from 1 on, among all entities of the queue; 0 if it is not in the
	// queue. Ahead is the number of entities that have their turn before it; nil if it is not Active.
	Position int  `json:"position,omitempty"`
	Ahead    *int `json:"ahead,omitempty"`
	// State, Attempts and Priority are the queue's.
	State    string `json:"state,omitempty"`
	Attempts int    `json:"attempts"`
	Priority int32  `json:"priority"`
}
