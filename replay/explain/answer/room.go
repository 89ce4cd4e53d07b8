package answer

import v1 "k8s.io/api/core/v1"

// RoomCause says why pods cannot use a free amount.
type RoomCause string

// The causes. The first one that is true of a node counts.
const (
	// Cordoned: the node is unschedulable, and the pods do not tolerate that.
	Cordoned RoomCause = "Cordoned"
	// Tainted: the pods do not tolerate a taint of the node; By is the taint, as KEY=VALUE:EFFECT.
	Tainted RoomCause = "Tainted"
	// NotSelected: the pods' node selector or required node affinity leaves the node out.
	NotSelected RoomCause = "NotSelected"
	// NoDomain: the node does not have all labels that the gang's nodes must agree on; By is these labels.
	NoDomain RoomCause = "NoDomain"
	// OtherDomain: the gang must stay within one domain, and the node is in another one; By is the labels.
	OtherDomain RoomCause = "OtherDomain"
	// RefusedByPlugin: another plugin refused the node for the pod that was tried; By is the plugin.
	RefusedByPlugin RoomCause = "Refused"
	// Fragmented: less than one member needs is free on the node, or is left there beside as many members as fit.
	Fragmented RoomCause = "Fragmented"
	// LacksOther: the node has too little of another resource for one member; By is that resource.
	LacksOther RoomCause = "LacksOther"
)

// UnusableRoom is a part of a free amount that the pods cannot use, with the cause.
type UnusableRoom struct {
	Cause RoomCause `json:"cause"`
	// By is the taint, the labels, the plugin or the resource that the cause names; "" for another cause.
	By     string `json:"by,omitempty"`
	Amount int64  `json:"amount"`
	// Nodes is the number of nodes that have it. Examples are the first of them by name, at most 3.
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples"`
}

// RoomByDomain splits a free amount by the domains of which a gang requires one. The free amounts of the Domains, the
// others beside them, and the nodes outside add up to it.
type RoomByDomain struct {
	// Labels are the labels of nodes of each of which all nodes of a domain have one value.
	Labels []string `json:"labels"`
	// Domains have the most usable room, at most 10. Others is the number of the rest, OthersFree and OthersUsable
	// their amounts.
	Domains      []DomainRoom `json:"domains"`
	Others       int          `json:"others,omitempty"`
	OthersFree   int64        `json:"othersFree,omitempty"`
	OthersUsable int64        `json:"othersUsable,omitempty"`
	// Outside is the number of nodes that are in no domain, and OutsideFree the amount that is free on them.
	Outside     int   `json:"outside,omitempty"`
	OutsideFree int64 `json:"outsideFree,omitempty"`
}

// DomainRoom is the room of one domain.
type DomainRoom struct {
	// Domain is LABEL=VALUE, of several levels separated by semicolons.
	Domain string `json:"domain"`
	Nodes  int    `json:"nodes"`
	// Chosen says that ResourceUse.Usable is of this domain: the gang has members there, the attempt was limited to
	// it, or it has room for the most members.
	Chosen bool `json:"chosen,omitempty"`
	// Usable is the amount that the gang could use if this domain was chosen.
	Allocatable int64 `json:"allocatable"`
	Free        int64 `json:"free"`
	Usable      int64 `json:"usable"`
	// Fits is the number of missing members for which the domain has room, at most all of them; nil if the members
	// request different amounts.
	Fits *int `json:"fits,omitempty"`
}

// DomainLimit says that a gang with a required topology fits in no domain, not even if other pods leave.
type DomainLimit struct {
	// AsOf is the entry after which it was so.
	AsOf Point `json:"asOf"`
	// Labels are as RoomByDomain's. Domains is the number of domains.
	Labels  []string `json:"labels"`
	Domains int      `json:"domains"`
	// Members is the number of members that one domain has to hold, and Needed the least that they request of the
	// Resource that the largest domain has too little of.
	Members  int             `json:"members"`
	Resource v1.ResourceName `json:"resource"`
	Needed   int64           `json:"needed"`
	// Largest is the domain that would hold the most, as LABEL=VALUE. Nodes is the number of its nodes that the members
	// may use, cordoned and tainted ones among them. Allocatable is the amount of the Resource on these.
	Largest     string `json:"largest"`
	Nodes       int    `json:"nodes"`
	Allocatable int64  `json:"allocatable"`
	// Holds is the number of members that Largest holds if no other pod is there; nil if the members request different
	// amounts.
	Holds *int `json:"holds,omitempty"`
}

// Unmatched says that no node meets the requirements of a pod: its node selector and its required node affinity.
type Unmatched struct {
	// AsOf is the entry after which it was so.
	AsOf Point `json:"asOf"`
	// Pod is namespace/name. Pods counts the pending members of the gang that require the same, or is 1.
	Pod  string `json:"pod"`
	Pods int    `json:"pods"`
	// Nodes is the number of all nodes.
	Nodes int `json:"nodes"`
	// Requirements are the ones that no node meets. If each of them is met by some node, and no node meets all, they
	// are all of them. There are at most 10. Others is the number of the rest.
	Requirements []NodeRequirement `json:"requirements"`
	Others       int               `json:"others,omitempty"`
}

// NodeRequirement is one requirement of a pod on the labels or the name of a node.
type NodeRequirement struct {
	// From is NodeSelector or NodeAffinity. Term is the number of the term of the required node affinity, from 1. One
	// term has to be met.
	From string `json:"from"`
	Term int    `json:"term,omitempty"`
	// Key is the label, or metadata.name for the node's name. Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt.
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
	// Nodes is the number of nodes that meet it.
	Nodes int `json:"nodes"`
	// NearMisses are labels that nodes have instead, the most similar first, at most 3: other values of the key, and
	// similar keys. OtherValues is the number of values of the key that are not among them.
	NearMisses  []NearMiss `json:"nearMisses,omitempty"`
	OtherValues int        `json:"otherValues,omitempty"`
}

// NearMiss is a label of nodes that is similar to a required one.
type NearMiss struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Nodes is the number of nodes that have it. Examples are the first of them by name, at most 3.
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples"`
}
