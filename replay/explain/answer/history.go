package answer

// GroupHistory is what happened to a gang, up to the point in question.
type GroupHistory struct {
	// FirstSeen is where the log first has its PodGroup or a member.
	FirstSeen Point `json:"firstSeen"`
	// Complete is where it was first declared and had as many members as it needs; nil if it never did.
	Complete *Point `json:"complete,omitempty"`
	// Declared is where it was first known how many members it needs.
	Declared *Point `json:"declared,omitempty"`
	// Placed is where its minimum first was on nodes for good.
	Placed *Point `json:"placed,omitempty"`
	// Milestones are the times when it was declared, complete or placed, and when it ceased to be: the last ones, in
	// order, at most 50; OmittedMilestones is how many came before them.
	Milestones        []Milestone `json:"milestones,omitempty"`
	OmittedMilestones int         `json:"omittedMilestones,omitempty"`
	// LetPast is who was given nodes while it last was complete and not placed; nil for nobody.
	LetPast *LetPast `json:"letPast,omitempty"`
	// Attempts are the last ones, in order, at most 100; Omitted is how many came before them.
	Attempts []GroupAttempt `json:"attempts,omitempty"`
	Omitted  int            `json:"omitted,omitempty"`
	// PreemptedBy are the decisions by which members of it had to give up their nodes for others, and Preempted those
	// by which others had to for it: the last ones, in order, at most 20 each. The numbers beside them are how many
	// came before.
	PreemptedBy        []Preemption `json:"preemptedBy,omitempty"`
	OmittedPreemptedBy int          `json:"omittedPreemptedBy,omitempty"`
	Preempted          []Preemption `json:"preempted,omitempty"`
	OmittedPreempted   int          `json:"omittedPreempted,omitempty"`
}

// Milestone is a change of what a gang has come to.
type Milestone struct {
	Point
	// What is Declared or Undeclared, Complete or Incomplete, Refused or Accepted, Placed or BelowMinimum, Evicted (the
	// rest of a gang that fell below its minimum was asked to go, as it wants), or Done (as many as it needs have ended
	// well, and the last of them is gone).
	What string `json:"what"`
	// Detail is what brought it about, as far as that is not plain.
	Detail string `json:"detail,omitempty"`
}

// Eviction is a decision by which the rest of a gang was asked to go.
type Eviction struct {
	Point
	// Members is how many were asked, and Why what the decision says.
	Members int    `json:"members"`
	Why     string `json:"why"`
}

// GroupAttempt is one attempt to place a gang: the cycles that ran back to back.
type GroupAttempt struct {
	// Number is which of the attempts it is, counted from 1; 0 if the queue does not know any more.
	Number int `json:"number,omitempty"`
	// First and Last are its first and last decision.
	First      Point  `json:"first"`
	Last       Point  `json:"last"`
	FirstCycle uint64 `json:"firstCycle"`
	LastCycle  uint64 `json:"lastCycle"`
	// Placed is how many members found a node in it, and NoNode how many found none.
	Placed int `json:"placed"`
	NoNode int `json:"noNode,omitempty"`
	// Outcome is Placed, Failed, Held (its members stay on their nodes and wait), or Running if the point in question
	// lies within it.
	Outcome string `json:"outcome"`
	// FailedMember is the pod (namespace/name) whose cycle made it fail, Rejections why: it is another gang's if that
	// one is what failed of those that are admitted together. Code is what a reason would say, and Why says it in
	// short.
	FailedMember string    `json:"failedMember,omitempty"`
	Rejections   []Refusal `json:"rejections,omitempty"`
	Code         Code      `json:"code,omitempty"`
	Why          string    `json:"why,omitempty"`
	// Allowed and Released count the held members that were let go to be bound, and taken off their nodes.
	Allowed  int `json:"allowed,omitempty"`
	Released int `json:"released,omitempty"`
}

// LetPast is who was given nodes by this scheduler while a gang was complete and waited for its own.
type LetPast struct {
	// From is where the gang was complete, and Until where it had its minimum on nodes; nil if it does not yet.
	From  Point  `json:"from"`
	Until *Point `json:"until,omitempty"`
	// Priority is the gang's own at From.
	Priority int32 `json:"priority"`
	// Pods is how many pods were let past, and Took what they requested of the resources that the gang needs.
	Pods int      `json:"pods"`
	Took []Amount `json:"took,omitempty"`
	// By are the gangs and pods, those first that took the most of the resource that the gang lacked most, at most 20.
	// Of more than a few thousand the smallest may be left out, and one that comes again is counted anew.
	By []Passer `json:"by"`
	// Others is how many more they were, with OtherPods pods that took OthersTook.
	Others     int      `json:"others,omitempty"`
	OtherPods  int      `json:"otherPods,omitempty"`
	OthersTook []Amount `json:"othersTook,omitempty"`
}

// Passer is a gang, or a pod of no gang, that was let past.
type Passer struct {
	// Kind is group or pod, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Priority is that of the first of its pods: of a gang's member that of the gang, where it has one.
	Priority int32 `json:"priority"`
	// Pods is how many pods were given nodes, from First to Last.
	Pods  int   `json:"pods"`
	First Point `json:"first"`
	Last  Point `json:"last"`
	// Meanwhile is where the gang that waited stood in the queue at First: Active if the other had its turn first by
	// the order of the queue, another state if the gang could not be tried.
	Meanwhile string   `json:"meanwhile"`
	Took      []Amount `json:"took,omitempty"`
}
