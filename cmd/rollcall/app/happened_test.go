package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// happened compares the events of a range with the findings of a naive reader of log cat:
//
//	happened CAT EVENTS FROM UNTIL
//
// CAT is the output of log cat from the log's beginning, EVENTS the output of events -o json for the range. The reader
// takes worlds without pods of no gang. It finds, by gang or node and time: outages of nodes and cordons, pods that are
// lost, preemptions with victims and preemptors, gangs that get their minimum, and pods that succeed.
func happened(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: happened CAT EVENTS FROM UNTIL")
	}
	from, err := time.Parse(time.RFC3339, args[2])
	ts.Check(err)
	until, err := time.Parse(time.RFC3339, args[3])
	ts.Check(err)
	naive := happenings{ts: ts, from: from, until: until, found: map[string]int{}, pods: map[string]*happenedPod{},
		minimum: map[string]int{}, nodes: map[string]string{}, placed: map[string]bool{}}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		naive.take(line)
	}
	told, text := map[string]int{}, ts.ReadFile(args[1])
	compared(ts, neg, func() {
		last := uint64(0)
		for line := range strings.Lines(text) {
			var e toldEvent
			ts.Check(json.Unmarshal([]byte(line), &e))
			if e.Seq < last || e.Cause.Seq > e.Seq {
				disagree("entry %d comes after entry %d, and its cause is entry %d", e.Seq, last, e.Cause.Seq)
			}
			last = e.Seq
			e.count(told)
		}
		if len(naive.found) < 10 {
			ts.Fatalf("the naive reader found only %v", naive.found)
		}
		for _, key := range slices.Sorted(maps.Keys(told)) {
			if naive.found[key] != told[key] {
				disagree("%s: %d by the events, %d by log cat", key, told[key], naive.found[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(naive.found)) {
			if naive.found[key] != told[key] {
				disagree("%s: %d by the events, %d by log cat", key, told[key], naive.found[key])
			}
		}
	})
}

// toldEvent is an event, as events -o json prints it.
type toldEvent struct {
	Seq        uint64
	Time       time.Time
	Kind, Gang string
	Node       string
	Nodes      []string
	Pods       int
	By         struct{ Group string }
	Cause      struct{ Seq uint64 }
}

// count counts what the naive reader counts too.
func (e *toldEvent) count(told map[string]int) {
	at := e.Time.UTC().Format(time.TimeOnly)
	switch e.Kind {
	case "NodeUnreachable", "NodeReady", "NodeCordoned", "NodeUncordoned", "NodeDeleted", "NodeJoined":
		for _, node := range e.Nodes {
			told[fmt.Sprintf("%s %s %s", at, e.Kind, node)]++
		}
	case "Lost":
		told[fmt.Sprintf("%s Lost %s", at, e.Gang)] += e.Pods
		for _, node := range e.Nodes {
			told[fmt.Sprintf("%s Lost %s with %s", at, e.Gang, node)]++
		}
	case "Preempted":
		told[fmt.Sprintf("%s Preempted %s by %s", at, e.Gang, e.By.Group)] += e.Pods
	case "Placed":
		told[fmt.Sprintf("%s Placed %s", at, e.Gang)]++
	case "Succeeded":
		told[fmt.Sprintf("Succeeded %s", e.Gang)] += e.Pods // folded, so without the time
	}
}

// happenings are the findings of a naive reader.
type happenings struct {
	ts          *testscript.TestScript
	from, until time.Time
	now         time.Time
	found       map[string]int
	pods        map[string]*happenedPod // by UID
	minimum     map[string]int          // by gang
	nodes       map[string]string       // the last state of each node that exists
	placed      map[string]bool         // gangs that have their minimum
}

type happenedPod struct {
	gang, node string
	free       bool // it does not wait in Permit
	gone       bool // it was lost, preempted, or has ended
	well       bool // it has succeeded
}

// happenedLine is a line of log cat.
type happenedLine struct {
	Time                 time.Time
	Kind, Resource, Name string
	UID                  string
	Object               struct {
		Metadata struct{ Namespace, Name, UID, DeletionTimestamp string }
		Spec     struct {
			Unschedulable    bool
			Taints           []struct{ Key string }
			SchedulingGroup  struct{ PodGroupName string }
			SchedulingPolicy struct{ Gang struct{ MinCount int } }
		}
		Status struct{ Phase string }
	}
	Decision struct {
		Pod, UID, Group, Outcome, Node string
		Allowed, Rejected, Victims     []string
	}
}

func (h *happenings) note(format string, args ...any) {
	h.add(1, h.now.Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (h *happenings) add(n int, key string) {
	if !h.now.Before(h.from) && !h.now.After(h.until) {
		h.found[key] += n
	}
}

func (h *happenings) take(line string) {
	var e happenedLine
	h.ts.Check(json.Unmarshal([]byte(line), &e))
	h.now = e.Time.UTC()
	name := e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name
	switch {
	case e.Resource == "nodes" && e.Kind == "Upserted":
		h.node(&e)
	case e.Resource == "nodes" && e.Kind == "Deleted":
		h.note("NodeDeleted %s", e.Name)
		delete(h.nodes, e.Name)
		for _, p := range h.pods {
			if p.node == e.Name && !p.gone {
				h.lose(p)
			}
		}
	case e.Kind == "Upserted" && strings.HasPrefix(e.Resource, "podgroups."):
		h.minimum[name] = e.Object.Spec.SchedulingPolicy.Gang.MinCount
	case e.Kind == "Upserted" && e.Resource == "pods":
		h.pod(&e)
	case e.Kind == "Decision":
		h.decision(&e)
	}
	h.recount()
}

func (h *happenings) node(e *happenedLine) {
	name, was := e.Object.Metadata.Name, h.nodes[e.Object.Metadata.Name]
	is := "up"
	for _, t := range e.Object.Spec.Taints {
		if t.Key == "node.kubernetes.io/unreachable" {
			is = "unreachable"
		}
	}
	if e.Object.Spec.Unschedulable {
		is += " cordoned"
	}
	h.nodes[name] = is
	has := func(state, word string) bool { return strings.Contains(state, word) }
	if was == "" {
		h.note("NodeJoined %s", name)
	}
	for _, change := range []struct{ word, begins, ends string }{
		{"unreachable", "NodeUnreachable", "NodeReady"}, {"cordoned", "NodeCordoned", "NodeUncordoned"},
	} {
		switch {
		case has(is, change.word) && !has(was, change.word):
			h.note("%s %s", change.begins, name)
		case !has(is, change.word) && has(was, change.word):
			h.note("%s %s", change.ends, name)
		}
	}
}

func (h *happenings) pod(e *happenedLine) {
	p := h.pods[e.Object.Metadata.UID]
	if p == nil {
		p = &happenedPod{gang: e.Object.Metadata.Namespace + "/" + e.Object.Spec.SchedulingGroup.PodGroupName}
		h.pods[e.Object.Metadata.UID] = p
	}
	switch {
	case p.gone:
	case e.Object.Status.Phase == "Succeeded":
		p.gone, p.well = true, true
		h.add(1, "Succeeded "+p.gang)
	case e.Object.Metadata.DeletionTimestamp != "":
		h.lose(p)
	}
}

func (h *happenings) lose(p *happenedPod) {
	p.gone = true
	h.note("Lost %s", p.gang)
	if key := h.now.Format(time.TimeOnly) + " Lost " + p.gang + " with " + p.node; h.found[key] == 0 {
		h.add(1, key)
	}
}

func (h *happenings) decision(e *happenedLine) {
	d := &e.Decision
	if d.Outcome == "Reserved" {
		return
	}
	if p := h.pods[d.UID]; d.Outcome == "Scheduled" || d.Outcome == "Waiting" {
		p.node, p.free = d.Node, d.Outcome == "Scheduled"
	}
	for _, uid := range d.Allowed {
		h.pods[uid].free = true
	}
	for _, uid := range d.Rejected {
		h.pods[uid].node = ""
	}
	for _, uid := range d.Victims {
		h.pods[uid].gone = true
		h.note("Preempted %s by %s", h.pods[uid].gang, d.Group)
	}
}

// recount finds gangs that have their minimum by now. Pods that have ended well count.
func (h *happenings) recount() {
	on := map[string]int{}
	for _, p := range h.pods {
		if p.node != "" && p.free && (!p.gone || p.well) {
			on[p.gang]++
		}
	}
	for gang, minimum := range h.minimum {
		is := on[gang] >= minimum
		if is && !h.placed[gang] {
			h.note("Placed %s", gang)
		}
		h.placed[gang] = is
	}
}
