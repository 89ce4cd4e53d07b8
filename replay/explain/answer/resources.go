package answer

import (
	v1 "k8s.io/api/core/v1"
)

// GangNeeds has the resources that a gang lacks to be complete, with their holders. Members of the gang that are held
// on nodes count as missing and their room as free: they give it back if the rest find none.
type GangNeeds struct {
	// AsOf is the entry after which, or of a decision on which, it was so.
	AsOf Point `json:"asOf"`
	// Members is the number of missing members. Their need is the sum of the smallest requests.
	Members   int           `json:"members"`
	Resources []ResourceUse `json:"resources,omitempty"`
}

// ResourceUse is the use of one resource: the need, the amount, and the holders, summed over all nodes. For a decision
// on a pod's resize it covers the pod's node alone, and the pod's own amount there counts as free. Allocatable is the
// sum of the amounts of Holders and the others beside them, Kept, and Free, as long as no node's pods request more than
// it has.
type ResourceUse struct {
	Resource v1.ResourceName `json:"resource"`
	Needed   int64           `json:"needed"`
	// Free is the amount that no pod has requested, without Kept. It is the sum of Usable, the amounts of Unusable, and
	// UnusableOthers.
	Free        int64 `json:"free"`
	Usable      int64 `json:"usable"`
	Allocatable int64 `json:"allocatable"`
	// Unusable are the parts of Free that the pods cannot use, by cause, the largest first; at most 10. UnusableOthers
	// is the sum of the other parts.
	Unusable       []UnusableRoom `json:"unusable,omitempty"`
	UnusableOthers int64          `json:"unusableOthers,omitempty"`
	// Domains splits Free by the domains of which the gang requires one; nil if it requires none.
	Domains *RoomByDomain `json:"domains,omitempty"`
	// LargestFree is the most that is free on one node that takes the pods as far as resources are not concerned.
	// LargestFreeNode is the first such node by name.
	LargestFree     int64  `json:"largestFree"`
	LargestFreeNode string `json:"largestFreeNode,omitempty"`
	// Kept is an unrequested amount that is kept from the pods that need it: for pods that are nominated to nodes, or
	// for the first in the lane. KeptFor are the ones for which the most is kept, at most 5. KeptForOthers is the
	// number of the rest, and KeptForOthersAmount the amount for them.
	Kept                int64    `json:"kept,omitempty"`
	KeptFor             []Holder `json:"keptFor,omitempty"`
	KeptForOthers       int      `json:"keptForOthers,omitempty"`
	KeptForOthersAmount int64    `json:"keptForOthersAmount,omitempty"`
	// KeptUsable is the part of Kept on nodes that no plugin other than NodeResourcesFit refused: the other part is not
	// why a pod was refused.
	KeptUsable Kept `json:"-"`
	// OnTaking is Usable and the room on nodes that have too little of another resource.
	OnTaking int64 `json:"-"`
	// Holders have the most, at most 5; Others is the number of the rest, and OthersAmount their amount.
	Holders      []Holder `json:"holders,omitempty"`
	Others       int      `json:"others,omitempty"`
	OthersAmount int64    `json:"othersAmount,omitempty"`
}

// Kept has the entities for which room is kept. For has the ones for which the most is kept, at most 5. Others is the
// number of the rest, and OthersAmount the amount for them.
type Kept struct {
	For          []Holder
	Others       int
	OthersAmount int64
}

// Holder is a gang, or a pod of no gang, that has requested some of a resource on a node, or for which some is kept.
// Room that is kept for the first in a lane may be kept for a CompositePodGroup.
type Holder struct {
	// Kind is group, pod or composite, Name its namespace/name.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Pods is the number of pods that have Amount between them; 0 for room that is kept for the first in a lane, for
	// any of its pods.
	Pods   int   `json:"pods"`
	Amount int64 `json:"amount"`
}

// Amount is an amount of a resource, in its base unit; cpu in thousandths of a core.
type Amount struct {
	Resource v1.ResourceName `json:"resource"`
	Amount   int64           `json:"amount"`
}

// Shortfall is a resource of which there is too little, with its amount and holders.
type Shortfall struct {
	// AsOf is the entry after which, or of a decision on which, it was so.
	AsOf Point `json:"asOf"`
	// Of is the entity that needs it: Gang, Unit (all gangs that are admitted together), MinResources (the request of
	// the PodGroup), or Pod: one member, or a pod by itself. Members is the number of members that need it between
	// them.
	Of      string `json:"of"`
	Members int    `json:"members,omitempty"`
	Pod     string `json:"pod,omitempty"`
	// Missing is by how much Needed is above what is usable: on all nodes together, or for Pod on the node with the
	// most.
	Missing int64 `json:"missing"`
	ResourceUse
}

// NeverFits reports whether all nodes together have less than is needed, free or not.
func (s *Shortfall) NeverFits() bool {
	return s.Of != "Pod" && s.Allocatable > 0 && s.Needed > s.Allocatable
}
