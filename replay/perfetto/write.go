package perfetto

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Range is a part of a log: the entries behind After up to Last, and the time from Start to End.
type Range struct {
	After, Last uint64
	Start, End  eventlog.Time
}

// The groups of tracks, in the order in which they are shown.
const (
	clusterTracks = iota + 1
	cycleTracks
	queueTracks
	gangTracks
	nodeTracks
)

var groups = [...]string{clusterTracks: "Cluster", cycleTracks: "Cycles", queueTracks: "Queue", gangTracks: "Gangs",
	nodeTracks: "Nodes"}

// Write writes the trace of a range.
func Write(ctx context.Context, log *history.Log, within Range, w io.Writer) error {
	t := newTrace(within, w)
	m, err := log.At(ctx, within.After)
	if err != nil {
		return err
	}
	t.m, t.now = m, within.Start
	t.sweep()
	t.settle()
	if within.Last > within.After {
		for e, err := range log.Entries(ctx, history.Query{
			From: within.After + 1, To: history.Bound{Seq: within.Last},
		}) {
			if err == nil {
				err = t.take(e)
			}
			if err != nil {
				return err
			}
		}
		if err := t.marks(ctx, log); err != nil {
			return err
		}
	}
	return t.close()
}

// trace is a trace as it is made.
type trace struct {
	Range
	*file
	m   *scheduler.Machine
	now eventlog.Time

	dirty    []types.UID // pods that the entry at hand may change
	pods     map[types.UID]*podRun
	lanes    map[string]*nodeLanes
	numLanes int
	ended    string // how the entry at hand ends pods
	touched  []types.NamespacedName
	gangs    map[types.NamespacedName]*gangRun

	counts  queue.Counts // as they were written
	counted bool
}

func newTrace(within Range, w io.Writer) *trace {
	return &trace{Range: within, file: newFile(w), pods: map[types.UID]*podRun{}, lanes: map[string]*nodeLanes{},
		gangs: map[types.NamespacedName]*gangRun{}}
}

// take takes in an entry.
func (t *trace) take(e eventlog.Entry) error {
	if e.Time > t.now {
		t.settle()
		t.now = e.Time
	}
	t.ended = ""
	t.concerns(e.Payload)
	if d, ok := e.Payload.(*eventlog.Decision); ok {
		t.decided(e, d)
	}
	if err := t.m.Apply(e); err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	if _, ok := e.Payload.(*eventlog.EpochStarted); ok {
		t.sweep()
	}
	t.concerns(e.Payload)
	t.update()
	return t.err
}

// concerns notes the pods and gangs that an entry may change. It is called before and after the entry is applied.
func (t *trace) concerns(p eventlog.Payload) {
	switch p := p.(type) {
	case *eventlog.Upserted:
		t.concernsObject(p.Resource, p.Object.GetNamespace(), p.Object.GetName(), p.Object.GetUID())
		t.ended = endOf(p)
	case *eventlog.Deleted:
		t.concernsObject(p.Resource, p.Namespace, p.Name, p.UID)
		t.ended = "Deleted"
	case *eventlog.BindResult:
		t.concernsPod(p.UID)
		t.ended = p.Outcome.String()
	case *eventlog.EvictResult:
		t.concernsPod(p.UID)
	case *eventlog.Decision:
		t.concernsPod(p.UID)
		for _, uids := range [][]types.UID{p.Allowed, p.Rejected, p.Victims} {
			for _, uid := range uids {
				t.concernsPod(uid)
			}
		}
		t.ended = "Released"
	}
}

func (t *trace) concernsObject(res eventlog.Resource, namespace, name string, uid types.UID) {
	switch res {
	case eventlog.Pods:
		t.concernsPod(uid)
		if other := t.m.Cluster().Pods().Named(namespace, name); other != nil {
			t.concernsPod(other.Object.UID)
		}
	case eventlog.PodGroups, eventlog.XPodGroups, eventlog.VolcanoPodGroups, eventlog.KAIPodGroups:
		t.touch(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

func (t *trace) concernsPod(uid types.UID) {
	t.dirty = append(t.dirty, uid)
	if p := t.m.Cluster().Pods().Get(uid); p != nil && p.Group != nil {
		t.touch(p.Group.Key())
	}
}

func (t *trace) touch(gang types.NamespacedName) {
	if !slices.Contains(t.touched, gang) {
		t.touched = append(t.touched, gang)
	}
}

// sweep notes all pods and gangs.
func (t *trace) sweep() {
	for _, p := range t.m.Cluster().Pods().All() {
		t.dirty = append(t.dirty, p.Object.UID)
	}
	for uid := range t.pods { // any order: sorted below
		t.dirty = append(t.dirty, uid)
	}
	slices.Sort(t.dirty)
	t.dirty = slices.Compact(t.dirty)
	t.touched = append(t.touched[:0], t.m.Cluster().Gangs().Names()...)
	t.update()
}

// update writes what has ended of the pods and gangs that were noted, and notes what has begun.
func (t *trace) update() {
	for _, uid := range t.dirty {
		t.updatePod(uid)
	}
	for _, gang := range t.touched {
		t.updateGang(gang)
	}
	t.dirty, t.touched = t.dirty[:0], t.touched[:0]
}

// settle writes the numbers of the queue at the end of an instant.
func (t *trace) settle() {
	q := scheduler.QueueAsIs(t.m)
	if q == nil {
		return
	}
	is := q.Counts()
	if is == t.counts && t.counted {
		return
	}
	t.counts, t.counted = is, true
	t.add(&traceEvent{Name: "entities", Phase: "C", Time: micros(t.now), Process: queueTracks, Args: map[string]int{
		"active": is.Active, "backoff": is.Backoff, "unschedulable": is.Unschedulable, "gated": is.Gated,
		"inFlight": is.InFlight + is.Asking, "placed": is.Placed,
	}})
}

// cycleFacts are the args of a Decision.
type cycleFacts struct {
	Entry     uint64   `json:"entry"`
	Cycle     uint64   `json:"cycle"`
	Outcome   string   `json:"outcome"`
	Pod       string   `json:"pod"`
	Gang      string   `json:"gang,omitempty"`
	Node      string   `json:"node,omitempty"`
	Evaluated int64    `json:"evaluatedNodes"`
	Feasible  int64    `json:"feasibleNodes"`
	Refused   []string `json:"refused,omitempty"`
	Victims   []string `json:"victims,omitempty"`
	Allowed   int      `json:"allowed,omitempty"`
	Released  int      `json:"released,omitempty"`
}

// decided writes a Decision, before it is applied.
func (t *trace) decided(e eventlog.Entry, d *eventlog.Decision) {
	facts := cycleFacts{Entry: e.Seq, Cycle: d.Cycle, Outcome: d.Outcome.String(), Pod: d.Namespace + "/" + d.Name,
		Node: d.Node, Evaluated: d.Evaluated, Feasible: d.Feasible, Allowed: len(d.Allowed), Released: len(d.Rejected)}
	if d.Group != "" {
		facts.Gang = d.Namespace + "/" + d.Group
	}
	for i := range d.Rejections {
		r := &d.Rejections[i]
		facts.Refused = append(facts.Refused, fmt.Sprintf("%d by %s: %s", r.Nodes, r.Plugin, r.Reason))
	}
	for _, uid := range d.Victims {
		if p := t.m.Cluster().Pods().Get(uid); p != nil {
			facts.Victims = append(facts.Victims, nameOf(p))
		}
	}
	name := facts.Outcome + " " + facts.Pod
	if d.Node != "" {
		name += " on " + d.Node
	}
	t.add(&traceEvent{Name: name, Phase: "i", Category: "cycle", Time: micros(e.Time), Process: cycleTracks, Track: 1,
		Scope: "t", Args: facts})
}

func nameOf(p *cluster.Pod) string { return p.Object.Namespace + "/" + p.Object.Name }

// ofCluster are the kinds of events on the tracks of the cluster.
var ofCluster = []events.Kind{events.EpochStarted, events.ConfigChanged, events.Preempted, events.Lost, events.Evicted,
	events.EvictionRefused, events.Reserved, events.ReservationEnded}

// marks writes the events of the range that are not of pods and gangs alone.
func (t *trace) marks(ctx context.Context, log *history.Log) error {
	kinds := slices.Clone(ofCluster)
	for _, k := range events.Kinds() {
		if strings.HasPrefix(string(k), "Node") {
			kinds = append(kinds, k)
		}
	}
	reading := events.NewReading(events.NewList(events.Filter{Kinds: kinds}, func(e *events.Event) error {
		t.mark(e)
		return t.err
	}))
	return reading.Range(ctx, log, t.After+1, t.Last)
}

func (t *trace) mark(e *events.Event) {
	x := traceEvent{Name: string(e.Kind), Phase: "i", Category: "event", Time: micros(e.Time),
		Process: clusterTracks, Track: slices.Index(ofCluster, e.Kind) + 1, Scope: "t",
		Args: map[string]any{"entry": e.Seq, "message": e.Message}}
	if x.Track > 0 {
		t.add(&x)
		return
	}
	for _, node := range e.AllNodes() {
		x.Process, x.Track = nodeTracks, t.node(node).tracks[0]
		t.add(&x)
	}
}

// close ends what has not ended, and writes the names of the tracks.
func (t *trace) close() error {
	t.settle()
	t.now = max(t.now, t.End)
	t.ended = "StillThere"
	var uids []types.UID
	for uid := range t.pods { // any order: sorted below
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	for _, uid := range uids {
		t.endPod(t.pods[uid])
	}
	for process, name := range groups {
		if name != "" {
			t.named(process, 0, process, name)
		}
	}
	t.named(cycleTracks, 1, 1, "decisions")
	for i, kind := range ofCluster {
		t.named(clusterTracks, i+1, i+1, string(kind))
	}
	t.closeGangs()
	t.nameLanes()
	return t.end(map[string]string{"rollcall": fmt.Sprintf("entries %d to %d", t.After+1, t.Last)})
}

// sortedByName returns the keys of a map by name.
func sortedByName[V any](of map[types.NamespacedName]V) (keys []types.NamespacedName) {
	for key := range of { // any order: sorted below
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return keys
}
