package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// naiveLog is what a reader who knows nothing of rollcall finds in lines of log cat, up to a time.
type naiveLog struct {
	ts       *testscript.TestScript
	seq      uint64 // of the last entry
	nodes    map[string]int64
	pods     map[string]*naivePod // by UID
	names    map[string]string    // of all UIDs ever
	priority map[string]int32     // of PodGroups
	evicted  map[uint64]*naiveEviction
}

type naivePod struct {
	name, group, node string
	gpus              int64
	held              bool
}

// naiveEviction is a decision by which pods had to go.
type naiveEviction struct {
	pod, group string
	victims    []string
}

// naiveObject is the part of an object that matters here.
type naiveObject struct {
	Metadata struct{ Namespace, Name, UID string }
	Spec     struct {
		NodeName        string
		Priority        int32
		SchedulingGroup struct{ PodGroupName string }
		Containers      []struct {
			Resources struct{ Requests map[string]json.Number }
		}
	}
	Status struct {
		Phase       string
		Allocatable map[string]json.Number
	}
}

type naiveLine struct {
	Seq                 uint64
	Time                time.Time
	Kind, Resource, UID string
	Outcome, Node       string
	Object              naiveObject
	Decision            struct {
		Pod, UID, Group, Outcome, Node string
		Allowed, Rejected, Victims     []string
		VictimPods                     []string
	}
}

const gpu = "nvidia.com/gpu"

// truth is the script command "truth CAT ANSWER TIME": it compares an answer of explain -o json with the lines of log
// cat up to a time.
func truth(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: truth CAT ANSWER TIME")
	}
	until, err := time.Parse(time.RFC3339, args[2])
	ts.Check(err)
	log := &naiveLog{ts: ts, nodes: map[string]int64{}, pods: map[string]*naivePod{}, names: map[string]string{},
		priority: map[string]int32{}, evicted: map[uint64]*naiveEviction{}}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var e naiveLine
		ts.Check(json.Unmarshal([]byte(line), &e))
		if e.Time.After(until) {
			break
		}
		log.take(&e)
	}
	log.compare(ts.ReadFile(args[1]))
}

func (l *naiveLog) take(e *naiveLine) {
	l.seq = e.Seq
	switch {
	case e.Kind == "Upserted" && e.Resource == "nodes":
		l.nodes[e.Object.Metadata.Name] = number(l.ts, e.Object.Status.Allocatable[gpu])
	case e.Kind == "Upserted" && e.Resource == "pods":
		l.upserted(&e.Object)
	case e.Kind == "Upserted" && strings.HasPrefix(e.Resource, "podgroups."):
		l.priority[e.Object.Metadata.Namespace+"/"+e.Object.Metadata.Name] = e.Object.Spec.Priority
	case e.Kind == "Deleted" && e.Resource == "pods":
		delete(l.pods, e.UID)
	case e.Kind == "Decision":
		l.decided(e)
	}
}

func (l *naiveLog) upserted(o *naiveObject) {
	p := l.pods[o.Metadata.UID]
	if p == nil {
		p = &naivePod{name: o.Metadata.Namespace + "/" + o.Metadata.Name,
			group: o.Metadata.Namespace + "/" + o.Spec.SchedulingGroup.PodGroupName}
		l.pods[o.Metadata.UID], l.names[o.Metadata.UID] = p, p.name
	}
	p.gpus = 0
	for _, c := range o.Spec.Containers {
		p.gpus += number(l.ts, c.Resources.Requests[gpu])
	}
	if o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		delete(l.pods, o.Metadata.UID)
	}
}

func (l *naiveLog) decided(e *naiveLine) {
	d := &e.Decision
	if p := l.pods[d.UID]; p != nil && (d.Outcome == "Scheduled" || d.Outcome == "Waiting") {
		p.node, p.held = d.Node, d.Outcome == "Waiting"
	}
	for _, uid := range d.Allowed {
		l.pods[uid].held = false
	}
	for _, uid := range d.Rejected {
		l.pods[uid].node, l.pods[uid].held = "", false
	}
	if len(d.Victims) == 0 {
		return
	}
	x := &naiveEviction{pod: d.Pod, group: d.Group}
	for i, uid := range d.Victims {
		x.victims = append(x.victims, l.names[uid])
		if d.VictimPods[i] != l.names[uid] {
			l.ts.Fatalf("entry %d: victim %s is named %s, it is %s", e.Seq, uid, d.VictimPods[i], l.names[uid])
		}
	}
	l.evicted[e.Seq] = x
}

func number(ts *testscript.TestScript, n json.Number) int64 {
	if n == "" {
		return 0
	}
	v, err := n.Int64()
	ts.Check(err)
	return v
}

// told is the part of an answer that is compared.
type told struct {
	At      struct{ Seq uint64 }
	Members []struct{ Pod, Node string }
	Needs   *struct {
		AsOf      struct{ Seq uint64 }
		Resources []toldUse
	}
	Reason *struct {
		Shortfall []struct {
			AsOf struct{ Seq uint64 }
			toldUse
		}
		Now *struct {
			Seq       uint64
			Shortfall []toldUse
		}
	}
	History struct{ PreemptedBy, Preempted []toldPreemption }
}

type toldUse struct {
	Resource          string
	Free, Allocatable int64
	Holders           []struct {
		Name   string
		Pods   int
		Amount int64
	}
}

type toldPreemption struct {
	Seq uint64
	By  struct {
		Pod, Group string
		Priority   int32
	}
	Pods         int
	Victims, Own []struct {
		Pod, Group string
		Priority   int32
	}
}

func (l *naiveLog) compare(text string) {
	var x told
	l.ts.Check(json.Unmarshal([]byte(text), &x))
	if x.At.Seq != l.seq {
		l.ts.Fatalf("it is about entry %d, the last one at that time is %d", x.At.Seq, l.seq)
	}
	for _, m := range x.Members {
		if i := l.named(m.Pod); i == nil || i.node != m.Node {
			l.ts.Fatalf("member %s is on %q, naively %+v", m.Pod, m.Node, i)
		}
	}
	if x.Needs != nil {
		if x.Needs.AsOf.Seq != l.seq {
			l.ts.Fatalf("what is needed is as of entry %d", x.Needs.AsOf.Seq)
		}
		for _, u := range x.Needs.Resources {
			l.compareUse(u)
		}
	}
	if x.Reason != nil && x.Reason.Now != nil {
		if x.Reason.Now.Seq != l.seq {
			l.ts.Fatalf("what holds now is as of entry %d", x.Reason.Now.Seq)
		}
		for _, u := range x.Reason.Now.Shortfall {
			l.compareUse(u)
		}
	}
	for _, p := range slices.Concat(x.History.PreemptedBy, x.History.Preempted) {
		l.comparePreemption(p)
	}
}

func (l *naiveLog) named(name string) *naivePod {
	for _, p := range l.pods {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (l *naiveLog) compareUse(u toldUse) {
	if u.Resource != gpu {
		return
	}
	var there, used int64
	for _, n := range l.nodes {
		there += n
	}
	held, pods := map[string]int64{}, map[string]int{}
	for _, p := range l.pods {
		if p.node != "" && p.gpus > 0 {
			used += p.gpus
			held[p.group] += p.gpus
			pods[p.group]++
		}
	}
	if u.Allocatable != there || u.Free != there-used {
		l.ts.Fatalf("%d of %d free, naively %d of %d", u.Free, u.Allocatable, there-used, there)
	}
	if len(u.Holders) != len(held) {
		l.ts.Fatalf("held by %+v, naively by %v", u.Holders, held)
	}
	for _, h := range u.Holders {
		if held[h.Name] != h.Amount || pods[h.Name] != h.Pods {
			l.ts.Fatalf("%s holds %d with %d pods, naively %v with %v", h.Name, h.Amount, h.Pods, held, pods)
		}
	}
}

func (l *naiveLog) comparePreemption(p toldPreemption) {
	x := l.evicted[p.Seq]
	if x == nil {
		l.ts.Fatalf("entry %d evicts nothing, naively", p.Seq)
	}
	if p.By.Pod != x.pod || p.By.Group != "" && p.By.Group != x.group || p.By.Priority != l.priority[x.group] ||
		p.Pods != len(x.victims) {
		l.ts.Fatalf("entry %d: %+v, naively %+v with priority %d", p.Seq, p, x, l.priority[x.group])
	}
	for _, v := range slices.Concat(p.Victims, p.Own) {
		if !slices.Contains(x.victims, v.Pod) || v.Priority != l.priority[v.Group] {
			l.ts.Fatalf("entry %d: victim %+v, naively %v", p.Seq, v, x.victims)
		}
	}
}
