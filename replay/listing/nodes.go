package listing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// Node is a node.
type Node struct {
	Name string `json:"name"`
	// Status has Ready, NotReady or Unreachable, and then Cordoned.
	Status []string `json:"status"`
	// Taints are the node's taints as kubectl writes them: key=value:effect.
	Taints []string `json:"taints,omitempty"`
	// Since is the entry that made the status what it is; nil if the status is Ready alone, or if that is before the
	// first known entry.
	Since *answer.Point `json:"since,omitempty"`
	// Pods is the number of pods on the node, held and leaving ones among them.
	Pods      int        `json:"pods"`
	Resources []NodeRoom `json:"resources"`
	// ReservedFor are the entities (gang or pod, namespace/name) for which room on the node is kept: their pods are
	// nominated to it, or a reservation has it.
	ReservedFor []string `json:"reservedFor,omitempty"`
}

// NodeRoom is one resource of a node, in its base unit.
type NodeRoom struct {
	Resource    v1.ResourceName `json:"resource"`
	Allocatable int64           `json:"allocatable"`
	Held        int64           `json:"held"`
	Free        int64           `json:"free"`
}

// nodes lists the nodes by name.
func nodes(q *question) (*List, error) {
	infos, _ := q.m.Cluster().Nodes().List()
	resources := mainResources(infos)
	reserved := q.reserved()
	q.opts.Namespace = "" // nodes have none
	var rows []Node
	for _, n := range infos {
		if !q.wants(types.NamespacedName{Name: n.Node().Name}) {
			continue
		}
		x := Node{Name: n.Node().Name, Status: explain.NodeStatus(n.Node()), Pods: len(n.GetPods()),
			ReservedFor: reserved[n.Node().Name]}
		for i := range n.Node().Spec.Taints {
			x.Taints = append(x.Taints, n.Node().Spec.Taints[i].ToString())
		}
		for _, name := range resources {
			allocatable, held := cluster.AmountOn(n, name)
			x.Resources = append(x.Resources, NodeRoom{name, allocatable, held, max(0, allocatable-held)})
		}
		rows = append(rows, x)
	}
	if err := q.addSince(rows); err != nil {
		return nil, err
	}
	return newList(rows, "node", "nodes", q.nodeColumns(resources)), nil
}

// nodeColumns are the columns of nodes. The narrow text has the extended resources, or else cpu and memory.
func (q *question) nodeColumns(resources []v1.ResourceName) []column[Node] {
	at := q.survey.At()
	type row = Node
	columns := []column[row]{
		{title: "NAME", text: func(x *row) string { return x.Name }},
		{title: "STATUS", text: func(x *row) string { return strings.Join(x.Status, ",") }},
		{title: "SINCE", text: func(x *row) string { return sinceOf(x, at) }, value: func(x *row) string {
			if x.Since == nil {
				return ""
			}
			return stamp(x.Since.Time)
		}},
		{title: "PODS", text: func(x *row) string { return fmt.Sprint(x.Pods) }},
	}
	extended := slices.ContainsFunc(resources, func(name v1.ResourceName) bool { return !isUsual(name) })
	for i, name := range resources {
		of := func(amount func(NodeRoom) int64) (text, value func(*row) string) {
			return func(x *row) string { return phrase.Amount(name, amount(x.Resources[i])) },
				func(x *row) string { return fmt.Sprint(amount(x.Resources[i])) }
		}
		wide, title := extended == isUsual(name), shortName(name, resources)
		free, freeValue := of(func(r NodeRoom) int64 { return r.Free })
		held, heldValue := of(func(r NodeRoom) int64 { return r.Held })
		all, allValue := of(func(r NodeRoom) int64 { return r.Allocatable })
		columns = append(columns,
			column[row]{title: "FREE " + title, name: "free_" + string(name), wide: wide, text: free, value: freeValue},
			column[row]{title: "HELD " + title, name: "held_" + string(name), wide: true, text: held, value: heldValue},
			column[row]{title: "OF", name: "allocatable_" + string(name), wide: wide, text: all, value: allValue})
	}
	return append(columns,
		column[row]{title: "KEPT FOR", text: func(x *row) string { return strings.Join(x.ReservedFor, ", ") }},
		column[row]{title: "TAINTS", wide: true, text: func(x *row) string { return strings.Join(x.Taints, ", ") }})
}

// shortName returns the name of a resource for a heading: without its domain, unless another one has the same then.
func shortName(name v1.ResourceName, all []v1.ResourceName) string {
	short := func(name v1.ResourceName) string { return string(name[strings.IndexByte(string(name), '/')+1:]) }
	for _, other := range all {
		if other != name && short(other) == short(name) {
			return strings.ToUpper(string(name))
		}
	}
	return strings.ToUpper(short(name))
}

func sinceOf(x *Node, at answer.Point) string {
	if x.Since == nil {
		return ""
	}
	return clock(x.Since.Time, at)
}

// mainResources returns cpu, memory and the extended resources that nodes have, by name.
func mainResources(infos []fwk.NodeInfo) []v1.ResourceName {
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
	seen := map[v1.ResourceName]bool{}
	var more []v1.ResourceName
	for _, n := range infos {
		// any order: sorted below
		for name := range n.GetAllocatable().GetScalarResources() {
			if !seen[name] && !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				seen[name], more = true, append(more, name)
			}
		}
	}
	slices.Sort(more)
	return append(names, more...)
}

// reserved returns the entities for which room is kept, by node.
func (q *question) reserved() map[string][]string {
	out := map[string][]string{}
	add := func(node, entity string) {
		if !slices.Contains(out[node], entity) {
			out[node] = append(out[node], entity)
		}
	}
	entity := func(p *cluster.Pod) string {
		if p.Group != nil {
			return "gang " + p.Group.String()
		}
		return "pod " + p.Object.Namespace + "/" + p.Object.Name
	}
	infos, _ := q.m.Cluster().Nodes().List()
	if q.m.AnyKept() {
		for _, n := range infos {
			for _, p := range q.m.KeptOn(n.Node().Name) {
				if p != nil {
					add(n.Node().Name, entity(p))
				}
			}
		}
	}
	for _, r := range q.m.Reservations() {
		for _, place := range r.Places {
			if p := q.m.Cluster().Pods().Get(place.UID); p != nil {
				add(place.Node, entity(p))
			}
		}
	}
	return out
}

// addSince adds, for nodes that are not Ready alone, the entry that made them so. It reads the entries about these.
func (q *question) addSince(rows []Node) error {
	at := q.survey.At()
	byName := map[string]*Node{}
	var keys []index.Key
	for i := range rows {
		if x := &rows[i]; len(x.Status) > 1 || x.Status[0] != explain.Ready {
			byName[x.Name] = x
			keys = append(keys, index.Node(x.Name))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b index.Key) int { return cmp.Compare(a, b) })
	status := map[string]string{}
	query := history.Query{To: history.Bound{Seq: at.Seq}, Keys: keys,
		Kinds: []eventlog.Kind{eventlog.KindUpserted, eventlog.KindDeleted}}
	for e, err := range q.log.Entries(q.ctx, query) {
		if err != nil {
			return err
		}
		name, now := "", ""
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			node, ok := p.Object.(*v1.Node)
			if !ok {
				continue
			}
			name, now = node.Name, strings.Join(explain.NodeStatus(node), ",")
		case *eventlog.Deleted:
			if p.Resource != eventlog.Nodes {
				continue
			}
			name, now = p.Name, "gone"
		}
		x := byName[name]
		if x == nil {
			continue
		}
		if was, known := status[name]; now != was {
			if x.Since = nil; known || q.m.Seq() > 0 && !q.beginsLater() {
				x.Since = &answer.Point{Seq: e.Seq, Time: answer.Instant(e.Time)}
			}
			status[name] = now
		}
	}
	return nil
}

// beginsLater reports whether the first entries of the log are not known.
func (q *question) beginsLater() bool {
	base, err := q.log.Base()
	return err != nil || base > 0
}
