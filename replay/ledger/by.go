package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rollcall-sched/rollcall/cluster"
)

// By is the property of pods that groups them. The zero value groups by namespace.
type By struct {
	kind  string
	label string // of the kind label
}

// The kinds of groups.
const (
	byNamespace = "namespace"
	byLabel     = "label"
	byGang      = "gang"
	byNode      = "node"
	byPriority  = "priority"
)

// none is the group of pods without a label, and noGang the one of pods without a gang.
const (
	none   = "(none)"
	noGang = "(no gang)"
)

// Others is the group of the groups that Options.Only does not name.
const Others = "(others)"

// ParseBy reads namespace, label:KEY, gang, node or priority.
func ParseBy(text string) (By, error) {
	kind, key, labelled := strings.Cut(text, ":")
	switch {
	case kind == byLabel && key != "":
		return By{byLabel, key}, nil
	case labelled:
	case kind == byNamespace, kind == byGang, kind == byNode, kind == byPriority:
		return By{kind: kind}, nil
	}
	return By{}, fmt.Errorf("%q: want namespace, label:KEY, gang, node or priority", text)
}

// String is the text that ParseBy reads.
func (b By) String() string {
	switch b.kind {
	case "":
		return byNamespace
	case byLabel:
		return byLabel + ":" + b.label
	}
	return b.kind
}

// Set implements pflag.Value.
func (b *By) Set(text string) (err error) {
	*b, err = ParseBy(text)
	return err
}

// Type implements pflag.Value.
func (b *By) Type() string { return "group" }

// of returns the group of a pod. A pod without a node is in no group of nodes: "".
func (b By) of(c *cluster.State, p *cluster.Pod) string {
	switch b.kind {
	case byLabel:
		if value, ok := p.Object.Labels[b.label]; ok {
			return value
		}
		return none
	case byGang:
		if p.Group == nil {
			return noGang
		}
		return p.Group.String()
	case byNode:
		return p.Node
	case byPriority:
		return strconv.Itoa(int(c.Gangs().PriorityOf(p.Object)))
	}
	return p.Object.Namespace
}
