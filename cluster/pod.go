package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster/devices"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// discard is the logger for upstream's types. The core has no other log than the event log.
var discard = klog.TODO().V(100)

// Stage is the progress of a pod.
type Stage uint8

const (
	// Pending: the pod has no node.
	Pending Stage = iota
	// Waiting: a decision holds the pod on a node until Permit allows it.
	Waiting
	// Binding: a decision has given the pod its node; whether it is bound is not known yet.
	Binding
	// Bound: the pod is known to be on its node.
	Bound
)

// String returns the stage's name.
func (s Stage) String() string { return [...]string{"Pending", "Waiting", "Binding", "Bound"}[s] }

// Pod is a pod that is neither gone nor finished.
type Pod struct {
	// Object is the pod as its last entry said; while it waits or is being bound its spec.nodeName is empty.
	Object *v1.Pod
	// Stage is its progress.
	Stage Stage
	// Node is the node on which it holds capacity, "" while Pending.
	Node string
	// Since is the time at which it got that node, or was allowed if it waited there; 0 without a node.
	Since eventlog.Time
	// Volumes are the claims that its placement binds to volumes, while it is Waiting or Binding.
	Volumes []eventlog.VolumeClaim
	// Devices are the claims that its placement allocates devices to, while it is Waiting or Binding.
	Devices []eventlog.DeviceClaim
	// Group is the gang that it belongs to, nil for none.
	Group *Group

	life            time.Duration // that its object declares, 0 for none
	succeeded       bool          // it is about to go, having ended well
	evicted         bool          // a decision evicts it
	leaving         bool          // it is counted as leaving in its group's counts, see Leaving
	onlyAsked       bool          // it is counted so in its group, see Group.onlyAsked
	countedPriority int32         // the priority with which it is counted in State.holdings
	// needed: the pod had a node when its group had its minimum, or got one while it had. If it goes without having
	// ended well, its group misses a member and may fall below its minimum.
	needed bool

	facts facts              // of Object, for Group; the zero value without one
	info  *framework.PodInfo // of Object; while it holds capacity, of a copy that names the node

	alike [2]*v1.Pod // a memo: two objects of this and another pod that Alike has found equal
}

// Placed returns the pod as plugins see it on its node, with spec.nodeName set; without one while Pending.
func (p *Pod) Placed() *v1.Pod { return p.info.Pod }

// Alike reports whether the pod and another one have the same specification and labels.
func (p *Pod) Alike(o *Pod) bool {
	pair := [2]*v1.Pod{p.Object, o.Object}
	if p.alike == pair {
		return true
	}
	equal := maps.Equal(p.Object.Labels, o.Object.Labels) && reflect.DeepEqual(&p.Object.Spec, &o.Object.Spec)
	if equal {
		p.alike = pair
	}
	return equal
}

// Leaving reports whether the pod has a node and is about to lose it: it is being deleted or evicted, or its node is
// gone.
func (p *Pod) Leaving() bool { return p.leaving }

// OnlyAsked reports whether a member of a gang is leaving its node for no other reason than that it was asked to.
func (p *Pod) OnlyAsked() bool { return p.onlyAsked }

// MayBePlaced reports whether a cycle could still place a pod that has no node: it is not being deleted, and was not
// asked to go while it had one. Example: a victim of preemption loses its node because its bind failed; its eviction is
// still outstanding.
func (p *Pod) MayBePlaced() bool { return !p.Ending() }

// Ending reports whether the pod is being deleted, or a decision evicts it.
func (p *Pod) Ending() bool { return p.evicted || p.Object.DeletionTimestamp != nil }

// groupName returns the name of the pod's gang, "" for none.
func (p *Pod) groupName() string {
	if p.Group == nil {
		return ""
	}
	return p.Group.Name
}

// UpsertPod takes in a pod that is not finished, and returns the object before it, nil if there was none. An object
// with a node name makes the pod Bound there, whatever was assumed before. An object without one leaves the stage as it
// is.
func (s *State) UpsertPod(obj *v1.Pod) (old *v1.Pod, err error) {
	name := types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}
	if uid, ok := s.pods.byName[name]; ok && uid != obj.UID {
		return nil, fmt.Errorf("pod %s: UID is %q, but %q has not been deleted", name, obj.UID, uid)
	}
	info, err := s.pods.newInfo(obj)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	p, ok := s.pods.byUID[obj.UID]
	if !ok {
		p = &Pod{Object: obj, info: info}
		s.pods.byUID[obj.UID] = p
		s.pods.byName[name] = obj.UID
		s.devices.NoteReturned(obj.UID)
		s.gangs.join(p)
	} else {
		old = p.Object
	}
	if err := s.rebook(p, obj, info); err != nil {
		return nil, err
	}
	s.recountAll(s.gangs.takeRepriced()...)
	if _, err := s.informers.Upsert(eventlog.Pods, obj); err != nil {
		return nil, err
	}
	return old, nil
}

// rebook gives p its new object and books it on the node that the object names.
func (s *State) rebook(p *Pod, obj *v1.Pod, info *framework.PodInfo) error {
	if p.Group != nil {
		s.record.note(RoomFreed)
		s.gangs.tally(p, -1)
		defer func() {
			s.gangs.tally(p, +1)
			s.gangs.observe(p.Group)
		}()
	}
	node, stage := p.Node, p.Stage
	if obj.Spec.NodeName != "" {
		node, stage = obj.Spec.NodeName, Bound
		if p.Stage == Binding && node != p.Node {
			s.devices.BoundElsewhere(obj.UID)
		}
		p.Volumes, p.Devices = nil, nil
	}
	if p.Node != "" {
		if err := s.displace(p); err != nil {
			return err
		}
	}
	p.Object, p.info = obj, info
	p.life = declaredLife(obj)
	s.gangs.restate(p)
	if node != "" {
		if obj.Spec.NodeName != node {
			p.info = onNode(info, node)
		}
		s.place(p, node)
	}
	s.enter(p, stage)
	return nil
}

// DeletePod forgets a pod: it is gone or finished. It returns nil if there is none of that UID.
func (s *State) DeletePod(uid types.UID) (*Pod, error) {
	p, ok := s.pods.byUID[uid]
	if !ok {
		return nil, nil
	}
	last := *p
	if p.Node != "" {
		if err := s.displace(p); err != nil {
			return nil, err
		}
	}
	s.volumes.Forget(uid)
	s.noteDevices(s.devices.Gone(uid))
	s.waits.release(uid)
	s.gangs.leave(p)
	s.recountAll(s.gangs.takeRepriced()...)
	s.noteMoved(uid)
	delete(s.pods.byUID, uid)
	delete(s.pods.byName, types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name})
	s.informers.Delete(eventlog.Pods, p.Object.Namespace, p.Object.Name)
	return &last, nil
}

// noteMoved notes a pod for Changes.Pods.
func (s *State) noteMoved(uid types.UID) {
	if s.followed {
		s.moved = append(s.moved, uid)
	}
}

// enter sets the pod's stage, and ends its wait if it does not wait in that stage.
func (s *State) enter(p *Pod, stage Stage) {
	if stage != Waiting {
		s.waits.release(p.Object.UID)
	}
	p.Stage = stage
	s.noteMoved(p.Object.UID)
	switch stage {
	case Binding:
		s.devices.Binding(p.Object.UID)
	case Bound:
		s.devices.Bound(p.Object.UID)
	}
}

// Assume books a Pending pod on a node, as Waiting or Binding, with the volumes that its placement settles. A pod that
// is assumed as Waiting by Assume, and not by Hold, is not in Waits.
func (s *State) Assume(p *Pod, node string, stage Stage, volumes []eventlog.VolumeClaim) error {
	if p.Stage != Pending {
		return fmt.Errorf("assume pod %s/%s: it is %s already", p.Object.Namespace, p.Object.Name, p.Stage)
	}
	if err := s.volumes.Assume(p.Object, node, volumes); err != nil {
		return fmt.Errorf("assume pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
	}
	p.info, p.Volumes = onNode(p.info, node), volumes
	s.place(p, node)
	s.setStage(p, stage)
	return nil
}

// Allow makes a Waiting pod Binding.
func (s *State) Allow(p *Pod) {
	s.record.note(PodAllowed)
	s.nodes.touched(p.Node)
	s.setStage(p, Binding)
}

// Confirm makes a pod that was being bound Bound on its node.
func (s *State) Confirm(p *Pod) error {
	bound := p.info.Pod // with its node since it was assumed
	if bound.Spec.NodeName != p.Node {
		bound = onNode(p.info, p.Node).Pod
	}
	p.Object, p.Volumes, p.Devices = bound, nil, nil
	s.setStage(p, Bound)
	_, err := s.informers.Upsert(eventlog.Pods, p.Object)
	return err
}

// Release makes a Waiting or Binding pod Pending again: its capacity, volumes and devices are free.
func (s *State) Release(p *Pod) error {
	c, err := s.release(p)
	s.noteDevices(c)
	return err
}

// Retract is Release of a pod that the attempt under way has placed. No other pod can have missed what it had: the
// changes do not name its devices as freed.
func (s *State) Retract(p *Pod) error {
	c, err := s.release(p)
	c.Freed = nil
	s.noteDevices(c)
	return err
}

func (s *State) release(p *Pod) (c devices.Changes, err error) {
	if err := s.displace(p); err != nil {
		return c, err
	}
	s.volumes.Forget(p.Object.UID)
	c = s.devices.Release(p.Object.UID)
	p.info, p.Volumes, p.Devices, p.Since = withPod(p.info, p.Object), nil, nil, 0
	s.setStage(p, Pending)
	return c, nil
}

// onNode returns info for the same pod with its node name set. The pod's other parts are shared: objects
// from the log are never written to.
func onNode(info *framework.PodInfo, node string) *framework.PodInfo {
	pod := *info.Pod
	pod.Spec.NodeName = node
	return withPod(info, &pod)
}

func withPod(info *framework.PodInfo, pod *v1.Pod) *framework.PodInfo {
	c := *info
	c.Pod = pod
	return &c
}

// comparePods orders pods by name, then UID.
func comparePods(a, b *Pod) int {
	return cmp.Or(
		strings.Compare(a.Object.Name, b.Object.Name),
		strings.Compare(string(a.Object.UID), string(b.Object.UID)),
	)
}
