package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// ObjectChange is an object that came, changed or went, together with facts about the time before, for followers.
type ObjectChange struct {
	// Resource is the kind of the object.
	Resource eventlog.Resource
	// Name is its namespace and name.
	Name types.NamespacedName
	// Before and Now are the object before and after the change, nil if it was not there.
	Before, Now eventlog.Object
	// Gang are the facts before the change, about the gang of the object's name, or about the gang of a pod.
	Gang GangFacts
	// Unit is the CompositePodGroup whose gangs were admitted together with the gangs below the one of the object's
	// name, the zero value for none. It is for objects other than pods.
	Unit types.NamespacedName
	// Pod is the pod, as it was last if it went; nil for other objects.
	Pod *Pod
	// Was is the pod's assignment to a node before the change, the zero value for a pod that came.
	Was Assignment
	// KeepsDevices reports that the pod went and that devices stay allocated for its bind.
	KeepsDevices bool
}

// Assignment is a pod's assignment to a node. See Pod for the fields.
type Assignment struct {
	Stage  Stage
	Node   string
	Placed *v1.Pod
}

// Apply takes in an entry of the log. It returns an error if the entry contradicts the entries before it. TakeChanges
// returns the changes.
//
// Apply takes in the objects of Upserted and Deleted. Apply ignores a Decision. The caller of Apply calls Assume, Hold,
// Allow, Confirm, Release and Evicting for it, because plugins read the state between two of these calls.
func (s *State) Apply(e eventlog.Entry) error {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		return s.objects.upserted(e.Time, p)
	case *eventlog.Deleted:
		return s.objects.deleted(p)
	}
	return nil
}

// objects takes in objects and records how each of them changed, for Changes.
type objects struct {
	*State
	changes []ObjectChange
}

func (s *objects) upserted(at eventlog.Time, p *eventlog.Upserted) error {
	switch obj := BoundNumbers(p.Object).(type) {
	case *v1.Pod:
		return s.pod(at, obj)
	case *v1.Node:
		old, err := s.UpsertNode(obj)
		if err != nil {
			return err
		}
		s.note(ObjectChange{Resource: eventlog.Nodes, Name: keyOf(obj), Before: orNil(old), Now: obj})
		return nil
	case nil:
		return fmt.Errorf("upserted %s: no object", p.Resource)
	default:
		return s.other(p.Resource, obj)
	}
}

func (s *objects) other(res eventlog.Resource, obj eventlog.Object) (err error) {
	c := s.begin(res, keyOf(obj))
	if c.Before, err = s.Upsert(res, obj); err != nil {
		return err
	}
	c.Now = obj
	if res == eventlog.ResourceClaims {
		// Decisions may have allocated devices to it.
		c.Now = s.informers.Get(res, obj.GetNamespace(), obj.GetName())
	}
	s.note(c)
	return nil
}

func (s *objects) deleted(p *eventlog.Deleted) error {
	switch p.Resource {
	case eventlog.Pods:
		return s.gone(p.UID)
	case eventlog.Nodes:
		if old := s.DeleteNode(p.Name); old != nil {
			s.note(ObjectChange{Resource: p.Resource, Name: keyOf(old), Before: old})
		}
		return nil
	}
	c := s.begin(p.Resource, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	if c.Before = s.Delete(p.Resource, p.Namespace, p.Name); c.Before != nil {
		s.note(c)
	}
	return nil
}

// pod takes in a pod. A pod with another UID but its name is gone: the watch skipped the deletion. A pod that has
// finished is gone too.
func (s *objects) pod(at eventlog.Time, obj *v1.Pod) error {
	if named := s.pods.Named(obj.Namespace, obj.Name); named != nil && named.Object.UID != obj.UID {
		if err := s.gone(named.Object.UID); err != nil {
			return err
		}
	}
	if obj.Status.Phase == v1.PodSucceeded {
		s.Succeeded(obj.UID)
	}
	if obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed {
		return s.gone(obj.UID)
	}
	c := ObjectChange{Resource: eventlog.Pods, Name: keyOf(obj)}
	if known := s.pods.Get(obj.UID); known != nil {
		obj = ofScheduler(obj, known.Object.Spec.SchedulerName)
		c.Was = known.assignment()
	}
	if gang, ok := s.gangs.NameOf(obj); ok {
		c.Gang = FactsOf(s.gangs.byName[gang])
	}
	old, err := s.UpsertPod(obj)
	if err != nil {
		return err
	}
	c.Before, c.Now, c.Pod = orNil(old), obj, s.pods.Get(obj.UID)
	if obj.Spec.NodeName != "" && c.Was.Stage != Bound && (c.Was.Stage != Binding || c.Was.Node != c.Pod.Node) {
		c.Pod.Since = at
	}
	s.note(c)
	return nil
}

// gone takes in that a pod is gone or has finished. Nothing changes if there is no such pod.
func (s *objects) gone(uid types.UID) error {
	p := s.pods.Get(uid)
	if p == nil {
		return nil
	}
	c := ObjectChange{Resource: eventlog.Pods, Name: keyOf(p.Object), Before: p.Object, Was: p.assignment()}
	c.KeepsDevices = s.devices.HoldsUnresolved(uid)
	if p.Group != nil {
		c.Gang = FactsOf(p.Group)
	}
	last, err := s.DeletePod(uid)
	c.Pod = last
	s.note(c)
	return err
}

func (p *Pod) assignment() Assignment {
	return Assignment{Stage: p.Stage, Node: p.Node, Placed: p.Placed()}
}

// begin begins the change of an object that is neither a pod nor a node.
func (s *objects) begin(res eventlog.Resource, name types.NamespacedName) ObjectChange {
	c := ObjectChange{Resource: res, Name: name, Gang: FactsOf(s.gangs.byName[name])}
	if unit := s.gangs.UnitOf(name.Namespace, name.Name); unit != nil {
		c.Unit = types.NamespacedName{Namespace: unit.Namespace, Name: unit.Name}
	}
	return c
}

// note adds a change to Changes.Objects.
func (s *objects) note(c ObjectChange) { s.changes = append(s.changes, c) }

// ofScheduler returns the pod with the scheduler that it came with. The API lets nobody change it. Only a log that was
// not of a cluster can.
func ofScheduler(pod *v1.Pod, name string) *v1.Pod {
	if pod.Spec.SchedulerName == name {
		return pod
	}
	kept := *pod
	kept.Spec.SchedulerName = name
	return &kept
}

// orNil returns a nil pointer as a nil Object.
func orNil[T any, P interface {
	*T
	eventlog.Object
}](obj P) eventlog.Object {
	if obj == nil {
		return nil
	}
	return obj
}

// GangFacts are the facts about a gang that decide which of its members may be placed, and together with whom.
type GangFacts struct {
	// Known: an object or a pod has named the gang.
	Known bool
	// Declared, see Group.Declared. It is false for a gang that is refused.
	Declared bool
	// Refused: the gang's own objects contradict each other.
	Refused bool
	// InRefused: the CompositePodGroup that admits the gang is refused.
	InRefused bool
	// Min is the gang's minimum, 0 for a gang that is refused, and 1 for one that nobody has named yet.
	Min int
	// Composite is the CompositePodGroup that admits the gang, the zero value for none.
	Composite types.NamespacedName
}

// FactsOf returns the facts about a gang, which may be nil.
func FactsOf(g *Group) GangFacts {
	if g == nil {
		return GangFacts{Min: 1}
	}
	f := GangFacts{Known: true, Refused: g.Refusal() != ""}
	if c := g.Composite(); c != nil {
		f.Composite = types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		f.InRefused = c.Refusal() != ""
	}
	if !f.Refused && !f.InRefused {
		f.Declared, f.Min = g.Declared(), g.Min()
	}
	return f
}
