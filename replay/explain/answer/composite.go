package answer

// Composite is the state of a CompositePodGroup at one point of the log, and how it came about.
type Composite struct {
	// Composite is namespace/name.
	Composite string `json:"composite"`
	// At is the last entry that takes part in the answer, KnownFrom as Pod's.
	At        Point  `json:"at"`
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is one of these. Undeclared: gangs name it, and it does not exist. Refused. Independent: by its policy its
	// gangs are independent of each other. Incomplete: too few gangs have enough members. Pending. Placed: enough gangs
	// have their minimum bound, or are done. BelowMinimum: it was Placed, and is not now. Gone.
	Stage string `json:"stage"`
	// Declared says that it exists. Min is the number of gangs that are enough. Refusal is its contradiction.
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	Refusal  string `json:"refusal,omitempty"`
	// WithMinimum counts its parts directly below: the gangs that have their minimum bound, or are done, and the
	// CompositePodGroups with as many such parts as they need.
	WithMinimum int `json:"withMinimum"`
	// Parent is the CompositePodGroup that it is directly below, "" for none. Together is the one as a part of which it
	// is admitted, "" if that is itself, or nothing.
	Parent   string `json:"parent,omitempty"`
	Together string `json:"together,omitempty"`
	// Composites are the CompositePodGroups below it, at most 50, each behind the one that it is below.
	Composites []CompositeBelow `json:"composites,omitempty"`
	// Gangs are all gangs below it, directly or not, at most 50. Others is the number of the rest.
	Gangs  []CompositeGang `json:"gangs"`
	Others int             `json:"others,omitempty"`
	// Queue is its place in the queue; nil if it has none.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Reason is the reason of the first gang without its minimum that does not itself wait for another one; nil if none
	// is pending.
	Reason *Reason `json:"reason,omitempty"`
	// History is its own history: its attempts are the attempts of all its gangs together.
	History GroupHistory `json:"history"`
}

// CompositeBelow is a CompositePodGroup below another one.
type CompositeBelow struct {
	// Composite is its namespace/name. Parent is the namespace/name of the one directly above it.
	Composite string `json:"composite"`
	Parent    string `json:"parent"`
	// Min is the number of Groups directly below it that are enough. WithMinimum is as Composite's.
	Min         int `json:"min"`
	Groups      int `json:"groups"`
	WithMinimum int `json:"withMinimum"`
}

// CompositeGang is a gang below a CompositePodGroup.
type CompositeGang struct {
	GangProgress
	// Parent is the CompositePodGroup that it is directly below, "" if that is the one that was asked for.
	Parent string `json:"parent,omitempty"`
	// Stage is as Group's.
	Stage string `json:"stage"`
	// EndedWell counts members that ended well, until as many as it needs have and none is left. Missing is the number
	// that it lacks for its minimum.
	EndedWell int `json:"endedWell"`
	Missing   int `json:"missing"`
	// Code and Message say why it is pending; "" if it is not.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	// Predicate is as Reason's.
	Predicate string `json:"-"`
}
