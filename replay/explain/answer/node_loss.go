package answer

// NodeLoss is the loss of a node on which pods were: the node was deleted, or it evicted them.
type NodeLoss struct {
	// Point is the first entry that took pods off the node.
	Point
	// Node is the node's name.
	Node string `json:"node"`
	// How has one of these values. Deleted: the Node object was deleted. NotReady and Unreachable: the node had that
	// taint, which evicted the pods. Tainted: so did another taint. Drained: the pods were evicted from a cordoned node
	// by its API.
	How string `json:"how"`
	// Taint is the key of the taint that evicted the pods, and Since the time at which the node got it, as far as the
	// node says so.
	Taint string  `json:"taint,omitempty"`
	Since Instant `json:"since,omitzero"`
	// Group is the gang of the pods, namespace/name; "" for a pod of no gang.
	Group string `json:"group,omitempty"`
	// Pods is the number of lost pods. Names are their names (namespace/name), in the order of their entries, at most
	// 20. In the answer about a pod it is that pod.
	Pods  int      `json:"pods"`
	Names []string `json:"names"`
	// OnNode is, in the answer about a pod, the number of members of its gang that had the node at Point; the pod is
	// one of them. It is 0 in other answers.
	OnNode int `json:"onNode,omitempty"`
	// Last is the last entry that took pods off the node, if that is another one than Point.
	Last *Point `json:"last,omitempty"`
	// BelowMinimum says that the gang had its minimum before, and has fewer members on nodes without these.
	BelowMinimum bool `json:"belowMinimum,omitempty"`
	// Message says all of that as one sentence, without the time.
	Message string `json:"message"`
}
