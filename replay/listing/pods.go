package listing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Pod is a pod that is neither gone nor finished.
type Pod struct {
	// Name and Gang are namespace/name; Gang is "" for none.
	Name string `json:"name"`
	// Stage is Pending, Waiting (held by Permit), Binding or Bound. Leaving says that it is being deleted or evicted,
	// or that its node is gone.
	Stage   string `json:"stage"`
	Leaving bool   `json:"leaving,omitempty"`
	Node    string `json:"node,omitempty"`
	// Nominated is the node that is kept for it while it is Pending.
	Nominated string `json:"nominated,omitempty"`
	Gang      string `json:"gang,omitempty"`
	Priority  int32  `json:"priority"`
	// Created is the pod's creation, NodeSince the time at which it got its node, or was allowed if it waited there.
	Created   answer.Instant  `json:"created,omitzero"`
	NodeSince answer.Instant  `json:"nodeSince,omitzero"`
	Requests  []answer.Amount `json:"requests"`
}

// pods lists the pods by name.
func pods(q *question) (*List, error) {
	var rows []Pod
	all := q.m.Cluster().Pods().That(func(p *cluster.Pod) bool {
		return q.wants(types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name})
	})
	for _, p := range all {
		x := Pod{Name: p.Object.Namespace + "/" + p.Object.Name, Stage: p.Stage.String(), Node: p.Node,
			Leaving: p.Leaving() || p.Ending(), Priority: q.m.Cluster().Gangs().PriorityOf(p.Object),
			NodeSince: answer.Instant(p.Since), Requests: q.survey.Requests(p)}
		if p.Stage == cluster.Pending {
			x.Nominated = q.m.NominatedNode(p.Object.UID)
		}
		if p.Group != nil {
			x.Gang = p.Group.String()
		}
		if t := p.Object.CreationTimestamp; !t.IsZero() {
			x.Created = answer.Instant(t.UnixNano())
		}
		rows = append(rows, x)
	}
	at := q.survey.At()
	type row = Pod
	return newList(rows, "pod", "pods", []column[row]{
		{title: "NAME", text: func(x *row) string { return x.Name }},
		{title: "STAGE", text: func(x *row) string { return stageOf(x) }},
		{title: "NODE", text: func(x *row) string { return x.Node }},
		{title: "GANG", text: func(x *row) string { return x.Gang }},
		{title: "CREATED", text: func(x *row) string { return clock(x.Created, at) },
			value: func(x *row) string { return stamp(x.Created) }},
		{title: "NODE SINCE", wide: true, text: func(x *row) string { return clock(x.NodeSince, at) },
			value: func(x *row) string { return stamp(x.NodeSince) }},
		{title: "PRIORITY", wide: true, text: func(x *row) string { return fmt.Sprint(x.Priority) }},
		{title: "NOMINATED TO", wide: true, text: func(x *row) string { return x.Nominated }},
		{title: "REQUESTS", wide: true, text: func(x *row) string { return texts(x.Requests) }},
	}), nil
}

func stageOf(x *Pod) string {
	if x.Leaving {
		return x.Stage + ", ending"
	}
	return x.Stage
}
