package compare

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// side reads one of the two logs.
type side struct {
	Log
	m    *scheduler.Machine
	next func() (eventlog.Entry, error, bool)
	stop func()
	read uint64
	over bool

	first, last answer.Point
	epochs      []*eventlog.EpochStarted
	names       map[types.UID]string // of pods
	seen        map[object][sha256.Size]byte
	inputs      []input // that are not compared yet
	decisions   []eventlog.Entry
	noInputs    bool // the first different input is found
	noDecisions bool // the first different decision is found
	outcomes    *outcomes
}

// object is the name of an API object.
type object struct {
	resource        eventlog.Resource
	namespace, name string
}

func (o object) String() string { return string(o.resource) + " " + o.fullName() }

func (o object) fullName() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// input is a change from outside that an entry brings.
type input struct {
	at      answer.Point
	what    string // object and kind of the change
	content [sha256.Size]byte
}

func (i *input) told() *Input {
	if i == nil {
		return nil
	}
	return &Input{Point: i.at, What: i.what}
}

func newSide(l Log) *side {
	return &side{Log: l, names: map[types.UID]string{}, seen: map[object][sha256.Size]byte{},
		outcomes: &outcomes{byName: map[string]*Outcome{}}, stop: func() {}}
}

// begin takes in the state before the first entry.
func (s *side) begin(ctx context.Context) error {
	if s.Last < s.First {
		return errEmpty
	}
	m, err := s.Log.Log.At(ctx, s.First-1)
	if err != nil {
		return err
	}
	s.m = m
	query := history.Query{From: m.Seq() + 1, To: history.Bound{Seq: s.Last}}
	s.next, s.stop = iter.Pull2(s.Log.Log.Entries(ctx, query))
	if m.Seq() > 0 {
		s.takeState()
	}
	return s.step()
}

// takeState takes the nodes and pods of the state before the first entry for inputs.
func (s *side) takeState() {
	s.epochs = append(s.epochs, &eventlog.EpochStarted{Config: s.m.Config()})
	if list, err := s.m.Cluster().Nodes().List(); err == nil {
		for _, info := range list {
			s.takeObject(answer.Point{}, eventlog.Nodes, info.Node())
		}
	}
	for _, p := range s.m.Cluster().Pods().All() {
		s.names[p.Object.UID] = nameOf(p.Object)
		s.takeObject(answer.Point{}, eventlog.Pods, p.Object)
		s.outcomes.came(s.m, p.Object.UID, answer.Point{})
	}
}

// step reads the next entry.
func (s *side) step() error {
	e, err, ok := s.next()
	if err != nil {
		return err
	}
	if !ok {
		s.over = true
		return nil
	}
	s.read++
	at := answer.Point{Seq: e.Seq, Time: answer.Instant(e.Time)}
	if s.first.Seq == 0 {
		s.first = at
	}
	s.last = at
	s.before(e, at)
	if err := s.m.Apply(e); err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	s.after(e, at)
	return nil
}

// before looks at an entry on the state before it.
func (s *side) before(e eventlog.Entry, at answer.Point) {
	switch p := e.Payload.(type) {
	case *eventlog.EpochStarted:
		s.epochs = append(s.epochs, p)
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			s.names[pod.UID] = nameOf(pod)
			s.outcomes.ends(s.m, pod)
		}
		s.takeObject(at, p.Resource, p.Object)
	case *eventlog.Deleted:
		if p.Resource == eventlog.Nodes {
			o := object{p.Resource, p.Namespace, p.Name}
			s.addInput(input{at: at, what: o.String() + " is deleted"})
		}
	case *eventlog.Decision:
		if !s.noDecisions {
			s.decisions = append(s.decisions, e)
		}
		s.outcomes.evicts(s.m, p)
	}
}

// after looks at an entry on the state that it has made.
func (s *side) after(e eventlog.Entry, at answer.Point) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if p.Resource == eventlog.Pods {
			s.outcomes.came(s.m, p.Object.GetUID(), at)
		} else {
			s.outcomes.reached(s.m, p.Object.GetNamespace(), p.Object.GetName(), at)
		}
	case *eventlog.Decision:
		s.outcomes.decided(s.m, p, at)
	}
}

// takeObject takes the first appearance of an object for an input, and each change of a node.
func (s *side) takeObject(at answer.Point, r eventlog.Resource, obj eventlog.Object) {
	o := object{r, obj.GetNamespace(), obj.GetName()}
	before, seen := s.seen[o]
	if seen && r != eventlog.Nodes {
		return
	}
	content := contentOf(obj)
	if seen && content == before {
		return
	}
	s.seen[o] = content
	what := o.String() + " comes"
	if seen {
		what = o.String() + " changes"
	}
	s.addInput(input{at: at, what: what, content: content})
}

func (s *side) addInput(i input) {
	if !s.noInputs {
		s.inputs = append(s.inputs, i)
	}
}

func (s *side) dropInputs()    { s.inputs, s.noInputs = nil, true }
func (s *side) dropDecisions() { s.decisions, s.noDecisions = nil, true }

// contentOf returns a digest of an object without its identity and without a status that the cluster gives it. The
// status of a node counts: it has the resources that the node offers.
func contentOf(obj eventlog.Object) [sha256.Size]byte {
	text, err := json.Marshal(obj)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return sha256.Sum256(text)
	}
	if meta, ok := fields["metadata"].(map[string]any); ok {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			delete(meta, field)
		}
	}
	if _, isNode := obj.(*v1.Node); !isNode {
		delete(fields, "status")
	}
	text, _ = json.Marshal(fields) // the keys of maps are sorted
	return sha256.Sum256(text)
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
