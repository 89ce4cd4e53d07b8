package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// naiveLog is the result of a naive reader of the lines of log cat: it takes them one by one, knows nothing about
// Rollcall, and shares no code with the product. It reads the worlds of the users' journeys: pods of whole GPUs, gangs
// of scheduling.k8s.io, nodes that fail. The scripts compare the product's answers with it.
type naiveLog struct {
	ts     naiveReporter
	seq    uint64 // of the last entry
	start  time.Time
	now    time.Time
	lines  map[uint64]string
	nodes  map[string]int64 // the GPUs of the nodes that exist
	spans  []*naiveSpan     // of all nodes that ever were
	pods   []*naivePod      // in the order in which they came
	groups map[string]*naiveGroup
	evicts map[uint64]*naiveEviction
	tries  []*naiveTry
	// refused is the last entry that refused an entity, freed the last entry that freed room.
	refused map[string]uint64
	freed   uint64
}

// naiveReporter ends a test or a script.
type naiveReporter interface {
	Fatalf(format string, args ...any)
}

// naiveSpan is the time for which a node was there; to is zero if it still is.
type naiveSpan struct {
	node     string
	gpus     int64
	from, to time.Time
}

// naivePod is a pod by UID. If an event did not happen, the number of its entry is 0, and its time is zero.
type naivePod struct {
	uid, name, group, node string // node: where it is now, held or permanently
	priority               int32
	gpus                   int64
	came, boundAt, goneAt  time.Time
	gated                  bool
	// decided is the Decision that chose its node, released the one that ended its wait, bound the result of its bind.
	decided, released, bound uint64
	// tries counts the Decisions on it that were a cycle of its own, refusedAt is the last one that refused it, and
	// refusers are the plugins that did, by name.
	tries     int
	refusedAt uint64
	refusers  []string
	// nominated is the node that is kept for it as long as it has none.
	nominated string
	succeeded bool
	evictedBy uint64
	lost      bool      // gone with its node
	replaces  *naivePod // that was evicted or lost, and in whose place it came
	replaced  bool
}

type naiveGroup struct {
	priority int32
	minimum  int
}

// naiveEviction is a Decision that evicted pods.
type naiveEviction struct {
	seq        uint64
	time       time.Time
	pod, group string
	victims    []*naivePod
}

// naiveTry is a run of Decisions on one pod of no group, or on the pods of one group, at one instant.
type naiveTry struct {
	entity        string
	first, placed uint64 // the entries at which it began and first placed something
	refused       bool
	at            time.Time
	before        []naiveWaiting
	evicts        bool
}

// naiveWaiting is an entity that had pods without a node when a try of another began. gated: it could not be tried, for
// its gates, or because the gang had too few members. refused: it had been tried, and no room was freed since then.
type naiveWaiting struct {
	entity         string
	gated, refused bool
}

// naiveLine is a line of log cat.
type naiveLine struct {
	Seq                 uint64
	Time                time.Time
	Kind, Resource, UID string
	Name, Outcome, Node string
	Object              naiveObject
	Decision            naiveDecision
}

type naiveDecision struct {
	Pod, UID, Group, Outcome, Node         string
	Nominated                              string
	Allowed, Rejected, Victims, VictimPods []string
	Rejections                             []struct {
		Plugin string
		Nodes  int
	}
	Nominations []struct{ UID, Node string }
}

// naiveObject is the part of an object that matters here.
type naiveObject struct {
	Metadata struct{ Namespace, Name, UID string }
	Spec     struct {
		Priority         int32
		SchedulingGates  []any
		SchedulingGroup  struct{ PodGroupName string }
		SchedulingPolicy struct{ Gang struct{ MinCount int } }
		Containers       []struct {
			Resources struct{ Requests map[string]string }
		}
	}
	Status struct {
		Phase       string
		Allocatable map[string]string
	}
}

const gpu = "nvidia.com/gpu"

// readNaively reads the output of log cat, up to the last entry that is not after a time; the zero time is the end.
func readNaively(ts naiveReporter, cat string, until time.Time) *naiveLog {
	l := &naiveLog{
		ts: ts, lines: map[uint64]string{}, nodes: map[string]int64{}, groups: map[string]*naiveGroup{},
		evicts: map[uint64]*naiveEviction{}, refused: map[string]uint64{},
	}
	for line := range strings.Lines(cat) {
		var e naiveLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
		if !until.IsZero() && e.Time.After(until) {
			break
		}
		if l.start.IsZero() {
			l.start = e.Time
		}
		l.seq, l.now, l.lines[e.Seq] = e.Seq, e.Time, line
		l.take(&e)
	}
	if l.seq == 0 {
		ts.Fatalf("there is no entry:\n%s", cat)
	}
	return l
}

func (l *naiveLog) take(e *naiveLine) {
	name := e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name
	switch {
	case e.Kind == "Upserted" && e.Resource == "nodes":
		node, gpus := e.Object.Metadata.Name, l.number(e.Object.Status.Allocatable[gpu])
		if _, there := l.nodes[node]; !there {
			l.spans = append(l.spans, &naiveSpan{node: node, gpus: gpus, from: l.now})
		}
		l.freed = e.Seq
		l.nodes[node] = gpus
	case e.Kind == "Deleted" && e.Resource == "nodes":
		delete(l.nodes, e.Name)
		for _, span := range l.spans {
			if span.node == e.Name && span.to.IsZero() {
				span.to = l.now
			}
		}
	case e.Kind == "Upserted" && strings.HasPrefix(e.Resource, "podgroups."):
		l.groups[name] = &naiveGroup{e.Object.Spec.Priority, e.Object.Spec.SchedulingPolicy.Gang.MinCount}
	case e.Kind == "Upserted" && e.Resource == "pods":
		l.upserted(name, &e.Object)
	case e.Kind == "Deleted" && e.Resource == "pods":
		p := l.byUID(e.UID)
		_, there := l.nodes[p.node]
		p.lost = p.bound != 0 && !there && p.evictedBy == 0 && !p.succeeded
		p.succeeded = p.bound != 0 && p.evictedBy == 0 && !p.lost // nobody deletes pods here before their end
		p.node, p.goneAt, l.freed = "", l.now, e.Seq
	case e.Kind == "Decision":
		l.decision(e)
	case e.Kind == "BindResult" && e.Outcome == "Bound":
		p := l.byUID(e.UID)
		p.bound, p.boundAt = e.Seq, l.now
	}
}

func (l *naiveLog) upserted(name string, o *naiveObject) {
	i := slices.IndexFunc(l.pods, func(p *naivePod) bool { return p.uid == o.Metadata.UID })
	if i < 0 {
		p := &naivePod{uid: o.Metadata.UID, name: name, priority: o.Spec.Priority, came: l.now}
		if g := o.Spec.SchedulingGroup.PodGroupName; g != "" {
			p.group = o.Metadata.Namespace + "/" + g
		}
		for _, c := range o.Spec.Containers {
			p.gpus += l.number(c.Resources.Requests[gpu])
		}
		p.replaces = l.inWhosePlace(p)
		i, l.pods = len(l.pods), append(l.pods, p)
	}
	p := l.pods[i]
	p.gated = len(o.Spec.SchedulingGates) > 0
	if o.Status.Phase == "Succeeded" {
		p.succeeded, p.node, p.goneAt, l.freed = true, "", l.now, l.seq
	}
}

// inWhosePlace returns the pod that went at this instant, unsuccessfully, of the same group or name.
func (l *naiveLog) inWhosePlace(p *naivePod) *naivePod {
	for _, old := range l.pods {
		same := old.name == p.name || p.group != "" && old.group == p.group
		if same && !old.replaced && (old.evictedBy != 0 || old.lost) && old.goneAt.Equal(l.now) {
			old.replaced = true
			return old
		}
	}
	return nil
}

func (l *naiveLog) decision(e *naiveLine) {
	d := &e.Decision
	if d.Outcome == "Reserved" {
		return // it is about room, and places nothing
	}
	p := l.byUID(d.UID)
	try := l.tryOf(p, e)
	l.nominate(p, d)
	if p.node == "" {
		p.tries++
	}
	switch d.Outcome {
	case "Scheduled", "Waiting":
		if p.node == "" {
			p.node, p.decided = d.Node, e.Seq
		} else {
			p.released = e.Seq // it waited, and continues
		}
	case "Unschedulable":
		try.refused, l.refused[p.entity()] = true, e.Seq
		p.refusedAt, p.refusers = e.Seq, nil
		for _, r := range d.Rejections {
			if !slices.Contains(p.refusers, r.Plugin) {
				p.refusers = append(p.refusers, r.Plugin)
			}
		}
		slices.Sort(p.refusers)
	case "Evicted", "Error":
		l.ts.Fatalf("entry %d: these worlds have no Decision of outcome %s", e.Seq, d.Outcome)
	}
	for _, uid := range d.Allowed {
		l.byUID(uid).released = e.Seq
	}
	if try.placed == 0 && (d.Outcome == "Scheduled" || len(d.Allowed) > 0) {
		try.placed = e.Seq
	}
	for _, uid := range d.Rejected {
		r := l.byUID(uid)
		r.node, r.decided, l.freed = "", 0, e.Seq
	}
	if len(d.Victims) == 0 {
		return
	}
	x := &naiveEviction{seq: e.Seq, time: l.now, pod: p.name, group: p.group}
	for i, uid := range d.Victims {
		v := l.byUID(uid)
		v.evictedBy = e.Seq
		x.victims = append(x.victims, v)
		if d.VictimPods[i] != v.name {
			l.ts.Fatalf("entry %d: victim %s is named %s, it is %s", e.Seq, uid, d.VictimPods[i], v.name)
		}
	}
	l.evicts[e.Seq], try.evicts = x, true
}

// nominate notes the pods that a Decision starts to keep nodes for, and the pods that it stops to keep nodes for.
func (l *naiveLog) nominate(p *naivePod, d *naiveDecision) {
	if d.Nominated != "" {
		p.nominated = d.Nominated
	}
	for _, n := range d.Nominations {
		l.byUID(n.UID).nominated = n.Node
	}
}

// roomFor returns the number of nodes, and the number of nodes on which a pod would find its GPUs. It does not count
// GPUs that a pod holds, or that are kept for another pod of its priority or a higher one.
func (l *naiveLog) roomFor(p *naivePod) (nodes, fit int) {
	for node, free := range l.nodes {
		for _, o := range l.pods {
			kept := o.node == "" && o.goneAt.IsZero() && o.nominated == node && o != p &&
				l.priorityOf(o.entity()) >= l.priorityOf(p.entity())
			if o.node == node || kept {
				free -= o.gpus
			}
		}
		if nodes++; free >= p.gpus {
			fit++
		}
	}
	return nodes, fit
}

// tryOf returns the run of Decisions that a line belongs to: a new one if the line is its first.
func (l *naiveLog) tryOf(p *naivePod, e *naiveLine) *naiveTry {
	if n := len(l.tries); n > 0 {
		if last := l.tries[n-1]; last.entity == p.entity() && last.at.Equal(l.now) && !last.refused {
			return last
		}
	}
	try := &naiveTry{entity: p.entity(), first: e.Seq, at: l.now}
	for _, o := range l.pods {
		waits := o.node == "" && o.goneAt.IsZero() && o.entity() != p.entity()
		known := slices.ContainsFunc(try.before, func(w naiveWaiting) bool { return w.entity == o.entity() })
		if waits && !known {
			try.before = append(try.before, naiveWaiting{o.entity(), l.gated(o), l.refused[o.entity()] > l.freed})
		}
	}
	l.tries = append(l.tries, try)
	return try
}

// gated reports whether a pod has gates, or its gang too few members without any.
func (l *naiveLog) gated(p *naivePod) bool {
	if p.group == "" {
		return p.gated
	}
	members := 0
	for _, o := range l.pods {
		if o.group == p.group && o.goneAt.IsZero() && !o.gated {
			members++
		}
	}
	return members < l.groups[p.group].minimum
}

// entity is the pod's gang, or itself.
func (p *naivePod) entity() string {
	if p.group != "" {
		return "podgroup " + p.group
	}
	return "pod " + p.name
}

// entityBy is the entity that pods were evicted for.
func entityBy(x *naiveEviction) string {
	if x.group != "" {
		return "podgroup " + x.group
	}
	return "pod " + x.pod
}

// priorityOf is the priority of an entity, or of the one of that name.
func (l *naiveLog) priorityOf(entity string) int32 {
	_, name, _ := strings.Cut(entity, " ")
	if g := l.groups[name]; g != nil && strings.HasPrefix(entity, "podgroup ") {
		return g.priority
	}
	return l.named(name).priority
}

func (l *naiveLog) byUID(uid string) *naivePod {
	for _, p := range l.pods {
		if p.uid == uid {
			return p
		}
	}
	l.ts.Fatalf("entry %d is about pod %s, which never came", l.seq, uid)
	return nil
}

// named returns the last pod of a name.
func (l *naiveLog) named(name string) *naivePod {
	for _, p := range slices.Backward(l.pods) {
		if p.name == name {
			return p
		}
	}
	l.ts.Fatalf("no pod %s came up to entry %d", name, l.seq)
	return nil
}

// gpusHeld adds up the GPUs that the pods of each entity hold, and the number of those pods.
func (l *naiveLog) gpusHeld() (there, used int64, amount map[string]int64, pods map[string]int) {
	for n := range maps.Values(l.nodes) {
		there += n
	}
	amount, pods = map[string]int64{}, map[string]int{}
	for _, p := range l.pods {
		if p.node != "" && p.gpus > 0 {
			used += p.gpus
			amount[p.entity()] += p.gpus
			pods[p.entity()]++
		}
	}
	return there, used, amount, pods
}

// naiveKept is room on nodes that no pod holds, and that is kept for nominated pods: how much, for which entities, and
// for how many pods of each.
type naiveKept struct {
	sum    int64
	amount map[string]int64
	pods   map[string]int
	// most is the largest number of GPUs that a node has left beside the kept ones.
	most int64
}

// gpusKept adds up the GPUs that no pod holds and that are kept from an entity: for nominated pods that are not its own
// and have no lower priority.
func (l *naiveLog) gpusKept(entity string) naiveKept {
	k := naiveKept{amount: map[string]int64{}, pods: map[string]int{}}
	for node, left := range l.nodes {
		for _, o := range l.pods {
			if o.node == node {
				left -= o.gpus
			}
		}
		for _, o := range l.pods {
			keeps := o.node == "" && o.goneAt.IsZero() && o.nominated == node && o.entity() != entity &&
				l.priorityOf(o.entity()) >= l.priorityOf(entity)
			if amount := min(left, o.gpus); keeps && amount > 0 {
				left -= amount
				k.sum += amount
				k.amount[o.entity()] += amount
				k.pods[o.entity()]++
			}
		}
		k.most = max(k.most, left)
	}
	return k
}

func (l *naiveLog) number(n string) int64 {
	if n == "" {
		return 0
	}
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		l.ts.Fatalf("this reader knows only whole numbers: %v", err)
	}
	return v
}

// want disagrees unless the product's answer equals the finding of the naive reader.
func (l *naiveLog) want(what string, said, found any) {
	if a, b := fmt.Sprint(said), fmt.Sprint(found); a != b {
		disagree("%s: said is %s, and by log cat it is %s", what, a, b)
	}
}

// disagreement is the value of the panic when an answer differs from the finding of the naive reader.
type disagreement string

func disagree(format string, args ...any) { panic(disagreement(fmt.Sprintf(format, args...))) }

// compared runs a comparison of a script command: it must agree, or, with "!" before the command, disagree. So a script
// shows, with an answer that it has changed, that the comparison can fail.
func compared(ts *testscript.TestScript, neg bool, compare func()) {
	defer func() {
		found := recover()
		why, disagrees := found.(disagreement)
		switch {
		case found != nil && !disagrees:
			panic(found)
		case disagrees && !neg:
			ts.Fatalf("%s", why)
		case !disagrees && neg:
			ts.Fatalf("the answer was changed, and the naive reader agrees")
		case disagrees:
			ts.Logf("as it must be: %s", why)
		}
	}()
	compare()
}
