package app

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// naiveState is the knowledge of a naive reader of the lines of log cat at a point. It takes them one by one, and
// shares no code with the product. It reads the incident of package test/incident.
type naiveState struct {
	seq    uint64
	now    time.Time
	nodes  map[string]*stateNode
	pods   []*statePod // in the order in which they came
	groups map[string]*stateGroup
	claims map[string]bool
	// evictions are the decisions that evict pods, in order.
	evictions []stateEviction
}

type stateNode struct {
	gpus     int64
	labels   map[string]string
	down     bool
	cordoned bool
}

type statePod struct {
	uid, name, group, node string
	gpus                   int64
	priority               int32
	selector               map[string]string
	claims                 []string
	came                   time.Time
	cameSeq                uint64
	bound                  bool
	leaving, gone          bool
	succeeded              bool
	reason                 string // for its disruption
	first                  string // the node that it was bound to first
}

type stateGroup struct {
	minimum  int
	priority int32
}

type stateEviction struct {
	seq        uint64
	pod, group string
	victims    []string // names
	possible   []string // pods with a node, of a lower priority, that were not leaving
}

// stateLine is a line of log cat.
type stateLine struct {
	Seq                       uint64
	Time                      time.Time
	Kind, Resource, Namespace string
	Name, UID, Outcome, Node  string
	Object                    stateObject
	Decision                  struct {
		Pod, UID, Group, Outcome, Node         string
		Allowed, Rejected, Victims, VictimPods []string
	}
}

type stateObject struct {
	Metadata struct {
		Namespace, Name, UID string
		DeletionTimestamp    string
		Labels               map[string]string
	}
	Spec struct {
		NodeName         string
		Unschedulable    bool
		Priority         int32
		NodeSelector     map[string]string
		Taints           []struct{ Key string }
		SchedulingGroup  struct{ PodGroupName string }
		SchedulingPolicy struct{ Gang struct{ MinCount int } }
		Volumes          []struct{ PersistentVolumeClaim struct{ ClaimName string } }
		Containers       []struct {
			Resources struct{ Requests map[string]string }
		}
	}
	Status struct {
		Phase       string
		Allocatable map[string]string
		Conditions  []struct{ Type, Status, Reason string }
	}
}

// readState reads the output of log cat up to the last line for which wanted reports true.
func readState(ts *testscript.TestScript, cat string, wanted func(e *stateLine) bool) *naiveState {
	s := &naiveState{nodes: map[string]*stateNode{}, groups: map[string]*stateGroup{}, claims: map[string]bool{}}
	for line := range strings.Lines(cat) {
		var e stateLine
		ts.Check(json.Unmarshal([]byte(line), &e))
		if !wanted(&e) {
			break
		}
		s.seq, s.now = e.Seq, e.Time
		s.take(&e)
	}
	if s.seq == 0 {
		ts.Fatalf("there is no entry")
	}
	return s
}

// entriesUntil wants the entries up to a time.
func entriesUntil(until time.Time) func(*stateLine) bool {
	return func(e *stateLine) bool { return until.IsZero() || !e.Time.After(until) }
}

func (s *naiveState) take(e *stateLine) {
	name := e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name
	switch {
	case e.Kind == "Upserted" && e.Resource == "nodes":
		n := &stateNode{labels: e.Object.Metadata.Labels, cordoned: e.Object.Spec.Unschedulable}
		n.gpus = wholeNumber(e.Object.Status.Allocatable[gpu])
		for _, taint := range e.Object.Spec.Taints {
			n.down = n.down || taint.Key == "node.kubernetes.io/unreachable"
		}
		s.nodes[e.Object.Metadata.Name] = n
	case e.Kind == "Deleted" && e.Resource == "nodes":
		delete(s.nodes, e.Name)
	case e.Kind == "Upserted" && strings.HasPrefix(e.Resource, "podgroups."):
		s.groups[name] = &stateGroup{e.Object.Spec.SchedulingPolicy.Gang.MinCount, e.Object.Spec.Priority}
	case e.Kind == "Deleted" && strings.HasPrefix(e.Resource, "podgroups."):
		delete(s.groups, e.Namespace+"/"+e.Name)
	case e.Kind == "Upserted" && e.Resource == "persistentvolumeclaims":
		s.claims[name] = true
	case e.Kind == "Upserted" && e.Resource == "pods":
		s.pod(e, name)
	case e.Kind == "Deleted" && e.Resource == "pods":
		p := s.byUID(e.UID)
		p.gone, p.node = true, ""
	case e.Kind == "Decision":
		s.decision(e)
	case e.Kind == "BindResult" && e.Outcome == "Bound":
		if p := s.byUID(e.UID); !p.bound {
			p.bound, p.first = true, e.Node
		}
	}
}

func (s *naiveState) pod(e *stateLine, name string) {
	o := &e.Object
	p := s.byUID(o.Metadata.UID)
	if p == nil {
		p = &statePod{uid: o.Metadata.UID, name: name, came: e.Time, cameSeq: e.Seq, priority: o.Spec.Priority,
			selector: o.Spec.NodeSelector}
		if g := o.Spec.SchedulingGroup.PodGroupName; g != "" {
			p.group = o.Metadata.Namespace + "/" + g
		}
		for _, c := range o.Spec.Containers {
			p.gpus += wholeNumber(c.Resources.Requests[gpu])
		}
		for _, v := range o.Spec.Volumes {
			if claim := v.PersistentVolumeClaim.ClaimName; claim != "" {
				p.claims = append(p.claims, o.Metadata.Namespace+"/"+claim)
			}
		}
		s.pods = append(s.pods, p)
	}
	p.leaving = p.leaving || o.Metadata.DeletionTimestamp != ""
	for _, c := range o.Status.Conditions {
		if c.Type == "DisruptionTarget" && c.Status == "True" {
			p.reason = c.Reason
		}
	}
	if o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		p.succeeded, p.gone, p.node = o.Status.Phase == "Succeeded", true, ""
	}
}

func (s *naiveState) decision(e *stateLine) {
	d := &e.Decision
	p := s.byUID(d.UID)
	if d.Outcome == "Scheduled" || d.Outcome == "Waiting" {
		p.node = d.Node
	}
	for _, uid := range d.Rejected {
		s.byUID(uid).node = ""
	}
	if len(d.Victims) == 0 {
		return
	}
	x := stateEviction{seq: e.Seq, pod: d.Pod, victims: d.VictimPods}
	if d.Group != "" {
		x.group = p.group
	}
	for _, o := range s.pods {
		if o.node != "" && !o.leaving && o.priority < p.priority {
			x.possible = append(x.possible, o.name)
		}
	}
	slices.Sort(x.possible)
	s.evictions = append(s.evictions, x)
	for _, uid := range d.Victims {
		s.byUID(uid).leaving = true
	}
}

func (s *naiveState) byUID(uid string) *statePod {
	for _, p := range s.pods {
		if p.uid == uid {
			return p
		}
	}
	return nil
}

// never says why a pod can be on no node, whatever the other pods do; "" if it can be on one.
func (s *naiveState) never(p *statePod) string {
	for _, claim := range p.claims {
		if !s.claims[claim] {
			return "claim"
		}
	}
	why := "labels"
	for _, n := range s.nodes {
		matches := true
		for key, value := range p.selector {
			matches = matches && n.labels[key] == value
		}
		if matches && n.gpus >= p.gpus {
			return ""
		}
		if matches {
			why = "size"
		}
	}
	return why
}

func wholeNumber(text string) (n int64) {
	for _, r := range text {
		if r < '0' || r > '9' {
			panic("not a whole number: " + text)
		}
		n = 10*n + int64(r-'0')
	}
	return n
}
