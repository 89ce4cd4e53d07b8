package cluster

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// Wait is the wait of a pod on its node: its reasons and its end.
type Wait struct {
	// Pod is the pod; its Node is the node on which it waits.
	Pod *Pod
	// Plugins are the Permit plugins that have still to approve, sorted.
	Plugins []string
	// Until is the time at which the pod is released if it has not been allowed by then.
	Until eventlog.Time
	// Seq is the sequence number of the decision that holds the pod.
	Seq uint64
}

// Waits are the waiting pods of a State, in order of Seq.
type Waits struct {
	pods  []*Wait // in order of Seq
	byUID map[types.UID]*Wait
}

// NewWaits returns waits without a State, for tests.
func NewWaits(waits ...Wait) *Waits {
	w := &Waits{}
	for _, wait := range waits {
		w.hold(wait)
	}
	return w
}

// Waits returns the waiting pods, to be read only.
func (s *State) Waits() *Waits { return &s.waits }

// Hold books a Pending pod on a node, where it waits for w. The State is the one owner of a wait: the pod is in Waits
// as long as its Stage is Waiting. Example: Allow makes the pod Binding, and by that ends its wait.
func (s *State) Hold(p *Pod, node string, volumes []eventlog.VolumeClaim, w Wait) error {
	if err := s.Assume(p, node, Waiting, volumes); err != nil {
		return err
	}
	w.Pod = p
	s.waits.hold(w)
	return nil
}

// Approve notes that the plugin does not hold the pod any more. It does nothing if it did not.
func (s *State) Approve(uid types.UID, plugin string) { s.waits.approve(uid, plugin) }

// hold adds a wait. It panics if the pod is held already: a pod is decided once before it is released.
func (w *Waits) hold(pod Wait) {
	uid := pod.Pod.Object.UID
	if old, ok := w.byUID[uid]; ok {
		panic(fmt.Sprintf("pod %s/%s (%s) is held twice: by decision %d and by decision %d",
			pod.Pod.Object.Namespace, pod.Pod.Object.Name, uid, old.Seq, pod.Seq))
	}
	pod.Plugins = slices.Sorted(slices.Values(pod.Plugins))
	if w.byUID == nil {
		w.byUID = make(map[types.UID]*Wait)
	}
	w.byUID[uid] = &pod
	i, _ := slices.BinarySearchFunc(w.pods, pod.Seq, bySeq)
	w.pods = slices.Insert(w.pods, i, &pod)
}

func (w *Waits) approve(uid types.UID, plugin string) {
	if pod, ok := w.byUID[uid]; ok {
		pod.Plugins = slices.DeleteFunc(pod.Plugins, func(p string) bool { return p == plugin })
	}
}

// release removes a pod, be it allowed, rejected, timed out or gone. It does nothing if it is not held.
func (w *Waits) release(uid types.UID) {
	pod, ok := w.byUID[uid]
	if !ok {
		return
	}
	delete(w.byUID, uid)
	i, _ := slices.BinarySearchFunc(w.pods, pod.Seq, bySeq)
	for w.pods[i] != pod {
		i++
	}
	w.pods = slices.Delete(w.pods, i, i+1)
}

func bySeq(p *Wait, seq uint64) int { return cmp.Compare(p.Seq, seq) }

// Get returns the held pod of that UID. It is the state itself: do not change it.
func (w *Waits) Get(uid types.UID) (*Wait, bool) {
	pod, ok := w.byUID[uid]
	return pod, ok
}

// Len returns how many pods are held.
func (w *Waits) Len() int { return len(w.pods) }

// Each calls f with the held pods in order of Seq until it returns false. f must neither hold nor release.
func (w *Waits) Each(f func(*Wait) bool) {
	for _, pod := range w.pods {
		if !f(pod) {
			return
		}
	}
}

// Deadline returns the earliest Until; ok is false if no pod is held.
func (w *Waits) Deadline() (t eventlog.Time, ok bool) {
	for _, pod := range w.pods {
		if !ok || pod.Until < t {
			t, ok = pod.Until, true
		}
	}
	return t, ok
}

// AppendState appends the state in one canonical form: equal states give equal bytes, different ones
// different bytes. Pods are written by their UIDs. Restore makes the state of it again.
func (w *Waits) AppendState(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(w.pods)))
	for _, pod := range w.pods {
		dst = binary.AppendUvarint(dst, pod.Seq)
		dst = binary.AppendVarint(dst, int64(pod.Until))
		dst = canonical.AppendString(dst, string(pod.Pod.Object.UID))
		dst = canonical.AppendString(dst, pod.Pod.Node)
		dst = binary.AppendUvarint(dst, uint64(len(pod.Plugins)))
		for _, p := range pod.Plugins {
			dst = canonical.AppendString(dst, p)
		}
	}
	return dst
}

// RestoreWaits reads what Waits.AppendState wrote into a restored State: every Waiting pod must be among them, on its
// node, and no other pod.
func (s *State) RestoreWaits(r *canonical.Reader) error {
	w := &s.waits
	if w.Len() > 0 {
		return errors.New("restore waiting pods: some are there already")
	}
	for range r.Count("waiting pods", 5) {
		held := Wait{Seq: r.Uvarint("decision"), Until: eventlog.Time(r.Varint("deadline"))}
		uid := types.UID(r.String("waiting pod"))
		node := r.String("node")
		for range r.Count("plugins", 1) {
			held.Plugins = append(held.Plugins, r.String("plugin"))
		}
		if r.Err() != nil {
			return r.Err()
		}
		p := s.pods.byUID[uid]
		if p == nil || w.byUID[uid] != nil {
			return fmt.Errorf("waiting pod %s is not there, or there twice", uid)
		}
		if p.Stage != Waiting || p.Node != node {
			return fmt.Errorf("pod %s is %s on node %q, and held on %q", uid, p.Stage, p.Node, node)
		}
		held.Pod = p
		w.hold(held)
	}
	if r.Err() != nil {
		return r.Err()
	}
	// any order: one is enough
	for uid, p := range s.pods.byUID {
		if p.Stage == Waiting && w.byUID[uid] == nil {
			return fmt.Errorf("pod %s is waiting, and nothing says for what", uid)
		}
	}
	return nil
}
