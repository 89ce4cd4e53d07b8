package perfetto

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// A podRun is a pod that holds room on a node.
type podRun struct {
	uid              types.UID
	name, gang, node string
	priority         int32
	lane             int
	first            uint64 // the entry with which it begins
	since            eventlog.Time
	stages           []stageSince
}

type stageSince struct {
	stage cluster.Stage
	since eventlog.Time
}

// podFacts are the args of a pod's slice.
type podFacts struct {
	Gang     string    `json:"gang,omitempty"`
	Node     string    `json:"node"`
	Priority int32     `json:"priority"`
	UID      types.UID `json:"uid"`
	// First and Last are the entries with which it begins and ends.
	First uint64 `json:"firstEntry"`
	Last  uint64 `json:"lastEntry"`
	// End is Succeeded, Failed, Deleted, Changed (another change of the object), Released (by a decision), the outcome
	// of a bind, or StillThere at the range's end.
	End string `json:"end"`
}

// nodeLanes are the tracks of a node, each of which holds one pod at a time.
type nodeLanes struct {
	name   string
	tracks []int
	used   []bool
}

// node returns the tracks of a node; there is at least one.
func (t *trace) node(name string) *nodeLanes {
	n := t.lanes[name]
	if n == nil {
		n = &nodeLanes{name: name}
		t.lanes[name] = n
		t.addLane(n)
	}
	return n
}

func (t *trace) addLane(n *nodeLanes) {
	t.numLanes++
	n.tracks, n.used = append(n.tracks, t.numLanes), append(n.used, false)
}

// updatePod compares a pod with its run.
func (t *trace) updatePod(uid types.UID) {
	p, run := t.m.Cluster().Pods().Get(uid), t.pods[uid]
	if run != nil && (p == nil || p.Node != run.node) {
		t.endPod(run)
		run = nil
	}
	if p == nil || p.Node == "" {
		return
	}
	if run == nil {
		run = t.beginPod(p)
	}
	if last := run.stages[len(run.stages)-1]; last.stage != p.Stage {
		run.stages = append(run.stages, stageSince{p.Stage, t.now})
	}
}

func (t *trace) beginPod(p *cluster.Pod) *podRun {
	n := t.node(p.Node)
	lane := slices.Index(n.used, false)
	if lane < 0 {
		lane = len(n.used)
		t.addLane(n)
	}
	n.used[lane] = true
	run := &podRun{uid: p.Object.UID, name: nameOf(p), node: p.Node, lane: lane, first: t.m.Seq(), since: t.now,
		priority: t.m.Cluster().Gangs().PriorityOf(p.Object), stages: []stageSince{{p.Stage, t.now}}}
	if p.Group != nil {
		run.gang = p.Group.String()
	}
	t.pods[run.uid] = run
	return run
}

// endPod writes the slice of a pod.
func (t *trace) endPod(run *podRun) {
	delete(t.pods, run.uid)
	n := t.lanes[run.node]
	n.used[run.lane] = false
	track := n.tracks[run.lane]
	t.slice(nodeTracks, track, run.name, "pod", run.since, t.now, podFacts{Gang: run.gang, Node: run.node,
		Priority: run.priority, UID: run.uid, First: run.first, Last: t.m.Seq(), End: t.ended})
	for i, s := range run.stages {
		until := t.now
		if i+1 < len(run.stages) {
			until = run.stages[i+1].since
		}
		if name := inStage[s.stage]; name != "" && until > s.since {
			t.slice(nodeTracks, track, name, "stage", s.since, until, nil)
		}
	}
}

// inStage names the stages that have slices within the pod's slice.
var inStage = map[cluster.Stage]string{cluster.Waiting: "waits at Permit", cluster.Binding: "is being bound"}

// endOf returns how an object ends a pod's run.
func endOf(p *eventlog.Upserted) string {
	if pod, ok := p.Object.(*v1.Pod); ok && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed) {
		return string(pod.Status.Phase)
	}
	return "Changed"
}

// nameLanes names the tracks of the nodes, by name.
func (t *trace) nameLanes() {
	place := 0
	for _, name := range slices.Sorted(maps.Keys(t.lanes)) {
		for i, track := range t.lanes[name].tracks {
			title := name
			if i > 0 {
				title = fmt.Sprintf("%s (%d)", name, i+1)
			}
			place++
			t.named(nodeTracks, track, place, title)
		}
	}
}
