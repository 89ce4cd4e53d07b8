package phrase

import (
	"fmt"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// NodeAndCause names a lost node and how it was lost.
func NodeAndCause(x *answer.NodeLoss) string {
	since := ""
	if x.Since != 0 {
		since = fmt.Sprintf(" since %s", x.Since)
	}
	switch x.How {
	case "Deleted":
		return fmt.Sprintf("node %s lost (its Node object was deleted)", x.Node)
	case "NotReady":
		return fmt.Sprintf("node %s lost (not ready%s)", x.Node, since)
	case "Unreachable":
		return fmt.Sprintf("node %s lost (unreachable%s)", x.Node, since)
	case "Drained":
		return fmt.Sprintf("node %s drained (cordoned, and its pods evicted)", x.Node)
	}
	if x.Taint == "" {
		return fmt.Sprintf("node %s evicted its pods (by a taint that it has no more)", x.Node)
	}
	return fmt.Sprintf("node %s evicted its pods (taint %s%s)", x.Node, x.Taint, since)
}

// NodeLost says which node was lost, how, and what was lost with it.
func NodeLost(x *answer.NodeLoss) string {
	return NodeAndCause(x) + ": " + PodsLost(x)
}

// NodeLostInShort is NodeLost without the cause.
func NodeLostInShort(x *answer.NodeLoss) string {
	switch x.How {
	case "Deleted", "NotReady", "Unreachable":
		return fmt.Sprintf("node %s lost: %s", x.Node, PodsLost(x))
	case "Drained":
		return fmt.Sprintf("node %s drained: %s", x.Node, PodsLost(x))
	}
	return fmt.Sprintf("node %s evicted its pods: %s", x.Node, PodsLost(x))
}

// PodsLost says which pods were lost with a node.
func PodsLost(x *answer.NodeLoss) string {
	var text string
	switch {
	case x.OnNode > 1:
		text = fmt.Sprintf("pod %s lost, one of %d of %s that had it", x.Names[0], x.OnNode, x.Group)
	case x.Group == "" && x.Pods > 1:
		text = Count(int64(x.Pods), "pod", "pods") + " of no gang lost"
	case x.Group == "" || x.OnNode == 1:
		text = fmt.Sprintf("pod %s lost", x.Names[0])
	default:
		text = fmt.Sprintf("%s of %s lost", Count(int64(x.Pods), "pod", "pods"), x.Group)
	}
	if x.BelowMinimum {
		text += ", gang below its minimum"
	}
	return text
}
