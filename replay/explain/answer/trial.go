package answer

// Trial is the result of an attempt at the point in question. The plugins are asked on the state of that entry. No log
// has its decisions.
type Trial struct {
	// Point is the point in question: all that is said here holds there.
	Point
	// Fits says that the pod, or all members that the gang needs, would find nodes. Found counts the pods that would.
	Fits  bool `json:"fits"`
	Found int  `json:"found"`
	// AskedFirst says that HTTP extenders have a say in it, which are asked when it is tried: the trial is without
	// them.
	AskedFirst bool `json:"askedFirst,omitempty"`
	// Evicted counts the pods that would have to go for it, if the attempt fails and others have a lower priority.
	Evicted int `json:"evicted,omitempty"`
	// Code says how it would fail, as a reason's does; "" if it fits. Message is the same in words, without a subject.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message"`
	// Member is the pod (namespace/name) at which it would fail, and Group its gang; Refusals say who refuses that pod.
	Member   string    `json:"member,omitempty"`
	Group    string    `json:"group,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Members and MoreMembers are as Reason's.
	Members     []RefusedMembers `json:"members,omitempty"`
	MoreMembers int              `json:"moreMembers,omitempty"`
	// Shortfall has a row for every resource that there is too little of, the worst first. In rows for Pod, members
	// that would have found nodes before it count among the holders.
	Shortfall []Shortfall `json:"shortfall,omitempty"`

	// Decision is the one that the attempt would fail by; nil if it fits. Own is the one on the pod that is explained,
	// if it would find no node.
	Decision *Decision `json:"-"`
	Own      *Decision `json:"-"`
}
