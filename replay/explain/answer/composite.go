package answer

// Composite is where a CompositePodGroup stood at one point of the log, and how it came there.
type Composite struct {
	// Composite is namespace/name.
	Composite string `json:"composite"`
	// At is the last entry that takes part in the answer, KnownFrom as Pod's.
	At        Point  `json:"at"`
	KnownFrom uint64 `json:"knownFrom,omitempty"`
	// Stage is Undeclared (gangs name it, and it is not there), Refused, Independent (by its policy its gangs have
	// nothing to do with each other), Incomplete (too few gangs have as many members as they need), Pending, Placed
	// (enough gangs have their minimum on nodes for good, or are done), BelowMinimum (it was Placed, and is not), or
	// Gone.
	Stage string `json:"stage"`
	// Declared says that it is there; Min is how many gangs are enough. Refusal is what it contradicts itself in.
	Declared bool   `json:"declared"`
	Min      int    `json:"min"`
	Refusal  string `json:"refusal,omitempty"`
	// WithMinimum counts, of what is directly below it, the gangs that have their minimum on nodes for good, or are
	// done, and the CompositePodGroups of which so many as they need have.
	WithMinimum int `json:"withMinimum"`
	// Parent is the CompositePodGroup that it is directly below, "" for none. Together is the one as a part of which it
	// is admitted, "" if that is itself, or nothing.
	Parent   string `json:"parent,omitempty"`
	Together string `json:"together,omitempty"`
	// Composites are the CompositePodGroups below it, at most 50, each behind the one that it is below.
	Composites []CompositeBelow `json:"composites,omitempty"`
	// Gangs are all those below it, directly or not, at most 50; Others is how many more there are.
	Gangs  []CompositeGang `json:"gangs"`
	Others int             `json:"others,omitempty"`
	// Queue is where it stands in the queue; nil if it does not.
	Queue *QueuePlace `json:"queue,omitempty"`
	// Reason is that of the first gang without its minimum that does not itself wait for another one; nil if none
	// pends.
	Reason *Reason `json:"reason,omitempty"`
	// History is its own: its attempts are those of all its gangs together.
	History GroupHistory `json:"history"`
}

// CompositeBelow is a CompositePodGroup below another one.
type CompositeBelow struct {
	// Composite is namespace/name, Parent that of the one that it is directly below.
	Composite string `json:"composite"`
	Parent    string `json:"parent"`
	// Min is how many of the Groups directly below it are enough, WithMinimum as Composite's.
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
	// EndedWell counts its members that have, until as many have as it needs and none is left; Missing is how many it
	// lacks to have its minimum.
	EndedWell int `json:"endedWell"`
	Missing   int `json:"missing"`
	// Code and Message say why it is pending; "" if it is not.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	// Predicate is as Reason's.
	Predicate string `json:"-"`
}
