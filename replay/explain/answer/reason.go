package answer

// Code says in one word why a pod or a gang is pending. docs/GANGS.md has a table of them. Codes may be added; none
// changes its meaning.
type Code string

// The codes. A pending entity has exactly one: the first of these that holds. InFlight and AsksExtenders go before the
// codes that count members.
const (
	// Undeclared: the PodGroup, or the CompositePodGroup above it, does not exist, and no annotation replaces it.
	Undeclared Code = "Undeclared"
	// Refused: the gang, or what it is to be admitted with, contradicts itself.
	Refused Code = "Refused"
	// NoProfile: the configuration has no profile that schedules the pod, or the gang as a gang.
	NoProfile Code = "NoProfile"
	// BeingDeleted: the pod's deletion has begun.
	BeingDeleted Code = "BeingDeleted"
	// BeingEvicted: the pod was evicted while it had a node, which it has lost since because its bind failed. It is not
	// placed again. For a gang: all members that are left were evicted, before the first known entry.
	BeingEvicted Code = "BeingEvicted"
	// InFlight: the cycles of the gang's attempt are running at the point in question.
	InFlight Code = "InFlight"
	// AsksExtenders: HTTP extenders were asked about it, or about its members, and have not all answered yet.
	AsksExtenders Code = "AsksExtenders"
	// Incomplete: there are fewer members than the minimum.
	Incomplete Code = "Incomplete"
	// Gated: scheduling gates, or another PreEnqueue plugin than the gang plugin, keep members out of the queue.
	Gated Code = "Gated"
	// WaitsForOthers: a gang that this one is admitted together with is missing.
	WaitsForOthers Code = "WaitsForOthers"
	// HeldByPermit: enough members are held on nodes, and a Permit plugin has not let all of them go.
	HeldByPermit Code = "HeldByPermit"
	// LacksRoom: all nodes together have too little free, so that no cycle was tried.
	LacksRoom Code = "LacksRoom"
	// Unplaceable: plugins refused all nodes for a member, or the member as a whole.
	Unplaceable Code = "Unplaceable"
	// NeverFits: the last attempt found no nodes, and none will, even if all other pods end: Reason.Never says why.
	NeverFits Code = "NeverFits"
	// PluginFailed: a plugin ended in an error.
	PluginFailed Code = "PluginFailed"
	// PermitTimedOut: held members were released because one was held until its deadline.
	PermitTimedOut Code = "PermitTimedOut"
	// BrokenOff: held members were released because something came between, such as a lost node.
	BrokenOff Code = "BrokenOff"
	// BindFailed: binding a pod failed, and it lost its node.
	BindFailed Code = "BindFailed"
	// FailedBefore: the last attempt failed, before the first entry of which the log tells.
	FailedBefore Code = "FailedBefore"
	// FitsNow: the last attempt found no nodes, and one at the point in question would.
	FitsNow Code = "FitsNow"
	// Backoff: no attempt has failed since a member was last placed, but the backoff of one before that still runs.
	Backoff Code = "Backoff"
	// InTurn: nothing keeps it back; others have their turn first, or it comes with the next cycle.
	InTurn Code = "InTurn"
)

// Codes returns all codes, in the order in which they are checked.
func Codes() []Code {
	return []Code{Undeclared, Refused, NoProfile, BeingDeleted, BeingEvicted, InFlight, AsksExtenders, Incomplete,
		Gated, WaitsForOthers, HeldByPermit, LacksRoom, Unplaceable, NeverFits, PluginFailed, PermitTimedOut,
		BrokenOff, BindFailed, FailedBefore, FitsNow, Backoff, InTurn}
}

// Reason is the reason why a pod or a gang is pending. A pod of a gang has its gang's, and a part of its own beside it.
// Amounts of resources are in their base unit, cpu in thousandths of a core.
type Reason struct {
	Code Code `json:"code"`
	// LastCode is the code of the last attempt, if it found no nodes for another reason than Code; "" otherwise.
	LastCode Code `json:"lastCode,omitempty"`
	// Message is the reason as one sentence.
	Message string `json:"message"`
	// Group is the gang (namespace/name) whose reason it is, "" if it is the reason of a pod by itself.
	Group string `json:"group,omitempty"`
	// BeyondMinimum is the number of pending members if the gang has its minimum on nodes: the reason is theirs.
	BeyondMinimum int `json:"beyondMinimum,omitempty"`
	// Since is since when it has been so. With LastCode, it is since when the attempts have had that code. The attempts
	// of a gang that fail one after the other for the same reason are one time of waiting. Zero if that is not known.
	Since Instant `json:"since,omitzero"`
	// Attempts counts the attempts so far, and NextRetry is the time of the next one.
	Attempts  int       `json:"attempts"`
	NextRetry NextRetry `json:"nextRetry"`
	WaitsFor  WaitsFor  `json:"waitsFor"`

	// Now is the result of an attempt at the point in question; nil if nothing can be tried then. The fields after it
	// are of the last attempt that was made.
	Now *Trial `json:"now,omitempty"`
	// Failed is the decision, or the result of a bind, that made the last attempt fail. It is nil unless the code says
	// that one failed and the log has it. Member (namespace/name) is its pod, and Refusals are the pod's.
	Failed   *Point    `json:"failed,omitempty"`
	Member   string    `json:"member,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Members are the gang's members that found no node in that attempt, alike ones as one row. MoreMembers is the
	// number of others beside those rows.
	Members     []RefusedMembers `json:"members,omitempty"`
	MoreMembers int              `json:"moreMembers,omitempty"`
	// KeptOut are the members that count towards no attempt, alike ones as one row: gated, being deleted, or being
	// evicted.
	KeptOut []KeptOut `json:"keptOut,omitempty"`
	// Shortfall has a row for every resource that there is too little of, the worst first, as of ShortfallAt.
	Shortfall   []Shortfall `json:"shortfall,omitempty"`
	ShortfallAt *Point      `json:"shortfallAt,omitempty"`

	Limits

	// Reserved is the reservation that it has as the first that does not fit, with the queue policy Backfill.
	Reserved *Reserved `json:"reserved,omitempty"`
	// ReservationEnded is the end of the last reservation that it had, if a Decision ended it and it has none now.
	ReservationEnded *ReservationEnd `json:"reservationEnded,omitempty"`
	// Blocks is the room that is kept free for it, as the first that does not fit, if it is not known when there will
	// be room for it.
	Blocks *Blocks `json:"held,omitempty"`

	// Pod is the part of a pod of the gang, if a pod is explained.
	Pod *PodPart `json:"pod,omitempty"`

	// Predicate is Message without its subject, for a sentence that has another one.
	Predicate string `json:"-"`
	// ShortNow says that Shortfall is of the point in question, and not of the last failed attempt.
	ShortNow bool `json:"-"`
}

// Limits are the reasons why an entity cannot be placed at the point in question, whatever other pods do.
type Limits struct {
	// Never says in words why the entity cannot be placed even if all other pods end; "" if that is not certain.
	Never string `json:"never,omitempty"`
	// DomainLimit says that no domain can ever hold the gang, at the point in question; nil if one may.
	DomainLimit *DomainLimit `json:"domainLimit,omitempty"`
	// Unmatched has the requirements of a pod that no node meets at that point; nil if one does.
	Unmatched *Unmatched `json:"unmatched,omitempty"`
}

// RefusedMembers are members that were refused alike in one attempt.
type RefusedMembers struct {
	// Count is their number; Examples are the first of them (namespace/name), at most 3.
	Count    int      `json:"count"`
	Examples []string `json:"examples"`
	// Refusals say who refused how many nodes for each of them: for one of them, where the numbers differ, the most.
	Refusals []Refusal `json:"refusals"`
}

// KeptOut are members that no attempt can place, and why.
type KeptOut struct {
	Count    int      `json:"count"`
	Examples []string `json:"examples"`
	// Plugin is the PreEnqueue plugin that keeps them out, and Message what it says. Plugin is "" if they are to go:
	// Message is then what is happening to them.
	Plugin  string `json:"plugin,omitempty"`
	Message string `json:"message"`
}

// PodPart is the part of an answer about one pod beside the reason of its gang.
type PodPart struct {
	// Outcome is one of these. NoNode: the pod itself was refused in the last attempt. Released: it was given a node,
	// and gave it back. Held: it is on a node, until the gang is allowed. KeptOut, BeingDeleted, or NotTried.
	Outcome string `json:"outcome"`
	Message string `json:"message"`
	// At is the decision that says so, if there is one.
	At *Point `json:"at,omitempty"`
	// Node is the node where it is held, or was held, and Until the end of that at the latest.
	Node  string  `json:"node,omitempty"`
	Until Instant `json:"until,omitzero"`
	// Refusals are the pod's own.
	Refusals []Refusal `json:"refusals,omitempty"`
}
