package answer

// GroupHistory is the history of a gang, up to the point in question.
type GroupHistory struct {
	// FirstSeen is the point where the log first has its PodGroup or a member.
	FirstSeen Point `json:"firstSeen"`
	// Complete is the point where it was first declared and had enough members; nil if it never did.
	Complete *Point `json:"complete,omitempty"`
	// Declared is the point where its minimum was first known.
	Declared *Point `json:"declared,omitempty"`
	// Placed is the point where its minimum was first bound.
	Placed *Point `json:"placed,omitempty"`
	// Milestones are the times when it was declared, complete or placed, and when it ceased to be: the last ones, in
	// order, at most 50. OmittedMilestones is the number of earlier ones.
	Milestones        []Milestone `json:"milestones,omitempty"`
	OmittedMilestones int         `json:"omittedMilestones,omitempty"`
	// NodeLosses are the losses of nodes on which members were: the last ones, in order, at most 50. OmittedNodeLosses
	// is the number of earlier ones.
	NodeLosses        []NodeLoss `json:"nodeLosses,omitempty"`
	OmittedNodeLosses int        `json:"omittedNodeLosses,omitempty"`
	// LetPast are the entities that were given nodes while it last was complete and not placed; nil for none.
	LetPast *LetPast `json:"letPast,omitempty"`
	// Attempts are the last ones, in order, at most 100; Omitted is the number of earlier ones.
	Attempts []GroupAttempt `json:"attempts,omitempty"`
	Omitted  int            `json:"omitted,omitempty"`
	// PreemptedBy are the decisions that preempted members of it. Preempted are the decisions that preempted others for
	// it. They are the last ones, in order, at most 20 each. The numbers beside them count the earlier ones.
	PreemptedBy        []Preemption `json:"preemptedBy,omitempty"`
	OmittedPreemptedBy int          `json:"omittedPreemptedBy,omitempty"`
	Preempted          []Preemption `json:"preempted,omitempty"`
	OmittedPreempted   int          `json:"omittedPreempted,omitempty"`
}

// Milestone is a change in a gang's progress.
type Milestone struct {
	Point
	// What has one of these values. Declared or Undeclared, Complete or Incomplete, Refused or Accepted, Placed or
	// BelowMinimum: a change and its opposite. Evicted: the rest of a gang that fell below its minimum was evicted, as
	// it wants. Done: as many as it needs have ended well, and the last of them is gone.
	What string `json:"what"`
	// Detail is the cause, as far as it is not plain.
	Detail string `json:"detail,omitempty"`
}

// Eviction is a decision that evicted the rest of a gang.
type Eviction struct {
	Point
	// Members is the number of evicted members, and Why the decision's reason.
	Members int    `json:"members"`
	Why     string `json:"why"`
}

// GroupAttempt is one attempt to place a gang: the cycles that ran back to back.
type GroupAttempt struct {
	// Number is the number of the attempt, counted from 1; 0 if the queue does not know it any more.
	Number int `json:"number,omitempty"`
	// First and Last are its first and last decision.
	First      Point  `json:"first"`
	Last       Point  `json:"last"`
	FirstCycle uint64 `json:"firstCycle"`
	LastCycle  uint64 `json:"lastCycle"`
	// Placed is the number of members that found a node in it. NoNode is the number that found none.
	Placed int `json:"placed"`
	NoNode int `json:"noNode,omitempty"`
	// Outcome is Placed, Failed, Held (its members stay on their nodes and wait), or Running if the point in question
	// lies within it.
	Outcome string `json:"outcome"`
	// FailedMember is the pod (namespace/name) whose cycle made it fail, with the Rejections. It is another gang's if
	// that gang failed of the ones that are admitted together. Code is the code of a reason for it, and Why the short
	// text.
	FailedMember string    `json:"failedMember,omitempty"`
	Rejections   []Refusal `json:"rejections,omitempty"`
	Code         Code      `json:"code,omitempty"`
	Why          string    `json:"why,omitempty"`
	// Allowed counts the held members that were allowed to be bound, and Released the ones that were taken off their
	// nodes.
	Allowed  int `json:"allowed,omitempty"`
	Released int `json:"released,omitempty"`
}

// LetPast are the entities that this scheduler gave nodes while a gang was complete and waited for its own.
type LetPast struct {
	// From is the point where the gang was complete. Until is the point where it had its minimum on nodes; nil if it
	// does not yet.
	From  Point  `json:"from"`
	Until *Point `json:"until,omitempty"`
	// Priority is the gang's own at From.
	Priority int32 `json:"priority"`
	// Pods is the number of pods that passed. Took are their requests for the resources that the gang needs.
	Pods int      `json:"pods"`
	Took []Amount `json:"took,omitempty"`
	// By are the gangs and pods, at most 20: first the ones that took the most of the resource that the gang lacked
	// most. If there are more than a few thousand, the smallest may be left out, and one that comes again is counted
	// twice.
	By []Passer `json:"by"`
	// Others is the number of the rest, with OtherPods pods that took OthersTook.
	Others     int      `json:"others,omitempty"`
	OtherPods  int      `json:"otherPods,omitempty"`
	OthersTook []Amount `json:"othersTook,omitempty"`
	// Ahead are the entities among these that were ahead of the gang in the order of the queue: they were placed in
	// their turn. Overtook are the ones that were behind it. A gang of which members passed in both ways is in both.
	// They are nil for none.
	Ahead    *PastPart `json:"ahead,omitempty"`
	Overtook *PastPart `json:"overtook,omitempty"`
}

// PastPart are the entities of one kind that passed a gang.
type PastPart struct {
	// Entities is their number, Pods the number of their pods, and Took what these took of the resources that the gang
	// needs.
	Entities int      `json:"entities"`
	Pods     int      `json:"pods"`
	Took     []Amount `json:"took,omitempty"`
	// By are the largest, at most 20, sorted as LetPast.By. The rest is as it is there.
	By         []Passer `json:"by"`
	Others     int      `json:"others,omitempty"`
	OtherPods  int      `json:"otherPods,omitempty"`
	OthersTook []Amount `json:"othersTook,omitempty"`
}

// Overtook is the rule that allowed an entity to be placed before a gang that was ahead of it. It is judged where the
// attempt that placed the entity begins.
type Overtook string

// The rules.
const (
	// OtherResources: it took none of the resource that the gang lacked most.
	OtherResources Overtook = "OtherResources"
	// BestEffort: the gang had failed, and no queue policy holds others back for it.
	BestEffort Overtook = "BestEffort"
	// Backfill: the queue policy Backfill let it pass.
	Backfill Overtook = "Backfill"
	// OtherPolicy: another queue policy let it pass.
	OtherPolicy Overtook = "OtherPolicy"
	// KeptRoom: the lane let nothing pass, but room was kept on nodes for it.
	KeptRoom Overtook = "KeptRoom"
	// OtherLane: the gang waited in its lane, and the entity was not in that lane.
	OtherLane Overtook = "OtherLane"
	// NotInQueue: the gang was kept out of the queue by a plugin, or had no place in it.
	NotInQueue Overtook = "NotInQueue"
	// Underway: its attempt was under way when the gang became complete.
	Underway Overtook = "Underway"
	// OutOfTurn: none of these. "rollcall audit order" judges it.
	OutOfTurn Overtook = "OutOfTurn"
)

// Passer is a gang, or a pod of no gang, that passed.
type Passer struct {
	// Kind is group or pod, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Priority is the priority that counts for the first of its pods.
	Priority int32 `json:"priority"`
	// Pods is the number of pods that were given nodes, from First to Last.
	Pods  int   `json:"pods"`
	First Point `json:"first"`
	Last  Point `json:"last"`
	// Meanwhile is the state in the queue of the gang that waited, at First. Active means that the other had its turn
	// first by the order of the queue. In another state the gang could not be tried.
	Meanwhile string   `json:"meanwhile"`
	Took      []Amount `json:"took,omitempty"`
	// Overtook is the rule that allowed it to be placed before the gang; "" if it was ahead of the gang. Why says in
	// words why it was ahead, or why it could overtake. Both are of First.
	Overtook Overtook `json:"overtook,omitempty"`
	Why      string   `json:"why,omitempty"`
}
